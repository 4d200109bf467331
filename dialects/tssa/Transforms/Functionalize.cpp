//===- Functionalize.cpp - The functionalization pipeline -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/tssa/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

void pyjit::tssa::buildFunctionalizePipeline(OpPassManager &manager) {
  OpPassManager &function = manager.nest<func::FuncOp>();
  // Views away first: what is left to track are whole tensors.
  function.addPass(createRewriteMutationPass());
  // Then control flow: no region changes what another one sees.
  function.addPass(createPropagateBlocksPass());
  // Then each load is the value stored last.
  function.addPass(createRenamePass());
}

void pyjit::tssa::registerFunctionalizePipeline() {
  PassPipelineRegistration<>("tssa-functionalize",
                             "Turn tensor handles into values: views, loops "
                             "and branches included",
                             buildFunctionalizePipeline);
}
