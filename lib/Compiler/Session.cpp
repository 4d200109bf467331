//===- Session.cpp - Compiling --------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Compiler/Session.h"

#include "DescribeGradients.h"

#include "dialects/pyjit/IR/Attributes.h"

#include "dialects/cudagraph/IR/CudaGraph.h"
#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/refgraph/Transforms/SegmentAttributes.h"
#include "dialects/tssa/IR/TSSA.h"
#include "pyjit/Codegen/PTX/Compile.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <chrono>
#include <thread>

using namespace mlir;

namespace pyjit::compiler {

/// With its location and notes; empty for a remark.
static std::string inOneLine(Diagnostic &diagnostic) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
    return text;
  if (!isa<UnknownLoc>(diagnostic.getLocation()))
    os << diagnostic.getLocation() << ": ";
  os << diagnostic;
  for (Diagnostic &note : diagnostic.getNotes())
    os << "; " << note;
  return text;
}

Session::Session(CompileOptions options,
                 std::function<void(StringRef)> onDiagnostic,
                 std::shared_ptr<Context> given)
    : options(std::move(options)),
      context(given ? std::move(given) : std::make_shared<Context>()) {
  if (!onDiagnostic)
    return;
  // Other sessions' diagnostics come by here, too.
  auto tell = [own = std::this_thread::get_id(),
               tell = std::move(onDiagnostic)](Diagnostic &diagnostic) {
    if (std::this_thread::get_id() != own)
      return failure();
    if (std::string text = inOneLine(diagnostic); !text.empty())
      tell(text);
    return success();
  };
  handler.emplace(&getContext(), std::move(tell));
}

Trace Session::parse(StringRef text) {
  Trace trace{context, {}};
  (void)time(Stage::Parse, [&] {
    trace.module = parseSourceString<ModuleOp>(text, &getContext(), "trace");
    return success(static_cast<bool>(trace));
  });
  return trace;
}

/// What refgraph-merge-branches reads of a segment.
static void describeSegment(const Segment &segment, Operation *op) {
  static constexpr llvm::StringLiteral kRoles[] = {"prefix", "true", "false",
                                                   "rest"};
  namespace attribute = refgraph::segment;
  Builder builder(op->getContext());
  op->setAttr(attribute::kRole,
              builder.getStringAttr(kRoles[size_t(segment.kind)]));
  if (segment.kind == Segment::Kind::Prefix) {
    op->setAttr(attribute::kCondition,
                builder.getI64IntegerAttr(segment.condition));
    op->setAttr(attribute::kTensorClass,
                builder.getI64IntegerAttr(segment.tensorClass));
  } else {
    op->setAttr(attribute::kTakes, builder.getDenseI64ArrayAttr(segment.takes));
    op->setAttr(attribute::kObjects,
                builder.getDenseI64ArrayAttr(segment.objects));
    if (segment.endsAtGraphBreak)
      op->setAttr(attribute::kGraphBreak, builder.getUnitAttr());
  }
  if (segment.leavesGradMode)
    op->setAttr(attribute::kGradMode,
                builder.getBoolAttr(*segment.leavesGradMode));
}

