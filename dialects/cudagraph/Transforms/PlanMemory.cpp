//===- PlanMemory.cpp - Where buffers live and how long -------------------===//

#include "dialects/cudagraph/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace pyjit::cudagraph {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "dialects/cudagraph/Transforms/Passes.h.inc"
} // namespace pyjit::cudagraph

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;

namespace {

struct Lifetime {
  int64_t first = -1, last = -1, bytes = 0, offset = -1;
};

/// The allocator's own granularity, and more than any access asks for.
constexpr int64_t kAlignment = 256;

/// Largest first, each into the smallest gap that its lifetime leaves.
int64_t place(MutableArrayRef<Lifetime *> buffers) {
  llvm::stable_sort(buffers, [](const Lifetime *a, const Lifetime *b) {
    return a->bytes > b->bytes;
  });
  int64_t total = 0;
  SmallVector<Lifetime *> placed; // by offset
  for (Lifetime *buffer : buffers) {
    int64_t best = -1, bestGap = 0, end = 0;
    for (Lifetime *other : placed) {
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
                                    [](const Lifetime *a, const Lifetime *b) {
                                      return a->offset < b->offset;
                                    }),
                  buffer);
  }
  return total;
}

struct PlanMemory : cudagraph::impl::PlanMemoryPassBase<PlanMemory> {
  void placeBuffers(ProgramOp program) {
    llvm::MapVector<Value, Lifetime> lifetimes;
    program.walk([&](BufferOp op) { lifetimes[op.getBuffer()]; });
    DenseMap<Operation *, int64_t> loopEnd;
    int64_t now = 0;
    program.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
      ++now;
      if (isa<ViewOp>(op))
        return;
      int64_t first = now, last = now;
      if (auto loop = op->getParentOfType<WhileOp>()) {
        // A round may read what an earlier one wrote.
        int64_t size = 0;
        loop.getBody().walk([&](Operation *) { ++size; });
        auto [begin, isNew] = loopEnd.try_emplace(loop, now);
        first = begin->second;
        last = first + size;
      }
      for (Value operand : op->getOperands()) {
        auto found = lifetimes.find(getRoot(operand));
        if (found == lifetimes.end())
          continue;
        Lifetime &life = found->second;
        life.first = life.first < 0 ? first : std::min(life.first, first);
        life.last = std::max(life.last, last);
      }
    });
    SmallVector<Lifetime *> used;
    for (auto &[buffer, life] : lifetimes) {
      if (life.first < 0) {
        buffer.getDefiningOp()->erase();
        continue;
      }
      life.bytes = llvm::alignTo(cast<BufferType>(buffer.getType()).getBytes(),
                                 kAlignment);
      used.push_back(&life);
    }
    int64_t arena = place(used);
    OpBuilder builder(program);
    for (auto &[buffer, life] : lifetimes)
      if (life.first >= 0)
        buffer.getDefiningOp<BufferOp>().setOffsetAttr(
            builder.getI64IntegerAttr(life.offset));
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
