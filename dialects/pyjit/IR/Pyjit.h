//===- Pyjit.h - The dialect of attributes ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_PYJIT_IR_PYJIT_H
#define PYJIT_DIALECTS_PYJIT_IR_PYJIT_H

#include "mlir/IR/Dialect.h"

#include "dialects/pyjit/IR/PyjitDialect.h.inc"

namespace pyjit {

/// Registers the dialect, which is loaded with the dialect of functions: passes
/// make its attributes where a file has none.
void registerPyjitDialect(mlir::DialectRegistry &registry);

} // namespace pyjit

#endif // PYJIT_DIALECTS_PYJIT_IR_PYJIT_H
