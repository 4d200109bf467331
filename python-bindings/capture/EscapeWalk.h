//===- EscapeWalk.h - Objects that leave the call ---------------*- C++ -*-===//
#ifndef PYJIT_CAPTURE_ESCAPEWALK_H
#define PYJIT_CAPTURE_ESCAPEWALK_H

#include "Session.h"

namespace pyjit::capture {

/// A value of the trace, as text.
struct TypedValue {
  std::string name, type;
};

/// Comma lists of values and of their types, as an op's text needs them.
struct OperandText {
  std::string names, types;
  void add(const TypedValue &value, const std::string &prefix = "");
};

/// Gives each object that escapes a value of the trace. What the call made is
/// described by its final state: one `create` per object, in an order in which
/// elements come before their containers, so that shared references stay
/// shared.
class EscapeWalk {
public:
  explicit EscapeWalk(Session &session) : s(session) {}

  TypedValue value(PyObject *object);
  OperandText values(const std::vector<PyObject *> &objects);
  /// The entries of a dict, `key = value` each.
  OperandText entries(PyObject *dict);

  /// A tuple of values.
  TypedValue tuple(const OperandText &elements);
  /// The True or False that the record itself computes, as 0-dim tensor
  /// `tensor` of the recorder's own.
  TypedValue truth(int tensor);

  /// Whether this token of a context variable was handed out.
  bool hasSet(PyObject *token) const { return tokens.count(token); }

private:
  /// The text of a `create`.
  struct Creation {
    std::string kind, body, types;
    void add(const std::string &text, const OperandText &operands);
  };

  TypedValue compute(PyObject *object);
  TypedValue computeTensor(PyObject *object);
  TypedValue immutable(PyObject *object);
  TypedValue create(PyObject *object);
  TypedValue createCyclic(PyObject *object);
  const char *describe(PyObject *object, Creation &made);
  const char *describeToken(PyObject *token, Creation &made);
  void describeFunction(PyObject *object, Creation &made);
  void describeInstance(PyObject *object, Creation &made);
  void describeList(Creation &made, const char *kind,
                    const std::vector<PyObject *> &elements);

  bool isPlainFunction(PyObject *object);
  bool staysSet(PyObject *token) const;
  bool holdsItself(PyObject *object);

  std::string fresh() { return "%" + std::to_string(s.writer.fresh()); }
  void line(const std::string &text) { s.writer.line(text, s.location()); }
  TypedValue refuse(PyObject *object, const char *why);

  Session &s;
  std::map<PyObject *, TypedValue> done;
  std::set<PyObject *> tokens;
  std::set<PyObject *> open; ///< objects whose elements are being described
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_ESCAPEWALK_H
