//===- ListNumbers.h - Lists of numbers that the call changes ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A list that the call changes holds the lifted numbers themselves (see
// Scalars::ownNumbers). Where each of them goes is what Python's comparisons
// came to: these are guarded, and the numbers stay lifted.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_LISTNUMBERS_H
#define PYJIT_CAPTURE_LISTNUMBERS_H

#include "numbers/Scalars.h"

namespace pyjit::capture {

class ListNumbers {
public:
  explicit ListNumbers(Scalars &scalars) : scalars(scalars) {}

  /// `list.sort()` without a key.
  void sort(PyObject *list, bool reverse);
  /// `list.remove(number)`.
  void remove(PyObject *list, PyObject *number);

private:
  void compare(rt::Compare function, PyObject *a, PyObject *b);
  void specialize(PyObject *list);

  Scalars &scalars;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_LISTNUMBERS_H
