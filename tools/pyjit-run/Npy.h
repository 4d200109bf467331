//===- Npy.h - NumPy's array files ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_TOOLS_PYJIT_RUN_NPY_H
#define PYJIT_TOOLS_PYJIT_RUN_NPY_H

#include "pyjit-rt/Array.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>

namespace pyjit::run {

/// An array and the memory that it points to.
struct OwnedArray {
  PyjitArray array{};
  std::unique_ptr<char[]> data;
};

/// Reads a .npy file (format versions 1 to 3, little-endian). bfloat16 is
/// stored as `<V2`, as NumPy itself has none.
llvm::Expected<OwnedArray> readNpy(llvm::StringRef path);
/// Writes row-major.
llvm::Error writeNpy(llvm::StringRef path, const PyjitArray &array);
/// The elements in row-major order, nested brackets around rows.
void printArray(llvm::raw_ostream &os, const PyjitArray &array);
/// `f32[2, 3]`
std::string describeArray(const PyjitArray &array);
/// Zeroed memory for an array of this description.
OwnedArray allocateLike(const PyjitArray &description);
/// Copies the elements of `from` to `to`, of the same dtype and sizes, whatever
/// their strides.
void copyElements(const PyjitArray &from, const PyjitArray &to);

} // namespace pyjit::run

#endif // PYJIT_TOOLS_PYJIT_RUN_NPY_H
