//===- PackedMatmul.cpp - Matmuls with a packed weight --------------------===//

#include "PackedMatmul.h"

#include "dialects/tssa/IR/Views.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

int64_t library::panelWidth(int64_t out, int64_t columns) {
  // Half a panel is one vector wide.
  for (int64_t width : {columns, columns / 2})
    if (width > 0 && out % width == 0)
      return width;
  return 0;
}

Value library::packWeight(CallBuilder &calls, OpBuilder &builder, Value weight,
                          bool transposed, int64_t columns) {
  auto type = cast<RankedTensorType>(weight.getType());
  int64_t in = type.getDimSize(transposed ? 0 : 1);
  int64_t out = type.getDimSize(transposed ? 1 : 0), panels = out / columns;
  SmallVector<int64_t> apart, order, strides;
  if (transposed) {
    apart = {in, panels, columns};
    order = {1, 0, 2};
    strides = {columns, out, 1};
  } else {
    apart = {panels, columns, in};
    order = {0, 2, 1};
    strides = {columns * in, 1, in};
  }
  SmallVector<int64_t> shape{panels, in, columns};
  auto turn =
      tssa::ViewAttr::get(builder.getContext(), tssa::ViewKind::permute, order);
  Value turned = tssa::AccessOp::create(
      builder, calls.getLoc(),
      tssa::getTensorType(shape, strides, type.getElementType()),
      calls.view(weight, apart), builder.getArrayAttr(turn), ValueRange());
  // 0: torch.contiguous_format
  return calls.call(operators::aten::clone, {turned, calls.integer(0)},
                    RankedTensorType::get(shape, type.getElementType()));
}

Value library::makeMatmul(OpBuilder &b, Location loc, Value input, Value packed,
                          RankedTensorType type, unsigned channel) {
  unsigned rank = type.getRank(), loops = rank + 1;
  int64_t columns = cast<RankedTensorType>(packed.getType()).getShape().back();
  AffineExpr n = b.getAffineDimExpr(channel), k = b.getAffineDimExpr(rank);
  SmallVector<AffineExpr> left, result;
  for (unsigned d = 0; d < rank; ++d) {
    left.push_back(d == channel ? k : b.getAffineDimExpr(d));
    result.push_back(b.getAffineDimExpr(d));
  }
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
             b, loc, TypeRange(type), ValueRange{input, packed},
             ValueRange(init), maps, iterators,
             [](OpBuilder &in, Location at, ValueRange args) {
               Value value = arith::MulFOp::create(in, at, args[0], args[1]);
               Value sum = arith::AddFOp::create(in, at, args[2], value);
               linalg::YieldOp::create(in, at, sum);
             })
      .getResult(0);
}
