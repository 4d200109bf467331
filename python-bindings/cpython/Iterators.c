//===- Iterators.c - What iterators over containers keep ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Their structures are private to CPython's sources, and the same in every
// version that is supported (test/python-bindings/capture/test_iterators.py).
//
//===----------------------------------------------------------------------===//

#include "CPython.h"

#include <string.h>

/* Objects/listobject.c, tupleobject.c, unicodeobject.c, enumobject.c: of a
   list, a tuple or a text, forwards and backwards; `reversed` of any sequence.
   The sequence is null once the iterator has run out. */
typedef struct {
  PyObject_HEAD Py_ssize_t index;
  PyObject *sequence;
} SequenceIterator;

/* Objects/dictobject.c. */
typedef struct {
  PyObject_HEAD PyObject *dict; /* null once it has run out */
  Py_ssize_t used;              /* the dict's size when it was made */
  Py_ssize_t position;          /* as PyDict_Next counts */
  PyObject *result;             /* of items: a tuple to use again */
  Py_ssize_t left;
} DictIterator;

/* Objects/enumobject.c. */
typedef struct {
  PyObject_HEAD Py_ssize_t index;
  PyObject *inner;
  PyObject *result;
  PyObject *longIndex; /* beyond Py_ssize_t */
} Enumerate;

/* Python/bltinmodule.c. */
typedef struct {
  PyObject_HEAD Py_ssize_t count;
  PyObject *inner; /* a tuple */
  PyObject *result;
  int strict; /* a bool in some versions; it has been set by Python code */
} Zip;

static int walksSequence(PyTypeObject *type) {
  return type == &PyListIter_Type || type == &PyTupleIter_Type ||
         type == &PyListRevIter_Type || type == &PyReversed_Type ||
         type == &PyUnicodeIter_Type ||
         strcmp(type->tp_name, "str_ascii_iterator") == 0;
}

static int walksDict(PyTypeObject *type) {
  return type == &PyDictIterKey_Type || type == &PyDictIterValue_Type ||
         type == &PyDictIterItem_Type;
}

/* How many entries lie behind where a dict's iterator stands. */
static Py_ssize_t countBehind(PyObject *dict, Py_ssize_t position) {
  Py_ssize_t count = 0;
  while (PyDict_Next(dict, &position, NULL, NULL))
    ++count;
  return count;
}

static int dictParts(DictIterator *walk, PyjitIteratorParts *parts) {
  /* Where the dict has changed the next step raises, or goes by places that
     nobody else sees. */
  if (!walk->dict || !PyDict_Check(walk->dict) || PyODict_Check(walk->dict) ||
      walk->used != PyDict_GET_SIZE(walk->dict) ||
      walk->left != countBehind(walk->dict, walk->position))
    return 0;
  parts->container = walk->dict;
  parts->position = walk->left;
  return 1;
}

int pyjitIteratorParts(PyObject *iterator, PyjitIteratorParts *parts) {
  PyTypeObject *type = Py_TYPE(iterator);
  memset(parts, 0, sizeof *parts);
  if (walksSequence(type)) {
    SequenceIterator *walk = (SequenceIterator *)iterator;
    parts->container = walk->sequence;
    parts->position = walk->index;
    return walk->sequence != NULL;
  }
  if (walksDict(type))
    return dictParts((DictIterator *)iterator, parts);
  if (type == &PyEnum_Type) {
    Enumerate *walk = (Enumerate *)iterator;
    parts->inner = &walk->inner;
    parts->numInner = 1;
    parts->position = walk->index;
    return walk->inner && !walk->longIndex && walk->index < PY_SSIZE_T_MAX;
  }
  if (type == &PyZip_Type) {
    Zip *walk = (Zip *)iterator;
    if (!walk->inner || Py_REFCNT(walk->inner) != 1)
      return 0;
    parts->inner = ((PyTupleObject *)walk->inner)->ob_item;
    parts->numInner = PyTuple_GET_SIZE(walk->inner);
    parts->strict = *(char *)&walk->strict != 0;
    return 1;
  }
  return 0;
}

static PyObject *makeSequenceIterator(PyTypeObject *type, PyObject *sequence,
                                      PyObject *index) {
  Py_ssize_t at = PyLong_AsSsize_t(index);
  if (at == -1 && PyErr_Occurred())
    return NULL;
  PyObject *made = PyType_GenericAlloc(type, 0);
  if (made) {
    ((SequenceIterator *)made)->index = at;
    ((SequenceIterator *)made)->sequence = Py_NewRef(sequence);
  }
  return made;
}

static PyObject *makeDictIterator(PyTypeObject *type, PyObject *dict,
                                  PyObject *left) {
  Py_ssize_t rest = PyLong_AsSsize_t(left), position = 0;
  if (rest == -1 && PyErr_Occurred())
    return NULL;
  for (Py_ssize_t skip = PyDict_GET_SIZE(dict) - rest; skip > 0; --skip)
    PyDict_Next(dict, &position, NULL, NULL);
  PyObject *result =
      type == &PyDictIterItem_Type ? PyTuple_Pack(2, Py_None, Py_None) : NULL;
  PyObject *made = type == &PyDictIterItem_Type && !result
                       ? NULL
                       : PyType_GenericAlloc(type, 0);
  if (!made) {
    Py_XDECREF(result);
    return NULL;
  }
  DictIterator *walk = (DictIterator *)made;
  walk->dict = Py_NewRef(dict);
  walk->used = PyDict_GET_SIZE(dict);
  walk->position = position;
  walk->result = result;
  walk->left = rest;
  return made;
}

static PyObject *makeZip(PyObject *elements) {
  PyObject *inner = PyTuple_GetSlice(elements, 1, PyTuple_GET_SIZE(elements));
  PyObject *options =
      Py_BuildValue("{s:O}", "strict", PyTuple_GET_ITEM(elements, 0));
  PyObject *made = inner && options
                       ? PyObject_Call((PyObject *)&PyZip_Type, inner, options)
                       : NULL;
  Py_XDECREF(inner);
  Py_XDECREF(options);
  return made;
}

PyObject *pyjitMakeIterator(PyTypeObject *type, PyObject *elements) {
  Py_ssize_t count = PyTuple_GET_SIZE(elements);
  if (type == &PyZip_Type && count >= 1)
    return makeZip(elements);
  if (count == 2) {
    PyObject *first = PyTuple_GET_ITEM(elements, 0);
    PyObject *second = PyTuple_GET_ITEM(elements, 1);
    if (walksSequence(type))
      return makeSequenceIterator(type, first, second);
    if (walksDict(type) && PyDict_Check(first))
      return makeDictIterator(type, first, second);
    if (type == &PyEnum_Type)
      return PyObject_CallFunctionObjArgs((PyObject *)type, first, second,
                                          NULL);
  }
  PyErr_Format(PyExc_SystemError, "pyjit: an iterator of type %s",
               type->tp_name);
  return NULL;
}
