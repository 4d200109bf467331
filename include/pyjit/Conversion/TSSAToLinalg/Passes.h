//===- Passes.h - tssa to linalg --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CONVERSION_TSSATOLINALG_PASSES_H
#define PYJIT_CONVERSION_TSSATOLINALG_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace pyjit {

#define GEN_PASS_DECL
#include "lib/Conversion/TSSAToLinalg/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "lib/Conversion/TSSAToLinalg/Passes.h.inc"

} // namespace pyjit

#endif
