//===- DeviceMath.h - Functions that kernels call ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_CODEGEN_PTX_DEVICEMATH_H
#define PYJIT_LIB_CODEGEN_PTX_DEVICEMATH_H

#include "llvm/Support/Error.h"

namespace llvm {
class Module;
} // namespace llvm

namespace pyjit::ptx {

/// Gives every function that `module` declares and calls its definition; an
/// error names one that has none.
llvm::Error linkDeviceMath(llvm::Module &module);

} // namespace pyjit::ptx

#endif
