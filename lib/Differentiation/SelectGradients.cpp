//===- SelectGradients.cpp - A program of gradients alone -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Differentiation/Passes.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/TSSA.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorInfo.h"

namespace pyjit::differentiation {
#define GEN_PASS_DEF_SELECTGRADIENTSPASS
#include "lib/Differentiation/Passes.h.inc"
} // namespace pyjit::differentiation

using namespace mlir;
using namespace pyjit;

namespace {

struct SelectGradients
    : pyjit::differentiation::impl::SelectGradientsPassBase<SelectGradients> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    auto inputs =
        function->getAttrOfType<DenseI64ArrayAttr>(attribute::kGradientInputs);
    if (!inputs || !function->hasAttr(attribute::kGradientResults) ||
        !function.getBody().hasOneBlock())
      return;
    if (inputs.size() > function.getNumResults()) {
      function.emitError("has ")
          << function.getNumResults() << " results, but " << inputs.size()
          << " gradients are to be among them: tssa-differentiate comes before "
             "tssa-select-gradients";
      return signalPassFailure();
    }
    if (failed(eraseUnused(function, inputs.size())))
      return signalPassFailure();
    for (StringRef name : {attribute::kUpdates, attribute::kGradientViews})
      function->removeAttr(name); // those results are gone
    Builder builder(&getContext());
    SmallVector<int64_t> wanted(inputs.asArrayRef());
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      // Nothing is prepared for a program that hardly ever runs.
      function.removeArgAttr(i, attribute::kParam);
      if (function.removeArgAttr(i, attribute::kGradient))
        wanted.push_back(i);
    }
    function->setAttr(attribute::kGradientInputs,
                      builder.getDenseI64ArrayAttr(wanted));
    auto all = llvm::to_vector(llvm::seq<int64_t>(0, function.getNumResults()));
    function->setAttr(attribute::kGradientResults,
                      builder.getDenseI64ArrayAttr(all));
  }

  /// Leaves the last `count` results, and what they are computed from.
  static LogicalResult eraseUnused(func::FuncOp function, unsigned count) {
    Block &block = function.front();
    auto returned = cast<func::ReturnOp>(block.getTerminator());
    SmallVector<Value> gradients(returned.getOperands().take_back(count));
    returned.getOperandsMutable().assign(gradients);
    function.setFunctionType(
        FunctionType::get(function.getContext(), function.getArgumentTypes(),
                          ValueRange(gradients).getTypes()));
    SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
    for (Operation *op : llvm::reverse(ops)) {
      // What may raise has raised already.
      bool movable = tssa::mayMove(op) || readsAtIndices(op);
      if (op->use_empty() && movable)
        op->erase();
      else if (!movable && !draws(op))
        return op->emitError("cannot be differentiated twice: to compute it "
                             "again might give something else");
    }
    return success();
  }

  /// The program runs with the generators as they were, so it draws all that
  /// was drawn, needed or not.
  static bool draws(Operation *op) {
    auto call = dyn_cast<tssa::AtenOp>(op);
    const operators::OperatorInfo *info =
        call ? operators::lookupOperator(call.getOverload()) : nullptr;
    return info && info->kind == operators::OperatorClass::Random;
  }

  /// The operator may do more where masks are among the indices, which decide
  /// the shape of its result: no such call is in a program.
  static bool readsAtIndices(Operation *op) {
    auto call = dyn_cast<tssa::AtenOp>(op);
    return call && operators::lookupFacts(call.getOverload()).readsAtIndices;
  }
};

} // namespace
