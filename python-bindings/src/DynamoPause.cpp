//===- DynamoPause.cpp - Calls that torch.compile does not see ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DynamoPause.h"

namespace pyjit::python {

/// `set_eval_frame(callback)` returns the one before; null where this PyTorch
/// has none.
static PyObject *setEvalFrame() {
  static PyObject *const function = [] {
    Reference module =
        Reference::steal(PyImport_ImportModule("torch._C._dynamo.eval_frame"));
    PyObject *found =
        module ? PyObject_GetAttrString(module.get(), "set_eval_frame")
               : nullptr;
    if (!found)
      PyErr_Clear();
    return found;
  }();
  return function;
}

DynamoPause::DynamoPause() {
  PyObject *set = setEvalFrame();
  before = Reference::steal(set ? PyObject_CallOneArg(set, Py_None) : nullptr);
  if (!before)
    PyErr_Clear();
}

DynamoPause::~DynamoPause() {
  if (!before || before.get() == Py_None)
    return;
  PyObject *raised = PyErr_GetRaisedException();
  Reference done =
      Reference::steal(PyObject_CallOneArg(setEvalFrame(), before.get()));
  if (!done)
    PyErr_WriteUnraisable(before.get());
  PyErr_SetRaisedException(raised);
}

} // namespace pyjit::python
