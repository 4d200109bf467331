//===- Compiler.cpp - The compiler behind a C API -------------------------===//

#include "pyjit-c/Compiler.h"

#include "dialects/cudagraph/IR/CudaGraph.h"
#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "pyjit/Codegen/PTX/Compile.h"
#include "pyjit/Codegen/X86/JIT.h"
#include "pyjit/Executable/GuardProgram.h"
#include "pyjit/Executable/LaunchEncoding.h"
#include "pyjit/Executable/LaunchText.h"
#include "pyjit/Executable/MockProgram.h"
#include "pyjit/Executable/ProgramText.h"
#include "pyjit/Pipelines/Pipelines.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <chrono>
#include <map>
#include <mutex>

using namespace mlir;
using namespace pyjit;

struct PyjitText {
  std::string text;
};

struct PyjitExecutable {
  struct Stage {
    std::string name;
    double seconds;
  };
  struct Program {
    executable::LaunchProgram launch;
    std::vector<x86::KernelFunction> kernels;
  };
  executable::GuardProgram guards;
  executable::MockProgram mock;
  Program main, prepare;
  std::vector<uint32_t> prepareInputs;
  std::unique_ptr<x86::JitLibrary> library;
  std::vector<Stage> stages;

  /// Reports are asked for rarely and cost as much as a stage: they are made
  /// then, from what was compiled.
  std::string trace;
  std::string accelerator;
  bool eagerRounding, pinSizes;
  size_t numSymbols = 0;
  mutable std::mutex lock; ///< guards `texts`
  mutable std::map<std::string, std::string, std::less<>> texts;
};

namespace {

StringRef toStringRef(PyjitString text) { return {text.data, text.size}; }
PyjitString toC(StringRef text) { return {text.data(), text.size()}; }

/// One compilation: a context, the module in it and the executable in the
/// making.
class Compilation {
public:
  explicit Compilation(const PyjitCompileOptions &options);
  std::unique_ptr<PyjitExecutable> run(StringRef trace);
  /// One trace of the parts of a call.
  std::unique_ptr<PyjitText> merge(ArrayRef<PyjitString> traces,
                                   ArrayRef<PyjitString> attributes);
  /// Goes as far as it takes to report on `topic`; empty for an unknown one.
  std::string report(StringRef trace, StringRef topic);

private:
  LogicalResult parse(StringRef trace);
  std::string printFunctions(bool kernels);
  LogicalResult transform();
  LogicalResult encode();
  LogicalResult encodeProgram(StringRef symbol,
                              PyjitExecutable::Program &program);
  executable::KernelInfo describeKernel(StringRef kernel);
  bool isForDevice();
  LogicalResult findAlignments();
  LogicalResult stage(StringRef name, llvm::function_ref<LogicalResult()> body);
  LogicalResult passes(StringRef name,
                       void (*build)(OpPassManager &,
                                     const pipelines::Options &));
  void dump(StringRef wall);
  void handle(Diagnostic &diagnostic);

