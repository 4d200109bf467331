//===- Differentiate.cpp - Reverse mode over functional programs ----------===//

#include "pyjit/Differentiation/Passes.h"

#include "Adjoint.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/OperatorFacts.h"

#include "llvm/ADT/TypeSwitch.h"

namespace pyjit::differentiation {
#define GEN_PASS_DEF_DIFFERENTIATEPASS
#include "lib/Differentiation/Passes.h.inc"
} // namespace pyjit::differentiation

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::typeOf;
using tssa::ViewAttr;
using tssa::ViewKind;

namespace {

/// One function whose results are to be differentiated by its inputs.
class ReverseSweep {
public:
  ReverseSweep(func::FuncOp function)
      : function(function), block(function.front()),
        builder(block.getTerminator()),
        inputs(function->getAttrOfType<DenseI64ArrayAttr>(
            attribute::kGradientInputs)),
        results(function->getAttrOfType<DenseI64ArrayAttr>(
            attribute::kGradientResults)) {}

  LogicalResult run() {
    if (failed(checkNumbers()))
      return failure();
    findActive();
    takeGradients();
    // The operations that the sweep adds stand behind all of these.
    SmallVector<Operation *> forward;
    for (Operation &op : block.without_terminator())
      forward.push_back(&op);
    for (Operation *op : llvm::reverse(forward))
      if (failed(visit(op)) || hasFailed)
        return failure();
    return returnGradients();
  }

private:
  LogicalResult checkNumbers() {
    auto within = [&](DenseI64ArrayAttr numbers, unsigned count) {
      return numbers && llvm::all_of(numbers.asArrayRef(), [&](int64_t n) {
               return n >= 0 && n < int64_t(count);
             });
    };
    if (within(inputs, function.getNumArguments()) &&
        within(results, function.getNumResults()))
      return success();
    return function.emitError("'") << attribute::kGradientInputs << "' and '"
                                   << attribute::kGradientResults
                                   << "' have to name arguments and results";
  }

  /// Whether the operation's results depend on its operands as far as
  /// gradients go.
  static bool letsPass(Operation *op) {
    if (auto call = dyn_cast<tssa::AtenOp>(op))
      return !operators::lookupFacts(call.getOverload()).makesTensor;
    auto access = dyn_cast<tssa::AccessOp>(op);
    return !access || llvm::none_of(access.getPath().getAsRange<ViewAttr>(),
                                    [](ViewAttr view) {
                                      return view.getKind() == ViewKind::detach;
                                    });
  }

  /// What depends on an input that requires grad.
  void findActive() {
    for (int64_t number : inputs.asArrayRef())
      active.insert(function.getArgument(number));
    for (Operation &op : block.without_terminator()) {
      bool depends = llvm::any_of(op.getOperands(), [&](Value operand) {
        return active.contains(operand);
      });
      // What regions read from outside is no operand.
      if (op.getNumRegions())
        op.walk([&](Operation *inner) {
          for (Value operand : inner->getOperands())
            depends |= active.contains(operand);
        });
      if (!depends || !letsPass(&op))
        continue;
      for (Value result : op.getResults())
        if (mayHaveGradient(result.getType()))
          active.insert(result);
    }
  }

  /// An argument for the gradient of each result that has one.
  void takeGradients() {
    auto returned = cast<func::ReturnOp>(block.getTerminator());
    for (int64_t number : results.asArrayRef()) {
      Value result = returned.getOperand(number);
      unsigned place = function.getNumArguments();
      auto mark = builder.getDictionaryAttr(builder.getNamedAttr(
          attribute::kGradient, builder.getI64IntegerAttr(number)));
      (void)function.insertArgument(place, gradientTypeOf(typeOf(result)), mark,
                                    result.getLoc());
      give(result, function.getArgument(place));
    }
  }

  void give(Value value, Value gradient) {
    if (!active.contains(value))
      return;
    if (Value known = gradients.lookup(value)) {
      GradientBuilder build(builder, value.getLoc());
      gradient = build.add(known, gradient);
      hasFailed |= build.hasFailed();
    }
    gradients[value] = gradient;
  }

  LogicalResult visit(Operation *op) {
    bool reached = llvm::any_of(op->getResults(), [&](Value result) {
      return gradients.contains(result);
    });
    if (!reached)
      return success();
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<tssa::AtenOp, tssa::AccessOp, tssa::AssignOp>(
            [&](auto known) { return pass(known); })
        .Default([](Operation *op) {
          return op->emitError("cannot be differentiated: no derivative is "
                               "known");
        });
  }

  LogicalResult pass(tssa::AtenOp op) {
    SmallVector<Value> ofResults;
    for (Value result : op.getResults())
      ofResults.push_back(gradients.lookup(result));
    auto wants = [&](Value operand) { return active.contains(operand); };
    auto giveOperand = [&](Value operand, Value gradient) {
      give(operand, gradient);
    };
    Adjoint adjoint(op, builder, ofResults, wants, giveOperand);
    hasFailed |= failed(adjoint.run()) || adjoint.build.hasFailed();
    return failure(hasFailed);
  }

