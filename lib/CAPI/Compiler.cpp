//===- Compiler.cpp - The compiler behind a C API -------------------------===//

#include "pyjit-c/Compiler.h"

#include "dialects/refgraph/IR/RefGraph.h"
#include "pyjit/Codegen/X86/JIT.h"
#include "pyjit/Executable/GuardProgram.h"
#include "pyjit/Executable/LaunchEncoding.h"
#include "pyjit/Executable/MockProgram.h"
#include "pyjit/Executable/ProgramText.h"
#include "pyjit/Pipelines/Pipelines.h"

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
  bool eagerRounding;
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
  /// Goes as far as it takes to report on `topic`; empty for an unknown one.
  std::string report(StringRef trace, StringRef topic);

private:
  LogicalResult parse(StringRef trace);
  std::string printFunctions(bool kernels);
  LogicalResult transform();
  LogicalResult encode();
  LogicalResult encodeProgram(func::FuncOp function,
                              PyjitExecutable::Program &program);
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
    manager.enableVerifier(false); // the verify passes stand at the walls
    pipelines::Options pipelineOptions;
    pipelineOptions.eagerRounding = options.eagerRounding;
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
  return std::move(exe);
}

LogicalResult Compilation::transform() {
  return failure(failed(passes("frontend", pipelines::buildFrontendPipeline)) ||
                 failed(passes("fuse", pipelines::buildFusePipeline)) ||
                 failed(passes("x86", pipelines::buildX86Pipeline)));
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
  if ((topic != "graph" && topic != "fusion" && topic != "kernels") ||
      failed(parse(trace)) ||
      failed(passes("frontend", pipelines::buildFrontendPipeline)))
    return "";
  if (topic == "graph")
    return printFunctions(/*kernels=*/false);
  if (failed(passes("fuse", pipelines::buildFusePipeline)))
    return "";
  return printFunctions(/*kernels=*/topic == "kernels");
}

LogicalResult Compilation::encodeProgram(func::FuncOp function,
                                         PyjitExecutable::Program &program) {
  auto launch = executable::encodeLaunch(function, [&](StringRef kernel) {
    executable::KernelInfo info;
    Operation *symbol = SymbolTable::lookupSymbolIn(*module, kernel);
    if (auto work = symbol->getAttrOfType<IntegerAttr>("pyjit.work"))
      info.work = work.getInt();
    if (auto grain = symbol->getAttrOfType<IntegerAttr>("pyjit.grain"))
      info.grain = grain.getInt();
    return info;
  });
  if (failed(launch))
    return failure();
  program.launch = std::move(*launch);
  for (const std::string &kernel : program.launch.kernels) {
    auto code = exe->library->lookup(kernel);
    if (!code)
      return function.emitError() << llvm::toString(code.takeError());
    program.kernels.push_back(*code);
  }
  return success();
}

LogicalResult Compilation::encode() {
  LogicalResult jitted = stage("jit", [&]() -> LogicalResult {
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
    auto function = module->lookupSymbol<func::FuncOp>(name);
    if (!function)
      return module->emitError() << "holds no function @" << name;
    if (failed(
            executable::encodeRecord(guards, mock, exe->guards, exe->mock)) ||
        failed(encodeProgram(function, exe->main)))
      return failure();
    auto prepare = module->lookupSymbol<func::FuncOp>(name + "_prepare");
    if (!prepare)
      return success();
    for (unsigned i = 0; i < prepare.getNumArguments(); ++i)
      exe->prepareInputs.push_back(
          prepare.getArgAttrOfType<IntegerAttr>(i, "pyjit.input").getInt());
    return encodeProgram(prepare, exe->prepare);
  });
}

} // namespace

PyjitExecutable *pyjitCompile(PyjitString trace,
                              const PyjitCompileOptions *options) {
  if (options->size != sizeof(PyjitCompileOptions))
    return nullptr;
  return Compilation(*options).run(toStringRef(trace)).release();
}

void pyjitExecutableDestroy(PyjitExecutable *executable) { delete executable; }

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
  PyjitCompileOptions options{};
  options.eagerRounding = executable.eagerRounding;
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
