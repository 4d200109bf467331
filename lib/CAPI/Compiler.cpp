//===- Compiler.cpp - The compiler library behind a C API -----------------===//

#include "pyjit-c/Compiler.h"

#include "pyjit/Compiler/Session.h"

using namespace llvm;
using namespace pyjit;
using compiler::Report;

struct PyjitText {
  std::string text;
};

struct PyjitExecutable {
  std::unique_ptr<compiler::Executable> exe;
};

static StringRef toStringRef(PyjitString text) {
  return {text.data, text.size};
}
static PyjitString toC(StringRef text) { return {text.data(), text.size()}; }

static compiler::CompileOptions convert(const PyjitCompileOptions &given) {
  compiler::CompileOptions options;
  options.eagerRounding = given.eagerRounding;
  options.pinSizes = given.pinSizes;
  options.verify = given.verify;
  options.dumpDirectory = toStringRef(given.dumpDirectory).str();
  options.target.simulatedDevice = toStringRef(given.accelerator).str();
  if (given.gpu.capability)
    options.target.gpu = compiler::GpuTarget::ofDevice(
        given.gpu.capability, given.gpu.multiprocessors,
        given.gpu.threadsPerMultiprocessor);
  return options;
}

static std::function<void(StringRef)>
diagnosticsOf(const PyjitCompileOptions &options) {
  return [tell = options.diagnostic, user = options.user](StringRef text) {
    if (tell)
      tell(toC(text), user);
  };
}

PyjitExecutable *pyjitCompile(PyjitString trace,
                              const PyjitCompileOptions *options) {
  if (options->size != sizeof(PyjitCompileOptions))
    return nullptr;
  compiler::Session session(convert(*options), diagnosticsOf(*options));
  compiler::Trace parsed = session.parse(toStringRef(trace));
  std::unique_ptr<compiler::Executable> exe = session.compile(parsed);
  return exe ? new PyjitExecutable{std::move(exe)} : nullptr;
}

PyjitText *pyjitMerge(const PyjitString *traces, const PyjitString *attributes,
                      size_t count, const PyjitCompileOptions *options) {
  if (options->size != sizeof(PyjitCompileOptions))
    return nullptr;
  SmallVector<StringRef> parts, given;
  for (size_t i = 0; i < count; ++i) {
    parts.push_back(toStringRef(traces[i]));
    given.push_back(toStringRef(attributes[i]));
  }
  compiler::Session session(convert(*options), diagnosticsOf(*options));
  compiler::Trace merged = session.merge(parts, given);
  return merged ? new PyjitText{merged.print()} : nullptr;
}

PyjitString pyjitTextGet(const PyjitText *text) { return toC(text->text); }

void pyjitTextDestroy(PyjitText *text) { delete text; }

void pyjitExecutableDestroy(PyjitExecutable *executable) { delete executable; }

size_t pyjitExecutableSymbols(const PyjitExecutable *executable) {
  return executable->exe->numSymbols;
}

const PyjitGuardProgram *
pyjitExecutableGuards(const PyjitExecutable *executable) {
  return executable->exe->guards.get();
}

const PyjitMockProgram *pyjitExecutableMock(const PyjitExecutable *executable) {
  return executable->exe->mock.get();
}

static const compiler::Executable::Program &
programOf(const PyjitExecutable *executable, PyjitProgramKind kind) {
  return kind == PyjitProgramMain ? executable->exe->main
                                  : executable->exe->prepare;
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
  *inputs = executable->exe->prepareInputs.data();
  return executable->exe->prepareInputs.size();
}

double pyjitExecutableStage(const PyjitExecutable *executable, size_t index,
                            PyjitString *name) {
  if (index >= executable->exe->stages.size())
    return -1;
  const compiler::StageTime &taken = executable->exe->stages[index];
  *name = toC(compiler::getName(taken.stage));
  return taken.seconds;
}

PyjitString pyjitExecutableReport(const PyjitExecutable *executable,
                                  PyjitReport report) {
  switch (report) {
  case PyjitReportGuards:
    return toC(executable->exe->getReport(Report::Guards));
  case PyjitReportGraph:
    return toC(executable->exe->getReport(Report::Graph));
  case PyjitReportFusion:
    return toC(executable->exe->getReport(Report::Fusion));
  case PyjitReportKernels:
    return toC(executable->exe->getReport(Report::Kernels));
  case PyjitReportCudaGraph:
    return toC(executable->exe->getReport(Report::CudaGraph));
  case PyjitReportLaunch:
    return toC(executable->exe->getReport(Report::Launch));
  case PyjitReportPinnedSizes:
    return toC(executable->exe->getReport(Report::PinnedSizes));
  }
  return {};
}