  LogicalResult pass(tssa::AccessOp op) {
    Value gradient =
        showThrough(op, op.getPath(), op.getIndices(), typeOf(op.getSource()),
                    gradients.lookup(op.getResult()));
    if (!gradient)
      return op.emitError("cannot be differentiated: it shows elements twice "
                          "in a way that no sum undoes");
    give(op.getSource(), gradient);
    return success();
  }

  LogicalResult pass(tssa::AssignOp op) {
    GradientBuilder build(builder, op.getLoc());
    Value gradient = gradients.lookup(op.getResult());
    // A gradient may lie in any way; the path was made for this one.
    gradient = build.layOut(gradient, gradientTypeOf(typeOf(op.getTarget())));
    SmallVector<ViewAttr> path(op.getPath().getAsRange<ViewAttr>());
    if (active.contains(op.getSource()))
      give(op.getSource(), build.access(gradient, path, op.getIndices()));
    hasFailed |= build.hasFailed();
    if (!active.contains(op.getTarget()))
      return success();
    Value part = build.zeros(gradientTypeOf(typeOf(op.getSource())));
    give(op.getTarget(),
         tssa::AssignOp::create(builder, op.getLoc(), gradient.getType(),
                                gradient, part, op.getPath(), op.getIndices()));
    return success();
  }

  /// The gradient of what a path was taken of, step by step from its end.
  Value showThrough(tssa::AccessOp op, ArrayAttr path, ValueRange indices,
                    RankedTensorType source, Value gradient) {
    GradientBuilder build(builder, op.getLoc());
    SmallVector<RankedTensorType> types{source};
    for (auto view : path.getAsRange<ViewAttr>())
      types.push_back(tssa::inferViewType(view, types.back(),
                                          [&] { return op.emitError(); }));
    for (size_t i = path.size(); i-- > 0;) {
      auto view = cast<ViewAttr>(path[i]);
      ValueRange own = indices.take_back(view.getNumDynamic());
      indices = indices.drop_back(own.size());
      gradient = undo(build, view, own, types[i], types[i + 1], gradient);
      if (!gradient)
        return {};
    }
    hasFailed |= build.hasFailed();
    return gradient;
  }

  /// The gradient of a view's source of type `from`.
  Value undo(GradientBuilder &build, ViewAttr view, ValueRange indices,
             RankedTensorType from, RankedTensorType shown, Value gradient) {
    if (view.getKind() == ViewKind::expand)
      return build.sumTo(gradient, from);
    if (auto inverse = tssa::getInverse(view, from))
      return build.show(gradient, *inverse);
    if (!tssa::isInjective(view, from))
      return {};
    RankedTensorType type = gradientTypeOf(from);
    // The strides that the view shows of another layout may be others.
    // Nor is there an assignment through one.
    if (view.getKind() == ViewKind::as_strided)
      return {};
    Value zeros = build.zeros(type);
    RankedTensorType part = tssa::inferViewType(
        view, type, [&] { return emitError(build.getLoc()); });
    return tssa::AssignOp::create(builder, build.getLoc(), type, zeros,
                                  build.layOut(gradient, part),
                                  builder.getArrayAttr(view), indices);
  }

  LogicalResult returnGradients() {
    auto returned = cast<func::ReturnOp>(block.getTerminator());
    SmallVector<int64_t> reached;
    for (int64_t number : inputs.asArrayRef()) {
      Value input = function.getArgument(number);
      Value gradient = gradients.lookup(input);
      if (!gradient)
        continue;
      GradientBuilder build(builder, input.getLoc());
      returned->insertOperands(
          returned->getNumOperands(),
          build.layOut(gradient, gradientTypeOf(typeOf(input))));
      reached.push_back(number);
    }
    if (reached.empty())
      return function.emitError("cannot be differentiated: none of its results "
                                "depends on an input that requires grad");
    function.setFunctionType(builder.getFunctionType(
        block.getArgumentTypes(), returned.getOperandTypes()));
    function->setAttr(attribute::kGradientInputs,
                      builder.getDenseI64ArrayAttr(reached));
    return success();
  }

  func::FuncOp function;
  Block &block;
  OpBuilder builder;
  DenseI64ArrayAttr inputs, results;
  llvm::DenseSet<Value> active;
  llvm::DenseMap<Value, Value> gradients;
  bool hasFailed = false; ///< something could not be built; an error has told
};

struct Differentiate
    : pyjit::differentiation::impl::DifferentiatePassBase<Differentiate> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function->hasAttr(attribute::kGradientResults) &&
        failed(ReverseSweep(function).run()))
      signalPassFailure();
  }
};

} // namespace
