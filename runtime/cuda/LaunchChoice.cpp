//===- LaunchChoice.cpp - Which way to launch is the fastest --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/cuda/LaunchChoice.h"

#include <algorithm>
#include <cmath>

using namespace pyjit::rt;
using namespace pyjit::rt::cuda;

/// Calls of each way in one look. The calls left out between them grow from
/// `kFirstGap` by `kGrowth`.
static constexpr unsigned kRounds = 5;
static constexpr uint64_t kFirstGap = 4, kGrowth = 6;
/// Calls from one look to the next, at least, growing by `kLookGrowth`.
static constexpr uint64_t kFirstDistance = 1024, kLongest = uint64_t(1) << 40;
static constexpr double kLookGrowth = 8;
/// What looking may take of the time in between.
static constexpr double kShare = 0.01;
/// Plain launches are as good as graphs that take so much longer. A call's time
/// ends when the device is at rest; graphs give the host time to go ahead of
/// the device, which counts behind the call.
static constexpr double kHostAhead = 1.05;

LaunchChoice::LaunchChoice(uint32_t variants, bool dropSlow)
    : offered(variants | 1u << unsigned(Variant::Plain)), dropSlow(dropSlow) {
  beginLook();
}

void LaunchChoice::beginLook() {
  candidates.clear();
  for (unsigned v = 0; v < kNumVariants; ++v) {
    times[v].clear();
    failures[v].clear();
    if (offered >> v & 1)
      candidates.push_back(Variant(v));
  }
  turn = 0;
  round = 0;
  gap = 0;
  spent = 0;
  looking = candidates.size() > 1;
  if (!looking) {
    best = candidates.front();
    fixed = true;
  }
}

Variant LaunchChoice::next() const {
  return wantsTime() ? candidates[turn] : best;
}

void LaunchChoice::timed(double seconds) {
  if (!wantsTime())
    return;
  times[unsigned(candidates[turn])].push_back(seconds);
  spent += seconds;
  ++turn;
  goOn();
}

void LaunchChoice::prepared(double seconds) { spent += seconds; }

void LaunchChoice::passed() {
  if (fixed || gap == 0 || --gap)
    return;
  if (!looking)
    beginLook();
}

void LaunchChoice::failed(std::string why) {
  Variant variant = next();
  failures[unsigned(variant)] = std::move(why);
  figures[unsigned(variant)] = 0;
  times[unsigned(variant)].clear();
  if (fixed) {
    best = Variant::Plain;
    return;
  }
  auto found = std::find(candidates.begin(), candidates.end(), variant);
  if (found == candidates.end() || candidates.size() == 1)
    return;
  size_t index = found - candidates.begin();
  candidates.erase(found);
  turn -= index < turn;
  if (best == variant) {
    best = candidates.front();
    compare();
  }
  // What was chosen for good does not work any more: another one is.
  if (!looking)
    beginLook();
  else
    goOn();
}

void LaunchChoice::assume(Variant variant) {
  if (fixed || !(offered >> unsigned(variant) & 1))
    return;
  best = variant;
  looking = false;
  gap = kFirstDistance;
}

void LaunchChoice::fix(Variant variant) {
  best = variant;
  fixed = true;
  looking = false;
}

/// Behind each time: the next candidate, the next round, or the end.
void LaunchChoice::goOn() {
  if (turn < candidates.size())
    return;
  turn = 0;
  compare();
  if (++round == kRounds || candidates.size() == 1)
    return endLook();
  gap = kFirstGap;
  for (unsigned i = 1; i < round; ++i)
    gap *= kGrowth;
}

/// Whoever has the least. What disturbs a call makes it slower, never faster:
/// one of the fast ones stands for all, but not the fastest, which may be luck.
void LaunchChoice::compare() {
  double least = 0;
  for (Variant variant : candidates) {
    std::vector<double> list = times[unsigned(variant)];
    if (list.empty())
      continue;
    auto quarter = list.begin() + list.size() / 4;
    std::nth_element(list.begin(), quarter, list.end());
    double one = figures[unsigned(variant)] = *quarter;
    double cost = variant == Variant::Plain ? kHostAhead * one : one;
    if (least == 0 || cost < least) {
      least = cost;
      best = variant;
    }
  }
  // Who has no chance need not be kept ready: at once if it may be hundreds of
  // times slower, else when there is some evidence.
  constexpr unsigned kSome = 4;
  double limit = dropSlow ? 4 : round + 1 >= kSome ? 2 : 0;
  if (limit == 0 || least == 0)
    return;
  auto isHopeless = [&](Variant variant) {
    const std::vector<double> &list = times[unsigned(variant)];
    return !list.empty() &&
           *std::min_element(list.begin(), list.end()) > limit * least;
  };
  candidates.erase(
      std::remove_if(candidates.begin(), candidates.end(), isHopeless),
      candidates.end());
}

bool LaunchChoice::mayAskFor(Variant variant) const {
  return variant == best ||
         (looking && std::find(candidates.begin(), candidates.end(), variant) !=
                         candidates.end());
}

void LaunchChoice::endLook() {
  looking = false;
  double calls = double(kFirstDistance) * std::pow(kLookGrowth, looks);
  double call = figures[unsigned(best)];
  if (call > 0)
    calls = std::max(calls, spent / (kShare * call));
  gap = uint64_t(std::min(calls, double(kLongest)));
  ++looks;
}
