//===- SelectAddresses.cpp - One load where a choice had two --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Joins (`cat`) and what else lies in several buffers are read by loads of all
// of them, at places that exist in each, and a choice among the values. Where
// the choice is the same for all lanes, the address is chosen instead: a joined
// weight then costs the memory's time of the one that is read.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace pyjit::ptx {

namespace {

/// The load that gives `value` to `select` alone.
LLVM::LoadOp loadFor(arith::SelectOp select, Value value) {
  auto load = value.getDefiningOp<LLVM::LoadOp>();
  return load && load->hasOneUse() && load->getBlock() == select->getBlock()
             ? load
             : LLVM::LoadOp();
}

/// Whether memory may be written between two operations of a block.
bool isWrittenBetween(Operation *first, Operation *last) {
  for (Operation *op = first->getNextNode(); op != last; op = op->getNextNode())
    if (!isa<LLVM::LoadOp>(op) && !isMemoryEffectFree(op))
      return true;
  return false;
}

void selectAddress(arith::SelectOp select) {
  LLVM::LoadOp yes = loadFor(select, select.getTrueValue()),
               no = loadFor(select, select.getFalseValue());
  Value condition = select.getCondition();
  if (auto lanes = condition.getDefiningOp<vector::BroadcastOp>())
    condition = lanes.getSource();
  if (!yes || !no || yes == no || !condition.getType().isInteger(1) ||
      yes.getAddr().getType() != no.getAddr().getType())
    return;
  // Loads stay in front of the stores that they stand in front of.
  Operation *first = yes, *last = no;
  if (last->isBeforeInBlock(first))
    std::swap(first, last);
  IRRewriter rewriter(select.getContext());
  if (isWrittenBetween(first, last) ||
      failed(moveValueDefinitions(rewriter, condition, last)))
    return;
  rewriter.setInsertionPoint(last);
  Value address = LLVM::SelectOp::create(rewriter, select.getLoc(), condition,
                                         yes.getAddr(), no.getAddr());
  unsigned aligned = std::min<unsigned>(yes.getAlignment().value_or(1),
                                        no.getAlignment().value_or(1));
  auto load = LLVM::LoadOp::create(rewriter, select.getLoc(), select.getType(),
                                   address, aligned);
  load.setInvariant(yes.getInvariant() && no.getInvariant());
  select.replaceAllUsesWith(load.getResult());
  select.erase();
  yes.erase();
  no.erase();
}

} // namespace

void selectAddresses(func::FuncOp kernel) {
  // The inner choice of several comes first.
  SmallVector<arith::SelectOp> selects;
  kernel.walk([&](arith::SelectOp op) { selects.push_back(op); });
  for (arith::SelectOp select : selects)
    selectAddress(select);
}

} // namespace pyjit::ptx
