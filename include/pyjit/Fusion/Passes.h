//===- Passes.h - Operations to kernels -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_FUSION_PASSES_H
#define PYJIT_FUSION_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace pyjit::fusion {

#define GEN_PASS_DECL
#include "lib/Fusion/Passes.h.inc"

struct FusionOptions {
  /// Parts of reductions to few values (`fusion-split-reductions`); 0: whole.
  int64_t reductionParts = 0;
  /// Of `fusion-outline`; 0: as it has it.
  unsigned maxRecomputeCost = 0;
  bool updatesApart = false;
  bool attention = false;
};

/// Functional tensor programs to kernels and vendor calls: what `pyjit-fuse`
/// and `pyjit-launch` have in common.
void buildFusionPipeline(mlir::OpPassManager &pm, const FusionOptions &options);

#define GEN_PASS_REGISTRATION
#include "lib/Fusion/Passes.h.inc"

/// Passes of lib/Fusion and lib/Conversion/TSSAToLinalg.
void registerFusionPasses();

} // namespace pyjit::fusion

#endif
