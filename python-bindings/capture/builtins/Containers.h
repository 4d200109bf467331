//===- Containers.h - Elements of containers --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_BUILTINS_CONTAINERS_H
#define PYJIT_CAPTURE_BUILTINS_CONTAINERS_H

#include "interpreter/Frames.h"
#include "objects/Node.h"

#include <initializer_list>

namespace pyjit::capture {

class Recording;

/// What indexing, iterating and storing into containers reads and writes.
class Containers {
public:
  explicit Containers(Recording &recording) : s(recording) {}

  ResultKind subscript(PyObject *object, PyObject *key);
  void storeSubscript(PyObject *object, PyObject *key, PyObject *value);
  ResultKind iterate(PyObject *object);
  /// Who makes a list of it asks first how long it may be.
  void hintLength(PyObject *o);
  ResultKind next(PyObject *iterator);
  void contains(PyObject *container, PyObject *item);
  /// Reads every element (and key) of an external container, and how a set's
  /// lie: what C code makes of it lies as they do.
  void readAll(PyObject *container);
  /// The elements of a set in the order of walking over it, which each call
  /// checks for one from before.
  void readElements(PyObject *set);
  void readSlice(PyObject *sequence, PyObject *start, PyObject *stop);
  /// Which keys an external dict has.
  void readKeys(PyObject *dict);
  /// Reads all that comparing, hashing or printing `object` could look at.
  void readDeep(PyObject *object, int depth = 0);
  /// C code hashes or compares what `iterator` hands on: tuples are looked
  /// into.
  void lookAtItems(PyObject *iterator);
  /// Reads the tuples and lists of values in `object`, itself included.
  void lookInto(PyObject *object, int depth = 0);
  /// What a dict looks at of a key.
  void readKey(PyObject *key);
  /// Reads `dict[key]`: present or absent.
  void dictItem(PyObject *dict, PyObject *key);
  /// Reads `key in dict` alone.
  void dictKey(PyObject *dict, PyObject *key);
  /// `item` is looked for in, or put into, a set: hashed and compared.
  void hashInto(PyObject *set, PyObject *item);
  bool holdsTensors(PyObject *set);
  /// How many elements the call has appended to a list without a look at it.
  Py_ssize_t appendedTo(const Node *list) const;
  /// Reads all of an external list that was appended to without a look.
  void ownAppended(Node *list);
  /// Reads whether a set holds `item`.
  void setItem(PyObject *set, PyObject *item);
  /// list.append on an external list whose contents nobody looks at.
  bool append(PyObject *list, PyObject *item);
  /// C members of external slices, methods and partial objects.
  void readFields(PyObject *object, std::initializer_list<const char *> names);
  /// Before a write to an external container: records all of it.
  void own(PyObject *container);
  void writeItem(PyObject *dict, PyObject *key, PyObject *value);
  /// Adds to a set, or removes from it, what it does not, or does, hold; false
  /// if that cannot be written out.
  bool writeElement(PyObject *set, PyObject *item, bool isIn);

private:
  void readDeque(PyObject *deque, Py_ssize_t lost,
                 const std::vector<PyObject *> &elements);
  void readBound(PyObject *deque);

  Recording &s;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_BUILTINS_CONTAINERS_H
