//===- JoinLaunches.cpp - Fewer kernels for a device that waits for each --===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A launch of a few elements takes a GPU as long as one of many. Groups that
// `Planner` would leave apart, since no memory is saved, share one here.
//
//===----------------------------------------------------------------------===//

#include "Planner.h"

#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Codegen/Attention.h"

using namespace mlir;

namespace pyjit::fusion {

/// Who stores `value` and nothing else, if `reader` alone reads it.
Planner::Candidate *Planner::onlyProducer(Value value, Candidate *reader) {
  Operation *op = value.getDefiningOp();
  Candidate *owner = op ? groupOf.lookup(op) : nullptr;
  if (!owner || owner == reader || owner->owned.empty())
    return nullptr;
  Group group = boundary(*owner);
  if (group.results.size() != 1 || group.results.front() != value)
    return nullptr;
  return isLiveOut(value, join(*reader, *owner)) ? nullptr : owner;
}

/// What is computed for the queries alone (a rotary embedding), each block
/// computes itself: they are few.
void Planner::takeIntoAttention(Candidate *mine) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Value input : boundary(*mine).inputs) {
      Candidate *other = onlyProducer(input, mine);
      if (!other || llvm::any_of(other->owned, reduces) ||
          !areTogether(*other, *mine))
        continue;
      Candidate merged = join(*mine, *other);
      Group group = boundary(merged);
      std::string ignored;
      if (group.inputs.size() + 1 > options.maxBuffers ||
          leavesAndReturns(merged) ||
          !codegen::Attention::find(group.inputs, group.results, ignored))
        continue;
      take(mine, other, std::move(merged));
      changed = true;
      break;
    }
  }
}

/// Elementwise kernels of one size that differs between calls, which no later
/// stage joins: a cache's new keys and new values are one launch.
void Planner::joinEqualSizes() {
  constexpr unsigned kNear = 8;
  struct Earlier {
    Candidate *candidate;
    SmallVector<tssa::Size> sizes;
  };
  std::vector<Earlier> earlier;
  for (auto &candidate : candidates) {
    Candidate *mine = candidate.get();
    if (mine->owned.empty() || llvm::any_of(mine->owned, reduces))
      continue;
    Group group = boundary(*mine);
    if (group.results.size() != 1)
      continue;
    auto type = cast<RankedTensorType>(group.results.front().getType());
    if (!tssa::hasKnownSizes(type) || !tssa::isSymbolic(type))
      continue;
    SmallVector<tssa::Size> sizes = tssa::getSizes(type);
    for (Earlier &other : llvm::reverse(earlier)) {
      if (other.candidate->owned.empty() || other.sizes != sizes ||
          !areTogether(*other.candidate, *mine))
        continue;
      Candidate merged = join(*mine, *other.candidate);
      if (leavesAndReturns(merged) ||
          !worthwhile(merged, *mine, *other.candidate))
        continue;
      take(mine, other.candidate, std::move(merged));
      break;
    }
    earlier.push_back({mine, std::move(sizes)});
    if (earlier.size() > kNear)
      earlier.erase(earlier.begin());
  }
}

/// What is summed last is found by what it reads: a softmax's result, for which
/// in turn a sum of products was computed.
void Planner::joinAttention() {
  auto softmaxed = [&](Candidate *last, Value weights) {
    Candidate *softmax = onlyProducer(weights, last);
    if (!softmax)
      return false;
    Group between = boundary(*softmax);
    for (Value logits : between.inputs) {
      Candidate *first = onlyProducer(logits, softmax);
      if (!first || !areTogether(*first, *last))
        continue;
      Candidate merged = join(join(*last, *softmax), *first);
      Group group = boundary(merged);
      std::string ignored;
      if (leavesAndReturns(merged) ||
          !codegen::Attention::find(group.inputs, group.results, ignored))
        continue;
      take(last, softmax, join(*last, *softmax));
      take(last, first, std::move(merged));
      takeIntoAttention(last);
      return true;
    }
    return false;
  };
  for (auto &candidate : candidates) {
    if (candidate->owned.empty() || !candidate->isNeeded)
      continue;
    Group group = boundary(*candidate);
    if (group.results.size() == 1)
      for (Value input : group.inputs)
        if (softmaxed(candidate.get(), input))
          break;
  }
}

} // namespace pyjit::fusion
