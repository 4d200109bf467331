//===- Pipelines.cpp - The order of the stages ----------------------------===//

#include "pyjit/Compiler/Pipelines.h"

#include "dialects/cudagraph/Transforms/Passes.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/tssa/Transforms/Passes.h"
#include "pyjit/Codegen/PTX/Passes.h"
#include "pyjit/Codegen/X86/Passes.h"
#include "pyjit/Conversion/RefGraphToTSSA/Passes.h"
#include "pyjit/Conversion/TSSAToCudaGraph/Passes.h"
#include "pyjit/Conversion/TSSAToLinalg/Passes.h"
#include "pyjit/Differentiation/Passes.h"
#include "pyjit/Fusion/Passes.h"
#include "pyjit/Library/Passes.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace pyjit;

namespace pyjit::compiler {

void buildFrontendPipeline(OpPassManager &manager,
                           const CompileOptions &options) {
  // What Python did: checks, effects, and the tensor operators between them.
  refgraph::buildSpecializationPipeline(manager, options.specializeSizes);
  ConvertRefGraphToTSSAPassOptions convert;
  convert.accelerator = options.target.simulatedDevice;
  manager.addPass(createConvertRefGraphToTSSAPass(convert));
  buildFunctionalPipeline(manager, options);
}

void buildFunctionalPipeline(OpPassManager &manager,
                             const CompileOptions &options) {
  // What the tensors did: values instead of handles.
  tssa::buildFunctionalizePipeline(manager);
  manager.addNestedPass<func::FuncOp>(tssa::createVerifyFunctionalPass());
  // A backward within the program, then what one that may come will ask for.
  manager.addNestedPass<func::FuncOp>(
      differentiation::createExpandBackwardPass());
  for (unsigned order = 1; order < options.gradientOrder; ++order) {
    manager.addNestedPass<func::FuncOp>(
        differentiation::createDifferentiatePass());
    manager.addNestedPass<func::FuncOp>(
        differentiation::createSelectGradientsPass());
    manager.addNestedPass<func::FuncOp>(createCSEPass());
  }
  differentiation::DifferentiatePassOptions differentiate;
  differentiate.markResults = options.gradientOrder == 1;
  manager.addNestedPass<func::FuncOp>(
      differentiation::createDifferentiatePass(differentiate));
  differentiation::PartitionPassOptions partition;
  partition.parametersLast = options.parametersLast;
  manager.addPass(differentiation::createPartitionPass(partition));
  if (!options.droppedGradients.empty()) {
    differentiation::DropGradientsPassOptions drop;
    drop.stop = options.stopsAtDropped;
    drop.dropped.assign(options.droppedGradients.begin(),
                        options.droppedGradients.end());
    manager.addNestedPass<func::FuncOp>(
        differentiation::createDropGradientsPass(drop));
  }
  OpPassManager &function = manager.nest<func::FuncOp>();
  // Most accesses meet the assign or access that they cancel with.
  function.addPass(tssa::createFoldViewsPass());
  function.addPass(createCSEPass());
  function.addPass(tssa::createHoistSpeculationsPass());
}

void buildFusePipeline(OpPassManager &manager, const CompileOptions &options) {
  // Before anything moves: what the dispatcher did not see is not compiled.
  manager.addNestedPass<func::FuncOp>(createVerifyInitialized());
  // Vendor calls first: they claim the operators that become their epilogues.
  // Folding and packing round differently, which eager-rounding forbids.
  if (!options.eagerRounding) {
    OpPassManager &function = manager.nest<func::FuncOp>();
    library::PlanConvolutionsPassOptions convolutions;
    // A convolution has many rows.
    const x86::MatmulLimits &limits = options.target.cpu.matmul;
    convolutions.columns = limits.rows == INT64_MAX ? limits.columns : 0;
    function.addPass(library::createPlanConvolutionsPass(convolutions));
    library::PlanAttentionPassOptions attention;
    attention.columns = limits.packRows == INT64_MAX ? 0 : limits.columns;
    attention.packRows = limits.packRows;
    function.addPass(library::createPlanAttentionPass(attention));
    library::PlanMatmulsPassOptions matmuls;
    matmuls.columns = limits.columns;
    matmuls.maxRows = limits.rows;
    matmuls.packRows = limits.packRows;
    function.addPass(library::createPlanMatmulsPass(matmuls));
    function.addPass(library::createPlanLinearPass());
  }
  // Then what is left of the parameters' own arithmetic runs once, and once for
  // all iterations of a loop that the trace has one after the other.
  manager.addNestedPass<func::FuncOp>(createCSEPass());
  if (options.gradientOrder == 1) // nobody keeps what others prepare
    manager.addPass(library::createHoistParametersPass());
  // Weights, packed or not, are arguments now: iterations differ in no more.
  manager.addNestedPass<func::FuncOp>(tssa::createRerollLoopsPass());
  manager.addNestedPass<func::FuncOp>(tssa::createParallelizeLoopsPass());
  // Parts of inputs are written by the launch: no kernel makes the whole.
  manager.addNestedPass<func::FuncOp>(fusion::createFusionKeepParts());
  fusion::FusionOptions fuse;
  // Enough for the threads of a host, few enough to be joined by one of them.
  fuse.reductionParts = 16;
  fusion::buildFusionPipeline(manager, fuse);
  // What kernels read of inputs is known, and what else may fail.
  manager.addPass(fusion::createFusionInPlace());
}

void buildX86Pipeline(OpPassManager &manager, const CompileOptions &options) {
  x86::X86Options x86;
  x86.vectorBits = options.target.cpu.vectorBits;
  x86::buildX86Pipeline(manager, x86);
}

void buildCpuPipeline(OpPassManager &manager, const CompileOptions &options) {
  buildFrontendPipeline(manager, options);
  buildFusePipeline(manager, options);
  buildX86Pipeline(manager, options);
}

/// Schedules are made without a GPU, too.
static ptx::Machine machineOf(const CompileOptions &options) {
  return options.target.gpu ? options.target.gpu->machine : ptx::Machine();
}

void buildLaunchPipeline(OpPassManager &manager,
                         const CompileOptions &options) {
  // The CPU's libraries and their packed weights are out of place here.
  manager.addNestedPass<func::FuncOp>(createVerifyInitialized());
  if (!options.eagerRounding) {
    OpPassManager &function = manager.nest<func::FuncOp>();
    if (options.target.simulatedDevice.empty())
      function.addPass(library::createPlanImagesPass());
    function.addPass(library::createPlanLossesPass());
    function.addPass(library::createBatchLinearsPass());
    function.addPass(library::createMergeLinearsPass());
    if (options.target.simulatedDevice.empty())
      function.addPass(library::createPlanEpiloguesPass());
  }
  manager.addNestedPass<func::FuncOp>(createCSEPass());
  if (options.gradientOrder == 1)
    manager.addPass(library::createHoistParametersPass());
  manager.addNestedPass<func::FuncOp>(tssa::createRerollLoopsPass());
  manager.addNestedPass<func::FuncOp>(tssa::createParallelizeLoopsPass());
  fusion::buildFusionPipeline(manager, fusion::FusionOptions());
  // Reductions that would leave a GPU idle become two launches.
  if (options.target.simulatedDevice.empty())
    manager.addPass(ptx::createPtxSplitReductions(
        ptx::optionsFor<ptx::PtxSplitReductionsOptions>(machineOf(options))));
  // A loop was for fusion's sake: launches stand one after the other.
  manager.addNestedPass<func::FuncOp>(tssa::createUnrollLoopsPass());
  // A GPU's threads share the rows of a reduction.
  fusion::FusionInPlaceOptions inPlace;
  inPlace.reductions = false;
  inPlace.branchesFirst = true;
  inPlace.parts = false; // the launch cannot undo them
  manager.addPass(fusion::createFusionInPlace(inPlace));
  manager.addPass(createConvertTSSAToCudaGraphPass());
  cudagraph::buildGraphPipeline(manager);
}

void buildPtxPipeline(OpPassManager &manager, const CompileOptions &options) {
  ptx::PtxOptions ptx;
  ptx.machine = machineOf(options);
  ptx::buildPtxPipeline(manager, ptx);
}

void buildCudaPipeline(OpPassManager &manager, const CompileOptions &options) {
  buildFrontendPipeline(manager, options);
  buildLaunchPipeline(manager, options);
  buildPtxPipeline(manager, options);
}

namespace {
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<bool> eagerRounding{
      *this, "eager-rounding",
      llvm::cl::desc("Keep eager's intermediate roundings in half precision"),
      llvm::cl::init(false)};
  Option<bool> specializeSizes{
      *this, "specialize-sizes",
      llvm::cl::desc("Compile for the recorded sizes only"),
      llvm::cl::init(false)};
  Option<std::string> cpu{
      *this, "cpu",
      llvm::cl::desc("The CPU: host, or x86-64-v2, -v3, -v4 (psABI levels)"),
      llvm::cl::init("host")};
  Option<std::string> gpu{
      *this, "gpu",
      llvm::cl::desc("The GPU: a chip (sm_90) or a part (h200, a100, ...)"),
      llvm::cl::init("sm_90")};
  Option<std::string> accelerator{
      *this, "accelerator",
      llvm::cl::desc("Treat this device as a GPU (\"cpu\": a simulated device, "
                     "for tests); empty: every device but the CPU"),
      llvm::cl::init("")};

