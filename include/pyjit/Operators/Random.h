//===- Random.h - Calls of random operators that draw nothing ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_OPERATORS_RANDOM_H
#define PYJIT_OPERATORS_RANDOM_H

#include "mlir/IR/BuiltinAttributes.h"
#include "pyjit/Operators/OperatorInfo.h"

namespace pyjit::operators {

/// Whether a call of a random operator leaves every generator as it is, because
/// its arguments switch it off: dropout of probability 0, or outside of
/// training. What this does not know counts as drawing.
bool drawsNothing(const OperatorInfo &info, mlir::ArrayAttr args);

} // namespace pyjit::operators

#endif // PYJIT_OPERATORS_RANDOM_H
