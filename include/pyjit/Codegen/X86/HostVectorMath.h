//===- HostVectorMath.h - libmvec as this process finds it ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CODEGEN_X86_HOSTVECTORMATH_H
#define PYJIT_CODEGEN_X86_HOSTVECTORMATH_H

#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <utility>

namespace pyjit::x86 {

/// The functions of glibc's libmvec that kernels call, by name, for vectors of
/// each width (VectorMath.h); loaded once, for as long as the process runs.
/// None where the library is missing or older (glibc before 2.35).
llvm::ArrayRef<std::pair<std::string, void *>> hostVectorMath();

} // namespace pyjit::x86

#endif // PYJIT_CODEGEN_X86_HOSTVECTORMATH_H
