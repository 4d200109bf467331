//===- Calls.h - Building and matching vendor calls -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_LIBRARY_CALLS_H
#define PYJIT_LIB_LIBRARY_CALLS_H

#include "dialects/tssa/IR/Calls.h"

namespace pyjit::library {

using tssa::Argument;
using tssa::CallBuilder;
using tssa::constantArgument;
using tssa::functionalName;
using tssa::matchCall;
using tssa::numberArgument;
using tssa::numberOperand;
using tssa::onlyUser;
using tssa::tensorArgument;
using tssa::typeOf;
using tssa::wrappedArgument;

bool isRowMajorF32(mlir::Value value);
/// The row-major matrix whose transpose `value` shows, or null.
mlir::Value transposedBy(mlir::Value value);
/// `aten::to.dtype`: the value in the element type and layout of `type`.
mlir::Value toDtype(CallBuilder &calls, mlir::Value value,
                    mlir::RankedTensorType type);
/// Whether the value is a parameter or computed from parameters alone.
bool isFromParameters(mlir::Value value);
/// Whether the argument is a parameter that is in most calls what it was in the
/// one before: neither is it trained, nor does the program write it.
bool isLastingParameter(mlir::BlockArgument arg);
/// Whether a weight is from parameters that last, or that are used so often in
/// each call that packing it there pays.
bool isWorthPacking(mlir::Value value);

} // namespace pyjit::library

#endif // PYJIT_LIB_LIBRARY_CALLS_H
