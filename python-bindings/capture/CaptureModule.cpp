//===- CaptureModule.cpp - pyjit._capture, for tests ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   capture(callable, args, kwargs, name) -> (result, trace, objects, reason)
//   survey(callable, args, kwargs)        -> (result, reasons)
//
//===----------------------------------------------------------------------===//

#define PY_SSIZE_T_CLEAN
#include "Recorder.h"

#include <vector>

using namespace pyjit::capture;

static PyObject *run(PyObject *args, bool surveying) {
  PyObject *callable, *positional, *kwargs = nullptr;
  const char *name = "f";
  if (!PyArg_ParseTuple(args, "OO!|Os", &callable, &PyTuple_Type, &positional,
                        &kwargs, &name))
    return nullptr;
  std::vector<PyObject *> arguments;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positional); ++i)
    arguments.push_back(PyTuple_GET_ITEM(positional, i));
  size_t nargs = arguments.size();
  PyObject *kwnames = nullptr;
  if (kwargs && PyDict_Check(kwargs) && PyDict_GET_SIZE(kwargs)) {
    kwnames = PyTuple_New(PyDict_GET_SIZE(kwargs));
    PyObject *key, *value;
    Py_ssize_t position = 0, i = 0;
    while (PyDict_Next(kwargs, &position, &key, &value)) {
      PyTuple_SET_ITEM(kwnames, i++, Py_NewRef(key));
      arguments.push_back(value);
    }
  }
  CaptureRequest request;
  request.context = pyjitContextCreate();
  request.name = name;
  CaptureResult out =
      surveying ? survey(callable, arguments.data(), nargs, kwnames)
                : capture(request, callable, arguments.data(), nargs, kwnames);
  pyjitContextDestroy(request.context);
  Py_XDECREF(kwnames);
  if (!out.result) {
    Py_XDECREF(out.objects);
    return nullptr;
  }
  if (surveying) {
    Py_XDECREF(out.objects);
    return Py_BuildValue("Ns", out.result, out.surveyed.c_str());
  }
  PyjitText *printed = out.trace ? pyjitTracePrint(out.trace.get()) : nullptr;
  PyjitString text = printed ? pyjitTextGet(printed) : PyjitString{"", 0};
  PyObject *answer =
      Py_BuildValue("Ns#Ns", out.result, text.data, Py_ssize_t(text.size),
                    out.objects, out.reason.text.c_str());
  if (printed)
    pyjitTextDestroy(printed);
  return answer;
}

static PyObject *captureEntry(PyObject *, PyObject *args) {
  return run(args, false);
}

static PyObject *surveyEntry(PyObject *, PyObject *args) {
  return run(args, true);
}

static PyMethodDef methods[] = {
    {"capture", captureEntry, METH_VARARGS, "Records one call."},
    {"survey", surveyEntry, METH_VARARGS, "Lists what is not modelled."},
    {nullptr, nullptr, 0, nullptr}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                 "_capture",
                                 "The recorder, for tests.",
                                 -1,
                                 methods,
                                 nullptr,
                                 nullptr,
                                 nullptr,
                                 nullptr};

PyMODINIT_FUNC PyInit__capture() { return PyModule_Create(&definition); }
