//===- ObjectKinds.cpp - Kinds of objects, told by their type -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "objects/ObjectKinds.h"
#include "builtins/Natives.h"

#include "CPython.h"

#include <cmath>
#include <cstring>
#include <set>
#include <string>

bool pyjit::capture::isNativeIterator(PyObject *o) {
  static const std::set<std::string> names = {"list_iterator",
                                              "tuple_iterator",
                                              "range_iterator",
                                              "str_iterator",
                                              "str_ascii_iterator",
                                              "set_iterator",
                                              "dict_keyiterator",
                                              "dict_valueiterator",
                                              "dict_itemiterator",
                                              "dict_reversekeyiterator",
                                              "dict_reversevalueiterator",
                                              "dict_reverseitemiterator",
                                              "odict_iterator",
                                              "list_reverseiterator",
                                              "reversed",
                                              "enumerate",
                                              "zip",
                                              "map",
                                              "filter",
                                              "generator",
                                              "bytes_iterator",
                                              "itertools.chain",
                                              "itertools.islice",
                                              "itertools.product",
                                              "itertools.zip_longest",
                                              "itertools.starmap",
                                              "itertools.repeat",
                                              "itertools.count",
                                              "itertools.accumulate",
                                              "itertools.combinations",
                                              "itertools.permutations",
                                              "itertools.pairwise",
                                              "itertools.cycle",
                                              "itertools.combinations_with_"
                                              "replacement",
                                              "itertools.batched",
                                              "itertools.takewhile",
                                              "itertools.dropwhile",
                                              "itertools.filterfalse",
                                              "itertools.compress",
                                              "itertools._tee",
                                              "collections._deque_iterator",
                                              "collections._deque_reverse_"
                                              "iterator"};
  return names.count(Py_TYPE(o)->tp_name);
}

std::vector<PyObject *> pyjit::capture::elementsOf(PyObject *sequence) {
  PyObject **items = PySequence_Fast_ITEMS(sequence);
  return {items, items + PySequence_Fast_GET_SIZE(sequence)};
}

std::vector<PyObject *> pyjit::capture::elementsIn(PyObject *sequence) {
  std::vector<PyObject *> elements;
  PyObject *list = PySequence_List(sequence);
  for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); ++i)
    elements.push_back(PyList_GET_ITEM(list, i));
  Py_XDECREF(list);
  PyErr_Clear();
  return elements;
}

PyObject *pyjit::capture::keysInOrder(PyObject *dict) {
  if (!PyODict_Check(dict))
    return PyDict_Keys(dict);
  PyObject *walk = PyODict_Type.tp_iter(dict);
  PyObject *keys = walk ? PySequence_List(walk) : nullptr;
  Py_XDECREF(walk);
  if (keys)
    return keys;
  PyErr_Clear();
  return PyDict_Keys(dict);
}

bool pyjit::capture::isView(PyObject *o) {
  static const std::set<std::string> names = {
      "dict_keys",   "dict_values",  "dict_items", "odict_keys", "odict_values",
      "odict_items", "mappingproxy", "range",      "slice"};
  return names.count(Py_TYPE(o)->tp_name);
}

bool pyjit::capture::makesTuples(PyObject *o) {
  static const std::set<std::string> names = {
      "dict_items",
      "odict_items",
      "enumerate",
      "zip",
      "dict_itemiterator",
      "dict_reverseitemiterator",
      "odict_iterator",
      "itertools.product",
      "itertools.zip_longest",
      "itertools.pairwise",
      "itertools.combinations",
      "itertools.permutations",
      "itertools.combinations_with_replacement",
      "itertools.batched",
      "itertools._tee",
      "map"};
  return names.count(Py_TYPE(o)->tp_name);
}

