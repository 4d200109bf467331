//===- Operators.h - Python's operators on objects --------------*- C++ -*-===//
#ifndef PYJIT_CAPTURE_BUILTINS_OPERATORS_H
#define PYJIT_CAPTURE_BUILTINS_OPERATORS_H

#include "interpreter/Frames.h"
#include "objects/Node.h"

namespace pyjit::capture {

class Session;

/// What arithmetic, comparison, truth, length and printing read.
class Operators {
public:
  explicit Operators(Session &session) : s(session) {}

  Post binary(PyObject *left, PyObject *right, const char *op, bool inplace);
  Post compare(PyObject *left, PyObject *right, const char *op);
  void identity(PyObject *left, PyObject *right);
  void truth(PyObject *object);
  void lengthOf(PyObject *object);
  Post format(PyObject *object);
  void formatParts(PyObject *container);
  void exceptionArguments(PyObject *exception);
  /// Two external objects that have to stay two.
  void apart(Node *left, Node *right);

private:
  Session &s;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_BUILTINS_OPERATORS_H
