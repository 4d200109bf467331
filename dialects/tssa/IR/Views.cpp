//===- Views.cpp - what each kind of view means ---------------------------===//

#include "dialects/tssa/IR/Views.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pyjit::tssa;

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

SmallVector<int64_t> pyjit::tssa::getRowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

SmallVector<int64_t> pyjit::tssa::getStrides(RankedTensorType type) {
  if (auto encoding = dyn_cast_or_null<StridesAttr>(type.getEncoding()))
    return llvm::to_vector(encoding.getStrides());
  return getRowMajorStrides(type.getShape());
}

RankedTensorType pyjit::tssa::getTensorType(ArrayRef<int64_t> shape,
                                            ArrayRef<int64_t> strides,
                                            Type elementType) {
  if (ArrayRef<int64_t>(getRowMajorStrides(shape)) == strides)
    return RankedTensorType::get(shape, elementType);
  return RankedTensorType::get(
      shape, elementType, StridesAttr::get(elementType.getContext(), strides));
}

/// Dimensions of more than one element, widest stride first.
static SmallVector<unsigned> sortedDims(ArrayRef<int64_t> shape,
                                        ArrayRef<int64_t> strides) {
  SmallVector<unsigned> dims;
  for (unsigned i = 0; i < shape.size(); ++i)
    if (shape[i] != 1)
      dims.push_back(i);
  llvm::sort(dims, [&](unsigned a, unsigned b) {
    return strides[a] != strides[b] ? strides[a] > strides[b] : a < b;
  });
  return dims;
}

bool pyjit::tssa::isDense(RankedTensorType type) {
  if (type.getNumElements() == 0)
    return true;
  SmallVector<int64_t> strides = getStrides(type);
  int64_t expected = 1;
  for (unsigned dim : llvm::reverse(sortedDims(type.getShape(), strides))) {
    if (strides[dim] != expected)
      return false;
    expected *= type.getDimSize(dim);
  }
  return true;
}

