//===- ValueLifetimes.cpp - How long values are needed --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ValueLifetimes.h"

#include "dialects/tssa/IR/TSSA.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::executable;

ValueLifetimes::ValueLifetimes(func::FuncOp function) {
  number(function.front());
}

void ValueLifetimes::number(Block &block) {
  for (Operation &op : block) {
    ends[&op] = begins[&op] = next++;
    if (op.getNumRegions() == 0)
      continue;
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        number(inner);
    ends[&op] = next++;
  }
}

int64_t ValueLifetimes::positionOf(Value value, OpOperand &use) const {
  Operation *user = use.getOwner();
  Operation *here = value.getParentBlock()->findAncestorOpInBlock(*user);
  // A loop reads its bounds again before each iteration.
  bool isBound = isa<scf::ForOp>(user) && use.getOperandNumber() < 3;
  if (here == user && !isBound)
    return begins.lookup(here);
  return ends.lookup(here);
}

/// The values that show the memory of the operand `use` under another name.
static SmallVector<Value, 2> otherNames(OpOperand &use, Operation *from) {
  Operation *user = use.getOwner();
  unsigned number = use.getOperandNumber();
  if (isa<tssa::AccessOp, tssa::PickOp, tensor::ExtractOp,
          tensor::FromElementsOp>(user) ||
      isa<arith::ArithDialect>(user->getDialect()))
    return {user->getResult(0)};
  if (isa<scf::YieldOp>(user))
    if (auto branch = dyn_cast<scf::IfOp>(user->getParentOp()))
      return {branch.getResult(number)};
  if (isa<scf::ConditionOp>(user) && number > 0) {
    auto loop = cast<scf::WhileOp>(user->getParentOp());
    SmallVector<Value, 2> names{loop.getAfterArguments()[number - 1]};
    if (!from || !loop.getAfter().isAncestor(from->getParentRegion()))
      names.push_back(loop.getResult(number - 1));
    return names;
  }
  return {};
}

int64_t ValueLifetimes::lastUse(Value value, Operation *from) {
  if (!from)
    if (auto found = known.find(value); found != known.end())
      return found->second;
  int64_t last = kept.contains(value) ? next - 1 : -1;
  for (OpOperand &use : value.getUses()) {
    last = std::max(last, positionOf(value, use));
    for (Value name : otherNames(use, from))
      last = std::max(last, lastUse(name, from));
  }
  if (!from)
    known[value] = last;
  return last;
}
