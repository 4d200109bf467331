//===- ReverseSweep.cpp - Gradients by going through a block backwards ----===//

#include "ReverseSweep.h"

#include "Adjoint.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/OperatorFacts.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::typeOf;
using tssa::ViewAttr;
using tssa::ViewKind;

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

static bool dependsOn(Operation &op, const llvm::DenseSet<Value> &values) {
  auto reads = [&](Operation *reader) {
    return llvm::any_of(reader->getOperands(), [&](Value operand) {
      return values.contains(operand);
    });
  };
  // What regions read from outside is no operand.
  return reads(&op) || (op.getNumRegions() &&
                        op.walk([&](Operation *inner) {
                            return reads(inner) ? WalkResult::interrupt()
                                                : WalkResult::advance();
                          }).wasInterrupted());
}

void ReverseSweep::findActive(ValueRange inputs) {
  active.insert(inputs.begin(), inputs.end());
  for (Operation &op : *end->getBlock()) {
    if (&op == end)
      return;
    if (!dependsOn(op, active) || !letsPass(&op))
      continue;
    for (Value result : op.getResults())
      if (mayHaveGradient(result.getType()))
        active.insert(result);
  }
}

bool ReverseSweep::reaches(Value input, ValueRange values) {
  SmallVector<Value> work(values);
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (value == input)
      return true;
    Operation *op = value.getDefiningOp();
    if (op && letsPass(op) && seen.insert(value).second)
      llvm::append_range(work, op->getOperands());
  }
  return false;
}

void ReverseSweep::give(Value value, Value gradient) {
  if (!active.contains(value))
    return;
  if (Value known = gradients.lookup(value)) {
    GradientBuilder build(builder, value.getLoc());
    gradient = build.add(known, gradient);
    hasFailed |= build.hasFailed();
  }
  gradients[value] = gradient;
}

LogicalResult ReverseSweep::run() {
  // The operations that the sweep adds stand behind all of these.
  SmallVector<Operation *> forward;
  for (Operation &op : *end->getBlock()) {
    if (&op == end)
      break;
    forward.push_back(&op);
  }
  for (Operation *op : llvm::reverse(forward))
    if (failed(visit(op)) || hasFailed)
      return failure();
  return success();
}

Value ReverseSweep::gradientOf(Value input) {
  Value gradient = gradients.lookup(input);
  if (!gradient)
    return {};
  GradientBuilder build(builder, input.getLoc());
  return build.layOut(gradient, gradientTypeOf(typeOf(input)));
}

LogicalResult ReverseSweep::visit(Operation *op) {
  bool reached = llvm::any_of(op->getResults(), [&](Value result) {
    return gradients.contains(result);
  });
  if (!reached)
    return success();
  for (Value result : op->getResults())
    if (auto mark = marked.find(result); mark != marked.end())
      if (Operation *sum = gradients.lookup(result).getDefiningOp())
        sum->setAttr(attribute::kGradientAt,
                     builder.getI64IntegerAttr(mark->second));
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<tssa::AtenOp, tssa::AccessOp, tssa::AssignOp>(
          [&](auto known) { return pass(known); })
      .Default([](Operation *op) {
        return op->emitError("cannot be differentiated: no derivative is "
                             "known");
      });
}

LogicalResult ReverseSweep::pass(tssa::AtenOp op) {
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

LogicalResult ReverseSweep::pass(tssa::AccessOp op) {
  Value gradient = showThrough(op, gradients.lookup(op.getResult()));
  if (!gradient)
    return op.emitError("cannot be differentiated: it shows elements twice "
                        "in a way that no sum undoes");
  give(op.getSource(), gradient);
  return success();
}

LogicalResult ReverseSweep::pass(tssa::AssignOp op) {
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
Value ReverseSweep::showThrough(tssa::AccessOp op, Value gradient) {
  ArrayAttr path = op.getPath();
  ValueRange indices = op.getIndices();
  GradientBuilder build(builder, op.getLoc());
  SmallVector<RankedTensorType> types{typeOf(op.getSource())};
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
Value ReverseSweep::undo(GradientBuilder &build, ViewAttr view,
                         ValueRange indices, RankedTensorType from,
                         RankedTensorType shown, Value gradient) {
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
