//===- Pipeline.cpp - from traces to guards, mock and graph ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"

void pyjit::refgraph::buildSpecializationPipeline(mlir::OpPassManager &manager,
                                                  bool specializeSizes) {
  LiftSizesPassOptions sizes;
  sizes.specialize = specializeSizes;
  manager.addPass(createLiftSizesPass(sizes));
  manager.addPass(createLiftPass());
  manager.addPass(createAnnotatePass());
  manager.addPass(createGenerateGuardsPass());
  manager.addPass(createGenerateMockPass());
  // It erases the trace.
  manager.addPass(createExtractGraphPass());
  manager.addPass(createFormLoopsPass());
}
