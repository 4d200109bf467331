//===- ObjectLayout.cpp - Where an instance keeps its state ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "objects/ObjectLayout.h"
#include "CPython.h"
#include "objects/ObjectKinds.h"

#include <cstring>

using namespace pyjit::capture;

/// A heap type's members lie in memory behind the type itself.
static PyMemberDef *membersOf(PyTypeObject *type) {
  return reinterpret_cast<PyMemberDef *>(reinterpret_cast<char *>(type) +
                                         Py_TYPE(type)->tp_basicsize);
}

/// The number of `__slots__` that a class written in Python adds.
static Py_ssize_t numOwnSlots(PyTypeObject *type) {
  if (!PyDict_GetItemString(type->tp_dict, "__slots__"))
    return 0;
  PyMemberDef *members = membersOf(type);
  for (Py_ssize_t i = 0; i < Py_SIZE(type); ++i)
    if (members[i].type != Py_T_OBJECT_EX)
      return 0;
  return Py_SIZE(type);
}

bool pyjit::capture::isStructSequence(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  return type->tp_base == &PyTuple_Type && type->tp_dict &&
         PyDict_GetItemString(type->tp_dict, "n_sequence_fields") &&
         PyDict_GetItemString(type->tp_dict, "n_unnamed_fields");
}

std::vector<HeldSlot> pyjit::capture::slotsOf(PyObject *object) {
  std::vector<HeldSlot> slots;
  if (isDefaultDict(object)) {
    PyObject *factory = PyObject_GetAttrString(object, "default_factory");
    Py_XDECREF(factory); // the dict keeps it
    if (factory && factory != Py_None)
      slots.push_back({"default_factory", factory, true});
  }
  for (PyTypeObject *base = Py_TYPE(object);
       base && PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE);
       base = base->tp_base) {
    PyMemberDef *members = membersOf(base);
    for (Py_ssize_t i = 0, n = numOwnSlots(base); i < n; ++i) {
      PyObject *held = *reinterpret_cast<PyObject **>(
          reinterpret_cast<char *>(object) + members[i].offset);
      if (!held)
        continue;
      PyObject *name = PyUnicode_FromString(members[i].name);
      PyObject *descr = pyjitTypeLookup(Py_TYPE(object), name);
      Py_XDECREF(name);
      bool reachable =
          descr && Py_TYPE(descr) == &PyMemberDescr_Type &&
          reinterpret_cast<PyMemberDescrObject *>(descr)->d_member ==
              &members[i];
      slots.push_back({members[i].name, held, reachable});
    }
  }
  PyErr_Clear();
  return slots;
}

bool pyjit::capture::isPlainInstance(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  if (type == &PyODict_Type || isDefaultDict(object) ||
      !std::strcmp(type->tp_name, "types.SimpleNamespace"))
    return true;
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ||
      PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) ||
      PyType_Check(object) || PyExceptionInstance_Check(object))
    return false;
  PyTypeObject *base = type;
  while (base && PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE)) {
    if (base->tp_finalize || base->tp_del)
      return false;
    // A class written in Python adds room for its dict and its slots at most.
    // Whatever is larger keeps state in C that a copy would lack (pybind11's
    // classes are heap types, too).
    Py_ssize_t dictPlace = base->tp_base->tp_itemsize ? sizeof(void *) : 0;
    Py_ssize_t slots = numOwnSlots(base) * Py_ssize_t(sizeof(void *));
    if (base->tp_basicsize > base->tp_base->tp_basicsize + dictPlace + slots)
      return false;
    base = base->tp_base;
  }
  return base == &PyBaseObject_Type || base == &PyDict_Type ||
         base == &PyODict_Type || base == &PyTuple_Type || base == &PyList_Type;
}
