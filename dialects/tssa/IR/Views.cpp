//===- Views.cpp - views and paths of views -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ViewKinds.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pyjit::tssa;
using namespace pyjit::tssa::views;

namespace {

Layout getLayout(RankedTensorType type) {
  return {getSizes(type), getSymbolicStrides(type)};
}

/// Source and result layout of a view that is known to be valid.
std::pair<Layout, Layout> getLayouts(ViewAttr view, RankedTensorType source) {
  Layout from = getLayout(source), to;
  LogicalResult valid =
      getViewRule(view.getKind()).infer(Numbers(view), from, to, [&] {
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
  if (!hasKnownSizes(source)) {
    emitError() << "view of a tensor whose sizes no #tssa.layout says";
    return {};
  }
  if (view.getNumDynamic() && (view.isSymbolic() || tssa::isSymbolic(source))) {
    emitError() << "view at an index known only at run time of a tensor of "
                   "symbolic sizes";
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
  if (failed(getViewRule(view.getKind())
                 .infer(Numbers(view), getLayout(source), result, emitError)))
    return {};
  return getSymbolicType(result.shape, result.strides, source.getElementType());
}

AffineMap pyjit::tssa::getViewMap(ViewAttr view, RankedTensorType source) {
  auto [from, to] = getLayouts(view, source);
  MLIRContext *context = view.getContext();
  SmallVector<AffineExpr> exprs =
      getViewRule(view.getKind()).forward(Numbers(view), from, to, context);
  unsigned symbols = view.getNumDynamic();
  for (AffineExpr expr : exprs)
    symbols = std::max(symbols, analysis::countSymbols(expr));
  return AffineMap::get(to.rank(), symbols, exprs, context);
}

bool pyjit::tssa::isInjective(ViewAttr view, RankedTensorType source) {
  auto [from, to] = getLayouts(view, source);
  switch (view.getKind()) {
  case ViewKind::expand:
    return product(from.shape) == product(to.shape);
  case ViewKind::unfold:
    return view.getParams()[2] >= view.getParams()[1] ||
           to.shape[view.getParams()[0]].is(1) ||
           to.shape[view.getParams()[0]].is(0);
  case ViewKind::as_strided: {
    auto rank = to.rank();
    ArrayRef<int64_t> numbers = view.getParams();
    return isNonOverlapping(numbers.slice(1, rank),
                            numbers.drop_front(1 + rank));
  }
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
  return rule.inverse(Numbers(view), from, to, view.getContext());
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
    AffineMap next = getViewMap(view, source);
    if (getNumDynamic(path) == 0 &&
        (map.getNumSymbols() || next.getNumSymbols())) {
      // Symbols are sizes, the same ones in both.
      SmallVector<AffineExpr> exprs;
      for (AffineExpr expr : map.getResults())
        exprs.push_back(expr.replaceDims(next.getResults()));
      map = AffineMap::get(next.getNumDims(),
                           std::max(map.getNumSymbols(), next.getNumSymbols()),
                           exprs, context);
    } else {
      // `compose` appends the second map's symbols to the first's.
      map = simplifyAffineMap(map.compose(next));
    }
    source = inferViewType(view, source, [&] { return unexpected(context); });
  }
  return map;
}

/// `expr` where every dim is 0: MLIR leaves `0 floordiv s0` as it is.
static AffineExpr atOrigin(AffineExpr expr) {
  MLIRContext *context = expr.getContext();
  AffineExpr zero = getAffineConstantExpr(0, context);
  if (isa<AffineDimExpr>(expr))
    return zero;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return expr;
  AffineExpr lhs = atOrigin(binary.getLHS()), rhs = atOrigin(binary.getRHS());
  bool divides = expr.getKind() != AffineExprKind::Add &&
                 expr.getKind() != AffineExprKind::Mul;
  if (divides && lhs == zero)
    return zero;
  return getAffineBinaryOpExpr(expr.getKind(), lhs, rhs);
}

FailureOr<Size> pyjit::tssa::getFirstOffset(AffineMap map,
                                            RankedTensorType source) {
  if (!map)
    return failure();
  Size offset = 0;
  for (auto [expr, stride] :
       llvm::zip(map.getResults(), getSymbolicStrides(source))) {
    AffineExpr first = analysis::normalizeSize(atOrigin(expr));
    if (!first)
      return failure();
    offset += Size(first) * stride;
  }
  return offset;
}

bool pyjit::tssa::showsWhole(AccessOp op) {
  auto source = cast<RankedTensorType>(op.getSource().getType());
  auto shown = cast<RankedTensorType>(op.getType());
  if (!op.getIndices().empty() || !hasKnownSizes(source) ||
      !hasKnownSizes(shown) || getExtent(shown) != getExtent(source))
    return false;
  auto offset = getFirstOffset(getPathMap(op.getPath(), source), source);
  return succeeded(offset) && offset->is(0);
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
