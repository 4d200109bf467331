//===- CrossCompile.h - Compiling for a GPU that is not here ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_CROSSCOMPILE_H
#define PYJIT_PYTHON_CROSSCOMPILE_H

#include "pyjit-c/Compiler.h"

#include <optional>
#include <string>

namespace pyjit::python {

/// What a specialization for a GPU would load.
struct CrossCompiled {
  std::string launch;  ///< its launch programs, as text
  std::string kernels; ///< PTX
};

/// Compiles `trace`, whose tensors are on a GPU, for `options.gpu`,
/// and validates the launch programs as loading them would. Takes the same way
/// as `Specialization::build`, but needs no driver. On failure, `error` says
/// why.
std::optional<CrossCompiled> crossCompile(const PyjitTrace *trace,
                                          const PyjitCompileOptions &options,
                                          std::string &error);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_CROSSCOMPILE_H
