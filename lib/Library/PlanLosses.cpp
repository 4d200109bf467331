//===- PlanLosses.cpp - Losses of chosen classes --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: values equal up to rounding; an index out of range is found as for
// every indexed read.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Library/Passes.h"
#include "pyjit/Operators/OperatorNames.h"

#include "Calls.h"

#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace pyjit::library {
#define GEN_PASS_DEF_PLANLOSSESPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

/// What a loss and its gradient do with the target, one class of each row.
class Target {
public:
  Target(CallBuilder &calls, Value classes, int64_t ignored)
      : calls(calls), classes(classes), types(classes.getContext()),
        unused(calls.call(operators::aten::eq_Scalar,
                          {classes, calls.integer(ignored)},
                          listOf(types.getI1Type()))) {}

  /// The classes, with `other` for rows that are ignored.
  Value otherwise(int64_t other) {
    return calls.call(operators::aten::masked_fill_Scalar,
                      {classes, unused, calls.integer(other)},
                      classes.getType());
  }
  /// A number for each row, or one for all, and zero for those that are
  /// ignored.
  Value used(Value each) {
    return calls.call(operators::aten::where_ScalarSelf,
                      {unused, calls.number(0.0), each},
                      listOf(types.getF32Type()));
  }
  /// How many rows are not ignored.
  Value number() {
    Value used = calls.call(operators::aten::logical_not, {unused},
                            listOf(types.getI1Type()));
    return total(toDtype(calls, used, listOf(types.getF32Type())));
  }
  Value total(Value each) {
    return calls.call(
        operators::aten::sum_dim_IntList,
        {each, calls.integers({0}), calls.boolean(false), calls.none()},
        RankedTensorType::get({}, types.getF32Type()));
  }

private:
  RankedTensorType listOf(Type element) const {
    return RankedTensorType::get(typeOf(classes).getShape(), element);
  }

  CallBuilder &calls;
  Value classes;
  Builder types;
  Value unused;
};

bool isRowsAndClasses(Value rows, Value classes) {
  if (!rows || !classes)
    return false;
  RankedTensorType type = typeOf(rows);
  return type.getRank() == 2 && type.hasStaticShape() &&
         type.getNumElements() != 0 && !type.getEncoding() &&
         type.getElementType().isF32() && typeOf(classes).getRank() == 1 &&
         typeOf(classes).getElementType().isInteger(64);
}

/// What a conversion of another element type takes, or null.
Value converted(Value value) {
  auto op = value.getDefiningOp<tssa::AtenOp>();
  bool converts = op && op.getNumOperands() &&
                  (op.getOverload() == operators::aten::_to_copy ||
                   op.getOverload() == operators::aten::to_dtype);
  if (!converts ||
      typeOf(op.getOperand(0)).getShape() != typeOf(value).getShape())
    return nullptr;
  return op.getOperand(0);
}

/// The logits before they were converted to f32: what is converted on the way
/// is chosen first and converted then.
Value unconverted(OpBuilder &builder, Value logits) {
  if (Value source = converted(logits))
    return source;
  auto view = logits.getDefiningOp<tssa::AccessOp>();
  Value source = view ? converted(view.getSource()) : nullptr;
  if (!source ||
      typeOf(source).getEncoding() != typeOf(view.getSource()).getEncoding())
    return logits;
  return tssa::AccessOp::create(
      builder, view.getLoc(),
      typeOf(logits).clone(typeOf(source).getElementType()), source,
      view.getPath(), view.getIndices());
}

/// One nll_loss of a log_softmax over rows of f32.
struct Loss {
  tssa::AtenOp op, softmax;
  Value logits; ///< what the softmax is taken of
  Value target;
  int64_t ignored, reduction;

  static std::optional<Loss> match(tssa::AtenOp op);
  void rewrite();
};

