//===- ViewRules.h - one record per kind of view --------------------------===//
//
// Private to IR/: the table behind Views.h. Rules of dense views are in
// ViewRules.cpp, those of windows and diagonals in ViewRulesStrided.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_DIALECTS_TSSA_IR_VIEWRULES_H
#define PYJIT_DIALECTS_TSSA_IR_VIEWRULES_H

#include "dialects/tssa/IR/Views.h"
#include "mlir/IR/AffineExpr.h"

namespace pyjit::tssa::views {

using llvm::LogicalResult;
using llvm::SmallVector;
using mlir::AffineExpr;
using mlir::ArrayRef;
using mlir::MLIRContext;

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

extern const ViewRule diagonalRule, unfoldRule, asStridedRule;
const ViewRule &getViewRule(ViewKind kind);

/// Dimensions d0 to d(count - 1).
SmallVector<AffineExpr> dims(MLIRContext *context, unsigned count);
LogicalResult expectCount(Numbers p, size_t count, EmitError error);
LogicalResult expectDim(int64_t dim, int64_t rank, EmitError error);
int64_t product(ArrayRef<int64_t> shape);

/// Dimensions of more than one element, widest stride first.
SmallVector<unsigned> sortedDims(ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> strides);
/// No two indices share a place. Sufficient, as PyTorch's own check is.
bool isNonOverlapping(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides);

} // namespace pyjit::tssa::views

#endif // PYJIT_DIALECTS_TSSA_IR_VIEWRULES_H
