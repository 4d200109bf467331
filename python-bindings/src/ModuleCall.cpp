//===- ModuleCall.cpp - Calls of a compiled module ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ModuleCall.h"

#include "capture/Recorder.h"

namespace pyjit::python {
namespace {

/// What CPython fills tp_call of a class with: it looks `__call__` up.
ternaryfunc callMethod = nullptr;

/// tp_call of such a type.
PyObject *call(PyObject *self, PyObject *args, PyObject *kwargs) {
  // A recording follows frames.
  if (capture::isCapturing())
    return callMethod(self, args, kwargs);
  static PyObject *const name = PyUnicode_InternFromString("_pyjit_call");
  // Past `__getattr__` of the instance's class, which modules define in Python.
  PyObject *target = PyObject_GenericGetAttr(self, name);
  if (!target)
    return nullptr;
  PyObject *result = PyObject_VectorcallDict(
      target, reinterpret_cast<PyTupleObject *>(args)->ob_item,
      PyTuple_GET_SIZE(args), kwargs);
  Py_DECREF(target);
  return result;
}

} // namespace

PyObject *callThrough(PyObject *, PyObject *type) {
  auto *heapType = reinterpret_cast<PyTypeObject *>(type);
  if (!PyType_Check(type) ||
      !PyType_HasFeature(heapType, Py_TPFLAGS_HEAPTYPE)) {
    PyErr_Format(PyExc_TypeError, "call_through: %R is no class made in Python",
                 type);
    return nullptr;
  }
  if (heapType->tp_call != call)
    callMethod = heapType->tp_call;
  heapType->tp_call = call;
  Py_RETURN_NONE;
}

} // namespace pyjit::python
