//===- SetOrder.h - Sets that are made again --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_OBJECTS_SETORDER_H
#define PYJIT_CAPTURE_OBJECTS_SETORDER_H

#include "CPython.h"

#include <optional>
#include <vector>

namespace pyjit::capture {

/// The elements of a set, in its order, borrowed.
std::vector<PyObject *> walkOver(PyObject *set);

/// The same in an order in which a new set takes them and then
/// walks over them as this one does: elements whose hashes meet lie as they
/// came. None if that was not found: of a set that has grown or shrunk, say.
std::optional<std::vector<PyObject *>> orderOfAdding(PyObject *set);

/// Whether all hashes of a set are the same in each process and for each
/// object: a program may rely on its order.
bool hasFixedOrder(PyObject *set);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OBJECTS_SETORDER_H
