//===- Operators.h - Python's operators on objects --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_BUILTINS_OPERATORS_H
#define PYJIT_CAPTURE_BUILTINS_OPERATORS_H

#include "interpreter/Frames.h"
#include "objects/Node.h"

namespace pyjit::capture {

class Recording;

/// What arithmetic, comparison, truth, length and printing read.
class Operators {
public:
  explicit Operators(Recording &recording) : s(recording) {}

  ResultKind binary(PyObject *left, PyObject *right, const char *op,
                    bool inplace);
  ResultKind compare(PyObject *left, PyObject *right, const char *op);
  void identity(PyObject *left, PyObject *right);
  /// Which object a value is is asked where nobody sees of which values: the
  /// whole call runs in eager.
  void asksIdentity();
  void truth(PyObject *object);
  /// For `bool(object)` and `not object`, which no jump asks.
  void truthAsValue(PyObject *object);
  /// Likewise, of a tensor of data: whether the recording goes on with the
  /// truth that it has in this call.
  bool assumesTruth(PyObject *tensor);
  void lengthOf(PyObject *object);
  ResultKind format(PyObject *object);
  void formatParts(PyObject *container);
  void exceptionArguments(PyObject *exception);
  /// Native code asks a method of a class of Python's: whether two objects are
  /// equal, say, which it does not ask where they are one.
  void askedBy(PyObject *method, PyObject *left, PyObject *right);
  /// That method has returned `NotImplemented`: the other operand is asked, and
  /// then whether they are one.
  void declined(const ShadowFrame &frame);
  /// Two external objects that have to stay two.
  void apart(Node *left, Node *right);

private:
  Recording &s;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_BUILTINS_OPERATORS_H
