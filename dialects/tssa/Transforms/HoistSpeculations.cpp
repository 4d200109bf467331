//===- HoistSpeculations.cpp - Ask early what ends a program --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program that asks its data whether it may go on should ask before it does
// anything else: what was computed until then is lost if it may not, and on a
// device the host has to wait for the answer.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/Transforms/Passes.h"

#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/OperatorNames.h"
#include "pyjit/Operators/Raises.h"

#include "llvm/ADT/SetVector.h"

namespace pyjit::tssa {
#define GEN_PASS_DEF_HOISTSPECULATIONSPASS
#include "dialects/tssa/Transforms/Passes.h.inc"
} // namespace pyjit::tssa

using namespace mlir;
using namespace pyjit;
using namespace pyjit::tssa;

namespace {

/// What `flag` is computed from in its own block, in the block's order.
SmallVector<Operation *> sliceOf(Value flag, Block &block) {
  llvm::SetVector<Operation *> slice;
  SmallVector<Operation *> work;
  auto add = [&](Value value) {
    Operation *maker = value.getDefiningOp();
    if (maker && maker->getBlock() == &block && slice.insert(maker))
      work.push_back(maker);
  };
  add(flag);
  while (!work.empty())
    work.pop_back_val()->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        add(operand);
    });
  SmallVector<Operation *> ordered = slice.takeVector();
  llvm::sort(ordered,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ordered;
}

/// Whether it may run although a speculation in front of it did not hold: it
/// neither raises nor goes on for ever.
bool isHarmless(Operation *op) {
  if (op->getNumRegions() != 0 || !isMemoryEffectFree(op))
    return false;
  auto call = dyn_cast<AtenOp>(op);
  return !call || (operators::lookupOperator(call.getOverload()) &&
                   operators::lookupRaising(call.getOverload()) ==
                       operators::Raising::Never);
}

/// One speculation of two that stand one after the other.
SpeculateOp join(SpeculateOp first, SpeculateOp second) {
  OpBuilder builder(second);
  Location loc = builder.getFusedLoc({first.getLoc(), second.getLoc()});
  Attribute operand = operators::getOperandPlaceholder(builder.getContext());
  auto both = AtenOp::create(builder, loc, TypeRange{first.getFlag().getType()},
                             operators::aten::logical_and,
                             ValueRange{first.getFlag(), second.getFlag()},
                             builder.getArrayAttr({operand, operand}),
                             DenseI64ArrayAttr());
  auto joined = SpeculateOp::create(builder, loc, both.getResult(0));
  first.erase();
  second.erase();
  return joined;
}

struct HoistSpeculations
    : pyjit::tssa::impl::HoistSpeculationsPassBase<HoistSpeculations> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || function->hasAttr(attribute::kKernel))
      return;
    Block &block = function.front();
    SmallVector<SpeculateOp> speculations(block.getOps<SpeculateOp>());
    SpeculateOp last;
    for (SpeculateOp speculate : speculations) {
      SmallVector<Operation *> slice = sliceOf(speculate.getFlag(), block);
      if (last)
        llvm::erase_if(
            slice, [&](Operation *op) { return op->isBeforeInBlock(last); });
      if (!llvm::all_of(slice, mayMove)) {
        last = speculate;
        continue;
      }
      Operation *place = last ? last->getNextNode() : &block.front();
      while (place != speculate && llvm::is_contained(slice, place))
        place = place->getNextNode();
      for (Operation *op : slice)
        if (place->isBeforeInBlock(op))
          op->moveBefore(place);
      if (place != speculate)
        speculate->moveBefore(place);
      numHoisted += place != speculate;
      last = last && llvm::all_of(slice, isHarmless) ? join(last, speculate)
                                                     : speculate;
    }
  }
};

} // namespace
