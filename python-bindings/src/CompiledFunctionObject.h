//===- CompiledFunctionObject.h - A compiled function -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the path that answers calls (CompiledFunction.cpp) and the Python type
// (CompiledFunctionType.cpp) have in common.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_PYTHON_COMPILEDFUNCTIONOBJECT_H
#define PYJIT_PYTHON_COMPILEDFUNCTIONOBJECT_H

#include <Python.h>

#include <cstdint>
#include <vector>

namespace pyjit::python {

struct CompiledFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *target;
  PyObject *miss;
  /// The `ModuleCalls` that modules in eager parts of calls go through, or
  /// null.
  PyObject *modules;
  PyObject *dict;
  PyObject *weakrefs;
  uint64_t hits, misses, eagerCalls;
  /// Calls of one signature that eager answers before any specialization is
  /// asked.
  struct Unasked {
    uint64_t signature, calls;
  } unasked[4];
  /// Likewise calls of any signature in these modes.
  uint64_t unaskedCalls, unaskedModes;
  uint64_t anyUnasked; ///< all of them
  /// Calls in these modes that eager answers where no specialization did,
  /// before the engine is asked; the modes that the latest such call began in.
  uint64_t quiet, quietModes, missModes;
  /// The specialization that is compared with eager, or null; who answers the
  /// next of the calls compared; the signature by octaves that they have (0:
  /// the next call's), and the exact one (0: they have several).
  PyObject *compared;
  uint64_t comparedSignature, comparedExact;
  uint32_t patience; ///< calls until the comparison ends without a result
  bool eagerNext;
  /// When the call in front of this one began (a steady clock's nanoseconds),
  /// if it was timed and a backward may have followed it; else 0.
  int64_t timedBefore;
  /// Strong; by `rankOf`, then most recently hit first.
  std::vector<PyObject *> *specializations;
};

inline CompiledFunction *selfOf(PyObject *object) {
  return reinterpret_cast<CompiledFunction *>(object);
}

/// Where a specialization that was hit, or is new, belongs.
size_t placeOf(PyObject *holder,
               const std::vector<PyObject *> &specializations);

/// Answers a call: the type's vectorcall.
PyObject *vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf,
                     PyObject *kwnames);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_COMPILEDFUNCTIONOBJECT_H
