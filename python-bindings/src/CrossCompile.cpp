//===- CrossCompile.cpp - Compiling for a GPU that is not here ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "CrossCompile.h"

#include "pyjit-rt/Program.h"

#include <Python.h>

#include <memory>

namespace pyjit::python {
namespace {

std::string textOf(const PyjitExecutable *exe, PyjitReport report) {
  PyjitString text = pyjitExecutableReport(exe, report);
  return {text.data, text.size};
}

} // namespace

std::optional<CrossCompiled> crossCompile(const PyjitTrace *trace,
                                          const PyjitCompileOptions &options,
                                          std::string &error) {
  // Other Python threads go on meanwhile; the compiler knows nothing of Python.
  PyThreadState *thread = PyEval_SaveThread();
  std::unique_ptr<PyjitExecutable, decltype(&pyjitExecutableDestroy)> exe(
      pyjitCompile(trace, &options), pyjitExecutableDestroy);
  PyEval_RestoreThread(thread);
  if (!exe)
    return std::nullopt;
  for (PyjitProgramKind kind :
       {PyjitProgramMain, PyjitProgramPrepare, PyjitProgramBackward}) {
    PyjitString blob = pyjitExecutableLaunch(exe.get(), kind);
    rt::Program program;
    if (blob.size && !program.load(blob.data, blob.size, error))
      return std::nullopt;
  }
  return CrossCompiled{textOf(exe.get(), PyjitReportLaunch),
                       textOf(exe.get(), PyjitReportKernels)};
}

} // namespace pyjit::python