Trace Session::merge(ArrayRef<Segment> segments) {
  Trace merged{context, ModuleOp::create(UnknownLoc::get(&getContext()))};
  for (const Segment &segment : segments) {
    assert(segment.trace.context == context && "a trace of another context");
    Operation *op = segment.trace.getOp()->clone();
    describeSegment(segment, op);
    merged.module->push_back(op);
  }
  PassManager manager(&getContext());
  manager.addPass(refgraph::createAnnotatePass());
  manager.addPass(refgraph::createMergeBranchesPass());
  if (failed(manager.run(*merged.module)))
    return {};
  return merged;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

LogicalResult Session::time(Stage stage,
                            llvm::function_ref<LogicalResult()> body) {
  auto start = std::chrono::steady_clock::now();
  LogicalResult result = body();
  std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  stages.push_back({stage, taken.count()});
  return result;
}

LogicalResult Session::run(Stage stage, ModuleOp module) {
  return time(stage, [&] {
    PassManager manager(&getContext());
    manager.enableVerifier(options.verify);
    buildStage(manager, stage, options, getPlacement(module));
    LogicalResult result = manager.run(module);
    if (succeeded(result))
      setStage(module, stage);
    dump(getName(stage), module);
    return result;
  });
}

void Session::dump(StringRef stage, ModuleOp module) {
  if (options.dumpDirectory.empty())
    return;
  SmallString<128> path(options.dumpDirectory);
  llvm::sys::fs::create_directories(path);
  llvm::sys::path::append(path, name + "." + stage + ".mlir");
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (!error)
    module.print(os, OpPrintingFlags().enableDebugInfo());
}

LogicalResult Session::lower(ModuleOp module) {
  if (isBeforeFrontend(module) && failed(run(Stage::Frontend, module)))
    return failure();
  readGradients(module);
  selectPart(module);
  Placement placement = getPlacement(module);
  Stage last = getStage(module).value_or(Stage::Frontend);
  if (placement == Placement::Host && last == Stage::Ptx)
    return module->emitError("has been through pyjit-ptx: its kernels are a "
                             "GPU's, and its tensors are on the CPU");
  for (Stage stage : {Stage::Library, Stage::Fuse})
    if (last < stage && failed(run(stage, module)))
      return failure();
  // Launch programs have no verifier but that of their operations.
  if (placement != Placement::Host && last < Stage::CudaGraph &&
      (failed(run(Stage::CudaGraph, module)) || failed(verify(module))))
    return failure();
  return last < Stage::X86 ? lowerKernels(module, placement) : success();
}

LogicalResult Session::lowerKernels(ModuleOp module, Placement placement) {
  // A simulated device runs the CPU's code, and refuses what the GPU's would
  // have refused.
  if (placement == Placement::SimulatedDevice && failed(findAlignments(module)))
    return failure();
  if (placement != Placement::Device)
    return run(Stage::X86, module);
  if (!options.target.gpu)
    return module->emitError("tensors are on a GPU that the CUDA driver does "
                             "not show");
  return run(Stage::Ptx, module);
}

LogicalResult Session::findAlignments(ModuleOp module) {
  return time(Stage::Alignments, [&]() -> LogicalResult {
    OwningOpRef<ModuleOp> copy(module.clone());
    PassManager manager(&getContext());
    buildStage(manager, Stage::Ptx, options, Placement::SimulatedDevice);
    if (failed(manager.run(*copy)))
      return failure();
    for (auto kernel : copy->getOps<func::FuncOp>()) {
      auto aligned =
          kernel->getAttrOfType<DenseI32ArrayAttr>(attribute::kAlign);
      auto own = module.lookupSymbol<func::FuncOp>(kernel.getName());
      if (own && aligned &&
          aligned.size() == own.getNumArguments() + own.getNumResults())
        alignments[kernel.getName().str()].assign(aligned.asArrayRef().begin(),
                                                  aligned.asArrayRef().end());
    }
    return success();
  });
}

//===----------------------------------------------------------------------===//
// Executables
//===----------------------------------------------------------------------===//

/// What the frontend has said of the function's sizes.
static void readSizes(ModuleOp module, StringRef name, size_t &symbols,
                      std::string &pinned) {
  if (auto lines =
          module->getAttrOfType<ArrayAttr>(refgraph::kSpecializedSizes))
    for (auto line : lines.getAsRange<StringAttr>())
      pinned += (line.getValue() + "\n").str();
  if (Operation *function = SymbolTable::lookupSymbolIn(module, name))
    if (auto found = function->getAttrOfType<ArrayAttr>(attribute::kSymbols))
      symbols = found.size();
}

std::unique_ptr<Executable> Session::compile(const Trace &trace) {
  if (!trace)
    return nullptr;
  assert(trace.context == context && "a trace of another context");
  name = trace.getName().str();
  if (name.empty()) {
    trace.module.get().emitError("holds no refgraph.trace");
    return nullptr;
  }
  Trace copy = trace.clone();
  dump("trace", *copy.module);
  // What was parsed was verified then.
  if (options.verify && failed(verify(*copy.module)))
    return nullptr;
  if (failed(lower(*copy.module)))
    return nullptr;
  std::unique_ptr<Executable> exe = emit(*copy.module, name);
  if (exe)
    exe->trace = trace.serialize();
  return exe;
}

std::unique_ptr<Executable> Session::emit(ModuleOp module, StringRef name) {
  auto exe = std::make_unique<Executable>();
  exe->options = options;
  exe->options.dumpDirectory.clear();
  readSizes(module, name, exe->numSymbols,
            exe->reports[Report::SpecializedSizes]);
  if (failed(emitKernels(module, *exe)) || failed(encode(module, name, *exe)))
    return nullptr;
  exe->packsTrained = packsTrained;
  exe->stages = std::move(stages);
  stages.clear();
  return exe;
}

LogicalResult Session::emitKernels(ModuleOp module, Executable &exe) {
  return time(Stage::Jit, [&]() -> LogicalResult {
    bool onGpu = getPlacement(module) == Placement::Device &&
                 !module.getOps<cudagraph::ProgramOp>().empty();
    if (onGpu) {
      if (!options.target.gpu)
        return module->emitError("is for a GPU, and no GPU is compiled for");
      auto code = ptx::compileKernels(
          module, {options.target.gpu->chip, /*divided=*/true});
      if (!code)
        return module->emitError() << llvm::toString(code.takeError());
      exe.ptx = std::move(code->modules);
      return success();
    }
    auto library = x86::compileKernels(module);
    if (!library)
      return module->emitError() << llvm::toString(library.takeError());
    exe.library = std::move(*library);
    return success();
  });
}

LogicalResult Session::encodeProgram(ModuleOp module, StringRef symbol,
                                     Executable &exe,
                                     Executable::Program &program,
                                     unsigned firstSaved) {
  Operation *function = SymbolTable::lookupSymbolIn(module, symbol);
  if (!function)
    return module->emitError() << "holds no program @" << symbol;
  auto describe = [&](StringRef kernel) {
    executable::KernelInfo info = executable::describeKernel(module, kernel);
    if (auto known = alignments.find(kernel); known != alignments.end())
      info.align.assign(known->second.begin(), known->second.end());
    return info;
  };
  auto launch =
      executable::encodeEntry(function, exe.ptx, describe, firstSaved);
  if (failed(launch))
    return failure();
  program.launch = std::move(*launch);
  if (!exe.library)
    return success();
  auto kernels = exe.library->lookupAll(program.launch.kernels);
  if (!kernels)
    return function->emitError() << llvm::toString(kernels.takeError());
  program.kernels = std::move(*kernels);
  return success();
}

/// Which inputs of the main program a prepare program reads.
static std::vector<uint32_t> readPrepareInputs(Operation *prepare) {
  std::vector<uint32_t> indices;
  if (auto inputs =
          prepare->getAttrOfType<DenseI64ArrayAttr>(attribute::kInputs))
    indices.assign(inputs.asArrayRef().begin(), inputs.asArrayRef().end());
  else if (auto function = dyn_cast<func::FuncOp>(prepare))
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto input =
              function.getArgAttrOfType<IntegerAttr>(i, attribute::kInput))
        indices.push_back(input.getInt());
  return indices;
}

