//===- ElementIndex.h - Indices as values, on lanes or not ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the emitters of both targets say of positions: of a loop that runs along
// the lanes of a vector, and of elements that a body reads at positions it
// computed.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CODEGEN_ELEMENTINDEX_H
#define PYJIT_CODEGEN_ELEMENTINDEX_H

#include "pyjit/Codegen/GenericBody.h"
#include "pyjit/Codegen/IndexMath.h"
#include "pyjit/Codegen/KernelGraph.h"

namespace pyjit::codegen {

/// An index on `lanes` lanes, a vector of i64, where it depends on the vector
/// dim as `form` does. `at(shift)` is the index, `shift` positions further
/// along that dim; the first lane is `first` positions further.
mlir::Value laneIndices(mlir::ImplicitLocOpBuilder &b, const LinearForm &form,
                        unsigned vectorDim, unsigned lanes, int64_t first,
                        llvm::function_ref<mlir::Value(int64_t shift)> at);

/// Where a `tensor.extract` reads, in elements from the tensor's first one.
struct ExtractIndex {
  /// What follows from loop positions: a row that a value picks is still read
  /// by vectors.
  mlir::AffineExpr affine;
  /// What values say, on lanes where one of them is; null if nothing.
  mlir::Value dynamic;
  /// All that `dynamic` can be is a multiple of it.
  int64_t factor = 0;

  /// The index of all lanes, or of one element, where `affine` is `offset`.
  mlir::Value add(mlir::ImplicitLocOpBuilder &b, mlir::Value offset,
                  unsigned lanes) const;
};
/// `known`: values of the body, positions among them. `valueOf`: what a stride
/// that differs between calls is, an i64.
ExtractIndex
splitExtract(mlir::ImplicitLocOpBuilder &b, mlir::tensor::ExtractOp op,
             const Node &node, const BodyValues &known, unsigned lanes,
             llvm::function_ref<mlir::Value(mlir::AffineExpr)> valueOf);

/// A vector of what `load` reads at each lane of `offsets`.
mlir::Value
gatherLanes(mlir::ImplicitLocOpBuilder &b, mlir::Value offsets,
            llvm::function_ref<mlir::Value(mlir::Value offset)> load);

} // namespace pyjit::codegen

#endif // PYJIT_CODEGEN_ELEMENTINDEX_H
