//===- UnversionedWrites.h - Writes that no version counts ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_UNVERSIONEDWRITES_H
#define PYJIT_PYTHON_UNVERSIONEDWRITES_H

#include <atomic>
#include <cstdint>

namespace pyjit::python {

/// Fused updates of optimizers (`_fused_adam_`). On a GPU such a kernel writes
/// weights through pointers that were asked for as constant ones, and Torch
/// does not count it as a version of theirs: nothing about the weight shows it.
class UnversionedWrites {
public:
  /// Changes with each of them in this process.
  static uint32_t count() { return writes; }
  /// One begins or has ended.
  static void note() { ++writes; }

private:
  static std::atomic<uint32_t> writes;
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_UNVERSIONEDWRITES_H
