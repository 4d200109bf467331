//===- Pipelines.cpp - The order of the stages ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Compiler/Pipelines.h"

#include "dialects/cudagraph/Transforms/Passes.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/tssa/Transforms/Passes.h"
#include "pyjit/Codegen/PTX/Passes.h"
#include "pyjit/Codegen/RowsProduct.h"
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

static constexpr std::pair<Depth, StringLiteral> kDepths[] = {
    {Depth::Operators, "operators"},
    {Depth::Library, "library"},
    {Depth::Kernels, "kernels"},
    {Depth::Fusion, "fusion"}};

StringRef getName(Depth depth) {
  return llvm::find_if(kDepths,
                       [&](auto &entry) { return entry.first == depth; })
      ->second;
}

std::optional<Depth> symbolizeDepth(StringRef name) {
  for (auto [depth, known] : kDepths)
    if (known == name)
      return depth;
  return std::nullopt;
}

/// A tensor program on handles becomes a functional one.
static void buildFunctional(OpPassManager &manager,
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

static void buildFrontend(OpPassManager &manager,
                          const CompileOptions &options) {
  // What Python did: checks, effects, and the tensor operators between them.
  refgraph::buildSpecializationPipeline(manager, options.specializeSizes);
  ConvertRefGraphToTSSAPassOptions convert;
  convert.accelerator = options.target.simulatedDevice;
  manager.addPass(createConvertRefGraphToTSSAPass(convert));
  buildFunctional(manager, options);
}

/// Which operators the CPU's libraries take, packed or with epilogues, and
/// which matmuls are kernels of ours.
static void planForHost(OpPassManager &function,
                        const CompileOptions &options) {
  library::PlanConvolutionsPassOptions convolutions;
  // A convolution has many rows.
  const x86::MatmulLimits &limits = options.target.cpu.matmul;
  convolutions.columns = limits.rows == INT64_MAX ? limits.columns : 0;
  function.addPass(library::createPlanConvolutionsPass(convolutions));
  library::PlanBatchNormsPassOptions norms;
  norms.host = true;
  function.addPass(library::createPlanBatchNormsPass(norms));
  library::PlanAttentionPassOptions attention;
  attention.columns = limits.packRows == INT64_MAX ? 0 : limits.columns;
  attention.packRows = limits.packRows;
  function.addPass(library::createPlanAttentionPass(attention));
  if (limits.columns != 0) {
    library::PlanMatvecsPassOptions matvecs;
    matvecs.parametersOnly = true;
    matvecs.minBytes = limits.streamedBytes;
    function.addPass(library::createPlanMatvecsPass(matvecs));
  }
  library::PlanMatmulsPassOptions matmuls;
  matmuls.columns = limits.columns;
  matmuls.maxRows = limits.rows;
  matmuls.packRows = limits.packRows;
  function.addPass(library::createPlanMatmulsPass(matmuls));
  function.addPass(library::createPlanLinearPass());
}

/// Likewise for a GPU. A simulated device has the CPU's operators.
static void planForDevice(OpPassManager &function, bool simulated) {
  if (!simulated)
    function.addPass(library::createPlanImagesPass());
  function.addPass(library::createPlanBatchNormsPass());
  function.addPass(library::createPlanAttentionRowsPass());
  function.addPass(library::createPlanLossesPass());
  if (!simulated)
    function.addPass(library::createPadMatmulsPass());
  function.addPass(library::createBatchLinearsPass());
  // Behind it: gradients of inputs that share a weight are one matmul already.
  function.addPass(library::createSumMatmulsPass());
  function.addPass(library::createMergeLinearsPass());
  library::PlanMatvecsPassOptions matvecs;
  matvecs.maxRows = codegen::RowsProduct::kMostRows;
  function.addPass(library::createPlanMatvecsPass(matvecs));
  if (!simulated)
    function.addPass(library::createPlanEpiloguesPass());
}

static void buildLibrary(OpPassManager &manager, const CompileOptions &options,
                         Placement placement) {
  // Before anything moves: what the dispatcher did not see is not compiled.
  manager.addNestedPass<func::FuncOp>(createVerifyInitialized());
  if (options.depth < Depth::Library)
    return;
  // Vendor calls first: they claim the operators that become their epilogues.
  // Folding and packing round differently, which eager-rounding forbids.
  if (!options.eagerRounding) {
    OpPassManager &function = manager.nest<func::FuncOp>();
    if (placement == Placement::Host)
      planForHost(function, options);
    else
      planForDevice(function, placement == Placement::SimulatedDevice);
  }
  // Then what is left of the parameters' own arithmetic runs once, and once for
  // all iterations of a loop that the trace has one after the other.
  manager.addNestedPass<func::FuncOp>(createCSEPass());
  if (options.gradientOrder != 1) // nobody keeps what others prepare
    return;
  // Kernels round as fusion and eager's rounding have it.
  library::HoistParametersPassOptions hoist;
  hoist.variant = 2 * unsigned(options.depth) + options.eagerRounding;
  manager.addPass(library::createHoistParametersPass(hoist));
}

/// Schedules are made without a GPU, too.
static ptx::Machine machineOf(const CompileOptions &options) {
  return options.target.gpu ? options.target.gpu->machine : ptx::Machine();
}

/// Each operation by itself: no loops for fusion's sake, nothing in place.
static void buildUnfused(OpPassManager &manager,
                         const CompileOptions &options) {
  if (options.depth >= Depth::Kernels)
    manager.addNestedPass<func::FuncOp>(createConvertTSSAToLinalg());
  // Plans have matmuls that are kernels, whatever else is none.
  fusion::FusionOutlineOptions alone;
  alone.maxGroupSize = 1;
  manager.addPass(fusion::createFusionOutline(alone));
}

static void buildFuse(OpPassManager &manager, const CompileOptions &options,
                      Placement placement) {
  if (options.depth < Depth::Fusion)
    return buildUnfused(manager, options);
  // Weights, packed or not, are arguments now: iterations differ in no more.
  tssa::RerollLoopsPassOptions reroll;
  // A host runs the loops themselves; a device's are for fusion's sake.
  reroll.recompute = placement != Placement::Host;
  manager.addNestedPass<func::FuncOp>(tssa::createRerollLoopsPass(reroll));
  manager.addNestedPass<func::FuncOp>(tssa::createParallelizeLoopsPass());
  fusion::FusionOptions fuse;
  fusion::FusionInPlaceOptions inPlace;
  if (placement == Placement::Host) {
    // Parts of inputs are written by the launch: no kernel makes the whole.
    manager.addNestedPass<func::FuncOp>(fusion::createFusionKeepParts());
    // Enough for the threads of a host, few enough to be joined by one of them.
    fuse.reductionParts = 16;
  } else {
    // A GPU computes two of GELU while it reads one from memory.
    fuse.maxRecomputeCost = 48;
    fuse.updatesApart = true; // see inPlace.reductions
    // The blocks that share a head's keys meet in clusters.
    fuse.attention =
        placement == Placement::Device && machineOf(options).dependentLaunch;
  }
  fusion::buildFusionPipeline(manager, fuse);
  if (placement != Placement::Host) {
    // Reductions that would leave a GPU idle become two launches.
    if (placement == Placement::Device)
      manager.addPass(ptx::createPtxSplitReductions(
          ptx::optionsFor<ptx::PtxSplitReductionsOptions>(machineOf(options))));
    // A loop was for fusion's sake: launches stand one after the other.
    manager.addNestedPass<func::FuncOp>(tssa::createUnrollLoopsPass());
    // A GPU's threads share the rows of a reduction.
    inPlace.reductions = false;
    inPlace.branchesFirst = true;
    inPlace.parts = false; // the launch cannot undo them
  }
  // What kernels read of inputs is known, and what else may fail.
  manager.addPass(fusion::createFusionInPlace(inPlace));
}

static void buildCudaGraph(OpPassManager &manager,
                           const CompileOptions &options) {
  manager.addPass(createConvertTSSAToCudaGraphPass());
  cudagraph::buildGraphPipeline(manager, options.depth == Depth::Fusion);
}

static void buildX86(OpPassManager &manager, const CompileOptions &options) {
  x86::X86Options x86;
  x86.vectorBits = options.target.cpu.vectorBits;
  x86.vectorMath = options.target.cpu.vectorMath;
  x86.prefetch = options.target.cpu.prefetch;
  x86::buildX86Pipeline(manager, x86);
}

static void buildPtx(OpPassManager &manager, const CompileOptions &options) {
  ptx::PtxOptions ptx;
  ptx.machine = machineOf(options);
  ptx.simulate = options.simulatePtx;
  ptx::buildPtxPipeline(manager, ptx);
}

void buildStage(OpPassManager &manager, Stage stage,
                const CompileOptions &options, Placement placement) {
  switch (stage) {
  case Stage::Frontend:
    return buildFrontend(manager, options);
  case Stage::Library:
    return buildLibrary(manager, options, placement);
  case Stage::Fuse:
    return buildFuse(manager, options, placement);
  case Stage::CudaGraph:
    return buildCudaGraph(manager, options);
  case Stage::X86:
    return buildX86(manager, options);
  case Stage::Ptx:
    return buildPtx(manager, options);
  case Stage::Parse:
  case Stage::Alignments:
  case Stage::Jit:
  case Stage::Encode:
    break;
  }
  llvm_unreachable("no pipeline of passes");
}

void buildCpuPipeline(OpPassManager &manager, const CompileOptions &options) {
  for (Stage stage : {Stage::Frontend, Stage::Library, Stage::Fuse, Stage::X86})
    manager.addPass(createStagePass(stage, options, Placement::Host));
}

void buildCudaPipeline(OpPassManager &manager, const CompileOptions &options) {
  Placement placement = options.target.simulatedDevice.empty()
                            ? Placement::Device
                            : Placement::SimulatedDevice;
  for (Stage stage : {Stage::Frontend, Stage::Library, Stage::Fuse,
                      Stage::CudaGraph, Stage::Ptx})
    manager.addPass(createStagePass(stage, options, placement));
}

namespace {

/// What a pipeline's stages ask of CompileOptions.
enum Uses : unsigned {
  Rounding = 1,
  Sizes = 2,
  Cpu = 4,
  Gpu = 8,
  Accelerator = 16,
  VectorBits = 32,
  Simulate = 64,
  HowFar = 128
};

template <unsigned kUses>
struct PipelineOptions : PassPipelineOptions<PipelineOptions<kUses>> {
  template <typename T>
  using Option =
      typename PassPipelineOptions<PipelineOptions<kUses>>::template Option<T>;

  PipelineOptions() {
    using llvm::cl::desc;
    using llvm::cl::init;
    if constexpr (kUses & Rounding)
      eagerRounding.emplace(
          *this, "eager-rounding",
          desc("Keep eager's intermediate roundings in half precision"),
          init(false));
    if constexpr (kUses & Sizes)
      specializeSizes.emplace(*this, "specialize-sizes",
                              desc("Compile for the recorded sizes only"),
                              init(false));
    if constexpr (kUses & Cpu)
      cpu.emplace(*this, "cpu",
                  desc("The CPU: host, or x86-64-v2, -v3, -v4 (psABI levels)"),
                  init("host"));
    if constexpr (kUses & Gpu)
      gpu.emplace(*this, "gpu",
                  desc("The GPU: a chip (sm_90) or a part (h200, a100, ...)"),
                  init("sm_90"));
    if constexpr (kUses & Accelerator)
      accelerator.emplace(*this, "accelerator",
                          desc("Treat this device as a GPU (\"cpu\": a "
                               "simulated device, for tests); empty: every "
                               "device but the CPU"),
                          init(""));
    if constexpr (kUses & VectorBits)
      vectorBits.emplace(*this, "vector-bits",
                         desc("Width of vectors; 0 for what the CPU has"),
                         init(0));
    if constexpr (kUses & HowFar)
      depth.emplace(*this, "depth",
                    desc("How far to compile: operators, library, kernels or "
                         "fusion (everything)"),
                    init("fusion"));
    if constexpr (kUses & Simulate)
      simulate.emplace(*this, "simulate",
                       desc("Code for the host, one call a thread"),
                       init(false));
  }

  CompileOptions get() const {
    CompileOptions options;
    options.eagerRounding = eagerRounding && *eagerRounding;
    options.specializeSizes = specializeSizes && *specializeSizes;
    if (cpu)
      options.target.cpu = orFail(CpuTarget::named(cpu->getValue()));
    if (vectorBits && *vectorBits)
      options.target.cpu.vectorBits = *vectorBits;
    if (gpu)
      options.target.gpu = orFail(GpuTarget::named(gpu->getValue()));
    if (accelerator)
      options.target.simulatedDevice = accelerator->getValue();
    options.simulatePtx = simulate && *simulate;
    if (depth)
      options.depth = orFail(depthNamed(depth->getValue()));
    return options;
  }

private:
  static llvm::Expected<Depth> depthNamed(StringRef name) {
    if (auto known = symbolizeDepth(name))
      return *known;
    return llvm::createStringError("depth is operators, library, kernels or "
                                   "fusion, not '" +
                                   name + "'");
  }

  /// The builder of a pipeline has no other way to refuse an option.
  template <typename T> static T orFail(llvm::Expected<T> value) {
    if (!value)
      llvm::report_fatal_error(value.takeError(), /*gen_crash_diag=*/false);
    return *value;
  }

  std::optional<Option<bool>> eagerRounding, specializeSizes, simulate;
  std::optional<Option<std::string>> cpu, gpu, accelerator, depth;
  std::optional<Option<unsigned>> vectorBits;
};

template <unsigned kUses>
void registerPipeline(
    StringRef name, StringRef description,
    std::function<void(OpPassManager &, const CompileOptions &)> build) {
  PassPipelineRegistration<PipelineOptions<kUses>>(
      name, description,
      [build = std::move(build)](OpPassManager &manager,
                                 const PipelineOptions<kUses> &options) {
        build(manager, options.get());
      });
}

template <unsigned kUses>
void registerStage(Stage stage, StringRef description) {
  registerPipeline<kUses>(
      ("pyjit-" + getName(stage)).str(), description,
      [stage](OpPassManager &manager, const CompileOptions &options) {
        manager.addPass(createStagePass(stage, options));
      });
}

} // namespace

void registerPipelines() {
  registerStage<Sizes | Accelerator>(
      Stage::Frontend,
      "A trace becomes guards, mock and a functional tensor program");
  registerStage<Rounding | Cpu | HowFar>(
      Stage::Library,
      "Functional tensor programs: what vendor libraries and packed weights "
      "take, what is computed from parameters alone");
  registerStage<Gpu | HowFar>(
      Stage::Fuse,
      "Functional tensor programs to kernels (linalg on tensors) and vendor "
      "calls");
  registerStage<0>(Stage::CudaGraph,
                   "On a device: launch programs, with data placed, graphs "
                   "formed and memory planned");
  registerStage<Cpu | VectorBits>(
      Stage::X86, "Kernels on tensors to kernels in the LLVM dialect");
  registerStage<Gpu | Simulate>(
      Stage::Ptx, "Kernels on tensors to GPU kernels in the LLVM dialect");
  registerPipeline<Rounding | Sizes | Cpu | HowFar>(
      "pyjit-cpu", "All stages, from a trace to machine code for the host",
      buildCpuPipeline);
  registerPipeline<Rounding | Sizes | Gpu | Accelerator | HowFar>(
      "pyjit-cuda",
      "All stages, from a trace to a launch program and code for a GPU",
      buildCudaPipeline);
  registerPipeline<Rounding | Gpu>(
      "pyjit-launch",
      "The former name of pyjit-library, pyjit-fuse and pyjit-cudagraph, one "
      "behind the other",
      [](OpPassManager &manager, const CompileOptions &options) {
        for (Stage stage : {Stage::Library, Stage::Fuse, Stage::CudaGraph})
          manager.addPass(createStagePass(stage, options));
      });
}

} // namespace pyjit::compiler
