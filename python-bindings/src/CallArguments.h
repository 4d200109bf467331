//===- CallArguments.h - A call's arguments, one after another --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_CALLARGUMENTS_H
#define PYJIT_PYTHON_CALLARGUMENTS_H

#include "Reference.h"

#include <vector>

namespace pyjit::python {

/// A tuple and a dict of arguments, borrowed, as vectorcall has them.
struct CallArguments {
  std::vector<PyObject *> values;
  size_t positional = 0;
  Reference names; ///< of those behind the positional ones

  /// False with an exception set.
  bool set(PyObject *arguments, PyObject *keywords) {
    positional = PyTuple_GET_SIZE(arguments);
    for (size_t i = 0; i < positional; ++i)
      values.push_back(PyTuple_GET_ITEM(arguments, i));
    Py_ssize_t count = PyDict_GET_SIZE(keywords);
    if (!count)
      return true;
    names = Reference::steal(PyTuple_New(count));
    if (!names)
      return false;
    Py_ssize_t position = 0, index = 0;
    PyObject *key, *value;
    while (PyDict_Next(keywords, &position, &key, &value)) {
      PyTuple_SET_ITEM(names.get(), index++, Py_NewRef(key));
      values.push_back(value);
    }
    return true;
  }

  /// The same, from the tuple of a Python method that takes both; `format` is
  /// "O!O!" and the method's name.
  bool parse(PyObject *args, const char *format) {
    PyObject *arguments, *keywords;
    return PyArg_ParseTuple(args, format, &PyTuple_Type, &arguments,
                            &PyDict_Type, &keywords) &&
           set(arguments, keywords);
  }
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_CALLARGUMENTS_H
