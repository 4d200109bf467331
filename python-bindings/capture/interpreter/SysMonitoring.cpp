//===- SysMonitoring.cpp - The events of the interpreter ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "interpreter/SysMonitoring.h"

#include <initializer_list>

using namespace pyjit::capture;

static constexpr int kTool = 5; // sys.monitoring.OPTIMIZER_ID
// Bits of sys.monitoring.events.
static constexpr int kStart = 1 << 0;       // PY_START
static constexpr int kInstruction = 1 << 6; // INSTRUCTION

SysMonitoring::SysMonitoring(PyMethodDef *onStart, PyMethodDef *onInstruction) {
  PyObject *sys = PyImport_ImportModule("sys");
  monitoring = sys ? PyObject_GetAttrString(sys, "monitoring") : nullptr;
  Py_XDECREF(sys);
  if (!monitoring || !call("use_tool_id", "is", kTool, "pyjit")) {
    PyErr_Clear();
    return;
  }
  inUse = true;
  auto registerCallback = [&](int event, PyMethodDef *method) {
    PyObject *callback = PyCFunction_New(method, nullptr);
    bool done =
        callback && call("register_callback", "iiO", kTool, event, callback);
    Py_XDECREF(callback);
    return done;
  };
  active = registerCallback(kStart, onStart) &&
           registerCallback(kInstruction, onInstruction) &&
           call("set_events", "ii", kTool, kStart | kInstruction);
  PyErr_Clear();
}

SysMonitoring::~SysMonitoring() {
  // The user's exception, if any, survives.
  PyObject *error = PyErr_GetRaisedException();
  if (inUse) {
    call("set_events", "ii", kTool, 0);
    for (int event : {kStart, kInstruction})
      call("register_callback", "iiO", kTool, event, Py_None);
    call("free_tool_id", "i", kTool);
  }
  Py_XDECREF(monitoring);
  PyErr_Clear();
  PyErr_SetRaisedException(error);
}

void SysMonitoring::end() {
  call("set_events", "ii", kTool, 0);
  PyErr_Clear();
}

template <typename... Args>
bool SysMonitoring::call(const char *method, const char *format, Args... args) {
  PyObject *result = PyObject_CallMethod(monitoring, method, format, args...);
  Py_XDECREF(result);
  return result != nullptr;
}
