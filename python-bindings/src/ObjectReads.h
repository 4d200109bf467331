//===- ObjectReads.h - Reads of Python objects, without effects -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What guards look at. None of these runs Python code, raises or creates an
// object, except that `instanceDict` may materialise an instance's __dict__.
// All results are borrowed; null means that there is nothing.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_PYTHON_OBJECTREADS_H
#define PYJIT_PYTHON_OBJECTREADS_H

#include <Python.h>

namespace pyjit::python {

/// `object.__dict__` as stored, not as a property may pretend.
PyObject *instanceDict(PyObject *object);
/// Likewise; one that has none yet, as a file of Python's, gets an empty one,
/// which can be watched.
PyObject *ownDict(PyObject *object);
/// The entry of `object.__dict__`.
PyObject *readAttribute(PyObject *object, PyObject *name, Py_hash_t hash);
/// The entry of a dict (or of a subclass, by dict's own lookup).
PyObject *readKey(PyObject *dict, PyObject *key, Py_hash_t hash);
/// The element of a list or tuple (or of a subclass).
PyObject *readIndex(PyObject *sequence, Py_ssize_t index);
/// The value of a `__slots__` member.
PyObject *readSlot(PyObject *object, PyObject *name);
/// Where it is kept, or null.
PyObject **slotPlace(PyObject *object, PyObject *name);
/// Finds the member descriptor of a `__slots__` name, or null.
PyMemberDef *slotMember(PyObject *object, PyObject *name);
/// A read-only C field: method.__func__, partial.args, slice.start, ...
PyObject *readField(PyObject *object, PyObject *name);
/// A number of an iterator: of a range `next`, `step` and `left`; of a
/// container (cpython/CPython.h: PyjitIteratorParts) `position`, `count` and
/// `strict`; and `alone`, whether nobody but its holder refers to it (`held`:
/// who asks does). A new reference; null for other objects and fields.
PyObject *readIteratorNumber(PyObject *iterator, PyObject *name,
                             bool held = false);
/// Where the name of a function or type is kept; null for other fields.
PyObject **fieldPlace(PyObject *object, PyObject *name);
/// The i-th cell of a function's closure.
PyObject *closureCell(PyObject *function, Py_ssize_t index);
/// C size of a builtin container, or -1.
Py_ssize_t lengthOf(PyObject *object);
/// Whether a dict's keys, or a set's elements, are exactly those of `keys` (a
/// tuple), in the order of walking.
bool keysAre(PyObject *dict, PyObject *keys);
/// `maxlen` of a deque, a new reference; null for what is none.
PyObject *readDequeBound(PyObject *deque, PyObject *name);
/// Whether a set's hash table has `places` (a tuple, `pyjitPlaceOfSet`).
bool tableIs(PyObject *set, PyObject *places);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_OBJECTREADS_H