std::optional<Loss> Loss::match(tssa::AtenOp op) {
  Value rows = tensorArgument(op, 0), target = tensorArgument(op, 1);
  auto reduction = numberArgument(op, 3), ignored = numberArgument(op, 4);
  tssa::AtenOp softmax = rows ? rows.getDefiningOp<tssa::AtenOp>() : nullptr;
  if (!softmax || softmax.getOverload() != operators::aten::log_softmax_int ||
      tensorArgument(op, 2) || !isRowsAndClasses(rows, target) || !reduction ||
      !ignored || op->getNumResults() != 2 ||
      (*reduction == kNone && !op.getResult(1).use_empty()) ||
      op->hasAttr(attribute::kVendorCall))
    return std::nullopt;
  // Autocast asks for logarithms in f32 of logits in half precision.
  Value x = tensorArgument(softmax, 0);
  bool isTaken = x && typeOf(x).getShape() == typeOf(rows).getShape() &&
                 (typeOf(x).getElementType().isF16() ||
                  typeOf(x).getElementType().isBF16());
  if (!x || numberArgument(softmax, 1) != 1.0 ||
      (typeOf(x) != typeOf(rows) && !isTaken && !converted(x)))
    return std::nullopt;
  return Loss{op, softmax, x, target, int64_t(*ignored), int64_t(*reduction)};
}

/// The logarithm of a row's sum of exponentials, less the chosen logit.
void Loss::rewrite() {
  OpBuilder builder(softmax);
  CallBuilder calls(builder, op.getLoc());
  RankedTensorType type = typeOf(softmax.getResult(0));
  Type f32 = type.getElementType();
  int64_t count = type.getDimSize(0);
  auto column = RankedTensorType::get({count, 1}, f32);
  Attribute one = calls.integer(1), none = calls.none();
  auto subtract = [&](Value a, Value b, RankedTensorType result) {
    return calls.call(operators::aten::sub_Tensor, {a, b, one}, result);
  };

  Value wide = typeOf(logits) == type ? logits : toDtype(calls, logits, type);
  // As log_softmax does it: relative to the row's largest value.
  Value largest =
      calls.call(operators::aten::amax,
                 {wide, calls.integers({1}), calls.boolean(true)}, column);
  Value relative = subtract(wide, largest, type);
  Value total = calls.call(operators::aten::sum_dim_IntList,
                           {calls.call(operators::aten::exp, {relative}, type),
                            calls.integers({1}), calls.boolean(true), none},
                           column);
  Value norm = calls.call(operators::aten::log, {total}, column);
  // Whoever else reads the logarithms: a gradient.
  if (!onlyUser(softmax.getResult(0)))
    softmax.getResult(0).replaceUsesWithIf(
        subtract(relative, norm, type),
        [&](OpOperand &use) { return use.getOwner() != op; });

  builder.setInsertionPoint(op);
  Target of(calls, target, ignored);
  Value source = unconverted(builder, logits);
  Value chosen = calls.call(
      operators::aten::gather,
      {source, one, calls.view(of.otherwise(0), {count, 1}),
       calls.boolean(false)},
      RankedTensorType::get({count, 1}, typeOf(source).getElementType()));
  if (typeOf(chosen) != column)
    chosen = toDtype(calls, chosen, column);
  Value distance = subtract(chosen, largest, column);
  Value loss = of.used(calls.view(subtract(norm, distance, column), {count}));
  if (reduction != kNone)
    loss = of.total(loss);
  Value number = reduction == kMean || !op.getResult(1).use_empty()
                     ? of.number()
                     : Value();
  if (reduction == kMean)
    loss =
        calls.call(operators::aten::div_Tensor, {loss, number}, loss.getType());
  op.getResult(0).replaceAllUsesWith(loss);
  if (number)
    op.getResult(1).replaceAllUsesWith(number);
  op->erase();
  softmax->erase();
}

/// The gradient of the logarithms: a number at the class of each row, and zeros
/// that are in no memory.
struct LossGradient {
  tssa::AtenOp op;
  Value gradient, target, number;
  int64_t reduction, ignored;

  static std::optional<LossGradient> match(tssa::AtenOp op);
  void rewrite();
};

