//===- Constants.cpp - A program's constants as Python objects ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Constants.h"

#include <cstring>

namespace pyjit::python {

Reference Constants::make(const PyjitPools &pools,
                          const PyjitConstant &c) const {
  const char *bytes = pools.bytes + c.first;
  switch (c.kind) {
  case PYJIT_CONST_NONE:
    return Reference::borrow(Py_None);
  case PYJIT_CONST_BOOL:
    return Reference::borrow(c.i ? Py_True : Py_False);
  case PYJIT_CONST_INT:
    return Reference::steal(PyLong_FromLongLong(c.i));
  case PYJIT_CONST_FLOAT:
    return Reference::steal(PyFloat_FromDouble(c.f));
  case PYJIT_CONST_COMPLEX:
    return Reference::steal(PyComplex_FromDoubles(c.f, c.g));
  case PYJIT_CONST_STR: {
    PyObject *text = PyUnicode_DecodeUTF8(bytes, c.count, "surrogatepass");
    if (text)
      PyUnicode_InternInPlace(&text);
    return Reference::steal(text);
  }
  case PYJIT_CONST_BYTES:
    return Reference::steal(PyBytes_FromStringAndSize(bytes, c.count));
  case PYJIT_CONST_TUPLE: {
    PyObject *tuple = PyTuple_New(c.count);
    for (uint32_t i = 0; tuple && i < c.count; ++i)
      PyTuple_SET_ITEM(tuple, i, Py_NewRef(constant(pools.lists[c.first + i])));
    return Reference::steal(tuple);
  }
  case PYJIT_CONST_OBJECT:
    if (c.i < 0 || c.i >= PyList_GET_SIZE(table.get()))
      return {};
    return Reference::borrow(object(c.i));
  case PYJIT_CONST_ELLIPSIS:
    return Reference::borrow(Py_Ellipsis);
  case PYJIT_CONST_BIGINT:
    return Reference::steal(
        PyLong_FromString(std::string(bytes, c.count).c_str(), nullptr, 10));
  }
  return {};
}

bool Constants::load(const PyjitPools &pools, PyObject *objects,
                     std::string &error) {
  if (!PyList_CheckExact(objects)) {
    error = "the object table is not a list";
    return false;
  }
  // A copy: the caller's list may change, indices may not.
  table =
      Reference::steal(PyList_GetSlice(objects, 0, PyList_GET_SIZE(objects)));
  constants.reserve(pools.numConstants);
  for (uint32_t i = 0; table && i < pools.numConstants; ++i) {
    Reference value = make(pools, pools.constants[i]);
    if (!value) {
      PyErr_Clear();
      error = "constant " + std::to_string(i) + " cannot be made";
      return false;
    }
    Py_hash_t hash = -1;
    if (pools.constants[i].kind != PYJIT_CONST_OBJECT) {
      hash = PyObject_Hash(value.get());
    } else if (PyObject *type =
                   reinterpret_cast<PyObject *>(Py_TYPE(value.get()));
               reinterpret_cast<PyTypeObject *>(type)->tp_hash) {
      hash = PyObject_Hash(value.get());
    }
    if (hash == -1)
      PyErr_Clear();
    hashes.push_back(hash);
    constants.push_back(std::move(value));
  }
  if (!table)
    PyErr_Clear();
  return static_cast<bool>(table);
}

bool sameConstant(PyObject *value, PyObject *constant) {
  if (value == constant)
    return true;
  PyTypeObject *type = Py_TYPE(constant);
  if (!Py_IS_TYPE(value, type))
    return false;
  if (type == &PyUnicode_Type)
    return PyUnicode_Compare(value, constant) == 0;
  if (type == &PyLong_Type) {
    PyObject *equal = PyLong_Type.tp_richcompare(value, constant, Py_EQ);
    bool same = equal == Py_True;
    Py_XDECREF(equal);
    return same;
  }
  if (type == &PyFloat_Type) {
    double a = PyFloat_AS_DOUBLE(value), b = PyFloat_AS_DOUBLE(constant);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  if (type == &PyComplex_Type) {
    Py_complex a = PyComplex_AsCComplex(value),
               b = PyComplex_AsCComplex(constant);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  if (type == &PyBytes_Type)
    return PyBytes_GET_SIZE(value) == PyBytes_GET_SIZE(constant) &&
           std::memcmp(PyBytes_AS_STRING(value), PyBytes_AS_STRING(constant),
                       PyBytes_GET_SIZE(value)) == 0;
  if (type == &PyTuple_Type) {
    Py_ssize_t size = PyTuple_GET_SIZE(constant);
    if (PyTuple_GET_SIZE(value) != size)
      return false;
    for (Py_ssize_t i = 0; i < size; ++i)
      if (!sameConstant(PyTuple_GET_ITEM(value, i),
                        PyTuple_GET_ITEM(constant, i)))
        return false;
    return true;
  }
  return false;
}

} // namespace pyjit::python
