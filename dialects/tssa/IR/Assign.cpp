//===- Assign.cpp - an assignment through a view as a read ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ViewKinds.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pyjit::tssa;
using namespace pyjit::tssa::views;

static InFlightDiagnostic unexpected(MLIRContext *context) {
  return emitError(UnknownLoc::get(context));
}

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
  Numbers p(view);
  auto numberOrSymbol = [&](size_t i) {
    return p.isOperand(i) ? getAffineSymbolExpr(nextSymbol++, context)
                          : p.at(i).toExpr(context);
  };
  switch (view.getKind()) {
  case ViewKind::select:
    shown.require(shown.index[p[0]] - numberOrSymbol(1), true);
    shown.index.erase(shown.index.begin() + p[0]);
    return success();
  case ViewKind::slice: {
    AffineExpr distance = shown.index[p[0]] - numberOrSymbol(1);
    shown.require(distance, false);
    shown.require(((p.at(2) - 1) * p[3]).toExpr(context) - distance, false);
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
  // Sizes of a call are symbols too.
  unsigned ofSizes = 0;
  for (ArrayRef<AffineExpr> exprs : {ArrayRef<AffineExpr>(shown.index),
                                     ArrayRef<AffineExpr>(shown.constraints)})
    for (AffineExpr expr : exprs)
      ofSizes = std::max(ofSizes, analysis::countSymbols(expr));
  if (symbols == 0)
    symbols = ofSizes;
  rule.map =
      simplifyAffineMap(AffineMap::get(rank, symbols, shown.index, context));
  if (!shown.constraints.empty())
    rule.condition =
        IntegerSet::get(rank, symbols, shown.constraints, shown.isEquality);
  return rule;
}