  const PyjitCompileOptions &options;
  MLIRContext context;
  ScopedDiagnosticHandler handler;
  OwningOpRef<ModuleOp> module;
  std::unique_ptr<PyjitExecutable> exe = std::make_unique<PyjitExecutable>();
  std::string name;
  bool onDevice = false;
  std::string ptx; ///< the kernels' code for a GPU
  /// For a device made of software: what a GPU's code of a kernel would rely
  /// on.
  std::map<std::string, SmallVector<uint32_t>, std::less<>> alignments;
};

DialectRegistry makeRegistry() {
  DialectRegistry registry;
  pipelines::registerDialects(registry);
  return registry;
}

Compilation::Compilation(const PyjitCompileOptions &options)
    : options(options),
      context(makeRegistry(), MLIRContext::Threading::DISABLED),
      handler(&context, [this](Diagnostic &diagnostic) {
        handle(diagnostic);
        return success();
      }) {}

void Compilation::handle(Diagnostic &diagnostic) {
  if (!options.diagnostic ||
      diagnostic.getSeverity() == DiagnosticSeverity::Remark)
    return;
  std::string text;
  llvm::raw_string_ostream os(text);
  if (!isa<UnknownLoc>(diagnostic.getLocation()))
    os << diagnostic.getLocation() << ": ";
  os << diagnostic;
  for (Diagnostic &note : diagnostic.getNotes())
    os << "; " << note;
  options.diagnostic(toC(text), options.user);
}

LogicalResult Compilation::stage(StringRef name,
                                 llvm::function_ref<LogicalResult()> body) {
  auto start = std::chrono::steady_clock::now();
  LogicalResult result = body();
  std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  exe->stages.push_back({name.str(), taken.count()});
  return result;
}

LogicalResult Compilation::passes(StringRef name,
                                  void (*build)(OpPassManager &,
                                                const pipelines::Options &)) {
  return stage(name, [&] {
    PassManager manager(&context);
    // The verify passes stand at the walls; launch programs have none but their
    // ops' own.
    manager.enableVerifier(name == "launch");
    pipelines::Options pipelineOptions;
    pipelineOptions.eagerRounding = options.eagerRounding;
    pipelineOptions.pinSizes = options.pinSizes;
    pipelineOptions.accelerator = toStringRef(options.accelerator).str();
    build(manager, pipelineOptions);
    LogicalResult result = manager.run(*module);
    dump(name);
    return result;
  });
}

void Compilation::dump(StringRef wall) {
  StringRef directory = toStringRef(options.dumpDirectory);
  if (directory.empty())
    return;
  SmallString<128> path(directory);
  llvm::sys::fs::create_directories(path);
  llvm::sys::path::append(path, name + "." + wall + ".mlir");
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (!error)
    module->print(os, OpPrintingFlags().enableDebugInfo());
}

LogicalResult Compilation::parse(StringRef trace) {
  LogicalResult parsed = stage("parse", [&] {
    module = parseSourceString<ModuleOp>(trace, &context, "trace");
    return success(static_cast<bool>(module));
  });
  if (failed(parsed))
    return failure();
  for (auto op : module->getOps<refgraph::TraceOp>())
    name = op.getRecord().str();
  return success();
}

std::unique_ptr<PyjitExecutable> Compilation::run(StringRef trace) {
  if (failed(parse(trace)))
    return nullptr;
  dump("trace");
  if (failed(transform()) || failed(encode()))
    return nullptr;
  exe->trace = trace.str();
  exe->eagerRounding = options.eagerRounding;
  exe->pinSizes = options.pinSizes;
  exe->accelerator = toStringRef(options.accelerator).str();
  return std::move(exe);
}

std::unique_ptr<PyjitText>
Compilation::merge(ArrayRef<PyjitString> traces,
                   ArrayRef<PyjitString> attributes) {
  module = ModuleOp::create(UnknownLoc::get(&context));
  for (auto [trace, given] : llvm::zip(traces, attributes)) {
    auto part =
        parseSourceString<ModuleOp>(toStringRef(trace), &context, "trace");
    auto values = dyn_cast_or_null<DictionaryAttr>(
        parseAttribute(toStringRef(given), &context));
    if (!part || !values)
      return nullptr;
    for (Operation &op : llvm::make_early_inc_range(*part->getBody())) {
      for (NamedAttribute value : values)
        op.setAttr(value.getName(), value.getValue());
      op.remove();
      module->push_back(&op);
    }
  }
  PassManager manager(&context);
  manager.addPass(refgraph::createAnnotatePass());
  manager.addPass(refgraph::createMergeBranchesPass());
  if (failed(manager.run(*module)))
    return nullptr;
  auto result = std::make_unique<PyjitText>();
  llvm::raw_string_ostream os(result->text);
  module->print(os, OpPrintingFlags().enableDebugInfo());
  return result;
}

/// Whether the tensors are on a device that is launched by a driver.
bool Compilation::isForDevice() {
  auto function = module->lookupSymbol<func::FuncOp>(name);
  return function && function->hasAttr("pyjit.device");
}

LogicalResult Compilation::transform() {
  if (failed(passes("frontend", pipelines::buildFrontendPipeline)))
    return failure();
  onDevice = isForDevice();
  std::string &pinned = exe->texts["sizes"];
  if (auto lines = (*module)->getAttrOfType<ArrayAttr>(refgraph::kPinnedSizes))
    for (auto line : lines.getAsRange<StringAttr>())
      pinned += (line.getValue() + "\n").str();
  if (auto function = module->lookupSymbol<func::FuncOp>(name))
    if (auto symbols = function->getAttrOfType<ArrayAttr>("pyjit.symbols"))
      exe->numSymbols = symbols.size();
  if (!onDevice)
    return failure(failed(passes("fuse", pipelines::buildFusePipeline)) ||
                   failed(passes("x86", pipelines::buildX86Pipeline)));
  if (failed(passes("launch", pipelines::buildLaunchPipeline)))
    return failure();
  // A device made of software runs the CPU's code, and refuses what the
  // GPU's would have refused.
  if (options.accelerator.size)
    return failure(failed(findAlignments()) ||
                   failed(passes("x86", pipelines::buildX86Pipeline)));
  if (!options.cudaCapability)
    return module->emitError("tensors are on a GPU that the CUDA driver does "
                             "not show");
  return passes("ptx", pipelines::buildPtxPipeline);
}

LogicalResult Compilation::findAlignments() {
  return stage("alignments", [&]() -> LogicalResult {
    OwningOpRef<ModuleOp> copy(module->clone());
    PassManager manager(&context);
    pipelines::buildPtxPipeline(manager, pipelines::Options());
    if (failed(manager.run(*copy)))
      return failure();
    for (auto kernel : copy->getOps<func::FuncOp>()) {
      auto aligned = kernel->getAttrOfType<DenseI32ArrayAttr>("pyjit.align");
      auto own = module->lookupSymbol<func::FuncOp>(kernel.getName());
      if (own && aligned &&
          aligned.size() == own.getNumArguments() + own.getNumResults())
        alignments[kernel.getName().str()].assign(aligned.asArrayRef().begin(),
                                                  aligned.asArrayRef().end());
    }
    return success();
  });
}

/// The module's kernels, or what calls them.
std::string Compilation::printFunctions(bool kernels) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (auto function : module->getOps<func::FuncOp>())
    if (function->hasAttr("pyjit.kernel") == kernels) {
      function.print(os);
      os << "\n";
    }
  return text;
}

