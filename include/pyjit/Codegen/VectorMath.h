//===- VectorMath.h - The C library's math on vectors -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// glibc's libmvec has functions on whole vectors, named by the x86-64 psABI's
// vector function ABI ("Vector ABI for x86-64", section 2.6): `_ZGVdN8v_tanf`
// is `tanf` of eight lanes for AVX2. Complete since glibc 2.35.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CODEGEN_VECTORMATH_H
#define PYJIT_CODEGEN_VECTORMATH_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace pyjit::codegen {

/// Functions of one or two doubles that libmvec has, for floats as well (with
/// an "f" behind the name).
struct VectorFunction {
  llvm::StringLiteral name;
  unsigned operands;
};
llvm::ArrayRef<VectorFunction> vectorFunctions();

/// Null if libmvec has none of this name.
const VectorFunction *findVectorFunction(llvm::StringRef name);

/// What a function is called on vectors of `vectorBits` (128, 256 or 512) bits
/// whose elements are doubles or floats.
std::string vectorName(const VectorFunction &function, unsigned vectorBits,
                       bool isDouble);

} // namespace pyjit::codegen

#endif // PYJIT_CODEGEN_VECTORMATH_H
