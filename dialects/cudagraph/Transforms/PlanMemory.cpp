//===- PlanMemory.cpp - Where buffers live and how long -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/cudagraph/Transforms/Passes.h"

#include "llvm/ADT/DenseSet.h"

namespace pyjit::cudagraph {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "dialects/cudagraph/Transforms/Passes.h.inc"
} // namespace pyjit::cudagraph

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;

namespace {

struct Placed : Lifetime {
  int64_t bytes = 0, offset = -1;
};

/// The allocator's own granularity, and more than any access asks for.
constexpr int64_t kAlignment = 256;

/// Largest first, each into the smallest gap that its lifetime leaves.
int64_t place(MutableArrayRef<Placed *> buffers) {
  llvm::stable_sort(buffers, [](const Placed *a, const Placed *b) {
    return a->bytes > b->bytes;
  });
  int64_t total = 0;
  SmallVector<Placed *> placed; // by offset
  for (Placed *buffer : buffers) {
    int64_t best = -1, bestGap = 0, end = 0;
    for (Placed *other : placed) {
      if (other->last < buffer->first || buffer->last < other->first)
        continue;
      int64_t gap = other->offset - end;
      if (gap >= buffer->bytes && (best < 0 || gap < bestGap)) {
        best = end;
        bestGap = gap;
      }
      end = std::max(end, other->offset + other->bytes);
    }
    buffer->offset = best >= 0 ? best : end;
    total = std::max(total, buffer->offset + buffer->bytes);
    placed.insert(llvm::upper_bound(placed, buffer,
                                    [](const Placed *a, const Placed *b) {
                                      return a->offset < b->offset;
                                    }),
                  buffer);
  }
  return total;
}

/// The buffers that stand in for external ones, by patchable copies.
llvm::SmallDenseSet<Value> getStandIns(ProgramOp program) {
  llvm::SmallDenseSet<Value> standIns;
  program.walk([&](CopyOp copy) {
    if (copy.getPatchable())
      standIns.insert(copy.getStandIn());
  });
  return standIns;
}

struct PlanMemory : cudagraph::impl::PlanMemoryPassBase<PlanMemory> {
  void placeBuffers(ProgramOp program) {
    auto lifetimes = getLifetimes(program);
    std::vector<Placed> used;
    std::vector<BufferOp> owners;
    // Where one differs between calls, so do the places of the others.
    bool symbolic = llvm::any_of(lifetimes, [](auto &entry) {
      return entry.second.first >= 0 &&
             cast<BufferType>(entry.first.getType()).isSymbolic();
    });
    for (auto &[buffer, life] : lifetimes) {
      auto op = buffer.getDefiningOp<BufferOp>();
      if (life.first < 0) {
        SmallVector<Operation *> dead{op};
        for (unsigned i = 0; i < dead.size(); ++i)
          llvm::append_range(dead, dead[i]->getUsers()); // views alone
        for (Operation *view : llvm::reverse(dead))
          view->erase();
        continue;
      }
      if (symbolic) {
        op.setLives(ArrayRef<int64_t>{life.first, life.last});
        continue;
      }
      Placed placed{life};
      placed.bytes = llvm::alignTo(op.getType().getBytes(), kAlignment);
      used.push_back(placed);
      owners.push_back(op);
    }
    if (symbolic)
      return;
    // Behind all others: a replay that uses the external buffer does without,
    // and the runtime without the memory.
    llvm::SmallDenseSet<Value> standIns = getStandIns(program);
    SmallVector<Placed *> order, staged;
    for (auto [placed, op] : llvm::zip(used, owners))
      (standIns.contains(op) ? staged : order).push_back(&placed);
    int64_t arena = place(order);
    for (Placed *placed : staged)
      placed->bytes = std::max(placed->bytes, kAlignment);
    int64_t staging = place(staged);
    for (Placed *placed : staged)
      placed->offset += arena;
    arena += staging;
    OpBuilder builder(program);
    for (auto [placed, op] : llvm::zip(used, owners))
      op.setOffsetAttr(builder.getI64IntegerAttr(placed.offset));
    if (arena)
      program.setArenaAttr(builder.getI64IntegerAttr(arena));
  }

  /// Behind the last use, views included, in the block that made it.
  void release(Value value) {
    Operation *maker = value.getDefiningOp();
    Block *block = maker->getBlock();
    Operation *last = maker;
    bool leaves = false;
    SmallVector<Value> shown{value};
    while (!shown.empty())
      for (Operation *user : shown.pop_back_val().getUsers()) {
        leaves |= isa<ReturnOp, YieldOp, ReleaseOp>(user);
        if (isa<ViewOp>(user))
          shown.push_back(user->getResult(0));
        Operation *here = block->findAncestorOpInBlock(*user);
        if (last->isBeforeInBlock(here))
          last = here;
      }
    if (leaves)
      return;
    OpBuilder builder(block, std::next(last->getIterator()));
    ReleaseOp::create(builder, last->getLoc(), value);
  }

  void runOnOperation() override {
    placeBuffers(getOperation());
    SmallVector<Value> made;
    getOperation().walk([&](CallOp call) {
      for (Value result : call.getOutputs())
        if (!result.use_empty())
          made.push_back(result);
    });
    for (Value value : made)
      release(value);
  }
};

} // namespace
