//===- OnlineSum.h - A maximum and the exponentials below it ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax and its relatives reduce a row twice: its maximum, then the sum of
// exp(x - maximum). Both can be had in one walk over the row.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_LIB_CODEGEN_PTX_ONLINESUM_H
#define PYJIT_LIB_CODEGEN_PTX_ONLINESUM_H

#include "pyjit/Codegen/KernelGraph.h"

namespace pyjit::ptx {

struct OnlineSum {
  /// max(x), all that its stage does.
  codegen::Node *maximum;
  /// sum(exp(x - bound)), all that the next stage does.
  codegen::Node *sum;
  /// exp(x - bound), and what is subtracted there: a value of its body that
  /// follows from the maximum and from no element of the row.
  codegen::Node *exponential;
  mlir::Value bound;
};

/// Stages `number` and `number + 1` of `graph` as such a pair in f32, if that
/// is what they are. `reduced`: the reduction dims.
std::optional<OnlineSum> findOnlineSum(const codegen::KernelGraph &graph,
                                       unsigned number,
                                       const llvm::SmallBitVector &reduced);

} // namespace pyjit::ptx

#endif
