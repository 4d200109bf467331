//===- ModuleCall.h - Calls of a compiled module ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_MODULECALL_H
#define PYJIT_PYTHON_MODULECALL_H

#include <Python.h>

namespace pyjit::python {

/// call_through(type): calls of the instances of a heap type with `__call__` go
/// to what they hold as `_pyjit_call`, without a frame of Python in between
/// (300 ns of a call that may take 2 us). `type.__call__` has to do the same:
/// assigning it takes this back, as CPython fills the slot anew.
PyObject *callThrough(PyObject *self, PyObject *type);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_MODULECALL_H
