//===- Selection.cpp - Which way to launch is the fastest -----------------===//

#include "DeviceExecutor.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace pyjit::rt;

static const char *nameOf(Variant variant) {
  switch (variant) {
  case Variant::Plain:
    return "plain launches";
  case Variant::Copy:
    return "graph with copies";
  case Variant::Table:
    return "graph with a table";
  case Variant::Update:
    return "graph with updated nodes";
  }
  return "";
}

/// Leaves out what took several times as long as the fastest way.
static void dropSlow(std::vector<Variant> &candidates,
                     std::array<std::vector<double>, kNumVariants> &times) {
  auto least = [&](Variant variant) {
    const std::vector<double> &list = times[unsigned(variant)];
    return *std::min_element(list.begin(), list.end());
  };
  double best = least(candidates.front());
  for (Variant variant : candidates)
    best = std::min(best, least(variant));
  constexpr double kSeveral = 4;
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                  [&](Variant variant) {
                                    return least(variant) > kSeveral * best;
                                  }),
                   candidates.end());
}

/// Runs every listed way on this call's inputs, in turn and repeatedly, whole
/// calls with their outputs included, and keeps the one with the least median.
/// A program writes nothing but its outputs, so that running it again does no
/// harm; one that draws random numbers is not run twice.
bool DeviceExecutor::select(Instance &instance, const at::Tensor *inputs,
                            const at::Tensor *cached, at::Tensor *outputs,
                            cuda::Stream stream) {
  using Clock = std::chrono::steady_clock;
  // What a program that does not answer this call would take says nothing.
  if (expects && repeatable &&
      !runOnce(instance, Variant::Plain, inputs, cached, outputs, stream))
    return false;
  selected = true;
  std::vector<Variant> candidates;
  for (unsigned v = 0; v < kNumVariants; ++v)
    if (program.header().variants >> v & 1)
      candidates.push_back(Variant(v));

  // Captures; what cannot be captured is no candidate.
  auto works = [&](Variant variant) {
    try {
      runOnce(instance, variant, inputs, cached, outputs, stream);
      return true;
    } catch (const std::exception &exception) {
      failures[unsigned(variant)] = exception.what();
      for (at::Tensor &value : instance.values)
        value.reset();
      instance.graphs[unsigned(variant)].clear();
      return false;
    }
  };
  if (!repeatable && expects)
    return runOnce(instance, chosen, inputs, cached, outputs, stream);
  if (preferred || !repeatable) {
    Variant wanted = preferred.value_or(Variant::Update);
    bool listed = std::find(candidates.begin(), candidates.end(), wanted) !=
                  candidates.end();
    chosen = listed && works(wanted) ? wanted : Variant::Plain;
    if (chosen == Variant::Plain)
      runOnce(instance, chosen, inputs, cached, outputs, stream);
    return true;
  }
  if (candidates.size() == 1) {
    chosen = candidates.front();
    return runOnce(instance, chosen, inputs, cached, outputs, stream);
  }
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                  [&](Variant variant) {
                                    return variant != Variant::Plain &&
                                           !works(variant);
                                  }),
                   candidates.end());

  cuda::Driver &driver = device->driver();
  std::array<std::vector<double>, kNumVariants> times;
  auto begin = Clock::now();
  constexpr unsigned kLeast = 5, kMost = 40;
  constexpr double kSeconds = 0.03;
  for (unsigned turn = 0; turn < kMost; ++turn) {
    std::chrono::duration<double> spent = Clock::now() - begin;
    if (turn >= kLeast && spent.count() > kSeconds)
      break;
    // A host that waits for the device before each iteration may be
    // hundreds of times slower: once is enough to see it.
    if (decides && turn > 0)
      dropSlow(candidates, times);
    for (Variant variant : candidates) {
      cuda::check(driver, driver.synchronize(stream), "waiting");
      auto start = Clock::now();
      runOnce(instance, variant, inputs, cached, outputs, stream);
      cuda::check(driver, driver.synchronize(stream), "waiting");
      std::chrono::duration<double> taken = Clock::now() - start;
      times[unsigned(variant)].push_back(taken.count());
    }
  }
  chosen = Variant::Plain;
  for (unsigned v = 0; v < kNumVariants; ++v) {
    std::vector<double> &list = times[v];
    if (list.empty())
      continue;
    std::nth_element(list.begin(), list.begin() + list.size() / 2, list.end());
    medians[v] = list[list.size() / 2];
    if (medians[v] < medians[unsigned(chosen)])
      chosen = Variant(v);
  }
  // The others' graphs and their memory are not needed any more.
  for (unsigned v = 0; v < kNumVariants; ++v)
    if (Variant(v) != chosen)
      instance.graphs[v].clear();
  return true;
}

std::string DeviceExecutor::report() const {
  std::lock_guard<std::mutex> guard(runLock);
  std::string text;
  if (!selected)
    return everyCallRan() || !decides
               ? "launch: not chosen yet (the first calls decide)\n"
               : "launch: plain launches, until a call has entered every body "
                 "with library calls\n";
  text = std::string("launch: ") + nameOf(chosen) + "\n";
  if (decides)
    text += chosen == Variant::Plain
                ? "  loops and branches: decided by the host, which waits for "
                  "the device\n"
                : "  loops and branches: conditional nodes\n";
  for (unsigned v = 0; v < kNumVariants; ++v) {
    char line[64];
    if (medians[v] > 0) {
      std::snprintf(line, sizeof line, "%.1f us", 1e6 * medians[v]);
      text += std::string("  ") + nameOf(Variant(v)) + ": " + line + "\n";
    } else if (!failures[v].empty()) {
      text += std::string("  ") + nameOf(Variant(v)) +
              ": not possible: " + failures[v] + "\n";
    }
  }
  for (const auto &[stream, instance] : instances)
    for (const auto &captured : instance->graphs[unsigned(chosen)]) {
      if (!captured)
        continue;
      text += "  graph of " + std::to_string(captured->graph.numNodes()) +
              " nodes, " + std::to_string(captured->graph.numExternalNodes()) +
              " of them renewed where addresses change\n";
      if (size_t count = captured->graph.numPatchedOperands())
        text += "  operands of library calls patched in place: " +
                std::to_string(count) + "\n";
      if (!captured->keptCopies.empty())
        text += "  library calls read copies: " + captured->keptCopies + "\n";
    }
  return text;
}