/// No two indices share a place. Sufficient, as PyTorch's own check is.
static bool isNonOverlapping(ArrayRef<int64_t> shape,
                             ArrayRef<int64_t> strides) {
  if (llvm::is_contained(shape, 0))
    return true;
  int64_t reach = 0; // largest offset of the dimensions so far
  for (unsigned dim : llvm::reverse(sortedDims(shape, strides))) {
    if (strides[dim] <= reach)
      return false;
    reach += strides[dim] * (shape[dim] - 1);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// The rules
//===----------------------------------------------------------------------===//

namespace {

using Numbers = ArrayRef<int64_t>;

/// Where a view is applied: shape and strides of its source.
struct Layout {
  SmallVector<int64_t> shape, strides;
  int64_t rank() const { return shape.size(); }
};

/// One record per view kind.
struct ViewRule {
  /// Refuses wrong numbers; else gives the result's shape and eager strides.
  LogicalResult (*infer)(Numbers p, const Layout &source, Layout &result,
                         EmitError error);
  /// Source index of each result index (result dims d0…, dynamic numbers s0…).
  SmallVector<AffineExpr> (*forward)(Numbers p, const Layout &source,
                                     const Layout &result, MLIRContext *);
  /// The view that undoes a one-to-one view; null: none of them does.
  std::optional<ViewAttr> (*inverse)(Numbers p, const Layout &source,
                                     const Layout &result, MLIRContext *);
};

SmallVector<AffineExpr> dims(MLIRContext *context, unsigned count) {
  SmallVector<AffineExpr> exprs;
  for (unsigned i = 0; i < count; ++i)
    exprs.push_back(getAffineDimExpr(i, context));
  return exprs;
}

/// A number, or symbol 0 where it is dynamic (no kind has two of these).
AffineExpr number(int64_t value, MLIRContext *context) {
  return ShapedType::isDynamic(value) ? getAffineSymbolExpr(0, context)
                                      : getAffineConstantExpr(value, context);
}

LogicalResult expectCount(Numbers p, size_t count, EmitError error) {
  if (p.size() != count)
    return error() << "view takes " << count << " numbers, has " << p.size();
  return success();
}

LogicalResult expectDim(int64_t dim, int64_t rank, EmitError error) {
  if (dim < 0 || dim >= rank)
    return error() << "view names dimension " << dim << " of rank " << rank;
  return success();
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

int64_t product(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

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
  int64_t n1 = source.shape[p[1]], n2 = source.shape[p[2]];
  int64_t length =
      p[0] >= 0 ? std::min(n1, n2 - p[0]) : std::min(n1 + p[0], n2);
  result.shape.push_back(std::max<int64_t>(length, 0));
  result.strides.push_back(source.strides[p[1]] + source.strides[p[2]]);
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
  int64_t size = source.shape[p[0]];
  if (p[1] < 0 || p[1] > size || p[2] < 1)
    return error() << "view's window of " << p[1] << " by steps of " << p[2]
                   << " over " << size;
  result = source;
  result.shape[p[0]] = (size - p[1]) / p[2] + 1;
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

LogicalResult inferAsStrided(Numbers p, const Layout &source, Layout &result,
                             EmitError error) {
  if (p.size() % 2 == 0)
    return error() << "view takes an offset and as many sizes as strides";
  size_t rank = p.size() / 2;
  result.shape.assign(p.begin() + 1, p.begin() + 1 + rank);
  result.strides.assign(p.begin() + 1 + rank, p.end());
  auto type = [&] {
    // Places between the source's elements would have no value to show.
    int64_t expected = 1;
    for (unsigned dim :
         llvm::reverse(sortedDims(source.shape, source.strides))) {
      if (source.strides[dim] != expected)
        return false;
      expected *= source.shape[dim];
    }
    return true;
  };
  if (product(result.shape) == 0)
    return success();
  if (!type())
    return error() << "view by strides needs a dense source";
  int64_t last = p[0];
  for (size_t i = 0; i < rank; ++i) {
    if (result.strides[i] < 0)
      return error() << "view by strides has a negative stride";
    last += (result.shape[i] - 1) * result.strides[i];
  }
  if (p[0] < 0 || last >= product(source.shape))
    return error() << "view by strides reaches outside "
                   << product(source.shape) << " elements";
  return success();
}
SmallVector<AffineExpr> forwardAsStrided(Numbers p, const Layout &source,
                                         const Layout &result,
                                         MLIRContext *context) {
  AffineExpr place = getAffineConstantExpr(p[0], context);
  for (int64_t i = 0; i < result.rank(); ++i)
    if (result.shape[i] != 1)
      place = place + getAffineDimExpr(i, context) * result.strides[i];
  SmallVector<AffineExpr> map(source.rank(), getAffineConstantExpr(0, context));
  if (product(source.shape) == 0)
    return map;
  bool first = true;
  for (unsigned dim : sortedDims(source.shape, source.strides)) {
    AffineExpr index = place.floorDiv(source.strides[dim]);
    map[dim] = first ? index : index % source.shape[dim];
    first = false;
  }
  return map;
}

//--- the table --------------------------------------------------------------//

const ViewRule &getViewRule(ViewKind kind) {
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
      {inferDiagonal, forwardDiagonal, nullptr},
      {inferUnfold, forwardUnfold, nullptr},
      {inferAsStrided, forwardAsStrided, nullptr},
  };
  return rules[static_cast<unsigned>(kind)];
}

Layout getLayout(RankedTensorType type) {
  return {llvm::to_vector(type.getShape()), getStrides(type)};
}

/// Source and result layout of a view that is known to be valid.
std::pair<Layout, Layout> getLayouts(ViewAttr view, RankedTensorType source) {
  Layout from = getLayout(source), to;
  LogicalResult valid =
      getViewRule(view.getKind()).infer(view.getParams(), from, to, [&] {
        return emitError(UnknownLoc::get(view.getContext()));
      });
  assert(succeeded(valid) && "view of a type that it does not fit");
  (void)valid;
  return {from, to};
}

} // namespace

//===----------------------------------------------------------------------===//
// One view
//===----------------------------------------------------------------------===//

RankedTensorType pyjit::tssa::inferViewType(ViewAttr view,
                                            RankedTensorType source,
                                            EmitError emitError) {
  if (!source.hasStaticShape()) {
    emitError() << "view of a tensor without static shape";
    return {};
  }
  unsigned maxDynamic =
      view.getKind() == ViewKind::select || view.getKind() == ViewKind::slice
          ? 1
          : 0;
  if (view.getNumDynamic() > maxDynamic ||
      (maxDynamic && view.getNumDynamic() && view.getParams().size() > 1 &&
       !ShapedType::isDynamic(view.getParams()[1]))) {
    emitError() << "view has '?' where a number must stand";
    return {};
  }
  Layout result;
  if (failed(
          getViewRule(view.getKind())
              .infer(view.getParams(), getLayout(source), result, emitError)))
    return {};
  return getTensorType(result.shape, result.strides, source.getElementType());
}

AffineMap pyjit::tssa::getViewMap(ViewAttr view, RankedTensorType source) {
  auto [from, to] = getLayouts(view, source);
  MLIRContext *context = view.getContext();
  SmallVector<AffineExpr> exprs =
      getViewRule(view.getKind()).forward(view.getParams(), from, to, context);
  return AffineMap::get(to.rank(), view.getNumDynamic(), exprs, context);
}

bool pyjit::tssa::isInjective(ViewAttr view, RankedTensorType source) {
  auto [from, to] = getLayouts(view, source);
  switch (view.getKind()) {
  case ViewKind::expand:
    return product(from.shape) == product(to.shape);
  case ViewKind::unfold:
    return view.getParams()[2] >= view.getParams()[1] ||
           to.shape[view.getParams()[0]] <= 1;
  case ViewKind::as_strided:
    return isNonOverlapping(to.shape, to.strides);
  default:
    return true;
  }
}

std::optional<ViewAttr> pyjit::tssa::getInverse(ViewAttr view,
                                                RankedTensorType source) {
  const ViewRule &rule = getViewRule(view.getKind());
  if (!rule.inverse)
    return std::nullopt;
  auto [from, to] = getLayouts(view, source);
  return rule.inverse(view.getParams(), from, to, view.getContext());
}

//===----------------------------------------------------------------------===//
// Paths
//===----------------------------------------------------------------------===//

static InFlightDiagnostic unexpected(MLIRContext *context) {
  return emitError(UnknownLoc::get(context));
}

RankedTensorType pyjit::tssa::inferPathType(ArrayAttr path,
                                            RankedTensorType source,
                                            EmitError emitError) {
  for (auto view : path.getAsRange<ViewAttr>()) {
    source = inferViewType(view, source, emitError);
    if (!source)
      return {};
  }
  return source;
}

unsigned pyjit::tssa::getNumDynamic(ArrayAttr path) {
  unsigned count = 0;
  for (auto view : path.getAsRange<ViewAttr>())
    count += view.getNumDynamic();
  return count;
}

AffineMap pyjit::tssa::getPathMap(ArrayAttr path, RankedTensorType source) {
  MLIRContext *context = path.getContext();
  AffineMap map = AffineMap::getMultiDimIdentityMap(source.getRank(), context);
  for (auto view : path.getAsRange<ViewAttr>()) {
    // `compose` appends the second map's symbols to the first's.
    map = simplifyAffineMap(map.compose(getViewMap(view, source)));
    source = inferViewType(view, source, [&] { return unexpected(context); });
  }
  return map;
}

bool pyjit::tssa::isInjective(ArrayAttr path, RankedTensorType source) {
  for (auto view : path.getAsRange<ViewAttr>()) {
    if (!isInjective(view, source))
      return false;
    source = inferViewType(view, source,
                           [&] { return unexpected(path.getContext()); });
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Assignment
//===----------------------------------------------------------------------===//

namespace {
/// An assign rule under construction: where in the result an element of the
/// source is shown, and the constraints (true: == 0, false: >= 0) under which
/// it is shown at all. Symbols stand for the dynamic numbers.
struct Shown {
  SmallVector<AffineExpr> index;
  SmallVector<AffineExpr> constraints;
  SmallVector<bool> isEquality;
  void require(AffineExpr expr, bool equality) {
    constraints.push_back(expr);
    isEquality.push_back(equality);
  }
};
} // namespace

/// Adds one view to a rule: `shown.index` are indices of the view's source
/// before, and of its result after.
static LogicalResult showThrough(ViewAttr view, RankedTensorType source,
                                 unsigned &nextSymbol, Shown &shown) {
  MLIRContext *context = view.getContext();
  ArrayRef<int64_t> p = view.getParams();
  auto numberOrSymbol = [&](int64_t value) {
    return ShapedType::isDynamic(value)
               ? getAffineSymbolExpr(nextSymbol++, context)
               : getAffineConstantExpr(value, context);
  };
  switch (view.getKind()) {
  case ViewKind::select:
    shown.require(shown.index[p[0]] - numberOrSymbol(p[1]), true);
    shown.index.erase(shown.index.begin() + p[0]);
    return success();
  case ViewKind::slice: {
    AffineExpr distance = shown.index[p[0]] - numberOrSymbol(p[1]);
    shown.require(distance, false);
    shown.require((p[2] - 1) * p[3] - distance, false);
    if (p[3] != 1)
      shown.require(distance % p[3], true);
    shown.index[p[0]] = distance.floorDiv(p[3]);
    return success();
  }
  case ViewKind::diagonal: {
    AffineExpr row = shown.index[p[1]], column = shown.index[p[2]];
    shown.require(column - row - p[0], true);
    AffineExpr along = p[0] >= 0 ? row : column;
    SmallVector<AffineExpr> index;
    for (auto [i, expr] : llvm::enumerate(shown.index))
      if (static_cast<int64_t>(i) != p[1] && static_cast<int64_t>(i) != p[2])
        index.push_back(expr);
    index.push_back(along);
    shown.index = index;
    return success();
  }
  case ViewKind::unfold: {
    // Windows that do not overlap: each element lies in at most one.
    int64_t size = p[1], step = p[2];
    int64_t windows = (source.getDimSize(p[0]) - size) / step + 1;
    AffineExpr place = shown.index[p[0]];
    if (windows > 1 && step < size)
      return failure();
    AffineExpr window =
        windows > 1 ? place.floorDiv(step) : getAffineConstantExpr(0, context);
    AffineExpr inside = place - window * step;
    shown.require(windows - 1 - window, false);
    shown.require(size - 1 - inside, false);
    shown.index[p[0]] = window;
    shown.index.push_back(inside);
    return success();
  }
  default: {
    std::optional<ViewAttr> inverse = getInverse(view, source);
    if (!inverse)
      return failure();
    RankedTensorType result =
        inferViewType(view, source, [&] { return unexpected(context); });
    AffineMap map = getViewMap(*inverse, result);
    SmallVector<AffineExpr> index;
    for (AffineExpr expr : map.getResults())
      index.push_back(expr.replaceDims(shown.index));
    shown.index = index;
    return success();
  }
  }
}

std::optional<AssignRule> pyjit::tssa::getAssignRule(ArrayAttr path,
                                                     RankedTensorType source) {
  MLIRContext *context = path.getContext();
  unsigned rank = source.getRank(), symbols = 0;
  Shown shown;
  shown.index = dims(context, rank);
  for (auto view : path.getAsRange<ViewAttr>()) {
    if (failed(showThrough(view, source, symbols, shown)))
      return std::nullopt;
    source = inferViewType(view, source, [&] { return unexpected(context); });
  }
  AssignRule rule;
  rule.map =
      simplifyAffineMap(AffineMap::get(rank, symbols, shown.index, context));
  if (!shown.constraints.empty())
    rule.condition =
        IntegerSet::get(rank, symbols, shown.constraints, shown.isEquality);
  return rule;
}
