//===- DistinctObjects.h - Objects that are no others -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_DISTINCTOBJECTS_H
#define PYJIT_PYTHON_DISTINCTOBJECTS_H

#include <Python.h>

#include <cstdint>
#include <vector>

namespace pyjit::python {

/// Checks a group of objects of which some are written, by a table of their
/// addresses. Needs the GIL.
class DistinctObjects {
public:
  /// Whether each of the first `written` of the `count` objects in `registers`
  /// that `list` names is another one than all others.
  bool check(const uint32_t *list, uint32_t count, uint32_t written,
             const std::vector<PyObject *> &registers);

private:
  /// The place of `object` in the table, or the empty one where it belongs.
  PyObject *&find(PyObject *object);

  /// A power of two of places, at most half of them taken.
  std::vector<PyObject *> table;
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_DISTINCTOBJECTS_H
