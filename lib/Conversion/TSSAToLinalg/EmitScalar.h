//===- EmitScalar.h - Scalar expressions as arith and math ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_CONVERSION_TSSATOLINALG_EMITSCALAR_H
#define PYJIT_LIB_CONVERSION_TSSATOLINALG_EMITSCALAR_H

#include "mlir/IR/Builders.h"
#include "pyjit/Operators/ScalarExpr.h"

namespace pyjit {

/// Why `expr` has to stay a vendor call, or an empty string: integer division
/// by what may be zero raises in eager, indexed reads are not checked.
llvm::StringRef whyNotEmitted(llvm::ArrayRef<operators::ScalarNode> expr);

/// Emits `expr` in a linalg body whose input elements are `inputs`. The result
/// has the root's type; unsigned values are signless inside. `onDevice`: where
/// eager's answer depends on the hardware (conversions out of range, which of
/// two zeros is greater), it is a GPU's.
mlir::Value emitScalar(mlir::OpBuilder &builder, mlir::Location loc,
                       llvm::ArrayRef<operators::ScalarNode> expr,
                       mlir::ValueRange inputs, bool onDevice);

} // namespace pyjit

#endif
