//===- OpcodesCalls.cpp - Calls, super and with ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "interpreter/Opcodes.h"
#include "objects/ObjectKinds.h"
#include "objects/ObjectLayout.h"

#include <cstring>

using namespace pyjit::capture;

ResultKind opcodes::loadSuperAttr(const Op &o) {
  PyObject *super = o.peek(3), *cls = o.peek(2), *self = o.peek(1);
  PyObject *name = o.name(o.in.arg >> 2);
  if (super != reinterpret_cast<PyObject *>(&PySuper_Type) ||
      !PyType_Check(cls)) {
    o.s.end(ReasonKind::PythonFeature, "super is not the builtin one");
    return ResultKind::Known;
  }
  auto *type = reinterpret_cast<PyTypeObject *>(cls);
  PyTypeObject *start = Py_TYPE(self);
  if (PyType_Check(self) &&
      PyType_IsSubtype(reinterpret_cast<PyTypeObject *>(self), type))
    start = reinterpret_cast<PyTypeObject *>(self);
  return toResultKind(o.s.attributes.superAttr(type, self, start, name));
}

/// Functions, methods, classes with an `__init__` in Python, and objects whose
/// `__call__` is a Python function.
static bool isPythonCallable(const Op &o, PyObject *callable) {
  if (PyMethod_Check(callable))
    callable = PyMethod_GET_FUNCTION(callable);
  if (PyFunction_Check(callable))
    return true;
  if (PyType_Check(callable))
    return o.s.calls.handsOnArguments(
        reinterpret_cast<PyTypeObject *>(callable));
  if (!isHeap(callable))
    return false;
  PyObject *method = o.s.attributes.special(callable, "__call__");
  return method && PyFunction_Check(method);
}

/// A generator, a map, or an object whose `__iter__` is a Python function: what
/// these hand out is the result of code that is followed.
static bool handsOutKnown(const Op &o, PyObject *iterable) {
  if (PyGen_CheckExact(iterable) || Py_IS_TYPE(iterable, &PyMap_Type))
    return true;
  if (!isHeap(iterable) || PyType_Check(iterable))
    return false;
  PyObject *iter = o.s.attributes.special(iterable, "__iter__");
  return iter && PyFunction_Check(iter);
}

/// What the instruction itself calls.
static ResultKind callDirectly(const Op &o, const Call &call) {
  o.s.calls.direct = call.callable;
  ResultKind resultKind = o.s.calls.call(call);
  o.s.calls.direct = nullptr;
  return resultKind;
}

ResultKind opcodes::callFunctionEx(const Op &o) {
  bool hasKwargs = o.in.arg & 1;
  PyObject *kwargs = hasKwargs ? o.peek(1) : nullptr;
  PyObject *args = o.peek(hasKwargs ? 2 : 1);
  Call call;
  call.callable = o.peek((hasKwargs ? 3 : 2) + PYJIT_NULL_ABOVE);
  bool isTuple = PyTuple_CheckExact(args) || isStructSequence(args) ||
                 !std::strcmp(Py_TYPE(args)->tp_name, "torch.Size");
  if (!isTuple && !PyList_CheckExact(args)) {
    o.s.containers.hintLength(args);
    o.s.containers.iterate(args);
    // What it hands out becomes arguments within the instruction; a Python
    // function needs no look at them.
    if (handsOutKnown(o, args) && !kwargs && isPythonCallable(o, call.callable))
      return o.s.calls.call(call);
    o.s.end(ReasonKind::UnusualObject, "a call with * of a " + typeName(args));
    return ResultKind::Known;
  }
  o.s.containers.readAll(args);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(args); ++i)
    call.args.push_back(PySequence_Fast_GET_ITEM(args, i));
  if (kwargs) {
    if (!PyDict_CheckExact(kwargs)) {
      o.s.end(ReasonKind::UnusualObject,
              "a call with ** of a " + typeName(kwargs));
      return ResultKind::Known;
    }
    o.s.containers.readAll(kwargs);
    PyObject *names = PyTuple_New(PyDict_GET_SIZE(kwargs));
    Py_ssize_t position = 0, i = 0;
    PyObject *key, *value;
    while (PyDict_Next(kwargs, &position, &key, &value)) {
      PyTuple_SET_ITEM(names, i++, Py_NewRef(key));
      call.args.push_back(value);
    }
    o.s.objects.keep(names);
    Py_DECREF(names);
    call.kwnames = i ? names : nullptr;
  }
  return callDirectly(o, call);
}

ResultKind pyjit::capture::callWith(const Op &o, PyObject *callable,
                                    PyObject *self, int above,
                                    PyObject *kwnames) {
  Call call;
  call.callable = callable;
  if (self)
    call.args.push_back(self);
  for (int i = o.in.arg; i > 0; --i)
    call.args.push_back(o.peek(above + i));
  call.kwnames = kwnames;
  o.s.calls.called = call.callable;
  ResultKind resultKind = callDirectly(o, call);
  o.s.calls.called = nullptr;
  return resultKind;
}

ResultKind opcodes::beforeWith(const Op &o) {
  PyObject *manager = o.peek(1);
  o.s.attributes.special(manager, "__enter__");
  PyObject *exit = o.s.attributes.special(manager, "__exit__");
  // It switches off what only subclasses of tensors have.
  bool idle = !std::strcmp(Py_TYPE(manager)->tp_name,
                           "torch._C.DisableTorchFunctionSubclass");
  if (!idle && (!exit || !PyFunction_Check(exit))) {
    std::string why = "a with statement over a native " + typeName(manager);
    // What stands behind logging's is done once.
    bool once = !std::strcmp(Py_TYPE(manager)->tp_name, "_thread.RLock");
    once ? o.s.endOnce(ReasonKind::FirstTime, why)
         : o.s.end(ReasonKind::NativeFunction, why);
  }
  o.s.now.freshAt = 2; // the bound `__exit__`
  return ResultKind::Known;
}
