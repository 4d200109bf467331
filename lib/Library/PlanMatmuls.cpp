//===- PlanMatmuls.cpp - Matmuls as kernels of our own --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: values equal up to rounding. A weight that is a parameter is packed
// once; what else stands there, and a parameter that each call changes, is
// packed in each call, where so many rows read it that this pays. The matmul
// becomes linalg here, before anything else does: no operator of PyTorch's
// takes the packed form, and code generation needs none.
//
//===----------------------------------------------------------------------===//

#include "pyjit/Library/Passes.h"
#include "pyjit/Operators/OperatorNames.h"

#include "Calls.h"
#include "PackedMatmul.h"

#include "dialects/tssa/IR/Views.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace pyjit::library {
#define GEN_PASS_DEF_PLANMATMULSPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

/// Whether kernels read `value`, element by element, wherever these lie.
bool isReadByKernels(Value value) {
  RankedTensorType type = typeOf(value);
  return type.getElementType().isF32() && tssa::hasKnownSizes(type);
}

using tssa::Size;

/// Whether the weight is a matrix, which all rows are multiplied with, or a
/// batch of them, one for each matrix of the input.
bool haveOneBatch(ArrayRef<Size> input, ArrayRef<Size> weight) {
  if (weight.size() == 2)
    return input.size() >= 2;
  return weight.size() > 2 && input.size() == weight.size() &&
         input.drop_back(2) == weight.drop_back(2);
}

/// One call, seen as rows x in times a weight. What is summed over may differ
/// between calls (the gradient of a weight sums over rows); columns may not.
struct Call {
  Value input, weight, bias;
  Size in;
  int64_t out;
  /// The weight is in x out; else out x in.
  bool transposed;
};

/// What `call` sums over, and its columns; false where it is no such product.
bool findSizes(Call &call, RankedTensorType result) {
  SmallVector<Size> input = tssa::getSizes(typeOf(call.input));
  SmallVector<Size> weight = tssa::getSizes(typeOf(call.weight));
  if (!haveOneBatch(input, weight))
    return false;
  ArrayRef<Size> shape = ArrayRef(weight).take_back(2);
  const Size &out = shape[call.transposed ? 1 : 0];
  call.in = shape[call.transposed ? 0 : 1];
  if (!out.isConstant())
    return false;
  call.out = out.constant();
  return input.back() == call.in && result.getShape().back() == call.out &&
         result.getRank() == typeOf(call.input).getRank();
}

std::optional<Call> matchCall(tssa::AtenOp op) {
  if (op->getNumResults() != 1)
    return std::nullopt;
  auto ones = [&](unsigned beta, unsigned alpha) {
    return numberArgument(op, beta) == 1.0 && numberArgument(op, alpha) == 1.0;
  };
  Call call{};
  StringRef name = op.getOverload();
  if (name == operators::aten::linear) {
    call = {tensorArgument(op, 0),
            tensorArgument(op, 1),
            tensorArgument(op, 2),
            {},
            0,
            false};
  } else if (name == operators::aten::addmm && ones(3, 4)) {
    // As GPT-2's Conv1D has it.
    call = {tensorArgument(op, 1),
            tensorArgument(op, 2),
            tensorArgument(op, 0),
            {},
            0,
            true};
    if (!call.bias || typeOf(call.bias).getRank() != 1)
      return std::nullopt;
  } else if (name == operators::aten::mm || name == operators::aten::matmul ||
             name == operators::aten::bmm) {
    call = {tensorArgument(op, 0), tensorArgument(op, 1), Value(), {}, 0, true};
  } else {
    return std::nullopt;
  }
  if (!call.input || !call.weight || !isReadByKernels(op.getResult(0)) ||
      !tssa::isDense(typeOf(op.getResult(0))) || isFromParameters(call.input))
    return std::nullopt;
  if (Value turned = transposedBy(call.weight);
      turned && isRowMajorF32(turned)) {
    call.weight = turned;
    call.transposed = !call.transposed;
  }
  if (!isReadByKernels(call.weight) || !isReadByKernels(call.input) ||
      !findSizes(call, typeOf(op.getResult(0))))
    return std::nullopt;
  if (call.bias && (!typeOf(call.bias).getElementType().isF32() ||
                    typeOf(call.bias).getRank() != 1 ||
                    typeOf(call.bias).getDimSize(0) != call.out))
    return std::nullopt;
  return call;
}

