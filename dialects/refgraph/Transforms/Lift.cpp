//===- Lift.cpp - numbers that differ between calls become inputs ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: in, traces whose `lift` reads carry the recorded value; out, the
// same traces, in which a `lift` read has no value and everything else that is
// a number is a constant, or computed from lifted ones. In doubt a number keeps
// its value.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "pyjit/Operators/CallArguments.h"

namespace pyjit::refgraph {
#define GEN_PASS_DEF_LIFTPASS
#include "dialects/refgraph/Transforms/Passes.h.inc"
} // namespace pyjit::refgraph

using namespace mlir;
using namespace pyjit::refgraph;
using pyjit::operators::isNumberOperand;

static void replaceByConstant(Operation *op, Value number, Attribute value) {
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  auto constant =
      ConstantOp::create(builder, op->getLoc(), number.getType(), value);
  number.replaceAllUsesWith(constant.getResult());
}

/// `arg` with the operands that `constants` knows written as numbers.
static Attribute fold(Attribute arg, OperandRange operands, unsigned &next,
                      SmallVectorImpl<Value> &remaining,
                      llvm::function_ref<TypedAttr(Value)> getConstant) {
  if (auto list = dyn_cast<ArrayAttr>(arg)) {
    SmallVector<Attribute> elements;
    for (Attribute element : list)
      elements.push_back(fold(element, operands, next, remaining, getConstant));
    return ArrayAttr::get(arg.getContext(), elements);
  }
  if (!pyjit::operators::isOperandPlaceholder(arg) && !isNumberOperand(arg))
    return arg;
  Value operand = operands[next++];
  if (isNumberOperand(arg))
    if (TypedAttr number = getConstant(operand))
      return pyjit::operators::isWrappedOperand(arg)
                 ? pyjit::operators::makeWrappedNumber(number)
                 : Attribute(number);
  remaining.push_back(operand);
  return arg;
}

static TypedAttr getConstant(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? dyn_cast<TypedAttr>(constant.getValue()) : TypedAttr();
}

/// Numbers that became constants are written into the call.
static void foldCall(TensorOp op) {
  if (llvm::none_of(op.getInputs(), [](Value v) { return getConstant(v); }))
    return;
  SmallVector<Value> remaining;
  unsigned next = 0;
  auto args = cast<ArrayAttr>(
      fold(op.getArgs(), op.getInputs(), next, remaining, getConstant));
  op.replaceArguments(args, remaining);
}

static bool isConstant(Operation *op) {
  return llvm::all_of(op->getOperands(), [](Value operand) {
    return operand.getDefiningOp<ConstantOp>() != nullptr;
  });
}

namespace {
struct LiftPass : public pyjit::refgraph::impl::LiftPassBase<LiftPass> {
  void runOnOperation() override {
    for (TraceOp trace : getOperation().getOps<TraceOp>())
      lift(trace);
  }

  void lift(TraceOp trace) {
    for (Operation &op : llvm::make_early_inc_range(trace.getBody().front())) {
      if (auto get = dyn_cast<GetOp>(op); get && get.getLift()) {
        if (get.keepsValue()) {
          ++numKept;
          get.setLift(false);
          if (Attribute value = get.getEqualsAttr())
            replaceByConstant(get, get.getResult(), value);
        } else {
          ++numLifted;
          get.removeEqualsAttr();
        }
      } else if (auto arith = dyn_cast<ArithOp>(op)) {
        if (!isConstant(arith))
          continue;
        replaceByConstant(arith, arith.getResult(), arith.getValue());
        arith.erase();
      } else if (isa<CompareOp>(op) && isConstant(&op)) {
        op.erase();
      } else if (isa<TensorOp, IfOp>(op)) {
        op.walk([](TensorOp call) { foldCall(call); });
      }
    }
    for (auto constant :
         llvm::make_early_inc_range(trace.getBody().getOps<ConstantOp>()))
      if (constant->use_empty())
        constant.erase();
  }
};
} // namespace
