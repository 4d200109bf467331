//===- Iterators.h - Iterators that a graph break hands on ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_OBJECTS_ITERATORS_H
#define PYJIT_CAPTURE_OBJECTS_ITERATORS_H

#include "TraceWriter.h"

namespace pyjit::capture {

class Recording;

/// Whether a specialization can be given this iterator as what it walks over
/// and where it stands, and has to be: what it hands out are modules,
/// functions, texts and the like, which a specialization knows one by one.
/// Others are as well passed on unseen.
bool handsOutKnown(Recording &recording, PyObject *iterator);

/// Argument `index` is such an iterator, which nobody else holds: what it walks
/// over and where it stands are read, and from then on it is an object of the
/// call.
void takeOver(Recording &recording, PyObject *iterator, Py_ssize_t index,
              PyObject *name);

/// For the planner: (type, position, length of the container), or (type,
/// position, those of the iterators in it); None for other objects. A new
/// reference.
PyObject *iteratorPosition(PyObject *iterator);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OBJECTS_ITERATORS_H