/// The rows that each weight of a batch is read for.
Size countRows(const Call &call, RankedTensorType result) {
  SmallVector<Size> sizes = tssa::getSizes(result);
  unsigned batch = typeOf(call.weight).getRank() - 2;
  Size rows = 1;
  for (const Size &size : ArrayRef(sizes).drop_front(batch).drop_back())
    rows *= size;
  return rows;
}

struct PlanMatmuls : pyjit::library::impl::PlanMatmulsPassBase<PlanMatmuls> {
  using PlanMatmulsPassBase::PlanMatmulsPassBase;

  /// The weight's columns in panels, packed once or in each call.
  Value planPacked(CallBuilder &calls, OpBuilder &b, const Call &call,
                   bool kept, int64_t width, RankedTensorType type) {
    Value packed =
        kept ? packWeight(calls, b, call.weight, call.transposed, width)
             : packInCall(b, calls.getLoc(), call.weight, call.transposed,
                          width);
    return makeMatmul(b, calls.getLoc(), call.input, packed, type,
                      type.getRank() - 1);
  }

  /// Where a weight's columns do not divide into vectors (an odd vocabulary):
  /// the input is packed, and rows of the weight are multiplied with it.
  /// Results are stored element by element, which long sums outweigh. Null
  /// where the rows do not divide either.
  Value planTurned(CallBuilder &calls, OpBuilder &b, const Call &call,
                   int64_t rows, RankedTensorType type) {
    constexpr int64_t kLongSum = 64;
    int64_t width = panelWidth(rows, columns);
    if (width == 0 || rows < packRows || !call.in.isConstant() ||
        call.in.constant() < kLongSum || typeOf(call.weight).getRank() != 2 ||
        !isRowMajorF32(call.input) || !isRowMajorF32(call.weight) ||
        type.getEncoding())
      return {};
    Value packed = packInCall(
        b, calls.getLoc(), calls.view(call.input, {rows, call.in.constant()}),
        /*transposed=*/false, width);
    Value weight =
        call.transposed ? call.weight : calls.permute(call.weight, {1, 0});
    auto flat = RankedTensorType::get({rows, call.out}, type.getElementType());
    Value result =
        makeMatmul(b, calls.getLoc(), weight, packed, flat, /*channel=*/0);
    return calls.view(result, type.getShape());
  }

  void plan(tssa::AtenOp op) {
    std::optional<Call> call = matchCall(op);
    if (!call)
      return;
    auto stays = [&](const Twine &reason) {
      if (explain)
        op.emitRemark("'") << op.getOverload()
                           << "' stays a vendor call: " << reason;
    };
    auto type = typeOf(op.getResult(0));
    Size rows = countRows(*call, type);
    bool kept = isRowMajorF32(call->weight) && isWorthPacking(call->weight);
    if (!rows.isConstant() && maxRows != INT64_MAX)
      return stays("the number of rows differs between calls");
    if (rows.estimate() < (kept ? minRows : packRows))
      return stays("the weight is read for few rows only");
    if (rows.estimate() > maxRows)
      return stays("the vendor library is faster on this many rows");
    if (call->in.is(0))
      return stays("sums of nothing");
    OpBuilder builder(op);
    CallBuilder calls(builder, op.getLoc());
    int64_t width = panelWidth(call->out, columns);
    Value result = width ? planPacked(calls, builder, *call, kept, width, type)
                   : rows.isConstant() ? planTurned(calls, builder, *call,
                                                    rows.constant(), type)
                                       : Value();
    if (!result)
      return stays("its columns do not divide into vectors");
    if (call->bias)
      result = calls.call(operators::aten::add_Tensor,
                          {result, call->bias, calls.integer(1)}, type);
    op.getResult(0).replaceAllUsesWith(result);
    op.erase();
    ++numMatmuls;
  }

  void runOnOperation() override {
    if (columns == 0)
      return;
    SmallVector<tssa::AtenOp> calls;
    getOperation().walk([&](tssa::AtenOp op) { calls.push_back(op); });
    for (tssa::AtenOp op : calls)
      plan(op);
  }
};

} // namespace
