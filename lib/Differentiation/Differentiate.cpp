//===- Differentiate.cpp - Gradients of functions and in them -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Differentiation/Passes.h"

#include "ReverseSweep.h"
#include "SeenInputs.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorNames.h"

#include "llvm/ADT/BitVector.h"

namespace pyjit::differentiation {
#define GEN_PASS_DEF_DIFFERENTIATEPASS
#define GEN_PASS_DEF_EXPANDBACKWARDPASS
#include "lib/Differentiation/Passes.h.inc"
} // namespace pyjit::differentiation

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::typeOf;

namespace {

/// A function whose results are to be differentiated by its inputs.
class JointProgram {
public:
  JointProgram(func::FuncOp function, bool markResults)
      : markResults(markResults), function(function),
        returned(cast<func::ReturnOp>(function.front().getTerminator())),
        builder(returned), sweep(returned),
        inputs(function->getAttrOfType<DenseI64ArrayAttr>(
            attribute::kGradientInputs)),
        results(function->getAttrOfType<DenseI64ArrayAttr>(
            attribute::kGradientResults)) {}

  LogicalResult build() {
    if (failed(checkNumbers()))
      return failure();
    if (markResults)
      markSeenInputs(function);
    sweep.findActive(
        llvm::map_to_vector(inputs.asArrayRef(), [&](int64_t number) -> Value {
          return function.getArgument(number);
        }));
    chooseViews();
    takeGradients();
    if (failed(sweep.run()))
      return failure();
    return returnGradients();
  }

private:
  LogicalResult checkNumbers() {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (function.getArgAttr(i, attribute::kGradient))
        return function.emitError("has gradients already: tssa-partition or "
                                  "tssa-select-gradients comes before "
                                  "tssa-differentiate comes again");
    auto areTensors = [&](DenseI64ArrayAttr numbers, TypeRange types) {
      return numbers && llvm::all_of(numbers.asArrayRef(), [&](int64_t n) {
               return n >= 0 && n < int64_t(types.size()) &&
                      isa<RankedTensorType>(types[n]);
             });
    };
    if (areTensors(inputs, function.getArgumentTypes()) &&
        areTensors(results, function.getResultTypes()))
      return success();
    return function.emitError("'")
           << attribute::kGradientInputs << "' and '"
           << attribute::kGradientResults
           << "' have to name arguments and results that are ranked tensors";
  }

  /// A view that no other result comes by has no gradient of its own: autograd
  /// knows how it is a part of its base's. Whoever is a part of one that has
  /// one comes by it.
  void chooseViews() {
    for (int64_t number : results.asArrayRef())
      ++uses[returned.getOperand(number)];
    auto count =
        function->getAttrOfType<IntegerAttr>(attribute::kGradientViews);
    if (!count)
      return;
    auto views = ValueRange(returned.getOperands()).take_back(count.getInt());
    llvm::DenseSet<Value> wanted = findWanted(views);
    int64_t first = returned.getNumOperands() - count.getInt();
    SmallVector<int64_t> chosen;
    for (int64_t number : results.asArrayRef())
      if (Value result = returned.getOperand(number);
          number < first || (wanted.contains(result) && uses[result] == 1 &&
                             sweep.isActive(result)))
        chosen.push_back(number);
    results = builder.getDenseI64ArrayAttr(chosen);
    function->setAttr(attribute::kGradientResults, results);
  }

  /// The views that other results come by, and those that come by others.
  llvm::DenseSet<Value> findWanted(ValueRange views) {
    llvm::DenseMap<Value, unsigned> places;
    for (auto [i, view] : llvm::enumerate(views))
      places[view] = i;
    unsigned count = views.size();
    llvm::DenseMap<Value, llvm::BitVector> by; // of each value, itself included
    for (Operation &op : function.front().without_terminator()) {
      if (!ReverseSweep::letsPass(&op))
        continue;
      llvm::BitVector all(count);
      for (Value operand : op.getOperands())
        if (auto known = by.find(operand); known != by.end())
          all |= known->second;
      for (Value result : op.getResults()) {
        auto place = places.find(result);
        if (all.none() && place == places.end())
          continue;
        llvm::BitVector &own = by[result] = all;
        if (place != places.end())
          own.set(place->second);
      }
    }
    llvm::DenseSet<Value> wanted;
    for (int64_t number : results.asArrayRef()) {
      Value result = returned.getOperand(number);
      auto known = by.find(result);
      if (known == by.end())
        continue;
      for (unsigned i : known->second.set_bits())
        if (views[i] != result) {
          wanted.insert(views[i]);
          if (places.contains(result))
            wanted.insert(result);
        }
    }
    return wanted;
  }

