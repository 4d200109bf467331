//===- Passes.h - Passes of the tssa dialect --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_TSSA_TRANSFORMS_PASSES_H
#define PYJIT_DIALECTS_TSSA_TRANSFORMS_PASSES_H

#include "dialects/tssa/IR/TSSA.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"

namespace pyjit::tssa {

#define GEN_PASS_DECL
#include "dialects/tssa/Transforms/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "dialects/tssa/Transforms/Passes.h.inc"

/// rewrite-mutation, propagate-blocks and rename: handles become values.
void buildFunctionalizePipeline(mlir::OpPassManager &manager);
/// Registers the pipeline above as `tssa-functionalize`.
void registerFunctionalizePipeline();

} // namespace pyjit::tssa

#endif // PYJIT_DIALECTS_TSSA_TRANSFORMS_PASSES_H