std::string Compilation::report(StringRef trace, StringRef topic) {
  if ((topic != "graph" && topic != "fusion" && topic != "kernels" &&
       topic != "cudagraph") ||
      failed(parse(trace)) ||
      failed(passes("frontend", pipelines::buildFrontendPipeline)))
    return "";
  if (topic == "graph")
    return printFunctions(/*kernels=*/false);
  onDevice = isForDevice();
  if (failed(passes("fuse", onDevice ? pipelines::buildLaunchPipeline
                                     : pipelines::buildFusePipeline)))
    return "";
  if (topic == "kernels" || (topic == "fusion" && !onDevice))
    return printFunctions(/*kernels=*/topic == "kernels");
  std::string text;
  llvm::raw_string_ostream os(text);
  if (topic == "cudagraph")
    for (auto program : module->getOps<cudagraph::ProgramOp>()) {
      program.print(os);
      os << "\n";
    }
  return text;
}

executable::KernelInfo Compilation::describeKernel(StringRef kernel) {
  executable::KernelInfo info = executable::describeKernel(*module, kernel);
  if (auto known = alignments.find(kernel); known != alignments.end())
    info.align.assign(known->second.begin(), known->second.end());
  return info;
}

LogicalResult Compilation::encodeProgram(StringRef symbol,
                                         PyjitExecutable::Program &program) {
  Operation *function = SymbolTable::lookupSymbolIn(*module, symbol);
  if (!function)
    return module->emitError() << "holds no program @" << symbol;
  auto launch = executable::encodeEntry(
      function, ptx, [&](StringRef kernel) { return describeKernel(kernel); });
  if (failed(launch))
    return failure();
  program.launch = std::move(*launch);
  if (!exe->library)
    return success();
  auto kernels = exe->library->lookupAll(program.launch.kernels);
  if (!kernels)
    return function->emitError() << llvm::toString(kernels.takeError());
  program.kernels = std::move(*kernels);
  return success();
}

LogicalResult Compilation::encode() {
  LogicalResult jitted = stage("jit", [&]() -> LogicalResult {
    if (onDevice && !options.accelerator.size) {
      ptx::Target target;
      target.chip = "sm_" + std::to_string(options.cudaCapability);
      auto code = ptx::compileKernels(*module, target);
      if (!code)
        return module->emitError() << llvm::toString(code.takeError());
      ptx = std::move(code->ptx);
      exe->texts["kernels"] = ptx;
      return success();
    }
    auto library = x86::compileKernels(*module);
    if (!library)
      return module->emitError() << llvm::toString(library.takeError());
    exe->library = std::move(*library);
    return success();
  });
  if (failed(jitted))
    return failure();
  return stage("encode", [&]() -> LogicalResult {
    refgraph::GuardsOp guards;
    refgraph::MockOp mock;
    for (Operation &op : *module->getBody()) {
      if (auto found = dyn_cast<refgraph::GuardsOp>(op))
        guards = found;
      if (auto found = dyn_cast<refgraph::MockOp>(op))
        mock = found;
    }
    if (!guards || !mock)
      return module->emitError("holds no record: a trace was expected");
    if (failed(
            executable::encodeRecord(guards, mock, exe->guards, exe->mock)) ||
        failed(encodeProgram(name, exe->main)))
      return failure();
    Operation *prepare =
        SymbolTable::lookupSymbolIn(*module, name + "_prepare");
    if (!prepare)
      return success();
    if (auto inputs = prepare->getAttrOfType<DenseI64ArrayAttr>("pyjit.inputs"))
      exe->prepareInputs.assign(inputs.asArrayRef().begin(),
                                inputs.asArrayRef().end());
    else if (auto function = dyn_cast<func::FuncOp>(prepare))
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        exe->prepareInputs.push_back(
            function.getArgAttrOfType<IntegerAttr>(i, "pyjit.input").getInt());
    return encodeProgram(name + "_prepare", exe->prepare);
  });
}

} // namespace

