//===- NativeTable.cpp - The table of native functions --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "builtins/Natives.h"

#include <cstring>

using namespace pyjit::capture;

void NativeTable::add(PyObject *callable, NativeHandler handler) {
  if (PyInstanceMethod_Check(callable)) // of a class of pybind11's
    callable = PyInstanceMethod_GET_FUNCTION(callable);
  if (PyMethodDef *def = pyjitMethodDef(callable))
    functions[def] = handler;
  else if (PyType_Check(callable))
    types[reinterpret_cast<PyTypeObject *>(callable)] = handler;
}

PyObject *pyjit::capture::findObject(const char *path) {
  const char *colon = std::strchr(path, ':');
  std::string module(path, colon - path);
  PyObject *object = PyImport_ImportModule(module.c_str());
  std::string rest = colon + 1;
  while (object && !rest.empty()) {
    size_t dot = rest.find('.');
    std::string head = rest.substr(0, dot);
    rest = dot == std::string::npos ? "" : rest.substr(dot + 1);
    PyObject *next = PyObject_GetAttrString(object, head.c_str());
    Py_DECREF(object);
    object = next;
  }
  PyErr_Clear();
  return object;
}

void NativeTable::add(const char *path, NativeHandler handler) {
  PyObject *object = findObject(path);
  if (object)
    add(object, handler);
  Py_XDECREF(object);
  PyErr_Clear();
}

void NativeTable::addMethods(PyTypeObject *type, NativeHandler handler) {
  PyObject *dict = PyType_GetDict(type);
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value))
    if (PyMethodDef *def = pyjitMethodDef(value))
      functions.insert({def, handler});
  Py_DECREF(dict);
}

const NativeTable &NativeTable::get() { return own(); }

NativeTable &NativeTable::own() {
  static NativeTable *const table = [] {
    PyObject *error = PyErr_GetRaisedException();
    auto *t = new NativeTable;
    addBuiltins(*t);
    addContainerMethods(*t);
    addTorch(*t);
    addBackward(*t);
    addLibrary(*t);
    addModes(*t);
    addOrder(*t);
    addIterators(*t);
    addPlain(*t);
    addFormats(*t);
    addWarnings(*t);
    addAutograd(*t);
    addTransforms(*t);
    addDevices(*t);
    addContext(*t);
    PyErr_Clear();
    PyErr_SetRaisedException(error);
    return t;
  }();
  return *table;
}

ResultKind pyjit::capture::nativePure(Recording &s, const Call &call) {
  for (PyObject *arg : call.args)
    s.containers.readDeep(arg);
  return ResultKind::Fresh;
}

ResultKind pyjit::capture::nativeShallow(Recording &s, const Call &call) {
  for (PyObject *arg : call.args)
    s.containers.iterate(arg);
  return ResultKind::FreshTuples;
}

ResultKind pyjit::capture::nativeNothing(Recording &, const Call &) {
  return ResultKind::Fresh;
}
