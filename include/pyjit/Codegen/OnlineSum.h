//===- OnlineSum.h - A maximum and the exponentials below it ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax and its relatives reduce a row twice: its maximum, then the sum of
// exp(x - maximum). Both can be had in one walk over the row.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CODEGEN_ONLINESUM_H
#define PYJIT_CODEGEN_ONLINESUM_H

#include "pyjit/Codegen/KernelGraph.h"

namespace pyjit::codegen {

struct OnlineSum {
  /// max(x), all that its stage does.
  Node *maximum;
  /// sum(exp(x - bound)), all that the next stage does.
  Node *sum;
  /// exp(x - bound), and what is subtracted there: a value of its body that
  /// follows from the maximum and from no element of the row.
  Node *exponential;
  mlir::Value bound;
};

/// Stages `number` and `number + 1` of `graph` as such a pair in f32, if that
/// is what they are. `reduced`: the reduction dims.
std::optional<OnlineSum> findOnlineSum(const KernelGraph &graph,
                                       unsigned number,
                                       const llvm::SmallBitVector &reduced);

struct Softmax {
  /// Zeros where all of a row are minus infinity, instead of no numbers.
  bool safe = false;
};

/// What the one result of `graph` is if it is exp(x - max(x)) / sum(exp(x -
/// max(x))) of each row, in f32.
std::optional<Softmax> asSoftmax(const KernelGraph &graph);

} // namespace pyjit::codegen

#endif
