//===- Reference.h - An owned Python reference ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_REFERENCE_H
#define PYJIT_PYTHON_REFERENCE_H

#include <Python.h>

#include <utility>

namespace pyjit::python {

/// Owns one reference to a Python object, or none. Needs the GIL.
class Reference {
public:
  Reference() = default;
  static Reference steal(PyObject *object) { return Reference(object); }
  static Reference borrow(PyObject *object) {
    return Reference(Py_XNewRef(object));
  }
  Reference(Reference &&other) noexcept
      : object(std::exchange(other.object, nullptr)) {}
  Reference &operator=(Reference &&other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  Reference(const Reference &other) : object(Py_XNewRef(other.object)) {}
  ~Reference() { Py_XDECREF(object); }

  PyObject *get() const { return object; }
  PyObject *release() { return std::exchange(object, nullptr); }
  explicit operator bool() const { return object != nullptr; }

private:
  explicit Reference(PyObject *object) : object(object) {}
  PyObject *object = nullptr;
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_REFERENCE_H