PyjitExecutable *pyjitCompile(PyjitString trace,
                              const PyjitCompileOptions *options) {
  if (options->size != sizeof(PyjitCompileOptions))
    return nullptr;
  return Compilation(*options).run(toStringRef(trace)).release();
}

PyjitText *pyjitMerge(const PyjitString *traces, const PyjitString *attributes,
                      size_t count, const PyjitCompileOptions *options) {
  if (options->size != sizeof(PyjitCompileOptions))
    return nullptr;
  return Compilation(*options)
      .merge({traces, count}, {attributes, count})
      .release();
}

PyjitString pyjitTextGet(const PyjitText *text) { return toC(text->text); }

void pyjitTextDestroy(PyjitText *text) { delete text; }

void pyjitExecutableDestroy(PyjitExecutable *executable) { delete executable; }

size_t pyjitExecutableSymbols(const PyjitExecutable *executable) {
  return executable->numSymbols;
}

const PyjitGuardProgram *
pyjitExecutableGuards(const PyjitExecutable *executable) {
  return executable->guards.get();
}

const PyjitMockProgram *pyjitExecutableMock(const PyjitExecutable *executable) {
  return executable->mock.get();
}

static const PyjitExecutable::Program &
programOf(const PyjitExecutable *executable, PyjitProgramKind kind) {
  return kind == PyjitProgramMain ? executable->main : executable->prepare;
}

PyjitString pyjitExecutableLaunch(const PyjitExecutable *executable,
                                  PyjitProgramKind kind) {
  return toC(programOf(executable, kind).launch.blob);
}

size_t pyjitExecutableKernels(const PyjitExecutable *executable,
                              PyjitProgramKind kind,
                              void (*const **kernels)(void *const *, int64_t,
                                                      int64_t)) {
  const auto &program = programOf(executable, kind);
  *kernels = program.kernels.data();
  return program.kernels.size();
}

size_t pyjitExecutablePrepareInputs(const PyjitExecutable *executable,
                                    const uint32_t **inputs) {
  *inputs = executable->prepareInputs.data();
  return executable->prepareInputs.size();
}

double pyjitExecutableStage(const PyjitExecutable *executable, size_t index,
                            PyjitString *name) {
  if (index >= executable->stages.size())
    return -1;
  *name = toC(executable->stages[index].name);
  return executable->stages[index].seconds;
}

static std::string makeText(const PyjitExecutable &executable,
                            StringRef topic) {
  if (topic == "guards") {
    std::string text;
    llvm::raw_string_ostream os(text);
    executable::printProgram(*executable.guards.get(), os);
    os << "effects:\n";
    executable::printProgram(*executable.mock.get(), os);
    return text;
  }
  if (topic == "launch") {
    std::string text;
    llvm::raw_string_ostream os(text);
    executable::printLaunch(executable.main.launch.blob, os);
    if (!executable.prepare.launch.blob.empty()) {
      os << "prepare:\n";
      executable::printLaunch(executable.prepare.launch.blob, os);
    }
    return text;
  }
  PyjitCompileOptions options{};
  options.eagerRounding = executable.eagerRounding;
  options.pinSizes = executable.pinSizes;
  options.accelerator = {executable.accelerator.data(),
                         executable.accelerator.size()};
  return Compilation(options).report(executable.trace, topic);
}

PyjitString pyjitExecutableText(const PyjitExecutable *executable,
                                PyjitString topic) {
  std::lock_guard<std::mutex> guard(executable->lock);
  auto [text, isNew] = executable->texts.try_emplace(toStringRef(topic).str());
  if (isNew)
    text->second = makeText(*executable, toStringRef(topic));
  return toC(text->second);
}
