//===- Passes.h - Planning vendor calls -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIBRARY_PASSES_H
#define PYJIT_LIBRARY_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace pyjit::library {

#define GEN_PASS_DECL
#include "lib/Library/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Library/Passes.h.inc"

} // namespace pyjit::library

#endif // PYJIT_LIBRARY_PASSES_H