/// What a prepare program says of its results.
static std::vector<Executable::PreparedValue>
readPreparedValues(Operation *prepare) {
  std::vector<Executable::PreparedValue> values;
  auto digests = prepare->getAttrOfType<ArrayAttr>(attribute::kDigests);
  auto sources = prepare->getAttrOfType<ArrayAttr>(attribute::kSources);
  if (!digests || !sources)
    return values;
  for (auto [digest, from] : llvm::zip_equal(digests, sources)) {
    ArrayRef<int64_t> indices = cast<DenseI64ArrayAttr>(from).asArrayRef();
    values.push_back(
        {cast<StringAttr>(digest).str(), {indices.begin(), indices.end()}});
  }
  return values;
}

static std::string backwardNameOf(StringRef name) {
  return (name + "_backward").str();
}

/// What a matmul or a convolution might take in packed form.
static bool isTrainedMatrix(BlockArgument argument) {
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto type = dyn_cast<RankedTensorType>(argument.getType());
  return type && type.getRank() >= 2 &&
         function.getArgAttr(argument.getArgNumber(), attribute::kTrained);
}

/// Later stages know nothing of where a program's arguments come from.
void Session::readGradients(ModuleOp module) {
  gradients.reset();
  auto forward = module.lookupSymbol<func::FuncOp>(name);
  auto backward = module.lookupSymbol<func::FuncOp>(backwardNameOf(name));
  if (forward && backward && forward->hasAttr(attribute::kSaved))
    gradients = describeGradients(forward, backward);
  // On a device a second program would have memory and graphs of its own.
  packsTrained = forward && getPlacement(module) == Placement::Host &&
                 llvm::any_of(forward.getArguments(), isTrainedMatrix);
}

