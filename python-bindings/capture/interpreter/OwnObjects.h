//===- OwnObjects.h - What a function finds of the call's own ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_INTERPRETER_OWNOBJECTS_H
#define PYJIT_CAPTURE_INTERPRETER_OWNOBJECTS_H

#include "CPython.h"

#include <vector>

namespace pyjit::capture {

struct Call;
class Recording;

/// The objects that the call has made and that a function reaches, with what
/// they hold: changes of these are in no log of effects. A function of Python's
/// comes to them by way of itself (a closure's cells, say), of its arguments,
/// and of objects from before the call that the call has written.
class OwnObjects {
public:
  OwnObjects() = default;
  OwnObjects(OwnObjects &&) noexcept;
  OwnObjects &operator=(OwnObjects &&) noexcept;
  ~OwnObjects() { clear(); }

  /// False: one of them has a state that no reference shows (an iterator, a
  /// buffer), or they are too many.
  bool take(Recording &recording, const Call &call);
  /// Whether each holds the very objects that it held then.
  bool areUnchanged() const;

private:
  class Walk;
  struct Object {
    PyObject *object;
    std::vector<PyObject *> parts; ///< strong: addresses are not reused
  };
  void clear();

  std::vector<Object> objects;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_INTERPRETER_OWNOBJECTS_H
