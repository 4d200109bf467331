//===- ContentHash.h - What a tensor's memory holds -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_CONTENTHASH_H
#define PYJIT_PYTHON_CONTENTHASH_H

#include <cstddef>
#include <cstdint>

namespace pyjit::python {

/// A hash of all bytes, computed on PyTorch's threads where there are many. A
/// change of a single aligned 8-byte word always changes it; other changes do
/// but for one in 2^64.
uint64_t contentHash(const void *data, size_t bytes);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_CONTENTHASH_H
