//===- DisjointMemory.h - Tensors that share no memory ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_DISJOINTMEMORY_H
#define PYJIT_PYTHON_DISJOINTMEMORY_H

#include <Python.h>

#include <cstdint>
#include <vector>

namespace pyjit::python {

/// Checks a group of tensors of which some are written: sorts their ranges of
/// memory, and walks them once. Needs the GIL.
class DisjointMemory {
public:
  /// Whether each of the first `written` of the `count` tensors in `registers`
  /// that `list` names shares no byte with any other one of them. The range of
  /// a tensor reaches from its first element to its last one, gaps included.
  bool check(const uint32_t *list, uint32_t count, uint32_t written,
             const std::vector<PyObject *> &registers);

private:
  struct Range {
    uintptr_t begin, end;
    uint32_t number; ///< in the list
    bool operator<(const Range &other) const {
      return begin != other.begin ? begin < other.begin : end < other.end;
    }
  };
  /// In the order of the last call, which mostly is this one's.
  std::vector<Range> ranges;
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_DISJOINTMEMORY_H
