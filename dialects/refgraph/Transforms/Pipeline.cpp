//===- Pipeline.cpp - from traces to guards, mock and graph ---------------===//

#include "dialects/refgraph/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"

void pyjit::refgraph::buildRecordPipeline(mlir::OpPassManager &manager) {
  manager.addPass(createLiftPass());
  manager.addPass(createAnnotatePass());
  manager.addPass(createGenerateGuardsPass());
  manager.addPass(createGenerateMockPass());
  // It erases the trace.
  manager.addPass(createExtractGraphPass());
  manager.addPass(createRerollLoopsPass());
}
