//===- TraceObject.cpp - Traces as Python objects -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "TraceObject.h"

#include "Specialization.h"

namespace pyjit::python {
namespace {

struct ContextObject {
  PyObject_HEAD PyjitContext *context;
};
struct TraceObject {
  PyObject_HEAD PyjitTrace *trace;
};

PyTypeObject *contextType = nullptr, *traceType = nullptr; // set once

//===----------------------------------------------------------------------===//
// Context
//===----------------------------------------------------------------------===//

PyObject *newContext(PyTypeObject *type, PyObject *, PyObject *) {
  auto *self = reinterpret_cast<ContextObject *>(type->tp_alloc(type, 0));
  if (self)
    self->context = pyjitContextCreate();
  return reinterpret_cast<PyObject *>(self);
}

void destroyContext(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyjitContextDestroy(reinterpret_cast<ContextObject *>(object)->context);
  type->tp_free(object);
  Py_DECREF(type);
}

PyType_Slot contextSlots[] = {
    {Py_tp_new, reinterpret_cast<void *>(newContext)},
    {Py_tp_dealloc, reinterpret_cast<void *>(destroyContext)},
    {0, nullptr}};
PyType_Spec contextSpec = {"pyjit._C.Context", sizeof(ContextObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                           contextSlots};

//===----------------------------------------------------------------------===//
// Trace
//===----------------------------------------------------------------------===//

PyjitTrace *traceOf(PyObject *object) {
  return reinterpret_cast<TraceObject *>(object)->trace;
}

void destroyTrace(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyjitTraceDestroy(traceOf(object));
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject *print(PyObject *self) {
  PyjitText *printed = pyjitTracePrint(traceOf(self));
  PyjitString text = pyjitTextGet(printed);
  PyObject *answer =
      PyUnicode_DecodeUTF8(text.data, Py_ssize_t(text.size), "replace");
  pyjitTextDestroy(printed);
  return answer;
}

PyObject *parse(PyObject *, PyObject *text) {
  Py_ssize_t size;
  const char *data = PyUnicode_AsUTF8AndSize(text, &size);
  if (!data)
    return nullptr;
  PyjitContext *context = pyjitContextCreate();
  std::string error;
  capture::TraceHandle trace(
      pyjitTraceParse(context, {data, size_t(size)}, appendDiagnostic, &error));
  pyjitContextDestroy(context); // the trace keeps what it needs
  if (!trace) {
    PyErr_SetString(PyExc_ValueError, error.c_str());
    return nullptr;
  }
  return wrapTrace(std::move(trace));
}

PyObject *equals(PyObject *self, PyObject *other) {
  PyjitTrace *trace;
  if (!toTrace(other, &trace))
    return nullptr;
  return PyBool_FromLong(pyjitTraceEquals(traceOf(self), trace));
}

PyObject *isCostly(PyObject *self, PyObject *index) {
  size_t number = PyLong_AsSize_t(index);
  if (PyErr_Occurred())
    return nullptr;
  return PyBool_FromLong(pyjitTraceIsCostly(traceOf(self), number));
}

PyObject *getCudaDevice(PyObject *self, void *) {
  int device = pyjitTraceCudaDevice(traceOf(self));
  return device < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(device);
}

template <bool (*question)(const PyjitTrace *)>
PyObject *ask(PyObject *self, void *) {
  return PyBool_FromLong(question(traceOf(self)));
}

PyMethodDef traceMethods[] = {
    {"parse", parse, METH_O | METH_STATIC,
     "parse(text) -> Trace: of what str() gave, in a context of its own. "
     "Raises ValueError."},
    {"equals", equals, METH_O,
     "equals(other): the same operations on the same objects, in one context; "
     "locations may differ."},
    {"is_costly", isCostly, METH_O,
     "is_costly(index): whether value `index` of the innermost frame that it "
     "leaves hangs from operators that no call should carry out twice."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef traceGetset[] = {
    {"cuda_device", getCudaDevice, nullptr,
     "Number of the CUDA device that its tensors are on, or None.", nullptr},
    {"lifts_sizes", ask<pyjitTraceLiftsSizes>, nullptr,
     "Whether sizes of tensors that it reads are to differ between calls.",
     nullptr},
    {"computes_sizes", ask<pyjitTraceComputesSizes>, nullptr,
     "Whether an operator takes a size that is a number of the trace.",
     nullptr},
    {"decides", ask<pyjitTraceDecides>, nullptr,
     "Whether it goes on through branches on tensors' data.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot traceSlots[] = {
    {Py_tp_dealloc, reinterpret_cast<void *>(destroyTrace)},
    {Py_tp_str, reinterpret_cast<void *>(print)},
    {Py_tp_methods, traceMethods},
    {Py_tp_getset, traceGetset},
    {0, nullptr}};
PyType_Spec traceSpec = {"pyjit._C.Trace", sizeof(TraceObject), 0,
                         Py_TPFLAGS_DEFAULT |
                             Py_TPFLAGS_DISALLOW_INSTANTIATION |
                             Py_TPFLAGS_IMMUTABLETYPE,
                         traceSlots};

bool addType(PyObject *module, const char *name, PyType_Spec &spec,
             PyTypeObject *&type) {
  type = reinterpret_cast<PyTypeObject *>(
      PyType_FromModuleAndSpec(module, &spec, nullptr));
  return type && PyModule_AddObjectRef(module, name,
                                       reinterpret_cast<PyObject *>(type)) == 0;
}

} // namespace

bool addTraceTypes(PyObject *module) {
  return addType(module, "Context", contextSpec, contextType) &&
         addType(module, "Trace", traceSpec, traceType);
}

int toContext(PyObject *object, PyjitContext **context) {
  if (!Py_IS_TYPE(object, contextType)) {
    PyErr_Format(PyExc_TypeError, "expected a Context, not %R",
                 Py_TYPE(object));
    return 0;
  }
  *context = reinterpret_cast<ContextObject *>(object)->context;
  return 1;
}

int toTrace(PyObject *object, PyjitTrace **trace) {
  if (!Py_IS_TYPE(object, traceType)) {
    PyErr_Format(PyExc_TypeError, "expected a Trace, not %R", Py_TYPE(object));
    return 0;
  }
  *trace = traceOf(object);
  return 1;
}

PyObject *wrapTrace(capture::TraceHandle trace) {
  if (!trace)
    Py_RETURN_NONE;
  auto *object =
      reinterpret_cast<TraceObject *>(traceType->tp_alloc(traceType, 0));
  if (object)
    object->trace = trace.release();
  return reinterpret_cast<PyObject *>(object);
}

} // namespace pyjit::python
