//===- Views.h - what each kind of view means -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every view kind is one record (see `getViewRules` in Views.cpp): its shape
// function, the strides that eager PyTorch would give the result, the forward
// index map (from an index of the result to the index of the same element in
// the source), and what an assignment through it has to know. Everything else
// about views composes these.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_DIALECTS_TSSA_IR_VIEWS_H
#define PYJIT_DIALECTS_TSSA_IR_VIEWS_H

#include "dialects/tssa/IR/TSSA.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/IntegerSet.h"
#include "pyjit/Analysis/SizeExpr.h"
#include <optional>

namespace pyjit::tssa {

using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

using analysis::Size;

/// Whether a size or a stride differs between calls: the type has a
/// `#tssa.layout`.
bool isSymbolic(mlir::RankedTensorType type);
/// Whether all sizes are known: as numbers, or as expressions.
bool hasKnownSizes(mlir::RankedTensorType type);

/// PyTorch's strides of a contiguous tensor.
llvm::SmallVector<int64_t> getRowMajorStrides(llvm::ArrayRef<int64_t> shape);
llvm::SmallVector<Size> getRowMajorStrides(llvm::ArrayRef<Size> shape);

/// A type's sizes, of `hasKnownSizes`.
llvm::SmallVector<Size> getSizes(mlir::RankedTensorType type);
/// A type's strides in elements: its encoding's, or row-major. The first form
/// has `kDynamic` where a stride is no number.
llvm::SmallVector<int64_t> getStrides(mlir::RankedTensorType type);
llvm::SmallVector<Size> getSymbolicStrides(mlir::RankedTensorType type);

/// A tensor type with this layout; the encoding is left out where row-major,
/// and is a `#tssa.layout` only where a number is symbolic.
mlir::RankedTensorType getTensorType(llvm::ArrayRef<int64_t> shape,
                                     llvm::ArrayRef<int64_t> strides,
                                     mlir::Type elementType);
mlir::RankedTensorType getSymbolicType(llvm::ArrayRef<Size> sizes,
                                       llvm::ArrayRef<Size> strides,
                                       mlir::Type elementType);
mlir::RankedTensorType getSymbolicType(llvm::ArrayRef<mlir::AffineExpr> sizes,
                                       llvm::ArrayRef<mlir::AffineExpr> strides,
                                       mlir::Type elementType);
/// The same sizes, row-major.
mlir::RankedTensorType getRowMajorType(mlir::RankedTensorType type);

/// Whether the strides give each element a place of its own and leave no gap.
bool isDense(mlir::RankedTensorType type);

/// So many elements of memory are there from a tensor's first element to its
/// last, of `hasKnownSizes`.
Size getExtent(mlir::RankedTensorType type);

//===----------------------------------------------------------------------===//
// One view, and paths of views
//===----------------------------------------------------------------------===//

/// The type of what the view of a tensor of type `source` shows, strides
/// included; null after an error.
mlir::RankedTensorType inferViewType(ViewAttr view,
                                     mlir::RankedTensorType source,
                                     EmitError emitError);
mlir::RankedTensorType inferPathType(mlir::ArrayAttr path,
                                     mlir::RankedTensorType source,
                                     EmitError emitError);

/// From an index of the result to the index of the same element in `source`.
/// One symbol per dynamic number, in the order of the op's `indices`; where
/// none is dynamic, symbols are those of the sizes.
mlir::AffineMap getViewMap(ViewAttr view, mlir::RankedTensorType source);
mlir::AffineMap getPathMap(mlir::ArrayAttr path, mlir::RankedTensorType source);
/// In elements from where `source` begins, the place of what `map`, one of the
/// above without dynamic numbers, shows first. Fails where it is no polynomial
/// over sizes.
mlir::FailureOr<Size> getFirstOffset(mlir::AffineMap map,
                                     mlir::RankedTensorType source);

/// Whether what is shown begins and ends where its source does: memory of the
/// source's own would be as large as memory of its own.
bool showsWhole(AccessOp op);

/// Whether the view shows no element twice, so that an assignment through it
/// has a meaning.
bool isInjective(ViewAttr view, mlir::RankedTensorType source);
bool isInjective(mlir::ArrayAttr path, mlir::RankedTensorType source);

/// For a view that shows every element exactly once: the view of the result
/// that shows the source again.
std::optional<ViewAttr> getInverse(ViewAttr view,
                                   mlir::RankedTensorType source);

/// An assignment as a read: element j of `assign(t, s, path)` is
/// `s[map(j)]` where `condition` holds of j, else `t[j]`.
struct AssignRule {
  mlir::AffineMap map;
  mlir::IntegerSet condition; ///< null: holds everywhere
};
/// Nothing where no affine rule is known (unfold, as_strided, symbolic sizes
/// beside dynamic indices): such an assignment copies `t` and writes through
/// the path's forward map.
std::optional<AssignRule> getAssignRule(mlir::ArrayAttr path,
                                        mlir::RankedTensorType source);

/// How many SSA operands the path's `?` stand for.
unsigned getNumDynamic(mlir::ArrayAttr path);

} // namespace pyjit::tssa

#endif // PYJIT_DIALECTS_TSSA_IR_VIEWS_H
