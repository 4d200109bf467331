//===- EscapeWalk.h - Objects that leave the call ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_ESCAPEWALK_H
#define PYJIT_CAPTURE_ESCAPEWALK_H

#include "Recording.h"

namespace pyjit::capture {

/// Gives each object that escapes a value of the trace. What the call made is
/// described by its final state: one `create` per object, in an order in which
/// elements come before their containers, so that shared references stay
/// shared.
class EscapeWalk {
public:
  explicit EscapeWalk(Recording &recording) : s(recording) {}

  PyjitValue value(PyObject *object);
  std::vector<PyjitValue> values(const std::vector<PyObject *> &objects);
  /// The entries of a dict, in order, and their keys.
  std::vector<PyjitValue> entries(PyObject *dict, PyjitAttribute &keys);

  /// A tuple of values.
  PyjitValue tuple(const std::vector<PyjitValue> &elements);
  /// The True or False that the specialization itself computes, as 0-dim tensor
  /// `tensor` of the recorder's own.
  PyjitValue truth(int tensor);

  /// Whether this object has a value already.
  bool hasLeft(PyObject *object) const { return done.count(object); }

  /// Whether this token of a context variable was handed out.
  bool hasSet(PyObject *token) const { return tokens.count(token); }

private:
  /// What a `create` makes.
  struct Creation {
    std::string kind;
    PyjitOptionalInt exactType = {};
    std::vector<PyjitValue> elements, items, attributes;
    PyjitAttribute itemKeys = nullptr, attributeNames = nullptr;
  };

  PyjitValue compute(PyObject *object);
  PyjitValue computeTensor(PyObject *object);
  PyjitValue immutable(PyObject *object);
  PyjitValue create(PyObject *object);
  PyjitValue createCyclic(PyObject *object);
  PyjitValue add(const Creation &made, PyjitType type);
  const char *describe(PyObject *object, Creation &made);
  const char *describeToken(PyObject *token, Creation &made);
  void describeFunction(PyObject *object, Creation &made);
  void describeSet(PyObject *set, Creation &made);
  void describeDeque(PyObject *deque, Creation &made);
  const char *describeInstance(PyObject *object, Creation &made);
  const char *describeIterator(PyObject *object, Creation &made);
  const char *describeGenerator(PyObject *object, Creation &made);
  const char *whyNotWalked(PyObject *container);
  PyjitValue innerIterator(PyObject *iterator);
  void describeList(Creation &made, const char *kind,
                    const std::vector<PyObject *> &elements);

  bool isPlainFunction(PyObject *object);
  bool staysSet(PyObject *token) const;
  bool holdsItself(PyObject *object);
  bool sharesDict(PyObject *dict) const;

  PyjitValue refuse(PyObject *object, const char *why);

  Recording &s;
  std::map<PyObject *, PyjitValue> done;
  std::set<PyObject *> tokens;
  std::set<PyObject *> open; ///< objects whose elements are being described
  /// Dicts of instances that were described, whose entries these are made with.
  std::set<PyObject *> instanceDicts;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_ESCAPEWALK_H
