//===- ObjectReads.cpp - Reads of Python objects, without effects ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ObjectReads.h"

#include "CPython.h"
#include "Constants.h"
#include "Sets.h"

#include <structmember.h>
#include <torch/csrc/Device.h>

#include <cstdlib>
#include <cstring>

namespace pyjit::python {

PyObject *instanceDict(PyObject *object) {
  // Types keep their attributes elsewhere and show a proxy.
  if (PyType_Check(object))
    return nullptr;
  PyObject **dict = _PyObject_GetDictPtr(object);
  return dict ? *dict : nullptr;
}

PyObject *ownDict(PyObject *object) {
  PyObject *dict = instanceDict(object);
  if (dict || PyType_Check(object) || !_PyObject_GetDictPtr(object))
    return dict;
  PyObject *made = PyObject_GenericGetDict(object, nullptr);
  PyErr_Clear();
  Py_XDECREF(made); // the object keeps it
  return made;
}

PyObject *readKey(PyObject *dict, PyObject *key, Py_hash_t hash) {
  if (!PyDict_Check(dict) || hash == -1)
    return nullptr;
  PyObject *value = _PyDict_GetItem_KnownHash(dict, key, hash);
  if (!value && PyErr_Occurred())
    PyErr_Clear();
  return value;
}

PyObject *readAttribute(PyObject *object, PyObject *name, Py_hash_t hash) {
  PyObject *dict = instanceDict(object);
  return dict ? readKey(dict, name, hash) : nullptr;
}

PyObject *readIndex(PyObject *sequence, Py_ssize_t index) {
  if (PyList_Check(sequence))
    return index < PyList_GET_SIZE(sequence) ? PyList_GET_ITEM(sequence, index)
                                             : nullptr;
  if (PyTuple_Check(sequence))
    return index < PyTuple_GET_SIZE(sequence)
               ? PyTuple_GET_ITEM(sequence, index)
               : nullptr;
  if (!pyjitIsDeque(sequence) || index >= Py_SIZE(sequence))
    return nullptr;
  PyObject *item = PySequence_GetItem(sequence, index);
  Py_XDECREF(item); // the deque holds it
  return item;
}

PyObject *readDequeBound(PyObject *deque, PyObject *name) {
  if (!pyjitIsDeque(deque) ||
      PyUnicode_CompareWithASCIIString(name, "maxlen") != 0)
    return nullptr;
  return PyObject_GetAttr(deque, name);
}

PyMemberDef *slotMember(PyObject *object, PyObject *name) {
  PyObject *descriptor = _PyType_Lookup(Py_TYPE(object), name);
  if (!descriptor || !Py_IS_TYPE(descriptor, &PyMemberDescr_Type))
    return nullptr;
  PyMemberDef *member =
      reinterpret_cast<PyMemberDescrObject *>(descriptor)->d_member;
  return member->type == T_OBJECT_EX || member->type == T_OBJECT ? member
                                                                 : nullptr;
}

PyObject **slotPlace(PyObject *object, PyObject *name) {
  PyMemberDef *member = slotMember(object, name);
  return member ? reinterpret_cast<PyObject **>(
                      reinterpret_cast<char *>(object) + member->offset)
                : nullptr;
}

PyObject *readSlot(PyObject *object, PyObject *name) {
  PyObject **place = slotPlace(object, name);
  return place ? *place : nullptr;
}

/// The number that `ABCMeta.register` makes grow; borrowed until the next read.
static PyObject *abcCacheToken() {
  static PyObject *getToken = nullptr, *token = nullptr;
  if (!getToken)
    if (PyObject *module = PyImport_ImportModule("_abc")) {
      getToken = PyObject_GetAttrString(module, "get_cache_token");
      Py_DECREF(module);
    }
  PyObject *now = getToken ? PyObject_CallNoArgs(getToken) : nullptr;
  if (!now)
    PyErr_Clear();
  Py_XSETREF(token, now);
  return token;
}

/// How often warning filters have changed; borrowed until the next read.
static PyObject *filtersVersion() {
  static PyObject *version = nullptr;
  Py_XSETREF(version, PyLong_FromLong(pyjitWarningFilters()));
  return version;
}

static PyObject *recursionLimit() {
  static PyObject *limit = nullptr;
  Py_XSETREF(limit, PyLong_FromLong(Py_GetRecursionLimit()));
  return limit;
}

/// The index of a device, or the name of its kind: objects that live for ever.
static PyObject *devicePart(const at::Device &device, bool index) {
  if (index && !device.has_index())
    return Py_None;
  PyObject *part = index
                       ? PyLong_FromLong(device.index())
                       : PyUnicode_InternFromString(
                             c10::DeviceTypeName(device.type(), true).c_str());
  Py_XDECREF(part);
  return part;
}

/// A number of numpy's as one of Python's; borrowed until the next read.
static PyObject *numpyItem(PyObject *object) {
  static PyObject *item = nullptr;
  static PyObject *name = PyUnicode_InternFromString("item");
  PyObject *now = PyObject_CallMethodNoArgs(object, name);
  if (!now)
    PyErr_Clear();
  Py_XSETREF(item, now);
  return item;
}

static PyObject *readWalk(PyObject *iterator, PyObject *name, bool held) {
  PyjitIteratorParts parts;
  auto is = [&](const char *text) {
    return PyUnicode_CompareWithASCIIString(name, text) == 0;
  };
  // Most fields are others' and asked for more often.
  if (!(is("position") || is("count") || is("strict") || is("alone")) ||
      !pyjitIteratorParts(iterator, &parts))
    return nullptr;
  return is("alone")      ? PyBool_FromLong(held || Py_REFCNT(iterator) == 1)
         : is("position") ? PyLong_FromSsize_t(parts.position)
         : is("count")    ? PyLong_FromSsize_t(parts.numInner)
                          : PyLong_FromLong(parts.strict);
}

PyObject *readIteratorNumber(PyObject *iterator, PyObject *name, bool held) {
  long next, step, left;
  if (!pyjitRangeParts(iterator, &next, &step, &left)) {
    PyObject *made = readWalk(iterator, name, held);
    PyErr_Clear();
    return made;
  }
  auto is = [&](const char *text) {
    return PyUnicode_CompareWithASCIIString(name, text) == 0;
  };
  PyObject *made = is("next")   ? PyLong_FromLong(next)
                   : is("step") ? PyLong_FromLong(step)
                   : is("left") ? PyLong_FromLong(left)
                   : is("alone")
                       ? PyBool_FromLong(held || Py_REFCNT(iterator) == 1)
                       : nullptr;
  PyErr_Clear();
  return made;
}

/// What an iterator walks over, or the i-th of the iterators in it.
static PyObject *readIteratorPart(PyObject *iterator, PyObject *name) {
  PyjitIteratorParts parts;
  if (!pyjitIteratorParts(iterator, &parts))
    return nullptr;
  if (PyUnicode_CompareWithASCIIString(name, "container") == 0)
    return parts.container;
  const char *text = PyUnicode_AsUTF8(name);
  if (!text || std::strncmp(text, "inner", 5))
    return nullptr;
  long index = std::strtol(text + 5, nullptr, 10);
  return index < parts.numInner ? parts.inner[index] : nullptr;
}

PyObject **fieldPlace(PyObject *object, PyObject *name) {
  auto is = [&](const char *text) {
    return PyUnicode_CompareWithASCIIString(name, text) == 0;
  };
  if (PyFunction_Check(object)) {
    auto *function = reinterpret_cast<PyFunctionObject *>(object);
    return is("__name__")       ? &function->func_name
           : is("__qualname__") ? &function->func_qualname
                                : nullptr;
  }
  if (PyType_Check(object) &&
      PyType_HasFeature(reinterpret_cast<PyTypeObject *>(object),
                        Py_TPFLAGS_HEAPTYPE)) {
    auto *type = reinterpret_cast<PyHeapTypeObject *>(object);
    return is("__name__")       ? &type->ht_name
           : is("__qualname__") ? &type->ht_qualname
           : is("__mro__")      ? &type->ht_type.tp_mro
           : is("__bases__")    ? &type->ht_type.tp_bases
                                : nullptr;
  }
  return nullptr;
}

PyObject *readField(PyObject *object, PyObject *name) {
  if (PyMethod_Check(object)) {
    if (PyUnicode_CompareWithASCIIString(name, "__func__") == 0)
      return PyMethod_GET_FUNCTION(object);
    if (PyUnicode_CompareWithASCIIString(name, "__self__") == 0)
      return PyMethod_GET_SELF(object);
  }
  if (PyCFunction_Check(object) &&
      PyUnicode_CompareWithASCIIString(name, "__self__") == 0)
    return PyCFunction_GET_SELF(object);
  auto is = [&](const char *text) {
    return PyUnicode_CompareWithASCIIString(name, text) == 0;
  };
  if (PyObject **place = fieldPlace(object, name))
    return *place;
  if (PyObject *part = readIteratorPart(object, name))
    return part;
  if (PyFunction_Check(object) && is("__annotations__")) {
    PyObject *annotations =
        reinterpret_cast<PyFunctionObject *>(object)->func_annotations;
    return annotations && PyDict_Check(annotations) ? annotations : nullptr;
  }
  if (PyContextToken_CheckExact(object))
    return is("var")      ? pyjitTokenVariable(object)
           : is("resets") ? pyjitVariableToReset(object)
                          : nullptr;
  if (THPDevice_Check(object))
    return devicePart(reinterpret_cast<THPDevice *>(object)->device,
                      is("index"));
  if (PyFunction_Check(object) && is("__type_params__")) {
    static PyObject *none = PyTuple_New(0);
    auto *function = reinterpret_cast<PyFunctionObject *>(object);
    return function->func_typeparams ? function->func_typeparams : none;
  }
  if (PyType_Check(object) && is("abc_cache_token"))
    return abcCacheToken();
  if (PyModule_Check(object) && is("filters_version"))
    return filtersVersion();
  if (PyModule_Check(object) && is("recursion_limit"))
    return recursionLimit();
  if (is("item") && !std::strncmp(Py_TYPE(object)->tp_name, "numpy.", 6))
    return numpyItem(object);
  if (PyObject *cache = pyjitCache(object))
    return is("cache") ? cache : nullptr;
  if (PyObject *result = pyjitCacheLink(object))
    return is("result") ? result : nullptr;
  if (PyWeakref_CheckRefExact(object))
    return PyWeakref_GET_OBJECT(object);
  if (PyContextVar_CheckExact(object)) {
    PyObject *value = nullptr;
    static PyObject *missing = PyList_New(0);
    if (PyContextVar_Get(object, missing, &value) < 0) {
      PyErr_Clear();
      return nullptr;
    }
    Py_DECREF(value); // the context keeps it
    if (is("is_set"))
      return value == missing ? Py_False : Py_True;
    return value == missing ? nullptr : value;
  }
  // functools.partial, slice, range, property, ...: a C struct member.
  return readSlot(object, name);
}

PyObject *closureCell(PyObject *function, Py_ssize_t index) {
  if (PyCell_Check(function)) // a variable of a frame at a graph break
    return function;
  if (!PyFunction_Check(function))
    return nullptr;
  PyObject *closure = PyFunction_GET_CLOSURE(function);
  return closure && index < PyTuple_GET_SIZE(closure)
             ? PyTuple_GET_ITEM(closure, index)
             : nullptr;
}

Py_ssize_t lengthOf(PyObject *object) {
  if (PyList_Check(object) || PyTuple_Check(object) || PyBytes_Check(object) ||
      pyjitIsDeque(object))
    return Py_SIZE(object);
  if (PyDict_Check(object))
    return PyDict_GET_SIZE(object);
  if (PyAnySet_Check(object))
    return PySet_GET_SIZE(object);
  if (PyUnicode_Check(object))
    return PyUnicode_GET_LENGTH(object);
  return -1;
}

/// The elements of a set, in the order of walking over it.
static bool elementsAre(PyObject *set, PyObject *elements) {
  if (PySet_GET_SIZE(set) != PyTuple_GET_SIZE(elements))
    return false;
  Py_ssize_t position = 0, index = 0;
  PyObject *element;
  Py_hash_t hash;
  while (pyjitNextOfSet(set, &position, &element, &hash))
    if (!sameConstant(element, PyTuple_GET_ITEM(elements, index++)))
      return false;
  return true;
}

bool tableIs(PyObject *set, PyObject *places) {
  if (!PyAnySet_Check(set) || pyjitPlacesOfSet(set) != PyTuple_GET_SIZE(places))
    return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(places); ++i)
    if (pyjitPlaceOfSet(set, i) != PyLong_AsLong(PyTuple_GET_ITEM(places, i)))
      return false;
  return true;
}

bool keysAre(PyObject *dict, PyObject *keys) {
  if (PyAnySet_Check(dict))
    return elementsAre(dict, keys);
  if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys))
    return false;
  Py_ssize_t position = 0, index = 0;
  PyObject *key;
  // Its order is not that of the dict that it is.
  if (PyODict_Check(dict) && PyTuple_GET_SIZE(keys) > 1) {
    PyObject *walk = PyODict_Type.tp_iter(dict);
    bool same = walk != nullptr;
    while (walk && (key = PyIter_Next(walk))) {
      same = same && sameConstant(key, PyTuple_GET_ITEM(keys, index++));
      Py_DECREF(key);
    }
    Py_XDECREF(walk);
    PyErr_Clear();
    return same;
  }
  while (PyDict_Next(dict, &position, &key, nullptr))
    if (!sameConstant(key, PyTuple_GET_ITEM(keys, index++)))
      return false;
  return true;
}

} // namespace pyjit::python
