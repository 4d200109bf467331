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
    bool drawsBehind = false;
    for (Operation *op : llvm::reverse(ops)) {
      bool movable = tssa::mayMove(op) || isRepeatable(op);
      if (!movable && draws(op)) {
        drawsBehind = true;
        continue;
      }
      // What may raise has raised already; which way a branch goes was found
      // when these inputs were first computed with. Anything else that an
      // operator does was done then, too, but for numbers that it may draw.
      bool droppable = movable || isa<tssa::SpeculateOp>(op) || !drawsBehind;
      if (op->use_empty() && droppable)
        op->erase();
      else if (!movable)
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

  /// Whether an operator that other passes leave in its place gives the same
  /// of the same operands: one whose result is as long as data say; one that
  /// reads at indices (masks among them are in no program); one that writes
  /// what a known operator computes into `out`.
  static bool isRepeatable(Operation *op) {
    auto call = dyn_cast<tssa::AtenOp>(op);
    if (!call)
      return false;
    if (operators::lookupFacts(call.getOverload()).readsAtIndices)
      return true;
    auto [name, overload] = call.getOverload().split('.');
    auto isNamed = [base = name](const operators::OperatorInfo &info) {
      return info.name.split('.').first == base;
    };
    auto known = llvm::make_filter_range(operators::getOperators(), isNamed);
    bool isWritten = overload == "out" || overload.ends_with("_out");
    return (isWritten || operators::lookupOperator(call.getOverload())) &&
           !known.empty() && llvm::none_of(known, [](const auto &info) {
             return info.kind == operators::OperatorClass::Random;
           });
  }
};

} // namespace