std::optional<LossGradient> LossGradient::match(tssa::AtenOp op) {
  Value gradient = tensorArgument(op, 0), target = tensorArgument(op, 2),
        number = tensorArgument(op, 6);
  auto reduction = numberArgument(op, 4), ignored = numberArgument(op, 5);
  if (!gradient || !typeOf(gradient).getElementType().isF32() || !number ||
      !isRowsAndClasses(op.getResult(0), target) || tensorArgument(op, 3) ||
      !reduction || !ignored || op->hasAttr(attribute::kVendorCall))
    return std::nullopt;
  return LossGradient{
      op, gradient, target, number, int64_t(*reduction), int64_t(*ignored)};
}

/// 0, 1, 2, ...: computed where it is read.
static Value countUp(OpBuilder &builder, Location loc, int64_t count,
                     Type element) {
  auto type = RankedTensorType::get({count}, element);
  return linalg::GenericOp::create(
             builder, loc, TypeRange(type), ValueRange(),
             ValueRange(tssa::makeEmpty(builder, loc, type)),
             ArrayRef<AffineMap>{builder.getMultiDimIdentityMap(1)},
             ArrayRef<utils::IteratorType>{utils::IteratorType::parallel},
             [&](OpBuilder &b, Location at, ValueRange) {
               Value index = linalg::IndexOp::create(b, at, 0);
               linalg::YieldOp::create(
                   b, at,
                   Value(arith::IndexCastOp::create(b, at, element, index)));
             })
      .getResult(0);
}

void LossGradient::rewrite() {
  OpBuilder builder(op);
  CallBuilder calls(builder, op.getLoc());
  RankedTensorType type = typeOf(op.getResult(0));
  int64_t rows = type.getDimSize(0), classes = type.getDimSize(1);
  Target of(calls, target, ignored);
  Value value =
      calls.call(operators::aten::neg, {gradient}, gradient.getType());
  if (reduction == kMean)
    value = calls.call(operators::aten::div_Tensor, {value, number},
                       value.getType());
  Value each = calls.view(of.used(value), {rows, 1});
  // A row's sum is its only number.
  for (Operation *user : llvm::make_early_inc_range(op->getUsers())) {
    auto sum = dyn_cast<tssa::AtenOp>(user);
    if (!sum || sum.getOverload() != operators::aten::sum_dim_IntList ||
        constantArgument(sum, 1) != calls.integers({1}) ||
        typeOf(sum.getResult(0)).getElementType() != type.getElementType())
      continue;
    builder.setInsertionPoint(sum);
    sum.getResult(0).replaceAllUsesWith(typeOf(sum.getResult(0)).getRank() == 2
                                            ? each
                                            : calls.view(each, {rows}));
    sum->erase();
  }
  builder.setInsertionPoint(op);
  Type i64 = typeOf(target).getElementType();
  Value numbers = countUp(builder, op.getLoc(), classes, i64);
  Value isClass =
      calls.call(operators::aten::eq_Tensor,
                 {calls.view(numbers, {1, classes}),
                  calls.view(of.otherwise(-1), {rows, 1})},
                 RankedTensorType::get({rows, classes}, builder.getI1Type()));
  op.getResult(0).replaceAllUsesWith(
      calls.call(operators::aten::where_ScalarOther,
                 {isClass, each, calls.number(0.0)}, type));
  op->erase();
}

struct PlanLosses : pyjit::library::impl::PlanLossesPassBase<PlanLosses> {
  using PlanLossesPassBase::PlanLossesPassBase;

  void runOnOperation() override {
    SmallVector<tssa::AtenOp> losses, gradients;
    getOperation().walk([&](tssa::AtenOp op) {
      if (op.getOverload() == operators::aten::nll_loss_forward)
        losses.push_back(op);
      if (op.getOverload() == operators::aten::nll_loss_backward)
        gradients.push_back(op);
    });
    for (tssa::AtenOp op : gradients)
      if (auto gradient = LossGradient::match(op)) {
        gradient->rewrite();
        ++numPlanned;
      }
    for (tssa::AtenOp op : losses)
      if (auto loss = Loss::match(op)) {
        loss->rewrite();
        ++numPlanned;
      }
  }
};

} // namespace
