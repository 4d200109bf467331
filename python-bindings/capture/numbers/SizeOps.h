//===- SizeOps.h - Operations on sizes and ints -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_NUMBERS_SIZEOPS_H
#define PYJIT_CAPTURE_NUMBERS_SIZEOPS_H

#include "TraceWriter.h"

#include <set>

namespace pyjit::capture {

class Recording;

/// Writes what Python learns of sizes, where they are followed (Sizes.cpp).
class SizeOps {
public:
  explicit SizeOps(Recording &recording) : s(recording) {}

  /// One of them may differ between calls, or is followed as if it did.
  bool followed = false;
  /// What those that differ were at the recording, of tensors from before.
  std::set<int64_t> lifted;

  /// SSA value of size `dim` of a tensor, or -1.
  int valueOf(PyObject *tensor, int64_t dim);
  /// An int that is known.
  PyjitValue writeInt(int64_t value);
  /// What two ints come to.
  PyjitValue writeInts(const char *function, PyjitValue a, PyjitValue b,
                       int64_t value);
  /// A comparison of a number with a constant that held.
  void relate(const char *function, int value, int64_t constant);
  /// Python learns more of a tensor's layout than sizes.
  void layout(PyObject *tensor, const char *question);
  /// All that is to be known of a tensor, or of those that a container holds.
  void layoutDeep(PyObject *object);

private:
  Recording &s;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_NUMBERS_SIZEOPS_H
