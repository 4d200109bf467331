//===- Passes.h - Gradients of tensor programs ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIFFERENTIATION_PASSES_H
#define PYJIT_DIFFERENTIATION_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace pyjit::differentiation {

#define GEN_PASS_DECL
#include "lib/Differentiation/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Differentiation/Passes.h.inc"

} // namespace pyjit::differentiation

#endif // PYJIT_DIFFERENTIATION_PASSES_H
