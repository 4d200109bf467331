//===- Parts.h - Results that become parts of larger ones -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_LIBRARY_PARTS_H
#define PYJIT_LIB_LIBRARY_PARTS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace pyjit::library {

/// Values and the types that they would have.
using Retyping =
    llvm::SmallVector<std::pair<mlir::Value, mlir::RankedTensorType>>;

/// Whether everything that reads `value` still means the same if the value's
/// elements lie as `type` says; collects what has to be retyped.
bool canLieElsewhere(mlir::Value value, mlir::RankedTensorType type,
                     Retyping &changes);
void retype(const Retyping &changes);

} // namespace pyjit::library

#endif // PYJIT_LIB_LIBRARY_PARTS_H
