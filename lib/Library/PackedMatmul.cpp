//===- PackedMatmul.cpp - Matmuls with a packed weight --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "PackedMatmul.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Views.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;
using tssa::Size;

int64_t library::panelWidth(int64_t out, int64_t columns) {
  // Half a panel is one vector wide.
  for (int64_t width : {columns, columns / 2})
    if (width > 0 && out % width == 0)
      return width;
  return 0;
}

namespace {
/// A weight, or a batch of them, by the sizes that packing asks for.
struct Weight {
  SmallVector<Size> batch;
  Size in;
  int64_t out;

  Weight(RankedTensorType type, bool transposed) {
    SmallVector<Size> sizes = tssa::getSizes(type);
    unsigned rank = sizes.size();
    batch.append(sizes.begin(), sizes.end() - 2);
    in = sizes[rank - (transposed ? 2 : 1)];
    out = sizes[rank - (transposed ? 1 : 2)].constant();
  }
  RankedTensorType packedType(int64_t columns, Type elementType) const {
    SmallVector<Size> sizes(batch);
    sizes.append({out / columns, in, columns});
    return tssa::getSymbolicType(sizes, tssa::getRowMajorStrides(sizes),
                                 elementType);
  }
};
} // namespace

Value library::packWeight(CallBuilder &calls, OpBuilder &builder, Value weight,
                          bool transposed, int64_t columns) {
  auto type = cast<RankedTensorType>(weight.getType());
  Weight sizes(type, transposed);
  ArrayRef<int64_t> batch = type.getShape().drop_back(2);
  unsigned rank = batch.size();
  int64_t in = sizes.in.constant(), out = sizes.out, panels = out / columns;
  SmallVector<int64_t> apart(batch), order, strides;
  int64_t stride = in * out;
  for (unsigned d = rank; d-- > 0;) {
    strides.insert(strides.begin(), stride);
    stride *= batch[d];
  }
  llvm::append_range(order, llvm::seq<int64_t>(rank));
  if (transposed) {
    apart.append({in, panels, columns});
    order.append({rank + 1, rank, rank + 2});
    strides.append({columns, out, 1});
  } else {
    apart.append({panels, columns, in});
    order.append({rank, rank + 2, rank + 1});
    strides.append({columns * in, 1, in});
  }
  RankedTensorType result = sizes.packedType(columns, type.getElementType());
  auto turn =
      tssa::ViewAttr::get(builder.getContext(), tssa::ViewKind::permute, order);
  Value turned = tssa::AccessOp::create(
      builder, calls.getLoc(),
      tssa::getTensorType(result.getShape(), strides, type.getElementType()),
      calls.view(weight, apart), builder.getArrayAttr(turn), ValueRange());
  // 0: torch.contiguous_format
  Value packed =
      calls.call(operators::aten::clone, {turned, calls.integer(0)}, result);
  packed.getDefiningOp()->setAttr(attribute::kPacked, builder.getUnitAttr());
  return packed;
}

Value library::packInCall(OpBuilder &b, Location loc, Value weight,
                          bool transposed, int64_t columns) {
  Weight sizes(cast<RankedTensorType>(weight.getType()), transposed);
  unsigned rank = sizes.batch.size(), loops = rank + 3;
  AffineExpr panel = b.getAffineDimExpr(rank), k = b.getAffineDimExpr(rank + 1);
  AffineExpr n = panel * columns + b.getAffineDimExpr(rank + 2);
  SmallVector<AffineExpr> from;
  for (unsigned d = 0; d < rank; ++d)
    from.push_back(b.getAffineDimExpr(d));
  from.push_back(transposed ? k : n);
  from.push_back(transposed ? n : k);
  RankedTensorType type =
      sizes.packedType(columns, getElementTypeOrSelf(weight));
  SmallVector<utils::IteratorType> iterators(loops,
                                             utils::IteratorType::parallel);
  Value empty = tssa::makeEmpty(b, loc, type);
  auto copy = linalg::GenericOp::create(
      b, loc, TypeRange(type), weight, empty,
      {AffineMap::get(loops, 0, from, b.getContext()),
       b.getMultiDimIdentityMap(loops)},
      iterators, [](OpBuilder &in, Location at, ValueRange args) {
        linalg::YieldOp::create(in, at, args[0]);
      });
  copy->setAttr(attribute::kPacked, b.getUnitAttr());
  return copy.getResult(0);
}

Value library::makeMatmul(OpBuilder &b, Location loc, Value input, Value packed,
                          RankedTensorType type, unsigned channel) {
  unsigned rank = type.getRank(), loops = rank + 1;
  auto panels = cast<RankedTensorType>(packed.getType());
  int64_t columns = panels.getShape().back();
  AffineExpr n = b.getAffineDimExpr(channel), k = b.getAffineDimExpr(rank);
  SmallVector<AffineExpr> left, right, result;
  for (unsigned d = 0; d < rank; ++d) {
    left.push_back(d == channel ? k : b.getAffineDimExpr(d));
    result.push_back(b.getAffineDimExpr(d));
  }
  // A batch of weights: what is in front of panels.
  for (unsigned d = 0; d + 3 < panels.getRank(); ++d)
    right.push_back(b.getAffineDimExpr(d));
  right.append({n.floorDiv(columns), k, n % columns});
  SmallVector<AffineMap> maps{AffineMap::get(loops, 0, left, b.getContext()),
                              AffineMap::get(loops, 0, right, b.getContext()),
                              AffineMap::get(loops, 0, result, b.getContext())};
  SmallVector<utils::IteratorType> iterators(loops,
                                             utils::IteratorType::parallel);
  iterators.back() = utils::IteratorType::reduction;
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  Value empty = tssa::makeEmpty(b, loc, type);
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
