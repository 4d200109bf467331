//===- KnownElements.h - Tensors whose elements are known -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_TSSA_IR_KNOWNELEMENTS_H
#define PYJIT_DIALECTS_TSSA_IR_KNOWNELEMENTS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Value.h"

namespace pyjit::tssa {

/// Every element of `tensor` is one of these; null if nothing is known. Looks
/// through copies and views, which show no others.
mlir::DenseI64ArrayAttr getKnownElements(mlir::Value tensor);

} // namespace pyjit::tssa

#endif // PYJIT_DIALECTS_TSSA_IR_KNOWNELEMENTS_H
