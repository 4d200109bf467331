//===- Pipeline.cpp - The fusion stage as one pipeline --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/Passes.h"
#include "pyjit/Conversion/TSSAToLinalg/Passes.h"
#include "pyjit/Fusion/Passes.h"

using namespace mlir;

namespace pyjit::fusion {

void buildFusionPipeline(OpPassManager &pm, const FusionOptions &options) {
  pm.addNestedPass<func::FuncOp>(createConvertTSSAToLinalg());
  // Loops whose iterations do not meet are no loops any more.
  pm.addNestedPass<func::FuncOp>(createBatchLoops());
  if (options.reductionParts > 1) {
    FusionSplitReductionsOptions split;
    split.parts = options.reductionParts;
    pm.addNestedPass<func::FuncOp>(createFusionSplitReductions(split));
  }
  // Views that two users read are one, and so are equal constants.
  pm.addPass(createCSEPass());
  // What a loop computes alike each time is computed before it.
  pm.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  FusionOutlineOptions outline;
  if (options.maxRecomputeCost)
    outline.maxRecomputeCost = options.maxRecomputeCost;
  outline.updatesApart = options.updatesApart;
  outline.attention = options.attention;
  pm.addPass(createFusionOutline(outline));
}

void registerFusionPasses() {
  registerFusionGeneratedPasses();
  registerTSSAToLinalgPasses();
}

} // namespace pyjit::fusion
