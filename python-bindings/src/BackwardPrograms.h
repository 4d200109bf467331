//===- BackwardPrograms.h - Gradients of a specialization -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_BACKWARDPROGRAMS_H
#define PYJIT_PYTHON_BACKWARDPROGRAMS_H

#include "pyjit-c/Compiler.h"
#include "pyjit-rt/BackwardProgram.h"

namespace pyjit::python {

class Guards;
class Mock;

/// One program of an executable, ready to run; null and `error` where it does
/// not load.
std::unique_ptr<rt::TorchExecutor> makeExecutor(const PyjitExecutable *exe,
                                                PyjitProgramKind kind,
                                                std::string &error);

/// What computes gradients of `main`, the main program of `exe`; null and an
/// empty `error` where nothing requires grad. Keeps `exe`.
std::shared_ptr<const rt::BackwardProgram>
loadBackward(std::shared_ptr<PyjitExecutable> exe,
             const rt::TorchExecutor &main, const Guards &guards,
             const Mock &mock, std::string &error);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_BACKWARDPROGRAMS_H
