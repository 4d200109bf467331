//===- PlanLinear.cpp - Matmuls with parameters ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Library/Passes.h"
#include "pyjit/Operators/OperatorNames.h"

#include "Calls.h"

#include "dialects/tssa/IR/Views.h"

namespace pyjit::library {
#define GEN_PASS_DEF_PLANLINEARPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

/// Fewer rows than this stream the weight once whatever its layout.
constexpr int64_t kMinRows = 16;

/// input (rows x in), weight (out x in): MKL wants the weight packed for the
/// number of rows, and the weight itself for other numbers.
Value packedLinear(CallBuilder &calls, Value input, Value weight, Value bias,
                   int64_t rows, Type result) {
  Attribute count = calls.integer(rows);
  Value packed = calls.call(operators::mkl::_mkl_reorder_linear_weight,
                            {weight, count}, weight.getType());
  return calls.call(operators::mkl::_mkl_linear,
                    {input, packed, weight, calls.optional(bias), count},
                    result);
}

bool planLinear(tssa::AtenOp op) {
  Value input = tensorArgument(op, 0), weight = tensorArgument(op, 1);
  Value bias = tensorArgument(op, 2);
  if (!input || !weight || typeOf(weight).getRank() != 2 ||
      !isRowMajorF32(input) || !isRowMajorF32(weight) ||
      !isRowMajorF32(op.getResult(0)) || !isWorthPacking(weight) ||
      (bias && !isFromParameters(bias)))
    return false;
  if (!typeOf(input).hasStaticShape() ||
      !typeOf(op.getResult(0)).hasStaticShape())
    return false;
  int64_t in = typeOf(weight).getDimSize(1);
  int64_t rows = in ? typeOf(input).getNumElements() / in : 0;
  if (rows < kMinRows || typeOf(op.getResult(0)).getNumElements() == 0)
    return false;
  OpBuilder builder(op);
  CallBuilder calls(builder, op.getLoc());
  op.getResult(0).replaceAllUsesWith(packedLinear(
      calls, input, weight, bias, rows, op.getResult(0).getType()));
  op.erase();
  return true;
}

/// addmm(bias, rows x in, in x out), as GPT-2's Conv1D has it.
bool planAddmm(tssa::AtenOp op) {
  Value bias = tensorArgument(op, 0), input = tensorArgument(op, 1);
  Value weight = tensorArgument(op, 2);
  if (!bias || !input || !weight || typeOf(bias).getRank() != 1 ||
      !isRowMajorF32(bias) || !isRowMajorF32(input) || !isRowMajorF32(weight) ||
      !isRowMajorF32(op.getResult(0)) || !isWorthPacking(weight) ||
      !isFromParameters(bias) || numberArgument(op, 3) != 1.0 ||
      numberArgument(op, 4) != 1.0)
    return false;
  int64_t rows = typeOf(input).getDimSize(0);
  int64_t in = typeOf(weight).getDimSize(0), out = typeOf(weight).getDimSize(1);
  if (rows < kMinRows || in == 0 || typeOf(bias).getDimSize(0) != out)
    return false;
  OpBuilder builder(op);
  CallBuilder calls(builder, op.getLoc());
  auto transposed =
      tssa::getTensorType({out, in}, {1, out}, builder.getF32Type());
  auto view =
      tssa::ViewAttr::get(op.getContext(), tssa::ViewKind::permute, {1, 0});
  Value turned =
      tssa::AccessOp::create(builder, op.getLoc(), transposed, weight,
                             builder.getArrayAttr(view), ValueRange());
  // 0: torch.contiguous_format
  turned = calls.call(operators::aten::clone, {turned, calls.integer(0)},
                      RankedTensorType::get({out, in}, builder.getF32Type()));
  op.getResult(0).replaceAllUsesWith(packedLinear(
      calls, input, turned, bias, rows, op.getResult(0).getType()));
  op.erase();
  return true;
}

struct PlanLinear : pyjit::library::impl::PlanLinearPassBase<PlanLinear> {
  void runOnOperation() override {
    SmallVector<tssa::AtenOp> calls;
    getOperation().walk([&](tssa::AtenOp op) { calls.push_back(op); });
    for (tssa::AtenOp op : calls) {
      if (op.getOverload() == operators::aten::linear)
        planLinear(op);
      else if (op.getOverload() == operators::aten::addmm)
        planAddmm(op);
    }
  }
};

} // namespace
