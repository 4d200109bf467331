//===- TensorObject.h - Whether a Python object is a tensor -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_TENSOROBJECT_H
#define PYJIT_CAPTURE_TENSOROBJECT_H

#include "CPython.h"

#include <torch/csrc/autograd/python_variable.h>

namespace pyjit::capture {

/// By its type alone: `THPVariable_Check` asks other objects for their
/// `__class__`, which may run a user's code (as that of lazy proxies), and
/// takes for a tensor whatever says that it is one.
inline bool isTensorObject(PyObject *object) {
  return THPVariableClass &&
         PyObject_TypeCheck(object,
                            reinterpret_cast<PyTypeObject *>(THPVariableClass));
}

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSOROBJECT_H