/// Drops what is not asked for, before it is compiled.
void Session::selectPart(ModuleOp module) {
  using Part = CompileOptions::Part;
  if (options.part == Part::Whole)
    return;
  std::string other = options.part == Part::Main ? backwardNameOf(name) : name;
  for (Operation &op : llvm::make_early_inc_range(*module.getBody())) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (isa<refgraph::GuardsOp, refgraph::MockOp>(op) ||
        (function && function.getName() == other))
      op.erase();
  }
}

LogicalResult Session::encodeBackward(ModuleOp module, Executable &exe) {
  if (!gradients)
    return success();
  exe.gradients = std::move(gradients);
  gradients.reset();
  Executable::Gradients &known = *exe.gradients;
  known.view = {known.arguments.data(),
                known.arguments.size(),
                known.inputs.data(),
                known.inputs.size(),
                known.results.data(),
                known.results.size(),
                known.reaches.data(),
                known.groups.data(),
                known.reads.data(),
                known.reads.size(),
                known.uses.data(),
                known.varies.data(),
                known.needs.data(),
                nullptr,
                nullptr,
                nullptr,
                known.stops.data(),
                known.stops.size(),
                known.numResults};
  if (!known.leads.empty()) {
    known.view.leads = known.leads.data();
    known.view.reachesDirectly = known.reachesDirectly.data();
  }
  if (!known.keeps.empty())
    known.view.keeps = known.keeps.data();
  return encodeProgram(module, backwardNameOf(name), exe, exe.backward);
}

LogicalResult Session::encode(ModuleOp module, StringRef name,
                              Executable &exe) {
  return time(Stage::Encode, [&]() -> LogicalResult {
    refgraph::GuardsOp guards;
    refgraph::MockOp mock;
    for (Operation &op : *module.getBody()) {
      if (auto found = dyn_cast<refgraph::GuardsOp>(op))
        guards = found;
      if (auto found = dyn_cast<refgraph::MockOp>(op))
        mock = found;
    }
    if (guards && mock &&
        failed(executable::encodeSpecialization(guards, mock, exe.guards,
                                                exe.mock)))
      return failure();
    unsigned firstSaved =
        gradients ? gradients->numResults : executable::kNoneSaved;
    using Part = CompileOptions::Part;
    if (options.part != Part::Backward &&
        failed(encodeProgram(module, name, exe, exe.main, firstSaved)))
      return failure();
    if (options.part != Part::Main && failed(encodeBackward(module, exe)))
      return failure();
    std::string prepareName = (name + "_prepare").str();
    Operation *prepare = SymbolTable::lookupSymbolIn(module, prepareName);
    if (!prepare)
      return success();
    exe.prepareInputs = readPrepareInputs(prepare);
    exe.preparedValues = readPreparedValues(prepare);
    return encodeProgram(module, prepareName, exe, exe.prepare);
  });
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

/// The module's kernels, or what calls them.
static std::string printFunctions(ModuleOp module, bool kernels) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(attribute::kKernel) == kernels) {
      function.print(os);
      os << "\n";
    }
  return text;
}

std::string Session::makeReport(StringRef bytecode, Report topic) {
  Trace trace = parse(bytecode);
  if (!trace || failed(run(Stage::Frontend, *trace.module)))
    return "";
  ModuleOp module = *trace.module;
  if (topic == Report::Graph)
    return printFunctions(module, /*kernels=*/false);
  bool onDevice = getPlacement(module) != Placement::Host;
  if (failed(run(Stage::Library, module)) || failed(run(Stage::Fuse, module)) ||
      (onDevice && failed(run(Stage::CudaGraph, module))))
    return "";
  if (topic == Report::Kernels || (topic == Report::Fusion && !onDevice))
    return printFunctions(module, /*kernels=*/topic == Report::Kernels);
  std::string printed;
  llvm::raw_string_ostream os(printed);
  if (topic == Report::CudaGraph)
    for (auto program : module.getOps<cudagraph::ProgramOp>()) {
      program.print(os);
      os << "\n";
    }
  return printed;
}

} // namespace pyjit::compiler
