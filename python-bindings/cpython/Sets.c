//===- Sets.c - The hash tables of sets -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Sets.h"

Py_ssize_t pyjitPlacesOfSet(PyObject *set) {
  return ((PySetObject *)set)->mask + 1;
}

int pyjitPlaceOfSet(PyObject *set, Py_ssize_t place) {
  setentry *entry = &((PySetObject *)set)->table[place];
  return entry->key == NULL ? 0 : entry->hash == -1 ? 2 : 1;
}

/// What stands in a set's table for an element that was removed.
static PyObject *removedElement(void) {
  static PyObject *removed = NULL;
  if (!removed) {
    PyObject *set = PySet_New(NULL), *zero = PyLong_FromLong(0);
    if (set && zero && !PySet_Add(set, zero) && PySet_Discard(set, zero) == 1)
      removed = ((PySetObject *)set)->table[0].key;
    Py_XDECREF(set);
    Py_XDECREF(zero);
  }
  return removed;
}

PyObject *pyjitMakeSet(int frozen, PyObject *elements, PyObject *places) {
  Py_ssize_t size = PyBytes_GET_SIZE(places), next = 0;
  PyObject *made = frozen ? PyFrozenSet_New(NULL) : PySet_New(NULL);
  if (!made || size < PySet_MINSIZE || (size & (size - 1)))
    return made;
  PySetObject *set = (PySetObject *)made;
  if (size > PySet_MINSIZE) {
    setentry *table = PyMem_Calloc(size, sizeof(setentry));
    if (!table) {
      Py_DECREF(made);
      return PyErr_NoMemory();
    }
    set->table = table;
    set->mask = size - 1;
  }
  for (Py_ssize_t i = 0; i < size; ++i) {
    setentry *entry = &set->table[i];
    if (PyBytes_AS_STRING(places)[i] == 2) {
      entry->key = removedElement();
      entry->hash = -1;
      ++set->fill;
    } else if (PyBytes_AS_STRING(places)[i] == 1) {
      PyObject *element = PyTuple_GET_ITEM(elements, next++);
      entry->hash = PyObject_Hash(element);
      entry->key = Py_NewRef(element);
      ++set->fill;
      ++set->used;
    }
  }
  return made;
}
