//===- PlanLosses.cpp - Losses of chosen classes --------------------------===//
//
// Contract: values equal up to rounding; an index out of range is found as for
// every indexed read.
//
//===----------------------------------------------------------------------===//

#include "pyjit/Library/Passes.h"

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

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

struct PlanLosses : pyjit::library::impl::PlanLossesPassBase<PlanLosses> {
  using PlanLossesPassBase::PlanLossesPassBase;

  void plan(tssa::AtenOp op) {
    Value rows = tensorArgument(op, 0), target = tensorArgument(op, 1);
    auto reduction = numberArgument(op, 3), ignored = numberArgument(op, 4);
    tssa::AtenOp softmax = rows ? rows.getDefiningOp<tssa::AtenOp>() : nullptr;
    // A second result that is used would be the sum of the weights.
    if (!softmax || softmax.getOverload() != "aten::log_softmax.int" ||
        onlyUser(rows) != op || tensorArgument(op, 2) || !target ||
        !reduction || !ignored || op->getNumResults() != 2 ||
        !op.getResult(1).use_empty() || op->hasAttr("pyjit.library"))
      return;
    Value x = tensorArgument(softmax, 0);
    RankedTensorType type = typeOf(rows);
    if (!x || numberArgument(softmax, 1) != 1.0 || type.getRank() != 2 ||
        typeOf(target).getRank() != 1 || !type.hasStaticShape() ||
        type.getNumElements() == 0 || type.getEncoding() ||
        !type.getElementType().isF32() ||
        !typeOf(target).getElementType().isInteger(64))
      return;
    // What is converted on the way is chosen first and converted then.
    Value source = x;
    auto conversion = x.getDefiningOp<tssa::AtenOp>();
    if (conversion &&
        (conversion.getOverload() == "aten::_to_copy" ||
         conversion.getOverload() == "aten::to.dtype") &&
        typeOf(conversion.getOperand(0)).getShape() == type.getShape())
      source = conversion.getOperand(0);
    else if (typeOf(x) != type)
      return;

    OpBuilder builder(op);
    CallBuilder calls(builder, op.getLoc());
    int64_t count = type.getDimSize(0);
    Type f32 = builder.getF32Type();
    auto column = RankedTensorType::get({count, 1}, f32);
    auto list = RankedTensorType::get({count}, f32);
    auto single = RankedTensorType::get({}, f32);
    auto flags = RankedTensorType::get({count}, builder.getI1Type());
    Attribute one = calls.integer(1), none = calls.none();
    Value wide = x;
    if (typeOf(x) != type)
      wide = calls.call("aten::to.dtype",
                        {x, calls.integer(6), calls.boolean(false),
                         calls.boolean(false), none},
                        type);
    // As log_softmax does it: relative to the row's largest value.
    Value largest = calls.call(
        "aten::amax", {wide, calls.integers({1}), calls.boolean(true)}, column);
    Value relative = calls.call("aten::sub.Tensor", {wide, largest, one}, type);
    Value total = calls.call("aten::sum.dim_IntList",
                             {Value(calls.call("aten::exp", {relative}, type)),
                              calls.integers({1}), calls.boolean(true), none},
                             column);
    Value norm = calls.call("aten::log", {total}, column);

    Value unused = calls.call(
        "aten::eq.Scalar", {target, calls.integer(int64_t(*ignored))}, flags);
    Value index =
        calls.call("aten::masked_fill.Scalar",
                   {target, unused, calls.integer(0)}, target.getType());
    Value chosen = calls.call(
        "aten::gather",
        {source, one, calls.view(index, {count, 1}), calls.boolean(false)},
        RankedTensorType::get({count, 1}, typeOf(source).getElementType()));
    if (typeOf(chosen) != column)
      chosen = calls.call("aten::to.dtype",
                          {chosen, calls.integer(6), calls.boolean(false),
                           calls.boolean(false), none},
                          column);
    Value distance =
        calls.call("aten::sub.Tensor", {chosen, largest, one}, column);
    Value loss = calls.view(
        calls.call("aten::sub.Tensor", {norm, distance, one}, column), {count});
    loss = calls.call("aten::masked_fill.Scalar",
                      {loss, unused, calls.number(0.0)}, list);
    if (*reduction != kNone)
      loss = calls.call("aten::sum.dim_IntList",
                        {loss, calls.integers({0}), calls.boolean(false), none},
                        single);
    if (*reduction == kMean) {
      Value used = calls.call("aten::logical_not", {unused}, flags);
      Value number = calls.call("aten::to.dtype",
                                {used, calls.integer(6), calls.boolean(false),
                                 calls.boolean(false), none},
                                list);
      number = calls.call(
          "aten::sum.dim_IntList",
          {number, calls.integers({0}), calls.boolean(false), none}, single);
      loss = calls.call("aten::div.Tensor", {loss, number}, single);
    }
    op.getResult(0).replaceAllUsesWith(loss);
    op->erase();
    softmax->erase();
    ++numPlanned;
  }

  void runOnOperation() override {
    SmallVector<tssa::AtenOp> losses;
    getOperation().walk([&](tssa::AtenOp op) {
      if (op.getOverload() == "aten::nll_loss_forward")
        losses.push_back(op);
    });
    for (tssa::AtenOp op : losses)
      plan(op);
  }
};

} // namespace
