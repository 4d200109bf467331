//===- Pipeline.cpp - The PTX stage as one pipeline -----------------------===//

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "pyjit/Codegen/PTX/Passes.h"
#include "pyjit/Codegen/Passes.h"

using namespace mlir;

namespace pyjit::ptx {

void buildPtxPipeline(OpPassManager &pm, const PtxOptions &options) {
  pm.addPass(createPtxSplitReductions(
      optionsFor<PtxSplitReductionsOptions>(options.machine)));
  pm.addPass(
      createPtxEmitKernels(optionsFor<PtxEmitKernelsOptions>(options.machine)));
  pm.addNestedPass<ModuleOp>(createPtxExpandMath());
  codegen::CodegenExpandMathOptions math;
  math.nativeBF16 = !options.simulate;
  pm.addNestedPass<ModuleOp>(codegen::createCodegenExpandMath(math));
  PtxLowerKernelsOptions lower;
  lower.simulate = options.simulate;
  pm.addPass(createPtxLowerKernels(lower));
}

namespace {
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<bool> simulate{*this, "simulate",
                        llvm::cl::desc("Code for the host, one call a thread"),
                        llvm::cl::init(false)};
};
} // namespace

void registerPtxCodegenPasses() {
  registerPtxPasses();
  PassPipelineRegistration<PipelineOptions>(
      "pyjit-ptx", "Kernels on tensors to GPU kernels in the LLVM dialect",
      [](OpPassManager &pm, const PipelineOptions &options) {
        PtxOptions ptx;
        ptx.simulate = options.simulate;
        buildPtxPipeline(pm, ptx);
      });
}

} // namespace pyjit::ptx
