//===- Cut.h - Going on after a compiled part of a call ---------*- C++ -*-===//

#ifndef PYJIT_PYTHON_CUT_H
#define PYJIT_PYTHON_CUT_H

#include <Python.h>

namespace pyjit::python {

/// Adds the type `Cut` to `module`. `Cut(frames)`: for each frame, outermost
/// first, the function that carries out its instruction and a tuple of pairs
/// (marker, CompiledFunction): where it may go on.
bool addCutType(PyObject *module);
bool isCut(PyObject *object);

/// Answers a call of a compiled function as far as records reach: a record that
/// ends at a cut gives its state, and `cut` (new reference).
using Answer = PyObject *(*)(PyObject * callable, PyObject *const *args,
                             size_t nargsf, PyObject *kwnames, PyObject **cut);

/// Carries out the instruction at `cut` and all that follows, to the end of the
/// outermost frame. Consumes both references; `state` is what the record gave.
PyObject *goOn(PyObject *cut, PyObject *state, Answer answer);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_CUT_H
