//===- Pipeline.cpp - The cudagraph passes in their order -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/cudagraph/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace pyjit;

void cudagraph::buildGraphPipeline(OpPassManager &manager, bool fuse) {
  OpPassManager &program = manager.nest<ProgramOp>();
  program.addPass(createPlaceDataPass());
  program.addPass(createFormGraphsPass());
  // In graphs, too: what stands in front of one cannot go into it.
  if (fuse)
    manager.addPass(createFuseHorizontallyPass());
  // Before code is generated: indirect versions are kernels of their own.
  manager.addPass(createIndirectParamsPass());
  // Last: graphs decide what lives how long.
  OpPassManager &planned = manager.nest<ProgramOp>();
  planned.addPass(createPlanMemoryPass());
  planned.addPass(createSelectPass());
}
