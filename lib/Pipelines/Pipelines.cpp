//===- Pipelines.cpp - The order of the stages ----------------------------===//

#include "pyjit/Pipelines/Pipelines.h"

#include "dialects/cudagraph/Transforms/Passes.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/tssa/Transforms/Passes.h"
#include "pyjit/Codegen/PTX/Passes.h"
#include "pyjit/Codegen/X86/Passes.h"
#include "pyjit/Conversion/RefGraphToTSSA/Passes.h"
#include "pyjit/Conversion/TSSAToCudaGraph/Passes.h"
#include "pyjit/Conversion/TSSAToLinalg/Passes.h"
#include "pyjit/Fusion/Passes.h"
#include "pyjit/Library/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace pyjit;

void pipelines::buildFrontendPipeline(OpPassManager &manager,
                                      const Options &options) {
  // What Python did: checks, effects, and the tensor operators between them.
  refgraph::buildRecordPipeline(manager, options.pinSizes);
  ConvertRefGraphToTSSAPassOptions convert;
  convert.accelerator = options.accelerator;
  manager.addPass(createConvertRefGraphToTSSAPass(convert));
  buildFunctionalPipeline(manager);
}

void pipelines::buildFunctionalPipeline(OpPassManager &manager) {
  // What the tensors did: values instead of handles.
  tssa::buildFunctionalizePipeline(manager);
  OpPassManager &function = manager.nest<func::FuncOp>();
  function.addPass(tssa::createVerifyFunctionalPass());
  // Most accesses meet the assign or access that they cancel with.
  function.addPass(tssa::createFoldViewsPass());
  function.addPass(createCSEPass());
  function.addPass(tssa::createHoistExpectationsPass());
}

void pipelines::buildFusePipeline(OpPassManager &manager,
                                  const Options &options) {
  // Before anything moves: what the dispatcher did not see is not compiled.
  manager.addNestedPass<func::FuncOp>(createVerifyInitialized());
  // Library calls first: they claim the operators that become their epilogues.
  // Folding and packing round differently, which eager-rounding forbids.
  if (!options.eagerRounding) {
    OpPassManager &function = manager.nest<func::FuncOp>();
    library::PlanConvolutionsPassOptions convolutions;
    // A convolution has many rows.
    x86::ProductLimits limits = x86::hostProductLimits();
    convolutions.columns = limits.rows == INT64_MAX ? limits.columns : 0;
    function.addPass(library::createPlanConvolutionsPass(convolutions));
    library::PlanProductsPassOptions products;
    products.columns = limits.columns;
    products.maxRows = limits.rows;
    function.addPass(library::createPlanProductsPass(products));
    function.addPass(library::createPlanLinearPass());
  }
  // Then what is left of the parameters' own arithmetic runs once, and once for
  // all iterations of a loop that the trace has one after the other.
  manager.addNestedPass<func::FuncOp>(createCSEPass());
  manager.addPass(library::createHoistParametersPass());
  // Weights, packed or not, are arguments now: iterations differ in no more.
  manager.addNestedPass<func::FuncOp>(tssa::createRerollLoopsPass());
  manager.addNestedPass<func::FuncOp>(tssa::createParallelizeLoopsPass());
  fusion::FusionOptions fuse;
  // Enough for the threads of a host, few enough to be joined by one of them.
  fuse.reductionParts = 16;
  fusion::buildFusionPipeline(manager, fuse);
}

void pipelines::buildX86Pipeline(OpPassManager &manager, const Options &) {
  x86::X86Options options;
  options.vectorBits = x86::hostVectorBits();
  x86::buildX86Pipeline(manager, options);
}

void pipelines::buildCpuPipeline(OpPassManager &manager,
                                 const Options &options) {
  buildFrontendPipeline(manager, options);
  buildFusePipeline(manager, options);
  buildX86Pipeline(manager, options);
}

void pipelines::buildLaunchPipeline(OpPassManager &manager,
                                    const Options &options) {
  // The CPU's libraries and their packed weights are out of place here.
  manager.addNestedPass<func::FuncOp>(createVerifyInitialized());
  if (!options.eagerRounding) {
    OpPassManager &function = manager.nest<func::FuncOp>();
    if (options.accelerator.empty())
      function.addPass(library::createPlanImagesPass());
    function.addPass(library::createPlanLossesPass());
    function.addPass(library::createBatchLinearsPass());
    function.addPass(library::createMergeLinearsPass());
    if (options.accelerator.empty())
      function.addPass(library::createPlanEpiloguesPass());
  }
  manager.addNestedPass<func::FuncOp>(createCSEPass());
  manager.addPass(library::createHoistParametersPass());
  manager.addNestedPass<func::FuncOp>(tssa::createRerollLoopsPass());
  manager.addNestedPass<func::FuncOp>(tssa::createParallelizeLoopsPass());
  fusion::buildFusionPipeline(manager, fusion::FusionOptions());
  // Reductions that would leave a GPU idle become two launches.
  if (options.accelerator.empty())
    manager.addPass(ptx::createPtxSplitReductions());
  // A loop was for fusion's sake: launches stand one after the other.
  manager.addNestedPass<func::FuncOp>(tssa::createUnrollLoopsPass());
  manager.addPass(createConvertTSSAToCudaGraphPass());
  cudagraph::buildGraphPipeline(manager);
}

void pipelines::buildPtxPipeline(OpPassManager &manager, const Options &) {
  ptx::buildPtxPipeline(manager, ptx::PtxOptions());
}

void pipelines::buildCudaPipeline(OpPassManager &manager,
                                  const Options &options) {
  buildFrontendPipeline(manager, options);
  buildLaunchPipeline(manager, options);
  buildPtxPipeline(manager, options);
}

void pipelines::registerPipelines() {
  PassPipelineRegistration<Options>(
      "pyjit-frontend",
      "A trace becomes guards, mock and a functional tensor program",
      buildFrontendPipeline);
  PassPipelineRegistration<Options>(
      "pyjit-cpu", "All stages, from a trace to machine code for the host",
      buildCpuPipeline);
  PassPipelineRegistration<Options>(
      "pyjit-cuda",
      "All stages, from a trace to a launch program and code for a GPU",
      buildCudaPipeline);
}
