//===- ViewKinds.cpp - what each kind of view means -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ViewKinds.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace pyjit::tssa;
using namespace pyjit::tssa::views;
using pyjit::analysis::compareSizes;

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

LogicalResult pyjit::tssa::views::expectNumber(const Size &size,
                                               EmitError error) {
  if (!size.isConstant())
    return error() << "view of this kind takes no symbolic size: "
                   << toString(size);
  return success();
}

Size pyjit::tssa::views::product(ArrayRef<Size> shape) {
  Size count = 1;
  for (const Size &size : shape)
    count *= size;
  return count;
}

std::string pyjit::tssa::views::toString(const Size &size) {
  if (size.isConstant())
    return std::to_string(size.constant());
  std::string text;
  llvm::raw_string_ostream(text) << size.toExpr(nullptr);
  return text;
}

namespace {

/// A number, or symbol 0 where it is dynamic (no kind has two of these).
AffineExpr number(Numbers p, size_t i, MLIRContext *context) {
  return p.isOperand(i) ? getAffineSymbolExpr(0, context)
                        : p.at(i).toExpr(context);
}

/// The view with these sizes.
ViewAttr viewOf(ArrayRef<Size> sizes, MLIRContext *context) {
  SmallVector<AffineExpr> exprs;
  for (const Size &size : sizes)
    exprs.push_back(size.toExpr(context));
  return ViewAttr::getSymbolic(context, ViewKind::view, exprs);
}

/// Whether a size is 1; refuses what is 1 in some calls only.
std::optional<bool> isOne(const Size &size) { return compareSizes(size, 1); }

InFlightDiagnostic undecided(EmitError error, const Size &a, const Size &b) {
  return error() << "view depends on whether " << toString(a) << " is "
                 << toString(b);
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

/// Whether that holds in some calls at least. What a view needs of sizes beyond
/// that is for the guards to see to.
bool mayBeAtLeast(const Size &size, int64_t least) {
  return !(Size(least - 1) - size).isKnownAtLeast(0);
}

//--- select: dim, index -----------------------------------------------------//

LogicalResult inferSelect(Numbers p, const Layout &source, Layout &result,
                          EmitError error) {
  if (failed(expectCount(p, 2, error)) ||
      failed(expectDim(p[0], source.rank(), error)))
    return failure();
  const Size &size = source.shape[p[0]];
  if (!p.isOperand(1) &&
      (!mayBeAtLeast(p.at(1), 0) || !mayBeAtLeast(size - p.at(1), 1)))
    return error() << "view selects index " << toString(p.at(1)) << " of "
                   << toString(size);
  result = source;
  result.shape.erase(result.shape.begin() + p[0]);
  result.strides.erase(result.strides.begin() + p[0]);
  return success();
}
SmallVector<AffineExpr> forwardSelect(Numbers p, const Layout &,
                                      const Layout &result,
                                      MLIRContext *context) {
  SmallVector<AffineExpr> map = dims(context, result.rank());
  map.insert(map.begin() + p[0], number(p, 1, context));
  return map;
}

//--- slice: dim, start, length, step ----------------------------------------//

/// Whether the last place of a slice is no 64-bit number.
bool exceedsNumbers(const Size &start, const Size &length, int64_t step) {
  int64_t way = 0;
  if (!length.isConstant())
    return false;
  if (llvm::MulOverflow(length.constant() - 1, step, way))
    return true;
  return start.isConstant() && llvm::AddOverflow(start.constant(), way, way);
}

LogicalResult inferSlice(Numbers p, const Layout &source, Layout &result,
                         EmitError error) {
  if (failed(expectCount(p, 4, error)) ||
      failed(expectDim(p[0], source.rank(), error)))
    return failure();
  const Size &size = source.shape[p[0]];
  Size start = p.isOperand(1) ? Size(0) : p.at(1), length = p.at(2);
  // Inside for every length of at least 0: an empty slice reaches nowhere.
  if (exceedsNumbers(start, length, p[3]))
    return error() << "view's slice reaches further than any dimension";
  Size last = start + (length - 1) * p[3];
  if (p.isOperand(2) || p[3] < 1 || !mayBeAtLeast(length, 0) ||
      !mayBeAtLeast(start, 0) || !mayBeAtLeast(size - start, 0) ||
      (!length.is(0) && !mayBeAtLeast(size - last, 1)))
    return error() << "view's slice reaches outside a dimension of "
                   << toString(size);
  result = source;
  result.shape[p[0]] = length;
  result.strides[p[0]] *= p[3];
  return success();
}
SmallVector<AffineExpr> forwardSlice(Numbers p, const Layout &source,
                                     const Layout &, MLIRContext *context) {
  SmallVector<AffineExpr> map = dims(context, source.rank());
  map[p[0]] = map[p[0]] * p[3] + number(p, 1, context);
  return map;
}

//--- permute: permutation ---------------------------------------------------//

LogicalResult inferPermute(Numbers p, const Layout &source, Layout &result,
                           EmitError error) {
  if (failed(expectCount(p, source.rank(), error)))
    return failure();
  SmallVector<bool> seen(p.size());
  for (int64_t dim : p.plain()) {
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
  for (auto [i, dim] : llvm::enumerate(p.plain()))
    inverse[dim] = i;
  return inverse;
}
SmallVector<AffineExpr> forwardPermute(Numbers p, const Layout &,
                                       const Layout &, MLIRContext *context) {
  SmallVector<AffineExpr> map(p.size());
  for (auto [i, dim] : llvm::enumerate(p.plain()))
    map[dim] = getAffineDimExpr(i, context);
  return map;
}
std::optional<ViewAttr> inversePermute(Numbers p, const Layout &,
                                       const Layout &, MLIRContext *context) {
  return ViewAttr::get(context, ViewKind::permute, invertPermutation(p));
}

//--- view: sizes ------------------------------------------------------------//

/// PyTorch's computeStride: the strides with which the old layout shows the
/// new shape, if there are any. Fails where that differs between calls.
FailureOr<std::optional<SmallVector<Size>>>
viewStrides(const Layout &old, ArrayRef<Size> shape, EmitError error) {
  using Strides = std::optional<SmallVector<Size>>;
  if (product(old.shape).is(0))
    return Strides(ArrayRef<Size>(old.shape) == shape
                       ? old.strides
                       : getRowMajorStrides(shape));
  SmallVector<Size> strides(shape.size());
  int64_t viewDim = static_cast<int64_t>(shape.size()) - 1;
  if (old.shape.empty()) {
    strides.assign(shape.size(), 1);
    return Strides(strides);
  }
  // compareSizes, where not to know is a failure.
  bool known = true;
  auto same = [&](const Size &a, const Size &b) {
    std::optional<bool> equal = compareSizes(a, b);
    if (!equal && known) {
      undecided(error, a, b);
      known = false;
    }
    return equal.value_or(false);
  };
  Size base = old.strides.back(), oldCount = 1, viewCount = 1;
  for (int64_t dim = old.rank() - 1; dim >= 0 && known; --dim) {
    oldCount *= old.shape[dim];
    if (dim == 0 || (!same(old.shape[dim - 1], 1) &&
                     !same(old.strides[dim - 1], oldCount * base))) {
      while (known && viewDim >= 0 &&
             ((oldCount - viewCount).isKnownAtLeast(1) ||
              same(shape[viewDim], 1))) {
        strides[viewDim] = viewCount * base;
        viewCount *= shape[viewDim--];
      }
      if (!same(viewCount, oldCount)) {
        if (!known)
          return failure();
        return Strides();
      }
      if (dim > 0) {
        base = old.strides[dim - 1];
        oldCount = viewCount = 1;
      }
    }
  }
  if (!known)
    return failure();
  if (viewDim != -1)
    return Strides();
  return Strides(strides);
}

LogicalResult inferView(Numbers p, const Layout &source, Layout &result,
                        EmitError error) {
  SmallVector<Size> shape = p.all();
  if (product(shape) != product(source.shape))
    return error() << "view of " << toString(product(source.shape))
                   << " elements has " << toString(product(shape));
  result.shape = shape;
  auto strides = viewStrides(source, shape, error);
  if (failed(strides))
    return failure();
  // A reshape that copied in eager has the copy's layout.
  result.strides = strides->value_or(getRowMajorStrides(shape));
  return success();
}
/// Row-major renumbering. Dimensions are matched in groups of equal product,
/// so that what is merely split or kept needs no division.
SmallVector<AffineExpr> forwardView(Numbers, const Layout &source,
                                    const Layout &result,
                                    MLIRContext *context) {
  AffineExpr zero = getAffineConstantExpr(0, context);
  SmallVector<AffineExpr> map(source.rank(), zero);
  if (product(source.shape).is(0))
    return map;
  int64_t s = 0, r = 0;
  while (s < source.rank() || r < result.rank()) {
    int64_t s0 = s, r0 = r;
    Size sourceCount = 1, resultCount = 1;
    if (s < source.rank())
      sourceCount *= source.shape[s++];
    if (r < result.rank())
      resultCount *= result.shape[r++];
    // Whichever is taken, all are in the end, and the products are equal then.
    while (sourceCount != resultCount) {
      bool bySource =
          r == result.rank() ||
          (s < source.rank() && (resultCount - sourceCount).isKnownAtLeast(1));
      if (bySource)
        sourceCount *= source.shape[s++];
      else
        resultCount *= result.shape[r++];
    }
    AffineExpr linear = zero;
    for (int64_t i = r0; i < r; ++i)
      linear = result.shape[i].is(1)
                   ? linear
                   : linear * result.shape[i].toExpr(context) +
                         getAffineDimExpr(i, context);
    Size inner = sourceCount;
    bool first = true;
    for (int64_t i = s0; i < s; ++i) {
      if (source.shape[i].is(1))
        continue;
      // A factor of it.
      inner = *inner.dividedBy(source.shape[i]);
      AffineExpr index = linear.floorDiv(inner.toExpr(context));
      // The outermost needs no remainder: the group ends there.
      map[i] = first ? index : index % source.shape[i].toExpr(context);
      first = false;
    }
  }
  return map;
}
/// Of views that leave the order of elements as it is.
std::optional<ViewAttr> inverseToShape(Numbers, const Layout &source,
                                       const Layout &, MLIRContext *context) {
  return viewOf(source.shape, context);
}

//--- expand: sizes ----------------------------------------------------------//

LogicalResult inferExpand(Numbers p, const Layout &source, Layout &result,
                          EmitError error) {
  int64_t lead = static_cast<int64_t>(p.size()) - source.rank();
  if (lead < 0)
    return error() << "view expands rank " << source.rank() << " to "
                   << p.size();
  result.shape = p.all();
  result.strides.assign(p.size(), 0);
  for (int64_t i = 0; i < source.rank(); ++i) {
    if (source.shape[i] != p.at(lead + i) && !source.shape[i].is(1))
      return error() << "view expands a dimension of "
                     << toString(source.shape[i]) << " to "
                     << toString(p.at(lead + i));
    if (source.shape[i] == p.at(lead + i))
      result.strides[lead + i] = source.strides[i];
  }
  // ATen's stride of a new leading dimension: 0 when it repeats or the source
  // has none, else as if contiguous.
  if (source.rank() == 0)
    return success();
  for (int64_t i = lead - 1; i >= 0; --i) {
    std::optional<bool> one = isOne(p.at(i));
    if (!one)
      return undecided(error, p.at(i), 1);
    if (*one)
      result.strides[i] = i + 1 < static_cast<int64_t>(p.size())
                              ? result.shape[i + 1] * result.strides[i + 1]
                              : Size(1);
  }
  return success();
}
SmallVector<AffineExpr> forwardExpand(Numbers p, const Layout &source,
                                      const Layout &, MLIRContext *context) {
  int64_t lead = static_cast<int64_t>(p.size()) - source.rank();
  SmallVector<AffineExpr> map;
  for (int64_t i = 0; i < source.rank(); ++i)
    map.push_back(source.shape[i] == p.at(lead + i)
                      ? getAffineDimExpr(lead + i, context)
                      : getAffineConstantExpr(0, context));
  return map;
}
std::optional<ViewAttr> inverseExpand(Numbers p, const Layout &source,
                                      const Layout &, MLIRContext *context) {
  Size count = product(p.all());
  if (count != product(source.shape) || count.is(0))
    return std::nullopt;
  return viewOf(source.shape, context);
}

//--- squeeze: dims ----------------------------------------------------------//

LogicalResult inferSqueeze(Numbers p, const Layout &source, Layout &result,
                           EmitError error) {
  for (int64_t dim : p.plain()) {
    if (failed(expectDim(dim, source.rank(), error)))
      return failure();
    if (!source.shape[dim].is(1))
      return error() << "view squeezes a dimension of "
                     << toString(source.shape[dim]);
  }
  for (int64_t i = 0; i < source.rank(); ++i) {
    if (llvm::is_contained(p.plain(), i))
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
    map.push_back(llvm::is_contained(p.plain(), i)
                      ? getAffineConstantExpr(0, context)
                      : getAffineDimExpr(next++, context));
  return map;
}

//--- unsqueeze: dim ---------------------------------------------------------//

LogicalResult inferUnsqueeze(Numbers p, const Layout &source, Layout &result,
                             EmitError error) {
  if (failed(expectCount(p, 1, error)) ||
      failed(expectDim(p[0], source.rank() + 1, error)))
    return failure();
  result = source;
  Size stride = p[0] < source.rank() ? source.shape[p[0]] * source.strides[p[0]]
                                     : Size(1);
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
  return ViewAttr::get(context, ViewKind::squeeze, p.plain());
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
      {inferView, forwardView, inverseToShape},
      {inferExpand, forwardExpand, inverseExpand},
      {inferSqueeze, forwardSqueeze, inverseToShape},
      {inferUnsqueeze, forwardUnsqueeze, inverseUnsqueeze},
      diagonalRule,
      unfoldRule,
      asStridedRule,
      {inferAlias, forwardAlias, inverseAlias}, // detach
  };
  return rules[static_cast<unsigned>(kind)];
}
