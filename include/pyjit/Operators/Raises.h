//===- Raises.h - Operators that raise for some values ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_OPERATORS_RAISES_H
#define PYJIT_OPERATORS_RAISES_H

#include "mlir/IR/Types.h"
#include "llvm/ADT/StringRef.h"

namespace pyjit::operators {

/// When an overload of the table may raise because of its operands' values.
enum class Raising : uint8_t {
  Never,
  WithIntegers, ///< where its result is one of integers
  Always
};
Raising lookupRaising(llvm::StringRef overload);

/// Whether a call may raise because of its operands' values: it has to run
/// though nothing uses its result. `element`: the element type of its result.
bool mayRaise(llvm::StringRef overload, mlir::Type element);

} // namespace pyjit::operators

#endif // PYJIT_OPERATORS_RAISES_H