  CompileOptions get() const {
    CompileOptions options;
    options.eagerRounding = eagerRounding;
    options.specializeSizes = specializeSizes;
    options.target.cpu = orFail(CpuTarget::named(cpu));
    options.target.gpu = orFail(GpuTarget::named(gpu));
    options.target.simulatedDevice = accelerator;
    return options;
  }

private:
  /// The builder of a pipeline has no other way to refuse an option.
  template <typename T> static T orFail(llvm::Expected<T> value) {
    if (!value)
      llvm::report_fatal_error(value.takeError(), /*gen_crash_diag=*/false);
    return *value;
  }
};
} // namespace

void registerPipelines() {
  auto add = [](StringRef name, StringRef description, auto build) {
    PassPipelineRegistration<PipelineOptions>(
        name, description,
        [build](OpPassManager &manager, const PipelineOptions &options) {
          build(manager, options.get());
        });
  };
  add("pyjit-frontend",
      "A trace becomes guards, mock and a functional tensor program",
      buildFrontendPipeline);
  add("pyjit-fuse",
      "Functional tensor programs to kernels and vendor calls of the CPU",
      buildFusePipeline);
  add("pyjit-launch",
      "Functional tensor programs to launch programs and kernels of a GPU",
      buildLaunchPipeline);
  add("pyjit-cpu", "All stages, from a trace to machine code for the host",
      buildCpuPipeline);
  add("pyjit-cuda",
      "All stages, from a trace to a launch program and code for a GPU",
      buildCudaPipeline);
}

} // namespace pyjit::compiler
