//===- PlanMatmuls.cpp - Matmuls as kernels of our own --------------------===//
//
// Contract: values equal up to rounding. Only matmuls with a parameter are
// touched, so that what packing costs is paid once. The matmul becomes linalg
// here, before anything else does: no operator of PyTorch's takes the packed
// form, and code generation needs none.
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

bool isRowMajorF32(Value value) {
  return typeOf(value).getElementType().isF32() && !typeOf(value).getEncoding();
}

/// One call, seen as rows x in times a weight.
struct Call {
  Value input, weight, bias;
  int64_t in, out;
  /// The weight is in x out; else out x in.
  bool transposed;
};

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
            0,
            0,
            false};
  } else if (name == operators::aten::addmm && ones(3, 4)) {
    // As GPT-2's Conv1D has it.
    call = {tensorArgument(op, 1),
            tensorArgument(op, 2),
            tensorArgument(op, 0),
            0,
            0,
            true};
    if (!call.bias || typeOf(call.bias).getRank() != 1)
      return std::nullopt;
  } else if (name == operators::aten::mm || name == operators::aten::matmul) {
    call = {tensorArgument(op, 0), tensorArgument(op, 1), Value(), 0, 0, true};
  } else {
    return std::nullopt;
  }
  if (!call.input || !call.weight || typeOf(call.weight).getRank() != 2 ||
      typeOf(call.input).getRank() < 2 || !isRowMajorF32(call.input) ||
      !isRowMajorF32(call.weight) || !isRowMajorF32(op.getResult(0)) ||
      !isFromParameters(call.weight) || isFromParameters(call.input))
    return std::nullopt;
  ArrayRef<int64_t> shape = typeOf(call.weight).getShape();
  call.in = shape[call.transposed ? 0 : 1];
  call.out = shape[call.transposed ? 1 : 0];
  if (call.bias && (!typeOf(call.bias).getElementType().isF32() ||
                    typeOf(call.bias).getRank() != 1 ||
                    typeOf(call.bias).getDimSize(0) != call.out))
    return std::nullopt;
  if (typeOf(call.input).getShape().back() != call.in ||
      typeOf(op.getResult(0)).getShape().back() != call.out ||
      typeOf(op.getResult(0)).getRank() != typeOf(call.input).getRank())
    return std::nullopt;
  return call;
}

struct PlanMatmuls : pyjit::library::impl::PlanMatmulsPassBase<PlanMatmuls> {
  using PlanMatmulsPassBase::PlanMatmulsPassBase;

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
    int64_t rows = call->out ? type.getNumElements() / call->out : 0;
    if (rows < minRows)
      return stays("the weight is read for few rows only");
    if (rows > maxRows)
      return stays("the vendor library is faster on this many rows");
    int64_t width = panelWidth(call->out, columns);
    if (width == 0 || call->in == 0)
      return stays("its columns do not divide into vectors");
    OpBuilder builder(op);
    CallBuilder calls(builder, op.getLoc());
    Value packed =
        packWeight(calls, builder, call->weight, call->transposed, width);
    Value result = makeMatmul(builder, op.getLoc(), call->input, packed, type,
                              type.getRank() - 1);
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
