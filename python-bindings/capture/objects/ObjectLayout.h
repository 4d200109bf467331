//===- ObjectLayout.h - Where an instance keeps its state -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_OBJECTLAYOUT_H
#define PYJIT_CAPTURE_OBJECTLAYOUT_H

#include <Python.h>

#include <string>
#include <vector>

namespace pyjit::capture {

/// A class instance whose whole state is its `__dict__`, its `__slots__` and,
/// for subclasses of dict, list and tuple, its elements: allocating it without
/// `__init__` and filling these in makes an equal one.
bool isPlainInstance(PyObject *object);

/// A tuple with named fields from C, such as torch.return_types.max.
bool isStructSequence(PyObject *object);

/// An entry of `__slots__` that holds something; of a defaultdict, its factory.
struct HeldSlot {
  std::string name;
  PyObject *held;
  bool reachable; ///< the type's own attribute of that name is this slot
};
std::vector<HeldSlot> slotsOf(PyObject *object);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OBJECTLAYOUT_H
