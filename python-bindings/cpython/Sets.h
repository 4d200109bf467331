// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- Sets.h - The hash tables of sets ------------------------*- C -*-=//
#ifndef PYJIT_CPYTHON_SETS_H
#define PYJIT_CPYTHON_SETS_H

#include "CPython.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The next element of a set behind `position`, borrowed, and its hash; false
/// at the end.
int pyjitNextOfSet(PyObject *set, Py_ssize_t *position, PyObject **element,
                   Py_hash_t *hash);
/// The size of a set's hash table.
Py_ssize_t pyjitPlacesOfSet(PyObject *set);
/// What lies at a place of it: nothing (0), an element (1), what stands for one
/// that was removed (2).
int pyjitPlaceOfSet(PyObject *set, Py_ssize_t place);

/// A set, or a frozenset, whose hash table is `places` (bytes, of what
/// `pyjitPlaceOfSet` says of each): `elements`, a tuple of objects that hash in
/// C, at the places marked 1, in this order. A new reference.
PyObject *pyjitMakeSet(int frozen, PyObject *elements, PyObject *places);

#ifdef __cplusplus
}
#endif

#endif // PYJIT_CPYTHON_SETS_H
