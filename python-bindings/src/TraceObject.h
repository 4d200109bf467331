//===- TraceObject.h - Traces as Python objects -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_TRACEOBJECT_H
#define PYJIT_PYTHON_TRACEOBJECT_H

#include "capture/TraceWriter.h"

#include <Python.h>

namespace pyjit::python {

/// Adds the types `Context` and `Trace` to the module.
bool addTraceTypes(PyObject *module);

/// Borrowed; null with a TypeError where `object` is of another type. (They
/// have the form of PyArg_Parse's converters: 1, or 0 with the error.)
int toContext(PyObject *object, PyjitContext **context);
int toTrace(PyObject *object, PyjitTrace **trace);

/// A new `Trace`; None for null.
PyObject *wrapTrace(capture::TraceHandle trace);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_TRACEOBJECT_H
