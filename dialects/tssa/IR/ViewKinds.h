//===- ViewKinds.h - one record per kind of view --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to IR/: the table behind Views.h. Rules of dense views are in
// ViewKinds.cpp, those of windows and diagonals in ViewKindsStrided.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_DIALECTS_TSSA_IR_VIEWKINDS_H
#define PYJIT_DIALECTS_TSSA_IR_VIEWKINDS_H

#include "dialects/tssa/IR/Views.h"
#include "mlir/IR/AffineExpr.h"

namespace pyjit::tssa::views {

using llvm::LogicalResult;
using llvm::SmallVector;
using mlir::AffineExpr;
using mlir::ArrayRef;
using mlir::MLIRContext;

/// The numbers of one view.
class Numbers {
public:
  Numbers(ViewAttr view) : params(view.getParams()), exprs(view.getExprs()) {}
  size_t size() const { return params.size(); }
  /// A number that is a dimension, a step or the like; where it is symbolic, a
  /// value that no check lets pass.
  int64_t operator[](size_t i) const { return params[i]; }
  ArrayRef<int64_t> plain() const { return params; }
  /// Whether an SSA operand stands for it.
  bool isOperand(size_t i) const {
    return mlir::ShapedType::isDynamic(params[i]);
  }
  bool isSymbolic() const { return !exprs.empty(); }
  Size at(size_t i) const {
    return params[i] == ViewAttr::kSymbolic ? Size(exprs[i]) : Size(params[i]);
  }
  SmallVector<Size> all() const {
    SmallVector<Size> sizes;
    for (size_t i = 0; i < size(); ++i)
      sizes.push_back(at(i));
    return sizes;
  }

private:
  ArrayRef<int64_t> params;
  ArrayRef<AffineExpr> exprs;
};

/// Where a view is applied: shape and strides of its source.
struct Layout {
  SmallVector<Size> shape, strides;
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
/// Refuses a symbolic size where a rule has to know it.
LogicalResult expectNumber(const Size &size, EmitError error);
Size product(ArrayRef<Size> shape);
/// Sizes as an error message shows them.
std::string toString(const Size &size);

/// Dimensions of more than one element, widest stride first.
SmallVector<unsigned> sortedDims(ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> strides);
/// No two indices share a place. Sufficient, as PyTorch's own check is.
bool isNonOverlapping(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides);

} // namespace pyjit::tssa::views

#endif // PYJIT_DIALECTS_TSSA_IR_VIEWKINDS_H
