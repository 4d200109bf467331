//===- ReverseSweep.cpp - Gradients by going through a block backwards ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ReverseSweep.h"

#include "Adjoint.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorNames.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::typeOf;
using tssa::ViewAttr;
using tssa::ViewKind;

bool ReverseSweep::letsPass(Operation *op) {
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

/// The order in which autograd comes to what one operation reads.
static unsigned placeOf(Operation *op, Value read) {
  auto operands = op->getOperands();
  unsigned place = std::distance(operands.begin(), llvm::find(operands, read));
  auto call = dyn_cast<tssa::AtenOp>(op);
  bool behind = call && place == 1 &&
                operators::lookupFacts(call.getOverload()).transposesWeight;
  return behind ? operands.size() : place;
}

/// Whether it shows an input as its user has seen it: gradients come to the
/// input when they come to that. Programs of all orders return them alike,
/// with and without such operators.
static bool isSeen(Operation *op) {
  auto call = dyn_cast<tssa::AtenOp>(op);
  return call && call.getOverload() == operators::pyjit::seen;
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
  if (visited)
    completed[value] = isSeen(visited)
                           ? std::max(completed.lookup(value),
                                      completed.lookup(visited->getResult(0)))
                           : std::pair(visits, placeOf(visited, value));
}

LogicalResult ReverseSweep::run() {
  // The operations that the sweep adds stand behind all of these.
  SmallVector<Operation *> forward;
  for (Operation &op : *end->getBlock()) {
    if (&op == end)
      break;
    forward.push_back(&op);
  }
  for (Operation *op : llvm::reverse(forward)) {
    visited = op;
    ++visits;
    if (failed(visit(op)) || hasFailed)
      return failure();
  }
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
    return op.emitError("cannot be differentiated: sizes of a view that may "
                        "show elements twice differ between calls");
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

/// In which places of its source's memory a strided view's elements stand, in
/// order.
static Value placesOf(GradientBuilder &build, int64_t offset,
                      RankedTensorType shown) {
  SmallVector<int64_t> shape(shown.getShape());
  SmallVector<int64_t> strides = tssa::getStrides(shown);
  if (shape.empty()) {
    shape = {1};
    strides = {0};
  }
  auto type = [&](ArrayRef<int64_t> sizes) {
    return RankedTensorType::get(sizes, build.getBuilder().getI64Type());
  };
  Value places;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    Value steps = build.call(operators::aten::arange,
                             {build.integer(size), build.none(), build.none(),
                              build.none(), build.none()},
                             type(size));
    steps = build.multiply(steps, build.wrappedInteger(strides[dim]));
    SmallVector<int64_t> own(shape.size(), 1);
    own[dim] = size;
    steps = build.reshape(steps, type(own));
    places = places ? build.add(places, steps) : steps;
  }
  return build.flatten(build.add(places, build.wrappedInteger(offset)));
}

/// The gradient of a view's dense source of type `type`, some of whose elements
/// the view may show several times: their gradients are added up where they
/// stand in memory. Null where sizes differ between calls.
static Value sumPlaces(GradientBuilder &build, ViewAttr view,
                       RankedTensorType type, Value gradient) {
  if (tssa::isSymbolic(type) || view.getNumDynamic() ||
      tssa::isSymbolic(typeOf(gradient)))
    return {};
  RankedTensorType shown = tssa::inferViewType(
      view, type, [&] { return emitError(build.getLoc()); });
  bool isByStrides = view.getKind() == ViewKind::as_strided;
  Value sums = build.callLike(
      operators::aten::index_add,
      {build.zeros(RankedTensorType::get({type.getNumElements()},
                                         type.getElementType())),
       build.integer(0),
       placesOf(build, isByStrides ? view.getParams()[0] : 0, shown),
       build.flatten(gradient), build.integer(1)});
  SmallVector<int64_t> numbers{0};
  llvm::append_range(numbers, type.getShape());
  llvm::append_range(numbers, tssa::getStrides(type));
  return build.access(
      sums, ViewAttr::get(view.getContext(), ViewKind::as_strided, numbers));
}

/// The gradient of a view's source of type `from`.
Value ReverseSweep::undo(GradientBuilder &build, ViewAttr view,
                         ValueRange indices, RankedTensorType from,
                         RankedTensorType shown, Value gradient) {
  if (view.getKind() == ViewKind::expand)
    return build.sumTo(gradient, from);
  if (auto inverse = tssa::getInverse(view, from))
    return build.show(gradient, *inverse);
  RankedTensorType type = gradientTypeOf(from);
  // There is no assignment through a view by strides.
  if (view.getKind() == ViewKind::as_strided || !tssa::isInjective(view, from))
    return sumPlaces(build, view, type, gradient);
  Value zeros = build.zeros(type);
  RankedTensorType part = tssa::inferViewType(
      view, type, [&] { return emitError(build.getLoc()); });
  return tssa::AssignOp::create(builder, build.getLoc(), type, zeros,
                                build.layOut(gradient, part),
                                builder.getArrayAttr(view), indices);
}
