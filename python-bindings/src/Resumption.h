//===- Resumption.h - Going on after a compiled segment ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_RESUMPTION_H
#define PYJIT_PYTHON_RESUMPTION_H

#include <Python.h>

namespace pyjit::python {

/// Adds the type `Resumption` to `module`. `Resumption(frames)`: for each
/// frame, outermost first, the function that carries out its instruction and a
/// tuple of pairs (marker, CompiledFunction): where it may go on.
bool addResumptionType(PyObject *module);
bool isResumption(PyObject *object);

/// Answers a call of a compiled function as far as specializations reach: a
/// specialization that ends at a graph break gives its state, and `resumption`
/// (new reference).
using Answer = PyObject *(*)(PyObject * callable, PyObject *const *args,
                             size_t nargsf, PyObject *kwnames,
                             PyObject **resumption);

/// Carries out the instruction at `resumption` and all that follows, to the end
/// of the outermost frame. Consumes both references; `state` is what the
/// specialization gave.
PyObject *goOn(PyObject *resumption, PyObject *state, Answer answer);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_RESUMPTION_H
