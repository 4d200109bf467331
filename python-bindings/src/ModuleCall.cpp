//===- ModuleCall.cpp - Calls of a compiled module ------------------------===//

#include "ModuleCall.h"

#include "Reference.h"

#include "capture/Recorder.h"

namespace pyjit::python {
namespace {

/// The attribute that calls go to: one name for all types.
PyObject *slotName = nullptr;

/// As CPython's own slot does it.
PyObject *callMethod(PyObject *self, PyObject *args, PyObject *kwargs) {
  Reference method = Reference::steal(PyObject_GetAttrString(
      reinterpret_cast<PyObject *>(Py_TYPE(self)), "__call__"));
  Reference whole = Reference::steal(PyTuple_New(PyTuple_GET_SIZE(args) + 1));
  if (!method || !whole)
    return nullptr;
  PyTuple_SET_ITEM(whole.get(), 0, Py_NewRef(self));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    PyTuple_SET_ITEM(whole.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
  return PyObject_Call(method.get(), whole.get(), kwargs);
}

/// tp_call of such a type.
PyObject *call(PyObject *self, PyObject *args, PyObject *kwargs) {
  // A recording follows frames.
  if (capture::isCapturing())
    return callMethod(self, args, kwargs);
  // Past `__getattr__` of the instance's class, which modules define in Python.
  PyObject *target = PyObject_GenericGetAttr(self, slotName);
  if (!target)
    return nullptr;
  PyObject *result = PyObject_VectorcallDict(
      target, reinterpret_cast<PyTupleObject *>(args)->ob_item,
      PyTuple_GET_SIZE(args), kwargs);
  Py_DECREF(target);
  return result;
}

} // namespace

PyObject *callThrough(PyObject *, PyObject *args) {
  PyObject *type, *name;
  if (!PyArg_ParseTuple(args, "O!U:call_through", &PyType_Type, &type, &name))
    return nullptr;
  auto *heapType = reinterpret_cast<PyTypeObject *>(type);
  if (!PyType_HasFeature(heapType, Py_TPFLAGS_HEAPTYPE)) {
    PyErr_Format(PyExc_TypeError, "call_through: %R is no class made in Python",
                 type);
    return nullptr;
  }
  if (!slotName) {
    slotName = Py_NewRef(name);
    PyUnicode_InternInPlace(&slotName);
  }
  if (PyUnicode_Compare(slotName, name) != 0) {
    PyErr_Format(PyExc_ValueError, "call_through: calls go to %R, not to %R",
                 slotName, name);
    return nullptr;
  }
  heapType->tp_call = call;
  Py_RETURN_NONE;
}

} // namespace pyjit::python
