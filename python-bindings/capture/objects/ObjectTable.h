//===- ObjectTable.h - What is known about objects --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Objects are known by address and held for the length of the recording, so an
// address is never reused.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_OBJECTS_OBJECTTABLE_H
#define PYJIT_CAPTURE_OBJECTS_OBJECTTABLE_H

#include "interpreter/Frames.h"
#include "objects/Node.h"
#include "objects/ObjectKinds.h"

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace pyjit::capture {

class Recording;

class ObjectTable {
public:
  explicit ObjectTable(Recording &recording);
  ~ObjectTable();
  ObjectTable(const ObjectTable &) = delete;

  /// The node of an object, or null.
  Node *find(PyObject *object);
  /// The node of `object`; ends the capture and returns null if its origin is
  /// not known. Values have no node: ask `isValue` first.
  Node *require(PyObject *object);
  /// A value, an object with a node, or a tensor of the trace.
  bool known(PyObject *object);
  /// Whether it existed before the call.
  bool isExternal(PyObject *object);
  /// The node of an object that the call has made; a new one if it has none.
  Node *allocated(PyObject *object);
  /// Registers what a native function returned.
  void setResult(ResultKind resultKind, PyObject *result);
  /// Puts `object` into `list`; it is then known by identity.
  Node *pin(PyObject *object);
  /// Whether guards know an object of its type by identity.
  bool shouldPin(PyObject *object);
  /// SSA value of an external node, emitted if it has none yet.
  int ssa(Node *node);
  /// Holds a reference until the recording ends.
  void keep(PyObject *object);

  static bool isTensor(PyObject *object);
  PyjitType irType(PyObject *object);
  /// A value, or an entry of `list`, as an attribute.
  PyjitAttribute constant(PyObject *object);
  /// The entry of `list` for an object that nobody can tell from an equal one.
  int addEqual(PyObject *object);
  /// `object`, a number or None say, as a value of the trace.
  PyjitValue addConstant(PyObject *object);

  /// An object is met by another way, as `value`. If it is passed on unseen,
  /// too, its address no longer says by which: the two have to be one.
  void meet(PyObject *object, int value);
  /// Argument `i`, on which the specialization does not depend.
  void passUnseen(size_t i, PyObject *object, PyObject *name);
  /// Values that are passed on unseen, by address: SSA value.
  std::map<PyObject *, int> unseen;

  PyObject *list = nullptr; ///< what the trace names by index
  int external = -1;        ///< SSA number of refgraph.external
  std::unordered_map<PyObject *, std::unique_ptr<Node>> nodes;

private:
  Recording &s;
  std::vector<PyObject *> kept;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OBJECTS_OBJECTTABLE_H
