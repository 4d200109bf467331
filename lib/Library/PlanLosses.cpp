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

namespace pyjit::library {
#define GEN_PASS_DEF_PLANLOSSESPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

struct PlanLosses : pyjit::library::impl::PlanLossesPassBase<PlanLosses> {
  using PlanLossesPassBase::PlanLossesPassBase;

  /// One nll_loss of a log_softmax over rows of f32.
  struct Loss {
    tssa::AtenOp op, softmax;
    Value logits; ///< what the softmax is taken of
    Value source; ///< the logits, before they were converted to f32
    Value target;
    int64_t ignored, reduction;
  };

  static std::optional<Loss> match(tssa::AtenOp op) {
    Value rows = tensorArgument(op, 0), target = tensorArgument(op, 1);
    auto reduction = numberArgument(op, 3), ignored = numberArgument(op, 4);
    tssa::AtenOp softmax = rows ? rows.getDefiningOp<tssa::AtenOp>() : nullptr;
    // A second result that is used would be the sum of the weights.
    if (!softmax || softmax.getOverload() != operators::aten::log_softmax_int ||
        onlyUser(rows) != op || tensorArgument(op, 2) || !target ||
        !reduction || !ignored || op->getNumResults() != 2 ||
        !op.getResult(1).use_empty() || op->hasAttr(attribute::kVendorCall))
      return std::nullopt;
    Value x = tensorArgument(softmax, 0);
    RankedTensorType type = typeOf(rows);
    if (!x || numberArgument(softmax, 1) != 1.0 || type.getRank() != 2 ||
        typeOf(target).getRank() != 1 || !type.hasStaticShape() ||
        type.getNumElements() == 0 || type.getEncoding() ||
        !type.getElementType().isF32() ||
        !typeOf(target).getElementType().isInteger(64))
      return std::nullopt;
    // What is converted on the way is chosen first and converted then.
    Value source = x;
    auto conversion = x.getDefiningOp<tssa::AtenOp>();
    if (conversion && conversion.getNumOperands() &&
        (conversion.getOverload() == operators::aten::_to_copy ||
         conversion.getOverload() == operators::aten::to_dtype) &&
        typeOf(conversion.getOperand(0)).getShape() == type.getShape())
      source = conversion.getOperand(0);
    else if (typeOf(x) != type)
      return std::nullopt;
    return Loss{
        op, softmax, x, source, target, int64_t(*ignored), int64_t(*reduction)};
  }

  /// The logarithm of a row's sum of exponentials, less the chosen logit.
  static Value build(Loss &loss, CallBuilder &calls) {
    Builder types(loss.op.getContext());
    RankedTensorType type = typeOf(loss.softmax.getResult(0));
    int64_t count = type.getDimSize(0);
    Type f32 = types.getF32Type();
    auto column = RankedTensorType::get({count, 1}, f32);
    auto list = RankedTensorType::get({count}, f32);
    auto single = RankedTensorType::get({}, f32);
    auto flags = RankedTensorType::get({count}, types.getI1Type());
    Attribute one = calls.integer(1), none = calls.none();
    auto subtract = [&](Value a, Value b, RankedTensorType result) {
      return calls.call(operators::aten::sub_Tensor, {a, b, one}, result);
    };
    auto sum = [&](Value value, int64_t dim, bool keeps,
                   RankedTensorType result) {
      return calls.call(
          operators::aten::sum_dim_IntList,
          {value, calls.integers({dim}), calls.boolean(keeps), none}, result);
    };

    Value wide = typeOf(loss.logits) == type
                     ? loss.logits
                     : toDtype(calls, loss.logits, type);
    // As log_softmax does it: relative to the row's largest value.
    Value largest =
        calls.call(operators::aten::amax,
                   {wide, calls.integers({1}), calls.boolean(true)}, column);
    Value relative = subtract(wide, largest, type);
    Value total = sum(calls.call(operators::aten::exp, {relative}, type), 1,
                      /*keeps=*/true, column);
    Value norm = calls.call(operators::aten::log, {total}, column);

    Value unused =
        calls.call(operators::aten::eq_Scalar,
                   {loss.target, calls.integer(loss.ignored)}, flags);
    Value index = calls.call(operators::aten::masked_fill_Scalar,
                             {loss.target, unused, calls.integer(0)},
                             loss.target.getType());
    Value chosen = calls.call(
        operators::aten::gather,
        {loss.source, one, calls.view(index, {count, 1}), calls.boolean(false)},
        RankedTensorType::get({count, 1},
                              typeOf(loss.source).getElementType()));
    if (typeOf(chosen) != column)
      chosen = toDtype(calls, chosen, column);
    Value distance = subtract(chosen, largest, column);
    Value each = calls.view(subtract(norm, distance, column), {count});
    each = calls.call(operators::aten::masked_fill_Scalar,
                      {each, unused, calls.number(0.0)}, list);
    if (loss.reduction == kNone)
      return each;
    Value all = sum(each, 0, /*keeps=*/false, single);
    if (loss.reduction == kSum)
      return all;
    Value used = calls.call(operators::aten::logical_not, {unused}, flags);
    Value number = sum(toDtype(calls, used, list), 0, /*keeps=*/false, single);
    return calls.call(operators::aten::div_Tensor, {all, number}, single);
  }

  void runOnOperation() override {
    SmallVector<tssa::AtenOp> losses;
    getOperation().walk([&](tssa::AtenOp op) {
      if (op.getOverload() == operators::aten::nll_loss_forward)
        losses.push_back(op);
    });
    for (tssa::AtenOp op : losses) {
      std::optional<Loss> loss = match(op);
      if (!loss)
        continue;
      OpBuilder builder(op);
      CallBuilder calls(builder, op.getLoc());
      op.getResult(0).replaceAllUsesWith(build(*loss, calls));
      op->erase();
      loss->softmax->erase();
      ++numPlanned;
    }
  }
};

} // namespace
