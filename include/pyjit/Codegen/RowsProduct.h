//===- RowsProduct.h - Few rows times a matrix ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CODEGEN_ROWSPRODUCT_H
#define PYJIT_CODEGEN_ROWSPRODUCT_H

#include "pyjit/Codegen/KernelGraph.h"
#include <optional>

namespace pyjit::codegen {

/// A kernel whose one reduction is a matmul of few rows in half precision, as
/// tensor cores take it: both factors are loads of one half type, contiguous
/// along the sum. What follows from the sums is computed at each of them.
struct RowsProduct {
  /// The most rows, and what the length of the sum is a multiple of.
  static constexpr int64_t kMostRows = 16, kSumMultiple = 32;

  Node *sum;
  /// Loads: of rows x sum, of columns x sum.
  Node *rows, *columns;
  /// Dims of the domain: all parallel dims but `columnDim` number the rows.
  llvm::SmallVector<unsigned> rowDims;
  unsigned columnDim = 0, sumDim = 0;
  int64_t rowCount = 1;

  /// Null where `graph` is something else.
  static std::optional<RowsProduct> find(const KernelGraph &graph);
};

} // namespace pyjit::codegen

#endif
