//===- UnrollLoops.cpp - Loops with a known number of iterations ----------===//
//
// Contract: functions whose kernels are calls by now. A `scf.for` between
// constants becomes its iterations, one after the other, indices and picks
// constants. Other loops stay.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

namespace pyjit::tssa {
#define GEN_PASS_DEF_UNROLLLOOPSPASS
#include "dialects/tssa/Transforms/Passes.h.inc"
} // namespace pyjit::tssa

using namespace mlir;
using namespace pyjit::tssa;

namespace {

bool unroll(scf::ForOp loop) {
  APInt from, to, by;
  if (!matchPattern(loop.getLowerBound(), m_ConstantInt(&from)) ||
      !matchPattern(loop.getUpperBound(), m_ConstantInt(&to)) ||
      !matchPattern(loop.getStep(), m_ConstantInt(&by)) ||
      !by.isStrictlyPositive())
    return false;
  OpBuilder builder(loop);
  SmallVector<Value> carried(loop.getInitArgs());
  for (int64_t i = from.getSExtValue(); i < to.getSExtValue();
       i += by.getSExtValue()) {
    IRMapping mapping;
    mapping.map(loop.getRegionIterArgs(), carried);
    Value number = arith::ConstantOp::create(
        builder, loop.getLoc(),
        builder.getIntegerAttr(loop.getInductionVar().getType(), i));
    mapping.map(loop.getInductionVar(), number);
    for (Operation &op : loop.getBody()->without_terminator()) {
      auto pick = dyn_cast<PickOp>(op);
      APInt index;
      if (pick &&
          matchPattern(mapping.lookupOrDefault(pick.getIndex()),
                       m_ConstantInt(&index)) &&
          index.ult(pick.getChoices().size())) {
        mapping.map(
            pick.getResult(),
            mapping.lookupOrDefault(pick.getChoices()[index.getZExtValue()]));
        continue;
      }
      Operation *made = builder.clone(op, mapping);
      SmallVector<Value> folded;
      if (isa<arith::ArithDialect>(op.getDialect()) &&
          succeeded(builder.tryFold(made, folded)) && !folded.empty()) {
        mapping.map(op.getResults(), folded);
        made->erase();
      }
    }
    SmallVector<Value> next;
    for (Value value : loop.getYieldedValues())
      next.push_back(mapping.lookupOrDefault(value));
    carried = next;
  }
  loop.replaceAllUsesWith(carried);
  loop.erase();
  return true;
}

struct UnrollLoops : pyjit::tssa::impl::UnrollLoopsPassBase<UnrollLoops> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function->hasAttr(pyjit::attribute::kKernel))
      return;
    // Inner loops first, so that they are unrolled once.
    SmallVector<scf::ForOp> loops;
    function.walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      numLoops += unroll(loop);
  }
};

} // namespace
