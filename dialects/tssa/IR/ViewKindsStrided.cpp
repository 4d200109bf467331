//===- ViewKindsStrided.cpp - diagonals, windows, any strides -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ViewKinds.h"

using namespace mlir;
using namespace pyjit::tssa;
using namespace pyjit::tssa::views;

namespace {

//--- diagonal: offset, dim1, dim2 -------------------------------------------//

LogicalResult inferDiagonal(Numbers p, const Layout &source, Layout &result,
                            EmitError error) {
  if (failed(expectCount(p, 3, error)) ||
      failed(expectDim(p[1], source.rank(), error)) ||
      failed(expectDim(p[2], source.rank(), error)))
    return failure();
  if (p[1] == p[2])
    return error() << "view's diagonal of dimension " << p[1] << " with itself";
  for (int64_t i = 0; i < source.rank(); ++i) {
    if (i == p[1] || i == p[2])
      continue;
    result.shape.push_back(source.shape[i]);
    result.strides.push_back(source.strides[i]);
  }
  const Size &rows = source.shape[p[1]], &columns = source.shape[p[2]];
  if (failed(expectNumber(p.at(0), error)))
    return failure();
  result.strides.push_back(source.strides[p[1]] + source.strides[p[2]]);
  // Of squares whose size differs between calls, guards say that there is one.
  if (rows == columns && !rows.isConstant()) {
    result.shape.push_back(rows - Size(std::abs(p[0])));
    return success();
  }
  if (failed(expectNumber(rows, error)) || failed(expectNumber(columns, error)))
    return failure();
  int64_t n1 = rows.constant(), n2 = columns.constant();
  int64_t length =
      p[0] >= 0 ? std::min(n1, n2 - p[0]) : std::min(n1 + p[0], n2);
  result.shape.push_back(std::max<int64_t>(length, 0));
  return success();
}
SmallVector<AffineExpr> forwardDiagonal(Numbers p, const Layout &source,
                                        const Layout &result,
                                        MLIRContext *context) {
  SmallVector<AffineExpr> map;
  AffineExpr along = getAffineDimExpr(result.rank() - 1, context);
  unsigned next = 0;
  for (int64_t i = 0; i < source.rank(); ++i) {
    if (i == p[1])
      map.push_back(along + std::max<int64_t>(-p[0], 0));
    else if (i == p[2])
      map.push_back(along + std::max<int64_t>(p[0], 0));
    else
      map.push_back(getAffineDimExpr(next++, context));
  }
  return map;
}

//--- unfold: dim, size, step ------------------------------------------------//

LogicalResult inferUnfold(Numbers p, const Layout &source, Layout &result,
                          EmitError error) {
  // A 0-dim tensor unfolds as if of one element.
  if (failed(expectCount(p, 3, error)) ||
      failed(expectDim(p[0], source.rank(), error)))
    return failure();
  const Size &size = source.shape[p[0]];
  // Guards say that the windows fit a size that differs between calls.
  if (p[2] != 1 && failed(expectNumber(size, error)))
    return failure();
  if (p[1] < 0 || p[2] < 1 || (size.isConstant() && p[1] > size.constant()))
    return error() << "view's window of " << p[1] << " by steps of " << p[2]
                   << " over " << toString(size);
  result = source;
  result.shape[p[0]] = size.isConstant()
                           ? Size((size.constant() - p[1]) / p[2] + 1)
                           : size - Size(p[1]) + Size(1);
  result.strides[p[0]] *= p[2];
  result.shape.push_back(p[1]);
  result.strides.push_back(source.strides[p[0]]);
  return success();
}
SmallVector<AffineExpr> forwardUnfold(Numbers p, const Layout &source,
                                      const Layout &, MLIRContext *context) {
  SmallVector<AffineExpr> map = dims(context, source.rank());
  map[p[0]] = map[p[0]] * p[2] + getAffineDimExpr(source.rank(), context);
  return map;
}

//--- as_strided: offset, sizes…, strides… -----------------------------------//

/// A layout of numbers.
struct Plain {
  SmallVector<int64_t> shape, strides;
  explicit Plain(const Layout &layout) {
    for (const Size &size : layout.shape)
      shape.push_back(size.constant());
    for (const Size &stride : layout.strides)
      strides.push_back(stride.constant());
  }
  int64_t count() const {
    int64_t product = 1;
    for (int64_t size : shape)
      product *= size;
    return product;
  }
};

LogicalResult inferAsStrided(Numbers p, const Layout &source, Layout &result,
                             EmitError error) {
  if (p.size() % 2 == 0)
    return error() << "view takes an offset and as many sizes as strides";
  for (const SmallVector<Size> &sizes : {source.shape, source.strides, p.all()})
    for (const Size &size : sizes)
      if (failed(expectNumber(size, error)))
        return failure();
  size_t rank = p.size() / 2;
  ArrayRef<int64_t> numbers = p.plain();
  result.shape.assign(numbers.begin() + 1, numbers.begin() + 1 + rank);
  result.strides.assign(numbers.begin() + 1 + rank, numbers.end());
  Plain from(source), to(result);
  auto dense = [&] {
    // Places between the source's elements would have no value to show.
    int64_t expected = 1;
    SmallVector<unsigned> dims = sortedDims(from.shape, from.strides);
    for (unsigned dim : llvm::reverse(dims)) {
      if (from.strides[dim] != expected)
        return false;
      expected *= from.shape[dim];
    }
    return true;
  };
  if (to.count() == 0)
    return success();
  if (!dense())
    return error() << "view by strides needs a dense source";
  int64_t last = p[0];
  for (size_t i = 0; i < rank; ++i) {
    if (to.strides[i] < 0)
      return error() << "view by strides has a negative stride";
    int64_t way = 0;
    if (llvm::MulOverflow(to.shape[i] - 1, to.strides[i], way) ||
        llvm::AddOverflow(last, way, last))
      return error() << "view by strides reaches further than any tensor";
  }
  if (p[0] < 0 || last >= from.count())
    return error() << "view by strides reaches outside " << from.count()
                   << " elements";
  return success();
}
SmallVector<AffineExpr> forwardAsStrided(Numbers p, const Layout &source,
                                         const Layout &result,
                                         MLIRContext *context) {
  Plain from(source), to(result);
  AffineExpr place = getAffineConstantExpr(p[0], context);
  for (int64_t i = 0; i < result.rank(); ++i)
    if (to.shape[i] != 1)
      place = place + getAffineDimExpr(i, context) * to.strides[i];
  SmallVector<AffineExpr> map(source.rank(), getAffineConstantExpr(0, context));
  if (from.count() == 0)
    return map;
  bool first = true;
  for (unsigned dim : sortedDims(from.shape, from.strides)) {
    AffineExpr index = place.floorDiv(from.strides[dim]);
    map[dim] = first ? index : index % from.shape[dim];
    first = false;
  }
  return map;
}

} // namespace

const ViewRule pyjit::tssa::views::diagonalRule = {inferDiagonal,
                                                   forwardDiagonal, nullptr};
const ViewRule pyjit::tssa::views::unfoldRule = {inferUnfold, forwardUnfold,
                                                 nullptr};
const ViewRule pyjit::tssa::views::asStridedRule = {inferAsStrided,
                                                    forwardAsStrided, nullptr};
