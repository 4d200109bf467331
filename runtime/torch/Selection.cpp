//===- Selection.cpp - Which way to launch is the fastest -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DeviceExecutor.h"

#include <chrono>
#include <cstdio>
#include <utility>

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

void DeviceExecutor::prefer(Variant variant) {
  bool offered = program.header().variants >> unsigned(variant) & 1;
  choice->fix(offered ? variant : Variant::Plain);
}

/// One call, launched as it is the choice's turn, and timed if its time is
/// wanted: with its outputs' allocation, and from a device at rest to a device
/// at rest, which counts both the host's work and the device's.
bool DeviceExecutor::runNext(Instance &instance, const at::Tensor *inputs,
                             const at::Tensor *cached, const Results &results,
                             cuda::Stream stream) {
  using Clock = std::chrono::steady_clock;
  if (!instance.ownsArena)
    ownArena(instance);
  Variant variant = choice->next();
  bool wanted = choice->wantsTime();
  unsigned captures = instance.captures;
  auto settle = [&] {
    if (wanted)
      cuda::check(device->driver(), device->driver().synchronize(stream),
                  "waiting");
  };
  captureFailure.clear();
  settle();
  auto start = Clock::now();
  bool answered = false;
  try {
    answered = runOnce(instance, variant, inputs, cached, results, stream);
    settle();
  } catch (...) {
    if (!captureFailure.empty())
      choice->failed(captureFailure);
    throw;
  }
  std::chrono::duration<double> taken = Clock::now() - start;
  if (!captureFailure.empty())
    choice->failed(captureFailure);
  else if (!answered) // what such a call takes says nothing
    return false;
  else if (!wanted)
    choice->passed();
  else if (captures != instance.captures)
    choice->prepared(taken.count());
  else
    choice->timed(taken.count());
  dropUnwanted(instance, stream);
  return answered;
}

/// Graphs, and their memory, that nobody will ask for soon.
void DeviceExecutor::dropUnwanted(Instance &instance, cuda::Stream stream) {
  bool waited = false;
  for (unsigned v = 0; v < kNumVariants; ++v) {
    if (instance.graphs[v].empty() || choice->mayAskFor(Variant(v)))
      continue;
    if (!std::exchange(waited, true))
      cuda::check(device->driver(), device->driver().synchronize(stream),
                  "waiting for graphs that lost");
    instance.graphs[v].clear();
  }
}

std::string DeviceExecutor::report() const {
  std::lock_guard<std::mutex> guard(runLock);
  std::string text;
  Variant chosen = choice->chosen();
  bool known = choice->decided() || choice->figure(chosen) > 0;
  if (!known || instances.empty())
    return everyCallRan() || !decides
               ? "launch: not chosen yet (the first calls decide)\n"
               : "launch: plain launches, until a call has entered every body "
                 "with vendor calls\n";
  text = std::string("launch: ") + nameOf(chosen) +
         (choice->decided() ? "\n" : ", as far as calls were timed\n");
  if (decides)
    text += chosen == Variant::Plain
                ? "  loops and branches: decided by the host, which waits for "
                  "the device\n"
                : "  loops and branches: conditional nodes\n";
  for (unsigned v = 0; v < kNumVariants; ++v) {
    char line[64];
    const std::string &failure = choice->failure(Variant(v));
    if (double figure = choice->figure(Variant(v)); figure > 0) {
      std::snprintf(line, sizeof line, "%.1f us", 1e6 * figure);
      text += std::string("  ") + nameOf(Variant(v)) + ": " + line + "\n";
    } else if (!failure.empty()) {
      text += std::string("  ") + nameOf(Variant(v)) +
              ": not possible: " + failure + "\n";
    }
  }
  for (const auto &[stream, instance] : instances)
    for (const auto &captured : instance->graphs[unsigned(chosen)]) {
      if (!captured)
        continue;
      text += "  graph of " + std::to_string(captured->graph.numNodes()) +
              " nodes, " + std::to_string(captured->graph.numExternalNodes()) +
              " of them renewed where addresses change, " +
              std::to_string(captured->graph.numRenewedNodes()) +
              " in the last call\n";
      if (size_t count = captured->graph.numPatchedOperands())
        text += "  operands and results of vendor calls patched in place: " +
                std::to_string(count) + "\n";
      if (!captured->keptCopies.empty())
        text += "  vendor calls read copies: " + captured->keptCopies + "\n";
    }
  return text;
}
