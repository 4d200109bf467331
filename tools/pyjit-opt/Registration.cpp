//===- Registration.cpp - everything that pyjit's tools know --------------===//

#include "Registration.h"
#include "dialects/cudagraph/Transforms/Passes.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/tssa/Transforms/Passes.h"
#include "mlir/Transforms/Passes.h"
#include "pyjit/Codegen/PTX/Passes.h"
#include "pyjit/Codegen/X86/Passes.h"
#include "pyjit/Conversion/RefGraphToTSSA/Passes.h"
#include "pyjit/Conversion/TSSAToCudaGraph/Passes.h"
#include "pyjit/Fusion/Passes.h"
#include "pyjit/Library/Passes.h"
#include "pyjit/Pipelines/Pipelines.h"

void pyjit::registerDialects(mlir::DialectRegistry &registry) {
  pipelines::registerDialects(registry);
}

void pyjit::registerPasses() {
  mlir::registerTransformsPasses();
  refgraph::registerRefGraphPasses();
  registerRefGraphToTSSAPasses();
  tssa::registerTSSAPasses();
  tssa::registerFunctionalizePipeline();
  library::registerLibraryPasses();
  fusion::registerFusionPasses();
  registerTSSAToCudaGraphPasses();
  cudagraph::registerCudaGraphPasses();
  cudagraph::registerGraphPipeline();
  x86::registerCodegenPasses();
  ptx::registerPtxCodegenPasses();
  pipelines::registerPipelines();
}
