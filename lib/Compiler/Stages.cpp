//===- Stages.cpp - The stages of a compilation ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Compiler/Stages.h"
#include "pyjit/Compiler/Pipelines.h"

#include "dialects/cudagraph/IR/CudaGraph.h"
#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/tssa/IR/TSSA.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace pyjit::compiler {

static constexpr Stage kPipelines[] = {Stage::Frontend, Stage::Library,
                                       Stage::Fuse,     Stage::CudaGraph,
                                       Stage::X86,      Stage::Ptx};

StringRef getName(Stage stage) {
  switch (stage) {
  case Stage::Parse:
    return "parse";
  case Stage::Frontend:
    return "frontend";
  case Stage::Library:
    return "library";
  case Stage::Fuse:
    return "fuse";
  case Stage::CudaGraph:
    return "cudagraph";
  case Stage::Alignments:
    return "alignments";
  case Stage::X86:
    return "x86";
  case Stage::Ptx:
    return "ptx";
  case Stage::Jit:
    return "jit";
  case Stage::Encode:
    return "encode";
  }
  llvm_unreachable("stage");
}

/// What tells where tensors are: a function's attribute, or the device of what
/// the function has become.
static StringRef getDevice(ModuleOp module) {
  for (Operation &op : *module.getBody()) {
    if (auto program = dyn_cast<cudagraph::ProgramOp>(op))
      return program.getDevice();
    if (auto device = op.getAttrOfType<StringAttr>(attribute::kDevice))
      return device.getValue();
  }
  return "";
}

Placement getPlacement(ModuleOp module) {
  StringRef device = getDevice(module);
  if (device.empty())
    return Placement::Host;
  return device == "cpu" ? Placement::SimulatedDevice : Placement::Device;
}

static std::optional<Stage> readMark(ModuleOp module) {
  auto mark = module->getAttrOfType<StringAttr>(attribute::kStage);
  const Stage *found = llvm::find_if(kPipelines, [&](Stage stage) {
    return mark && mark.getValue() == getName(stage);
  });
  return found == std::end(kPipelines) ? std::nullopt : std::optional(*found);
}

std::optional<Stage> getStage(ModuleOp module) {
  if (auto marked = readMark(module))
    return marked;
  if (!module.getOps<ModuleOp>().empty())
    return Stage::X86;
  if (!module.getOps<cudagraph::ProgramOp>().empty())
    return Stage::CudaGraph;
  return std::nullopt;
}

void setStage(ModuleOp module, Stage stage) {
  module->setAttr(attribute::kStage,
                  StringAttr::get(module.getContext(), getName(stage)));
}

bool isBeforeFrontend(ModuleOp module) {
  auto isHandle = [](Type type) { return isa<tssa::RefType>(type); };
  return module
      .walk([&](Operation *op) {
        auto function = dyn_cast<func::FuncOp>(op);
        bool found =
            isa<refgraph::TraceOp, refgraph::GraphOp>(op) ||
            llvm::any_of(op->getResultTypes(), isHandle) ||
            (function && llvm::any_of(function.getArgumentTypes(), isHandle));
        return found ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// An error where `stage` is not what a module has before it.
static LogicalResult checkIsNext(ModuleOp module, Stage stage) {
  if (auto mark = module->getAttrOfType<StringAttr>(attribute::kStage);
      mark && !readMark(module))
    return module->emitError("'")
           << attribute::kStage << "' names no stage: " << mark;
  std::optional<Stage> last = readMark(module);
  // Machine code has nothing before it, whichever kind it is.
  if (last && (*last >= stage || *last == Stage::X86))
    return module->emitError("has been through pyjit-")
           << getName(*last) << ": pyjit-" << getName(stage)
           << " does not come behind that";
  if (stage != Stage::Frontend && isBeforeFrontend(module))
    return module->emitError("holds a trace, or tensors that are handles: "
                             "pyjit-frontend comes before pyjit-")
           << getName(stage);
  return success();
}

namespace {

/// Its pipeline is made when the module is known.
class StagePass : public PassWrapper<StagePass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(StagePass)

  StagePass(Stage stage, const CompileOptions &options,
            std::optional<Placement> placement)
      : stage(stage), options(options), placement(placement) {}

  StringRef getName() const final { return compiler::getName(stage); }

  void getDependentDialects(DialectRegistry &registry) const final {
    for (Placement where :
         {Placement::Host, Placement::Device, Placement::SimulatedDevice})
      makePipeline(where).getDependentDialects(registry);
  }

  void runOnOperation() final {
    ModuleOp module = getOperation();
    if (failed(checkIsNext(module, stage)))
      return signalPassFailure();
    OpPassManager pipeline =
        makePipeline(placement ? *placement : getPlacement(module));
    if (failed(runPipeline(pipeline, module)))
      return signalPassFailure();
    setStage(module, stage);
  }

private:
  OpPassManager makePipeline(Placement where) const {
    OpPassManager pipeline(ModuleOp::getOperationName());
    buildStage(pipeline, stage, options, where);
    return pipeline;
  }

  Stage stage;
  CompileOptions options;
  std::optional<Placement> placement;
};

} // namespace

std::unique_ptr<Pass> createStagePass(Stage stage,
                                      const CompileOptions &options,
                                      std::optional<Placement> placement) {
  return std::make_unique<StagePass>(stage, options, placement);
}

} // namespace pyjit::compiler
