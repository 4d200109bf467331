//===- PlanProducts.cpp - Matrix products as kernels of our own -----------===//
//
// Contract: values equal up to rounding. Only products with a parameter are
// touched, so that what packing costs is paid once. The product becomes linalg
// here, before anything else does: no operator of PyTorch's takes the packed
// form, and code generation needs none.
//
//===----------------------------------------------------------------------===//

#include "pyjit/Library/Passes.h"

#include "Calls.h"

#include "dialects/tssa/IR/Views.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace pyjit::library {
#define GEN_PASS_DEF_PLANPRODUCTSPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

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
  if (name == "aten::linear") {
    call = {tensorArgument(op, 0),
            tensorArgument(op, 1),
            tensorArgument(op, 2),
            0,
            0,
            false};
  } else if (name == "aten::addmm" && ones(3, 4)) {
    // As GPT-2's Conv1D has it.
    call = {tensorArgument(op, 1),
            tensorArgument(op, 2),
            tensorArgument(op, 0),
            0,
            0,
            true};
    if (!call.bias || typeOf(call.bias).getRank() != 1)
      return std::nullopt;
  } else if (name == "aten::mm" || name == "aten::matmul") {
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

/// The weight as panels x in x columns: what a tile needs of one row of the sum
/// lies together, and panels follow each other.
Value pack(CallBuilder &calls, OpBuilder &builder, const Call &call,
           int64_t columns) {
  int64_t panels = call.out / columns;
  Type f32 = builder.getF32Type();
  SmallVector<int64_t> apart, order, strides;
  if (call.transposed) {
    apart = {call.in, panels, columns};
    order = {1, 0, 2};
    strides = {columns, call.out, 1};
  } else {
    apart = {panels, columns, call.in};
    order = {0, 2, 1};
    strides = {columns * call.in, 1, call.in};
  }
  SmallVector<int64_t> shape{panels, call.in, columns};
  auto turn =
      tssa::ViewAttr::get(builder.getContext(), tssa::ViewKind::permute, order);
  Value turned = tssa::AccessOp::create(
      builder, calls.getLoc(), tssa::getTensorType(shape, strides, f32),
      calls.view(call.weight, apart), builder.getArrayAttr(turn), ValueRange());
  // 0: torch.contiguous_format
  return calls.call("aten::clone", {turned, calls.integer(0)},
                    RankedTensorType::get(shape, f32));
}

/// result[rows, n] = sum of input[rows, k] * packed[n / columns, k, n %
/// columns]
Value product(OpBuilder &b, Location loc, const Call &call, Value packed,
              int64_t columns, RankedTensorType type) {
  unsigned rank = type.getRank(), loops = rank + 1;
  AffineExpr n = b.getAffineDimExpr(rank - 1), k = b.getAffineDimExpr(rank);
  SmallVector<AffineExpr> rows;
  for (unsigned d = 0; d + 1 < rank; ++d)
    rows.push_back(b.getAffineDimExpr(d));
  SmallVector<AffineExpr> left(rows), result(rows);
  left.push_back(k);
  result.push_back(n);
  SmallVector<AffineMap> maps{
      AffineMap::get(loops, 0, left, b.getContext()),
      AffineMap::get(loops, 0, {n.floorDiv(columns), k, n % columns},
                     b.getContext()),
      AffineMap::get(loops, 0, result, b.getContext())};
  SmallVector<utils::IteratorType> iterators(loops,
                                             utils::IteratorType::parallel);
  iterators.back() = utils::IteratorType::reduction;
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  Value empty = tensor::EmptyOp::create(b, loc, type, ValueRange());
  Value init = linalg::FillOp::create(b, loc, zero, empty).getResult(0);
  return linalg::GenericOp::create(
             b, loc, TypeRange(type), ValueRange{call.input, packed},
             ValueRange(init), maps, iterators,
             [](OpBuilder &in, Location at, ValueRange args) {
               Value value = arith::MulFOp::create(in, at, args[0], args[1]);
               Value sum = arith::AddFOp::create(in, at, args[2], value);
               linalg::YieldOp::create(in, at, sum);
             })
      .getResult(0);
}

struct PlanProducts : pyjit::library::impl::PlanProductsPassBase<PlanProducts> {
  using PlanProductsPassBase::PlanProductsPassBase;

  void plan(tssa::AtenOp op) {
    std::optional<Call> call = matchCall(op);
    if (!call)
      return;
    auto stays = [&](const Twine &reason) {
      if (explain)
        op.emitRemark("'") << op.getOverload()
                           << "' stays a library call: " << reason;
    };
    auto type = typeOf(op.getResult(0));
    int64_t rows = call->out ? type.getNumElements() / call->out : 0;
    if (rows < minRows)
      return stays("the weight is read for few rows only");
    // Half a panel is one vector wide.
    int64_t width = call->out % columns == 0 ? int64_t(columns) : columns / 2;
    if (width == 0 || call->out % width != 0 || call->in == 0)
      return stays("its columns do not divide into vectors");
    OpBuilder builder(op);
    CallBuilder calls(builder, op.getLoc());
    Value packed = pack(calls, builder, *call, width);
    Value result = product(builder, op.getLoc(), *call, packed, width, type);
    if (call->bias)
      result = calls.call("aten::add.Tensor",
                          {result, call->bias, calls.integer(1)}, type);
    op.getResult(0).replaceAllUsesWith(result);
    op.erase();
    ++numProducts;
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
