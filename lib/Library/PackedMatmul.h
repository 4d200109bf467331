//===- PackedMatmul.h - Matmuls with a packed weight ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_LIBRARY_PACKEDMATMUL_H
#define PYJIT_LIB_LIBRARY_PACKEDMATMUL_H

#include "Calls.h"

namespace pyjit::library {

/// How many columns a panel has where whole panels have `columns`; 0 where
/// `out` columns do not divide into vectors.
int64_t panelWidth(int64_t out, int64_t columns);

/// A row-major weight, in x out if `transposed`, else out x in, as panels x in
/// x columns: what a tile needs of one row of the sum lies together, and panels
/// follow each other. What is in front of the two dimensions is a batch. As a
/// call, which may be hoisted out of the program.
mlir::Value packWeight(CallBuilder &calls, mlir::OpBuilder &builder,
                       mlir::Value weight, bool transposed, int64_t columns);

/// Likewise, by a kernel in each call; the weight need not be row-major.
mlir::Value packInCall(mlir::OpBuilder &b, mlir::Location loc,
                       mlir::Value weight, bool transposed, int64_t columns);

/// Of type `type`, whose dimension `channel` numbers the columns:
/// result[.., n, ..] = sum of input[.., k, ..] * packed[n / columns, k, n %
/// columns]. A batch of weights is the result's first dimensions.
mlir::Value makeMatmul(mlir::OpBuilder &b, mlir::Location loc,
                       mlir::Value input, mlir::Value packed,
                       mlir::RankedTensorType type, unsigned channel);

} // namespace pyjit::library

#endif // PYJIT_LIB_LIBRARY_PACKEDMATMUL_H