bool pyjit::capture::isPlainObject(PyObject *o) {
  if (PyType_Check(o) || PyFunction_Check(o) || PyCFunction_Check(o) ||
      PyModule_Check(o) || PyCode_Check(o) || PySlice_Check(o) ||
      PyRange_Check(o) || PyMethod_Check(o))
    return true;
  static const std::set<std::string> names = {
      "torch.dtype",         "torch.device",      "torch.layout",
      "torch.memory_format", "method_descriptor", "wrapper_descriptor",
      "method-wrapper",      "getset_descriptor", "member_descriptor",
      "types.GenericAlias",  "types.UnionType",   "traceback"};
  return names.count(Py_TYPE(o)->tp_name);
}

bool pyjit::capture::isProperty(PyObject *descr) {
  return PyObject_TypeCheck(descr, &PyProperty_Type) &&
         Py_TYPE(descr)->tp_descr_get == PyProperty_Type.tp_descr_get;
}

bool pyjit::capture::isPybindClass(PyTypeObject *type) {
  return !std::strcmp(Py_TYPE(type)->tp_name, "pybind11_type");
}

bool pyjit::capture::isModule(PyObject *o) {
  static PyObject *moduleClass = findObject("torch.nn:Module");
  return moduleClass &&
         PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject *>(moduleClass));
}

bool pyjit::capture::isPybindEnum(PyTypeObject *type) {
  static PyObject *name = PyUnicode_InternFromString("__entries");
  return isPybindClass(type) && pyjitTypeLookup(type, name);
}

bool pyjit::capture::isTorchValueType(PyTypeObject *type) {
  static const std::set<std::string> names = {
      "torch.dtype",  "torch.device", "torch.finfo",        "torch.iinfo",
      "torch.layout", "torch.Size",   "torch.memory_format"};
  return names.count(type->tp_name);
}

bool pyjit::capture::isValue(PyObject *o) {
  return o == Py_None || o == Py_Ellipsis || PyBool_Check(o) ||
         PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
         PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) ||
         PyComplex_CheckExact(o) ||
         (PyTuple_CheckExact(o) && PyTuple_GET_SIZE(o) == 0);
}

bool pyjit::capture::isNan(PyObject *o) {
  if (PyFloat_CheckExact(o))
    return std::isnan(PyFloat_AS_DOUBLE(o));
  return PyComplex_CheckExact(o) && (std::isnan(PyComplex_RealAsDouble(o)) ||
                                     std::isnan(PyComplex_ImagAsDouble(o)));
}

bool pyjit::capture::holdsNan(PyObject *key) {
  if (!PyTuple_CheckExact(key))
    return isNan(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    if (holdsNan(PyTuple_GET_ITEM(key, i)))
      return true;
  return false;
}

static bool isStaticType(PyTypeObject *type) {
  return !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
}

bool pyjit::capture::isProcessConstant(PyObject *o) {
  if (PyType_Check(o))
    return isStaticType(reinterpret_cast<PyTypeObject *>(o));
  if (o == Py_NotImplemented)
    return true;
  PyTypeObject *type = Py_TYPE(o);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
      type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type ||
      type == &PyClassMethodDescr_Type)
    return isStaticType(pyjitDescrType(o));
  const char *n = type->tp_name;
  return !std::strcmp(n, "torch.dtype") || !std::strcmp(n, "torch.layout") ||
         !std::strcmp(n, "torch.memory_format");
}

std::string pyjit::capture::typeName(PyObject *o) {
  PyTypeObject *type = Py_TYPE(o);
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
    return type->tp_name;
  PyObject *dict = type->tp_dict;
  PyObject *module = dict ? PyDict_GetItemString(dict, "__module__") : nullptr;
  std::string name = type->tp_name;
  if (module && PyUnicode_Check(module)) {
    const char *text = PyUnicode_AsUTF8(module);
    static const std::set<std::string> reserved = {
        "dict", "list",  "tuple", "type", "function",  "code",   "cell",  "int",
        "str",  "float", "bool",  "set",  "frozenset", "module", "object"};
    if (text && reserved.count(name))
      return std::string(text) + "." + name;
    PyErr_Clear();
  }
  return name;
}