  /// An argument for the gradient of each result that has one.
  void takeGradients() {
    for (int64_t number : results.asArrayRef()) {
      Value result = returned.getOperand(number);
      unsigned place = function.getNumArguments();
      auto mark = builder.getDictionaryAttr(builder.getNamedAttr(
          attribute::kGradient, builder.getI64IntegerAttr(number)));
      (void)function.insertArgument(place, gradientTypeOf(typeOf(result)), mark,
                                    result.getLoc());
      sweep.give(result, function.getArgument(place));
      // Of two tensors of one value nobody knows which one was used.
      if (markResults && uses[result] == 1)
        sweep.mark(result, number);
    }
  }

  /// In the order in which eager's engine has them: the runtime hands them out
  /// as they stand.
  LogicalResult returnGradients() {
    SmallVector<int64_t> reached, order(inputs.asArrayRef());
    llvm::stable_sort(order, [&](int64_t a, int64_t b) {
      return sweep.completedAt(function.getArgument(a)) <
             sweep.completedAt(function.getArgument(b));
    });
    for (int64_t number : order) {
      Value gradient = sweep.gradientOf(function.getArgument(number));
      if (!gradient)
        continue;
      returned->insertOperands(returned->getNumOperands(), gradient);
      reached.push_back(number);
    }
    // Eager then has no gradient either: it answers. (Where leaves of the
    // call's own alone have one, no input is named: refgraph-extract-graph.)
    if (reached.empty() && !inputs.empty())
      return function.emitError("cannot be differentiated: none of its results "
                                "depends on an input that requires grad");
    function.setFunctionType(builder.getFunctionType(
        function.front().getArgumentTypes(), returned.getOperandTypes()));
    function->setAttr(attribute::kGradientInputs,
                      builder.getDenseI64ArrayAttr(reached));
    return success();
  }

  bool markResults;
  func::FuncOp function;
  func::ReturnOp returned;
  OpBuilder builder;
  ReverseSweep sweep;
  DenseI64ArrayAttr inputs, results;
  llvm::DenseMap<Value, unsigned> uses; ///< as a result
};

/// A leaf's gradient is what comes of all its contents: those in front of the
/// first write and, by way of `pyjit::written`, the later ones.
Value withAllContents(Value input) {
  auto call = input.getDefiningOp<tssa::AtenOp>();
  return call && call.getOverload() == operators::pyjit::unwritten
             ? call.getOperand(0)
             : input;
}

/// One `pyjit::backward(roots, gradients, inputs)`.
LogicalResult expandBackward(tssa::AtenOp op) {
  size_t numRoots = (op.getNumOperands() - op.getNumResults()) / 2;
  if (op.getNumOperands() != 2 * numRoots + op.getNumResults())
    return op.emitError("needs a gradient for each root, and has one for each "
                        "input");
  ValueRange roots = op.getOperands().take_front(numRoots);
  ValueRange gradients = op.getOperands().slice(numRoots, numRoots);
  SmallVector<Value> inputs = llvm::map_to_vector(
      op.getOperands().drop_front(2 * numRoots), withAllContents);
  ReverseSweep sweep(op);
  sweep.findActive(inputs);
  OpBuilder builder(op);
  GradientBuilder build(builder, op.getLoc());
  for (auto [root, gradient] : llvm::zip(roots, gradients))
    sweep.give(root, build.layOut(gradient, gradientTypeOf(typeOf(root))));
  if (build.hasFailed() || failed(sweep.run()))
    return failure();
  for (auto [input, result] : llvm::zip(inputs, op.getResults())) {
    Value gradient = sweep.gradientOf(input);
    if (!gradient && ReverseSweep::reaches(input, roots))
      gradient = build.zeros(gradientTypeOf(typeOf(input)));
    if (!gradient)
      return op.emitError(
          "no gradient comes to an input that eager has one of");
    // Eager may hand it out in another layout than the value's.
    gradient = build.layOut(gradient, typeOf(result));
    if (build.hasFailed())
      return failure();
    result.replaceAllUsesWith(gradient);
  }
  op.erase();
  return success();
}

struct Differentiate
    : pyjit::differentiation::impl::DifferentiatePassBase<Differentiate> {
  using DifferentiatePassBase::DifferentiatePassBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function->hasAttr(attribute::kGradientResults) &&
        function.getBody().hasOneBlock() &&
        failed(JointProgram(function, markResults).build()))
      signalPassFailure();
  }
};

struct ExpandBackward
    : pyjit::differentiation::impl::ExpandBackwardPassBase<ExpandBackward> {
  void runOnOperation() override {
    SmallVector<tssa::AtenOp> calls;
    getOperation().walk([&](tssa::AtenOp call) {
      if (call.getOverload() == operators::pyjit::backward)
        calls.push_back(call);
    });
    // In order: gradients of gradients go through what an earlier one became.
    for (tssa::AtenOp call : calls)
      if (failed(expandBackward(call)))
        return signalPassFailure();
  }
};

} // namespace
