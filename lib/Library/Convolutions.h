//===- Convolutions.h - A convolution and its epilogue ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_LIBRARY_CONVOLUTIONS_H
#define PYJIT_LIB_LIBRARY_CONVOLUTIONS_H

#include "Calls.h"

namespace pyjit::library {

/// One convolution and what one call can do with it.
struct ConvolutionChain {
  using Elements = bool (*)(mlir::Type);

  void begin(tssa::AtenOp op);
  /// A batch norm in inference mode that alone uses the convolution, with
  /// parameters of such elements.
  void matchBatchNorm(Elements elements);
  /// The addition of another tensor of the same shape and such elements.
  void matchAddition(Elements elements);
  /// The operator that alone uses what the chain gives becomes its last one.
  void take(tssa::AtenOp op);
  /// What weight and bias have to be so that they do the batch norm as well;
  /// computed in f32.
  void foldBatchNorm(CallBuilder &calls, mlir::Value &weight,
                     mlir::Value &bias);
  /// A convolution of single points at every point: rows of channels times a
  /// matrix.
  bool isOfPoints() const;
  void erase();

  tssa::AtenOp convolution, batchNorm, addition;
  mlir::Value other; ///< added to the convolution's result
  mlir::Value last;  ///< what the new call replaces
  mlir::SmallVector<mlir::Operation *> replaced;
};

} // namespace pyjit::library

#endif // PYJIT_LIB_LIBRARY_CONVOLUTIONS_H
