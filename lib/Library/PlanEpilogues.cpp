//===- PlanEpilogues.cpp - Activations of a matmul ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: values equal up to rounding.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Library/Passes.h"
#include "pyjit/Operators/OperatorNames.h"

#include "Calls.h"

#include "dialects/tssa/IR/Views.h"

#include <cmath>

namespace pyjit::library {
#define GEN_PASS_DEF_PLANEPILOGUESPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

bool isClose(std::optional<double> number, double wanted) {
  return number && std::abs(*number - wanted) <= 1e-6 * wanted;
}

/// The operand that `value` multiplies by the number `factor`, or null.
Value timesNumber(Value value, double factor) {
  tssa::AtenOp op = matchCall(value, operators::aten::mul_Tensor);
  if (!op)
    return {};
  for (unsigned i : {0, 1})
    if (Value operand = tensorArgument(op, i);
        operand && isClose(wrappedArgument(op, 1 - i), factor))
      return operand;
  return {};
}

/// x, if `value` is 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) written
/// out, as GPT-2's code has it.
Value matchGeluTanh(Value value) {
  tssa::AtenOp product = matchCall(value, operators::aten::mul_Tensor);
  if (!product)
    return {};
  for (unsigned i : {0, 1}) {
    Value half = tensorArgument(product, i),
          rest = tensorArgument(product, 1 - i);
    if (!half || !rest)
      continue;
    Value x = timesNumber(half, 0.5);
    tssa::AtenOp onePlus = matchCall(rest, operators::aten::add_Tensor);
    if (!x || !onePlus || numberArgument(onePlus, 2) != 1.0)
      continue;
    for (unsigned k : {0, 1}) {
      Value inner = tensorArgument(onePlus, k);
      if (!inner || !isClose(wrappedArgument(onePlus, 1 - k), 1.0))
        continue;
      tssa::AtenOp tanh = matchCall(inner, operators::aten::tanh);
      Value scaled =
          tanh ? timesNumber(tensorArgument(tanh, 0), std::sqrt(2 / M_PI))
               : Value();
      tssa::AtenOp sum =
          scaled ? matchCall(scaled, operators::aten::add_Tensor) : nullptr;
      if (!sum || numberArgument(sum, 2) != 1.0)
        continue;
      for (unsigned m : {0, 1}) {
        Value cubic = tensorArgument(sum, 1 - m);
        if (tensorArgument(sum, m) != x || !cubic)
          continue;
        Value cube = timesNumber(cubic, 0.044715);
        tssa::AtenOp power =
            cube ? matchCall(cube, operators::aten::pow_Tensor_Scalar)
                 : nullptr;
        if (power && tensorArgument(power, 0) == x &&
            isClose(numberArgument(power, 1), 3))
          return x;
      }
    }
  }
  return {};
}

struct PlanEpilogues
    : pyjit::library::impl::PlanEpiloguesPassBase<PlanEpilogues> {
  using PlanEpiloguesPassBase::PlanEpiloguesPassBase;

  /// The activation's operand, and whether it is GELU; else null.
  std::pair<Value, bool> matchActivation(tssa::AtenOp op) {
    if (op->getNumResults() != 1)
      return {};
    if (functionalName(op) == operators::aten::relu)
      return {tensorArgument(op, 0), false};
    auto form = dyn_cast_or_null<StringAttr>(constantArgument(op, 1));
    if (functionalName(op) == operators::aten::gelu && form &&
        form.getValue() == "tanh")
      return {tensorArgument(op, 0), true};
    return {matchGeluTanh(op.getResult(0)), true};
  }

  /// Whether everything that uses `value` is needed for `result` alone.
  static bool onlyFor(Value value, Operation *result) {
    SmallVector<Value> shown{value};
    while (!shown.empty())
      for (Operation *user : shown.pop_back_val().getUsers()) {
        if (user == result)
          continue;
        if (user->getNumResults() != 1 || !isMemoryEffectFree(user) ||
            user->hasTrait<OpTrait::IsTerminator>() ||
            user->getBlock() != result->getBlock() ||
            !user->isBeforeInBlock(result))
          return false;
        shown.push_back(user->getResult(0));
      }
    return true;
  }

  void plan(tssa::AtenOp op) {
    auto [value, gelu] = matchActivation(op);
    if (!value || !isHalf(typeOf(value)) ||
        typeOf(value) != op.getResult(0).getType())
      return;
    // The matmul, under another shape perhaps.
    Value product = value;
    while (auto access = product.getDefiningOp<tssa::AccessOp>()) {
      if (access.getPath().size() != 1 ||
          cast<tssa::ViewAttr>(access.getPath()[0]).getKind() !=
              tssa::ViewKind::view ||
          typeOf(access.getResult()).getEncoding() ||
          typeOf(access.getSource()).getEncoding())
        return;
      product = access.getSource();
    }
    auto call = product.getDefiningOp<tssa::AtenOp>();
    if (!call || call->hasAttr(attribute::kVendorCall) || !onlyFor(product, op))
      return;
    OpBuilder builder(op);
    CallBuilder calls(builder, op.getLoc());
    Value bias, rows, matrix;
    if (call.getOverload() == operators::aten::addmm &&
        isClose(numberArgument(call, 3), 1) &&
        isClose(numberArgument(call, 4), 1)) {
      bias = tensorArgument(call, 0);
      rows = tensorArgument(call, 1);
      matrix = tensorArgument(call, 2);
    } else if (call.getOverload() == operators::aten::linear) {
      bias = tensorArgument(call, 2);
      rows = tensorArgument(call, 0);
      Value weight = tensorArgument(call, 1);
      if (!bias || !rows || !weight || typeOf(weight).getRank() != 2 ||
          typeOf(rows).getEncoding() || typeOf(rows).getRank() == 0 ||
          !typeOf(rows).hasStaticShape() || typeOf(rows).getNumElements() == 0)
        return;
      int64_t in = typeOf(rows).getShape().back();
      if (typeOf(rows).getRank() != 2)
        rows = calls.view(rows, {typeOf(rows).getNumElements() / in, in});
      matrix = calls.permute(weight, {1, 0});
    }
    // The library takes a bias of one number for each column.
    if (!bias || typeOf(bias).getRank() != 1 || !rows || !matrix ||
        typeOf(rows).getRank() != 2 || typeOf(matrix).getRank() != 2 ||
        !typeOf(rows).hasStaticShape() || typeOf(rows).getDimSize(0) < 2)
      return;
    auto flat = RankedTensorType::get(
        {typeOf(rows).getDimSize(0), typeOf(matrix).getDimSize(1)},
        typeOf(value).getElementType());
    if (typeOf(bias).getDimSize(0) != flat.getDimSize(1))
      return;
    Value result = calls.call(operators::aten::_addmm_activation,
                              {bias, rows, matrix, calls.integer(1),
                               calls.integer(1), calls.boolean(gelu)},
                              flat);
    if (typeOf(value) != flat)
      result = calls.view(result, typeOf(value).getShape());
    op.getResult(0).replaceAllUsesWith(result);
    ++numPlanned;
  }

  static bool isHalf(RankedTensorType type) {
    return type.getElementType().isF16() || type.getElementType().isBF16();
  }

  void runOnOperation() override {
    if (!getOperation().getBody().hasOneBlock())
      return;
    SmallVector<tssa::AtenOp> activations(
        getOperation().front().getOps<tssa::AtenOp>());
    for (tssa::AtenOp op : activations)
      plan(op);
    // What the epilogues do is needed no more.
    tssa::eraseUnused(getOperation().front());
  }
};

} // namespace
