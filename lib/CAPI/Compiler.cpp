//===- Compiler.cpp - The compiler library behind a C API -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-c/Compiler.h"

#include "Objects.h"

#include "pyjit/Compiler/Session.h"

using namespace llvm;
using namespace pyjit;
using compiler::Report;

struct PyjitExecutable {
  std::unique_ptr<compiler::Executable> exe;
};

static constexpr std::pair<PyjitDepth, compiler::Depth> kDepths[] = {
    {PyjitDepthOperators, compiler::Depth::Operators},
    {PyjitDepthLibrary, compiler::Depth::Library},
    {PyjitDepthKernels, compiler::Depth::Kernels},
    {PyjitDepthFusion, compiler::Depth::Fusion}};

int pyjitFindDepth(PyjitString name, PyjitDepth *depth) {
  auto found = compiler::symbolizeDepth(toStringRef(name));
  for (auto [given, meant] : kDepths)
    if (found == meant)
      *depth = given;
  return found.has_value();
}

static compiler::CompileOptions convert(const PyjitCompileOptions &given) {
  compiler::CompileOptions options;
  options.depth = llvm::find_if(kDepths, [&](auto &entry) {
                    return entry.first == given.depth;
                  })->second;
  options.eagerRounding = given.eagerRounding;
  options.specializeSizes = given.specializeSizes;
  options.verify = given.verify;
  options.dumpDirectory = toStringRef(given.dumpDirectory).str();
  options.target.simulatedDevice = toStringRef(given.accelerator).str();
  if (given.gpu.capability)
    options.target.gpu = compiler::GpuTarget::ofDevice(
        given.gpu.capability, given.gpu.multiprocessors,
        given.gpu.threadsPerMultiprocessor);
  return options;
}

static compiler::Session makeSession(const PyjitTrace *trace,
                                     const PyjitCompileOptions &options) {
  return compiler::Session(convert(options),
                           toFunction(options.diagnostic, options.user),
                           trace->trace.context);
}

/// A trace that names what it never made, in a diagnostic.
static bool isWhole(const PyjitTrace *trace,
                    const PyjitCompileOptions &options) {
  if (trace->spoiled)
    toFunction(options.diagnostic, options.user)(
        "the trace uses a value, type or attribute that was never made");
  return !trace->spoiled;
}

PyjitExecutable *pyjitCompile(const PyjitTrace *trace,
                              const PyjitCompileOptions *options) {
  if (options->size != sizeof(PyjitCompileOptions) || !isWhole(trace, *options))
    return nullptr;
  compiler::Session session = makeSession(trace, *options);
  std::unique_ptr<compiler::Executable> exe = session.compile(trace->trace);
  return exe ? new PyjitExecutable{std::move(exe)} : nullptr;
}

static ArrayRef<int64_t> toArrayRef(PyjitInts ints) {
  return {ints.data, ints.size};
}

PyjitTrace *pyjitMerge(const PyjitSegment *segments, size_t count,
                       const PyjitCompileOptions *options) {
  if (options->size != sizeof(PyjitCompileOptions) || !count)
    return nullptr;
  std::vector<compiler::Segment> given;
  for (const PyjitSegment &segment : ArrayRef(segments, count)) {
    if (!isWhole(segment.trace, *options))
      return nullptr;
    given.push_back({segment.trace->trace,
                     static_cast<compiler::Segment::Kind>(segment.kind),
                     segment.condition, segment.tensorClass,
                     toArrayRef(segment.takes), toArrayRef(segment.objects),
                     segment.endsAtGraphBreak,
                     segment.leavesGradMode.given
                         ? std::optional<bool>(segment.leavesGradMode.value)
                         : std::nullopt});
  }
  compiler::Session session = makeSession(segments[0].trace, *options);
  compiler::Trace merged = session.merge(given);
  return merged ? new PyjitTrace{std::move(merged), {}} : nullptr;
}

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
  switch (kind) {
  case PyjitProgramMain:
    return executable->exe->main;
  case PyjitProgramPrepare:
    return executable->exe->prepare;
  case PyjitProgramBackward:
    break;
  }
  return executable->exe->backward;
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

bool pyjitExecutablePreparedValue(const PyjitExecutable *executable,
                                  size_t index, PyjitPreparedValue *value) {
  const auto &values = executable->exe->preparedValues;
  if (index >= values.size())
    return false;
  const std::string &digest = values[index].digest;
  const std::vector<uint32_t> &sources = values[index].sources;
  *value = {{digest.data(), digest.size()}, sources.data(), sources.size()};
  return true;
}

const PyjitBackward *
pyjitExecutableBackward(const PyjitExecutable *executable) {
  const auto &gradients = executable->exe->gradients;
  return gradients ? &gradients->view : nullptr;
}

PyjitExecutable *pyjitExecutableDifferentiate(const PyjitExecutable *executable,
                                              uint32_t order,
                                              PyjitDiagnosticFn diagnostic,
                                              void *user) {
  std::unique_ptr<compiler::Executable> exe =
      executable->exe->differentiate(order, toFunction(diagnostic, user));
  return exe ? new PyjitExecutable{std::move(exe)} : nullptr;
}

PyjitExecutable *pyjitExecutableDropGradients(const PyjitExecutable *executable,
                                              const uint32_t *results,
                                              size_t numResults, bool stops,
                                              PyjitDiagnosticFn diagnostic,
                                              void *user) {
  std::unique_ptr<compiler::Executable> exe = executable->exe->dropGradients(
      {results, results + numResults}, stops, toFunction(diagnostic, user));
  return exe ? new PyjitExecutable{std::move(exe)} : nullptr;
}

bool pyjitExecutablePacksTrained(const PyjitExecutable *executable) {
  return executable->exe->packsTrained;
}

PyjitExecutable *
pyjitExecutableKeepParameters(const PyjitExecutable *executable,
                              PyjitDiagnosticFn diagnostic, void *user) {
  std::unique_ptr<compiler::Executable> exe =
      executable->exe->keepParameters(toFunction(diagnostic, user));
  return exe ? new PyjitExecutable{std::move(exe)} : nullptr;
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
  case PyjitReportSpecializedSizes:
    return toC(executable->exe->getReport(Report::SpecializedSizes));
  }
  return {};
}
