//===- SetContents.h - What sets hold ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_OBJECTS_SETCONTENTS_H
#define PYJIT_CAPTURE_OBJECTS_SETCONTENTS_H

#include "CPython.h"

#include <vector>

namespace pyjit::capture {

/// The elements of a set, in its order, borrowed.
std::vector<PyObject *> walkOver(PyObject *set);

/// What lies at each place of a set's hash table, as `pyjitPlaceOfSet` says.
std::vector<char> tableOf(PyObject *set);

/// Whether a set is known by what it holds: values, which hash and compare
/// without code of the program's, and not too many for each call to look at.
bool isReadByElements(PyObject *set);

/// Hashed and compared without code of the program's.
bool isHashedInC(PyObject *element);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OBJECTS_SETCONTENTS_H
