//===- Order.cpp - The order of a block's operations ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Order.h"

#include "dialects/tssa/IR/TSSA.h"
#include "pyjit/Fusion/Plan.h"
#include <queue>

using namespace mlir;

namespace pyjit::fusion {

namespace {

/// What waits for what, by position in the block.
class Waiting {
public:
  explicit Waiting(Block &block) {
    for (Operation &op : block.without_terminator()) {
      number[&op] = ops.size();
      ops.push_back(&op);
    }
    users.resize(ops.size());
    counts.resize(ops.size());
    findNeeds(block);
  }

  void add(Operation *before, Operation *after) {
    auto first = number.find(before), second = number.find(after);
    if (first == number.end() || second == number.end())
      return;
    users[first->second].push_back(second->second);
    ++counts[second->second];
  }

  SmallVector<Operation *> ops;
  SmallVector<SmallVector<unsigned, 2>> users;
  SmallVector<unsigned> counts;

private:
  void findNeeds(Block &block) {
    Operation *effect = nullptr, *speculation = nullptr;
    for (Operation *op : ops) {
      llvm::SmallDenseSet<Operation *> before;
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (Operation *producer = operand.getDefiningOp())
            if (producer->getBlock() == &block && producer != op)
              before.insert(producer);
      });
      if (keepsItsPlace(op)) {
        if (effect)
          before.insert(effect);
        effect = op;
      }
      if (speculation)
        before.insert(speculation);
      if (isa<tssa::SpeculateOp>(op))
        speculation = op;
      for (Operation *first : before)
        add(first, op);
    }
  }

  DenseMap<Operation *, unsigned> number;
};

} // namespace

std::optional<SmallVector<Operation *>> orderBlock(Block &block,
                                                   const OrderRules &rules) {
  Waiting waiting(block);
  for (auto [before, after] : rules.edges)
    waiting.add(before, after);
  std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> ready,
      deferred;
  unsigned early = rules.early ? llvm::count_if(waiting.ops, rules.early) : 0;
  auto enqueue = [&](unsigned i) {
    bool isLate = early && rules.late && rules.late(waiting.ops[i]);
    (isLate ? deferred : ready).push(i);
  };
  for (auto [i, count] : llvm::enumerate(waiting.counts))
    if (count == 0)
      enqueue(i);
  SmallVector<Operation *> order;
  for (;;) {
    if (early == 0)
      for (; !deferred.empty(); deferred.pop())
        ready.push(deferred.top());
    if (ready.empty())
      break;
    unsigned next = ready.top();
    ready.pop();
    order.push_back(waiting.ops[next]);
    if (early && rules.early(waiting.ops[next]))
      --early;
    for (unsigned user : waiting.users[next])
      if (--waiting.counts[user] == 0)
        enqueue(user);
  }
  if (order.size() != waiting.ops.size())
    return std::nullopt;
  return order;
}

void applyOrder(Block &block, ArrayRef<Operation *> order) {
  for (Operation *op : order)
    op->moveBefore(block.getTerminator());
}

} // namespace pyjit::fusion
