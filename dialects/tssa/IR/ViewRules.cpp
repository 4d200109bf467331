//===- ViewRules.cpp - what each kind of view means -----------------------===//

#include "ViewRules.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace pyjit::tssa;
using namespace pyjit::tssa::views;

SmallVector<AffineExpr> pyjit::tssa::views::dims(MLIRContext *context,
                                                 unsigned count) {
  SmallVector<AffineExpr> exprs;
  for (unsigned i = 0; i < count; ++i)
    exprs.push_back(getAffineDimExpr(i, context));
  return exprs;
}

LogicalResult pyjit::tssa::views::expectCount(Numbers p, size_t count,
                                              EmitError error) {
  if (p.size() != count)
    return error() << "view takes " << count << " numbers, has " << p.size();
  return success();
}

LogicalResult pyjit::tssa::views::expectDim(int64_t dim, int64_t rank,
                                            EmitError error) {
  if (dim < 0 || dim >= rank)
    return error() << "view names dimension " << dim << " of rank " << rank;
  return success();
}

int64_t pyjit::tssa::views::product(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

namespace {

/// A number, or symbol 0 where it is dynamic (no kind has two of these).
AffineExpr number(int64_t value, MLIRContext *context) {
  return ShapedType::isDynamic(value) ? getAffineSymbolExpr(0, context)
                                      : getAffineConstantExpr(value, context);
}

//--- alias ------------------------------------------------------------------//

LogicalResult inferAlias(Numbers p, const Layout &source, Layout &result,
                         EmitError error) {
  result = source;
  return expectCount(p, 0, error);
}
SmallVector<AffineExpr> forwardAlias(Numbers, const Layout &source,
                                     const Layout &, MLIRContext *context) {
  return dims(context, source.rank());
}
std::optional<ViewAttr> inverseAlias(Numbers, const Layout &, const Layout &,
                                     MLIRContext *context) {
  return ViewAttr::get(context, ViewKind::alias, {});
}

//--- select: dim, index -----------------------------------------------------//

LogicalResult inferSelect(Numbers p, const Layout &source, Layout &result,
                          EmitError error) {
  if (failed(expectCount(p, 2, error)) ||
      failed(expectDim(p[0], source.rank(), error)))
    return failure();
  if (!ShapedType::isDynamic(p[1]) && (p[1] < 0 || p[1] >= source.shape[p[0]]))
    return error() << "view selects index " << p[1] << " of "
                   << source.shape[p[0]];
  result = source;
  result.shape.erase(result.shape.begin() + p[0]);
  result.strides.erase(result.strides.begin() + p[0]);
  return success();
}
SmallVector<AffineExpr> forwardSelect(Numbers p, const Layout &,
                                      const Layout &result,
                                      MLIRContext *context) {
  SmallVector<AffineExpr> map = dims(context, result.rank());
  map.insert(map.begin() + p[0], number(p[1], context));
  return map;
}

//--- slice: dim, start, length, step ----------------------------------------//

LogicalResult inferSlice(Numbers p, const Layout &source, Layout &result,
                         EmitError error) {
  if (failed(expectCount(p, 4, error)) ||
      failed(expectDim(p[0], source.rank(), error)))
    return failure();
  int64_t size = source.shape[p[0]];
  int64_t start = ShapedType::isDynamic(p[1]) ? 0 : p[1];
  if (p[2] < 0 || p[3] < 1 || start < 0 || start > size ||
      (p[2] > 0 && start + (p[2] - 1) * p[3] >= size))
    return error() << "view's slice reaches outside a dimension of " << size;
  result = source;
  result.shape[p[0]] = p[2];
  result.strides[p[0]] *= p[3];
  return success();
}
SmallVector<AffineExpr> forwardSlice(Numbers p, const Layout &source,
                                     const Layout &, MLIRContext *context) {
  SmallVector<AffineExpr> map = dims(context, source.rank());
  map[p[0]] = map[p[0]] * p[3] + number(p[1], context);
  return map;
}

//--- permute: permutation ---------------------------------------------------//

LogicalResult inferPermute(Numbers p, const Layout &source, Layout &result,
                           EmitError error) {
  if (failed(expectCount(p, source.rank(), error)))
    return failure();
  SmallVector<bool> seen(p.size());
  for (int64_t dim : p) {
    if (failed(expectDim(dim, source.rank(), error)))
      return failure();
    if (seen[dim])
      return error() << "view's permutation names dimension " << dim
                     << " twice";
    seen[dim] = true;
    result.shape.push_back(source.shape[dim]);
    result.strides.push_back(source.strides[dim]);
  }
  return success();
}
SmallVector<int64_t> invertPermutation(Numbers p) {
  SmallVector<int64_t> inverse(p.size());
  for (auto [i, dim] : llvm::enumerate(p))
    inverse[dim] = i;
  return inverse;
}
SmallVector<AffineExpr> forwardPermute(Numbers p, const Layout &,
                                       const Layout &, MLIRContext *context) {
  SmallVector<AffineExpr> map(p.size());
  for (auto [i, dim] : llvm::enumerate(p))
    map[dim] = getAffineDimExpr(i, context);
  return map;
}
std::optional<ViewAttr> inversePermute(Numbers p, const Layout &,
                                       const Layout &, MLIRContext *context) {
  return ViewAttr::get(context, ViewKind::permute, invertPermutation(p));
}

//--- view: sizes ------------------------------------------------------------//

/// PyTorch's computeStride: the strides with which the old layout shows the
/// new shape, if there are any.
std::optional<SmallVector<int64_t>> viewStrides(const Layout &old,
                                                ArrayRef<int64_t> shape) {
  int64_t count = product(old.shape);
  if (count == 0)
    return ArrayRef<int64_t>(old.shape) == shape ? old.strides
                                                 : getRowMajorStrides(shape);
  SmallVector<int64_t> strides(shape.size());
  int64_t viewDim = static_cast<int64_t>(shape.size()) - 1;
  if (old.shape.empty()) {
    strides.assign(shape.size(), 1);
    return strides;
  }
  int64_t base = old.strides.back(), oldCount = 1, viewCount = 1;
  for (int64_t dim = old.rank() - 1; dim >= 0; --dim) {
    oldCount *= old.shape[dim];
    if (dim == 0 ||
        (old.shape[dim - 1] != 1 && old.strides[dim - 1] != oldCount * base)) {
      while (viewDim >= 0 && (viewCount < oldCount || shape[viewDim] == 1)) {
        strides[viewDim] = viewCount * base;
        viewCount *= shape[viewDim--];
      }
      if (viewCount != oldCount)
        return std::nullopt;
      if (dim > 0) {
        base = old.strides[dim - 1];
        oldCount = viewCount = 1;
      }
    }
  }
  if (viewDim != -1)
    return std::nullopt;
  return strides;
}

LogicalResult inferView(Numbers p, const Layout &source, Layout &result,
                        EmitError error) {
  if (product(p) != product(source.shape))
    return error() << "view of " << product(source.shape) << " elements has "
                   << product(p);
  result.shape.assign(p.begin(), p.end());
  // A reshape that copied in eager has the copy's layout.
  result.strides = viewStrides(source, p).value_or(getRowMajorStrides(p));
  return success();
}
/// Row-major renumbering. Dimensions are matched in groups of equal product,
/// so that what is merely split or kept needs no division.
SmallVector<AffineExpr> forwardView(Numbers, const Layout &source,
                                    const Layout &result,
                                    MLIRContext *context) {
  AffineExpr zero = getAffineConstantExpr(0, context);
  SmallVector<AffineExpr> map(source.rank(), zero);
  if (product(source.shape) == 0)
    return map;
  int64_t s = 0, r = 0;
  while (s < source.rank() || r < result.rank()) {
    int64_t s0 = s, r0 = r, sourceCount = 1, resultCount = 1;
    if (s < source.rank())
      sourceCount *= source.shape[s++];
    if (r < result.rank())
      resultCount *= result.shape[r++];
    while (sourceCount != resultCount) {
      if (sourceCount < resultCount)
        sourceCount *= source.shape[s++];
      else
        resultCount *= result.shape[r++];
    }
    AffineExpr linear = zero;
    for (int64_t i = r0; i < r; ++i)
      linear = result.shape[i] == 1
                   ? linear
                   : linear * result.shape[i] + getAffineDimExpr(i, context);
    int64_t inner = sourceCount;
    bool first = true;
    for (int64_t i = s0; i < s; ++i) {
      if (source.shape[i] == 1)
        continue;
      inner /= source.shape[i];
      AffineExpr index = linear.floorDiv(inner);
      // The outermost needs no remainder: the group ends there.
      map[i] = first ? index : index % source.shape[i];
      first = false;
    }
  }
  return map;
}
std::optional<ViewAttr> inverseView(Numbers, const Layout &source,
                                    const Layout &, MLIRContext *context) {
  return ViewAttr::get(context, ViewKind::view, source.shape);
}

//--- expand: sizes ----------------------------------------------------------//

LogicalResult inferExpand(Numbers p, const Layout &source, Layout &result,
                          EmitError error) {
  int64_t lead = static_cast<int64_t>(p.size()) - source.rank();
  if (lead < 0)
    return error() << "view expands rank " << source.rank() << " to "
                   << p.size();
  result.shape.assign(p.begin(), p.end());
  result.strides.assign(p.size(), 0);
  for (int64_t i = 0; i < source.rank(); ++i) {
    if (source.shape[i] != p[lead + i] && source.shape[i] != 1)
      return error() << "view expands a dimension of " << source.shape[i]
                     << " to " << p[lead + i];
    if (source.shape[i] == p[lead + i])
      result.strides[lead + i] = source.strides[i];
  }
  // ATen's stride of a new leading dimension: 0 when it repeats or the source
  // has none, else as if contiguous.
  if (source.rank() == 0)
    return success();
  for (int64_t i = lead - 1; i >= 0; --i)
    if (p[i] == 1)
      result.strides[i] = i + 1 < static_cast<int64_t>(p.size())
                              ? result.shape[i + 1] * result.strides[i + 1]
                              : 1;
  return success();
}
SmallVector<AffineExpr> forwardExpand(Numbers p, const Layout &source,
                                      const Layout &, MLIRContext *context) {
  int64_t lead = static_cast<int64_t>(p.size()) - source.rank();
  SmallVector<AffineExpr> map;
  for (int64_t i = 0; i < source.rank(); ++i)
    map.push_back(source.shape[i] == p[lead + i]
                      ? getAffineDimExpr(lead + i, context)
                      : getAffineConstantExpr(0, context));
  return map;
}
std::optional<ViewAttr> inverseExpand(Numbers p, const Layout &source,
                                      const Layout &, MLIRContext *context) {
  if (product(p) != product(source.shape) || product(p) == 0)
    return std::nullopt;
  return ViewAttr::get(context, ViewKind::view, source.shape);
}

//--- squeeze: dims ----------------------------------------------------------//

LogicalResult inferSqueeze(Numbers p, const Layout &source, Layout &result,
                           EmitError error) {
  for (int64_t dim : p) {
    if (failed(expectDim(dim, source.rank(), error)))
      return failure();
    if (source.shape[dim] != 1)
      return error() << "view squeezes a dimension of " << source.shape[dim];
  }
  for (int64_t i = 0; i < source.rank(); ++i) {
    if (llvm::is_contained(p, i))
      continue;
    result.shape.push_back(source.shape[i]);
    result.strides.push_back(source.strides[i]);
  }
  return success();
}
SmallVector<AffineExpr> forwardSqueeze(Numbers p, const Layout &source,
                                       const Layout &, MLIRContext *context) {
  SmallVector<AffineExpr> map;
  unsigned next = 0;
  for (int64_t i = 0; i < source.rank(); ++i)
    map.push_back(llvm::is_contained(p, i) ? getAffineConstantExpr(0, context)
                                           : getAffineDimExpr(next++, context));
  return map;
}
std::optional<ViewAttr> inverseToShape(Numbers, const Layout &source,
                                       const Layout &, MLIRContext *context) {
  return ViewAttr::get(context, ViewKind::view, source.shape);
}

//--- unsqueeze: dim ---------------------------------------------------------//

LogicalResult inferUnsqueeze(Numbers p, const Layout &source, Layout &result,
                             EmitError error) {
  if (failed(expectCount(p, 1, error)) ||
      failed(expectDim(p[0], source.rank() + 1, error)))
    return failure();
  result = source;
  int64_t stride =
      p[0] < source.rank() ? source.shape[p[0]] * source.strides[p[0]] : 1;
  result.shape.insert(result.shape.begin() + p[0], 1);
  result.strides.insert(result.strides.begin() + p[0], stride);
  return success();
}
SmallVector<AffineExpr> forwardUnsqueeze(Numbers p, const Layout &,
                                         const Layout &result,
                                         MLIRContext *context) {
  SmallVector<AffineExpr> map = dims(context, result.rank());
  map.erase(map.begin() + p[0]);
  return map;
}
std::optional<ViewAttr> inverseUnsqueeze(Numbers p, const Layout &,
                                         const Layout &, MLIRContext *context) {
  return ViewAttr::get(context, ViewKind::squeeze, p);
}

} // namespace

//--- the table --------------------------------------------------------------//

const ViewRule &pyjit::tssa::views::getViewRule(ViewKind kind) {
  // In the order of the enum.
  static const ViewRule rules[] = {
      {inferAlias, forwardAlias, inverseAlias},
      {inferSelect, forwardSelect, nullptr},
      {inferSlice, forwardSlice, nullptr},
      {inferPermute, forwardPermute, inversePermute},
      {inferView, forwardView, inverseView},
      {inferExpand, forwardExpand, inverseExpand},
      {inferSqueeze, forwardSqueeze, inverseToShape},
      {inferUnsqueeze, forwardUnsqueeze, inverseUnsqueeze},
      diagonalRule,
      unfoldRule,
      asStridedRule,
  };
  return rules[static_cast<unsigned>(kind)];
}
