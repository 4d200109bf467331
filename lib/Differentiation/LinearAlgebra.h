//===- LinearAlgebra.h - Matrices within gradients --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_DIFFERENTIATION_LINEARALGEBRA_H
#define PYJIT_LIB_DIFFERENTIATION_LINEARALGEBRA_H

#include "GradientBuilder.h"

namespace pyjit::differentiation {

/// With the last two dimensions exchanged.
mlir::Value transposed(GradientBuilder &build, mlir::Value value);

/// The products of matrices, of whatever first dimensions, that are alike or
/// broadcast.
mlir::Value product(GradientBuilder &build, mlir::Value a, mlir::Value b);

/// X where `matrix` X = `right`, or (not `left`) X `matrix` = `right`.
mlir::Value solveTriangular(GradientBuilder &build, mlir::Value matrix,
                            mlir::Value right, bool upper, bool left,
                            bool hasUnits);

} // namespace pyjit::differentiation

#endif // PYJIT_LIB_DIFFERENTIATION_LINEARALGEBRA_H
