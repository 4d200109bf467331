//===- BufferLifetimes.cpp - When planned buffers hold something ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/cudagraph/IR/CudaGraph.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;

namespace {

struct Numbering {
  DenseMap<Operation *, std::pair<int64_t, int64_t>> spans;
  int64_t next = 0;

  void number(Block &block) {
    for (Operation &op : block) {
      int64_t begin = next++;
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          number(inner);
      spans[&op] = {begin, next++};
    }
  }
};

/// Whether `op` writes all of `buffer` and does not read it.
bool overwrites(Operation *op, Value buffer) {
  auto isIt = [&](Value value) { return getRoot(value) == buffer; };
  if (auto kernel = dyn_cast<KernelOp>(op))
    return llvm::is_contained(kernel.getWrites(), buffer) &&
           llvm::none_of(kernel.getReads(), isIt);
  if (auto copy = dyn_cast<CopyOp>(op))
    return copy.getTarget() == buffer && !isIt(copy.getSource());
  if (auto value = dyn_cast<HostValueOp>(op))
    return value.getTarget() == buffer;
  return false;
}

/// The program's ops that look at the buffer or write it, through views or not.
/// Verified is that uses are in the program only after this.
void collectUses(ProgramOp program, Value buffer,
                 SmallVectorImpl<Operation *> &uses) {
  for (Operation *user : buffer.getUsers())
    if (!program->isProperAncestor(user))
      continue;
    else if (auto view = dyn_cast<ViewOp>(user))
      collectUses(program, view.getResult(), uses);
    else
      uses.push_back(user);
}

/// The outermost loop around `op` that is still inside `block`.
Operation *outermostLoop(Operation *op, Block *block) {
  Operation *found = isa<WhileOp>(op) ? op : nullptr;
  while (op->getBlock() != block) {
    op = op->getParentOp();
    if (isa<WhileOp>(op))
      found = op;
  }
  return found;
}

/// The innermost block that `op` and the ops of `block` are both in.
Block *commonBlock(Block *block, Operation *op) {
  while (!block->findAncestorOpInBlock(*op))
    block = block->getParentOp()->getBlock();
  return block;
}

} // namespace

llvm::MapVector<Value, Lifetime>
pyjit::cudagraph::getLifetimes(ProgramOp program) {
  Numbering order;
  order.number(program.getBlock());
  llvm::MapVector<Value, Lifetime> lifetimes;
  program.walk([&](BufferOp op) { lifetimes[op.getBuffer()]; });
  for (auto &[buffer, life] : lifetimes) {
    SmallVector<Operation *> uses;
    collectUses(program, buffer, uses);
    if (uses.empty())
      continue;
    Block *scope = uses.front()->getBlock();
    Operation *first = uses.front();
    for (Operation *use : uses) {
      scope = commonBlock(scope, use);
      if (order.spans[use].first < order.spans[first].first)
        first = use;
    }
    Lifetime &found = life;
    auto extend = [&](Operation *op) {
      auto [begin, end] = order.spans[op];
      found.first = found.first < 0 ? begin : std::min(found.first, begin);
      found.last = std::max(found.last, end);
    };
    for (Operation *use : uses) {
      extend(use);
      if (Operation *loop = outermostLoop(use, scope))
        extend(loop);
    }
    bool anew = first->getBlock() == scope && overwrites(first, buffer);
    if (!anew && scope != &program.getBlock())
      if (Operation *loop =
              outermostLoop(scope->getParentOp(), &program.getBlock()))
        extend(loop);
  }
  return lifetimes;
}
