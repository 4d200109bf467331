//===- IndexMath.h - Index expressions over a kernel's domain ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Access offsets are affine expressions over the dimensions of an iteration
// domain whose sizes are known. Knowing the sizes simplifies more than MLIR's
// own affine folding can: with d1 < 64, (d0 * 64 + d1) floordiv 64 is d0.
//
// Sizes and strides that differ between calls are polynomials over symbols
// (pyjit/Analysis/SizeExpr.h). A dimension of such a size has `kDynamic` in
// the lists of sizes; its range is not known.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CODEGEN_INDEXMATH_H
#define PYJIT_CODEGEN_INDEXMATH_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinTypes.h"
#include "pyjit/Analysis/SizeExpr.h"
#include "llvm/ADT/SmallVector.h"
#include <utility>

namespace pyjit::codegen {

/// constant + sum of coefficient * base, where a base is a dimension, a
/// floordiv/mod that could not be simplified away, or one of these times a
/// product of symbols; or such a product alone.
struct LinearForm {
  int64_t constant = 0;
  llvm::SmallVector<std::pair<mlir::AffineExpr, int64_t>, 4> terms;

  /// The coefficient of dimension `dim` as a plain term.
  int64_t coefficient(unsigned dim) const;
  /// Whether `dim` occurs inside a floordiv or mod, or has a symbolic stride.
  bool isNonlinearIn(unsigned dim) const;
  /// The stride of `dim`, symbolic or not; nothing where it occurs inside a
  /// floordiv or mod.
  std::optional<analysis::Size> strideOf(unsigned dim) const;
  /// The term `(dim + ...) mod n` through which alone `dim` occurs, where a
  /// step of it is one element unless it goes round: a cyclic read; else null.
  mlir::AffineExpr cyclicTerm(unsigned dim) const;
  /// Whether `dim` occurs at all.
  bool uses(unsigned dim) const;
  void add(mlir::AffineExpr base, int64_t coefficient);
  mlir::AffineExpr toExpr(mlir::MLIRContext *context) const;
};

LinearForm linearize(mlir::AffineExpr expr);

/// Simplifies `expr`, given that dimension i lies in [0, sizes[i]).
mlir::AffineExpr simplify(mlir::AffineExpr expr, llvm::ArrayRef<int64_t> sizes);

/// The range that `expr` takes, both ends included.
std::pair<int64_t, int64_t> range(mlir::AffineExpr expr,
                                  llvm::ArrayRef<int64_t> sizes);

/// Strides in elements of a kernel operand: those that its encoding states, or
/// row-major ones. `kDynamic` where a stride is symbolic.
llvm::SmallVector<int64_t> stridesOf(mlir::RankedTensorType type);

/// The offset in elements of the element at `coordinates`.
mlir::AffineExpr offsetOf(mlir::RankedTensorType type,
                          llvm::ArrayRef<mlir::AffineExpr> coordinates);

} // namespace pyjit::codegen

#endif
