//===- ExternalReads.h - Reads of objects from before -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each read of an object that existed before the call becomes an operation,
// once: what guards compare. A closure cell is read through a function that
// holds it.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_OBJECTS_EXTERNALREADS_H
#define PYJIT_CAPTURE_OBJECTS_EXTERNALREADS_H

#include "objects/Node.h"

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace pyjit::capture {

class Recording;

class ExternalReads {
public:
  explicit ExternalReads(Recording &recording) : s(recording) {}

  /// `owner` holds `result` there; null: the call's arguments. Of a place that
  /// the call has written this says nothing.
  void read(Node *owner, Select select, PyObject *key, PyObject *result);
  void readIndex(Node *owner, Select select, Py_ssize_t index, PyObject *result,
                 PyObject *name = nullptr);
  /// `owner` holds nothing there.
  void absent(Node *owner, Select select, PyObject *key);
  /// A dict or set holds `key`, whatever lies there.
  void holds(Node *owner, PyObject *key);
  void length(Node *owner, Py_ssize_t n);
  /// A dict's keys, in order.
  void keys(Node *owner, PyObject *keyList);
  /// Where the elements of a set lie.
  void table(Node *owner);
  /// Its exact type.
  void typeOf(PyObject *object);
  /// The code, defaults and globals of a function that is called.
  void function(Node *node);
  void defaultsOf(PyFunctionObject *function);
  /// A function of this code is made with a tuple of cells, which a graph break
  /// between the two has handed on.
  void closure(PyObject *cells, PyCodeObject *code);

  /// Whether a leaf has hooks: it has none.
  void unhooked(Node *leaf);

  /// Where a nan was read from; -1 for one that was not.
  PyjitValue nanValue(PyObject *nan) const;

  void readCell(PyObject *cell);
  /// Whether the call made the cell.
  bool isOwnCell(PyObject *cell) { return !cellHomes.count(cell); }
  void writeCell(PyObject *cell);

  /// Whether the call has written this place.
  bool written(Node *owner, Select select, PyObject *key);
  /// Whether the attributes of `owner`, which lie in `dict`, are known by it
  /// alone; ends the trace where they are not.
  bool ownsDict(Node *owner, PyObject *dict);
  /// Whether nothing has asked for this place, notes that something does.
  bool firstTime(Node *owner, Select select, PyObject *key);
  bool lengthIsRead(Node *owner) const;
  /// Likewise, for whether two objects are two.
  bool firstApart(Node *left, Node *right);

  /// Closure cells of external functions: where they are read from.
  struct CellHome {
    Node *function;
    int index;
    PyObject *name;
  };
  std::unordered_map<PyObject *, CellHome> cellHomes;

private:
  bool onlyGrew(Node *owner) const;
  void noteLength(Node *owner, Py_ssize_t n);
  bool isPassedOn(Node *owner, PyObject *object);
  void readParts(PyObject *object, PyjitValue value);
  void fixDefault(PyObject *value);
  void keywordDefaults(PyObject *defaults);
  void emitGet(Node *owner, const Selector &selector, PyObject *result,
               const AccessPath &path = {});
  void emitTensorGet(Node *owner, PyjitGetOp get, PyObject *tensor,
                     const AccessPath &path);
  void noteNan(PyObject *nan, PyjitValue value);
  Selector selectorOf(Select select, PyObject *key);
  Node *canonical(Node *owner, Select &select);

  Recording &s;
  PyObject *internKey(PyObject *key);
  std::set<std::tuple<Node *, int, PyObject *>> done;
  /// By selector and index, or by what else was asked.
  enum : int {
    kLength = -1,
    kKeys = -2,
    kApart = -3,
    kUnhooked = -4,
    kTable = -5,
    kHolds = -6
  };
  std::set<std::tuple<Node *, int, Py_ssize_t>> doneIndex;
  /// Whose attributes lie in these dicts, of objects from before the call.
  std::map<PyObject *, Node *> instanceDicts;
  std::set<PyObject *> writtenCells;
  /// Each with its first read.
  std::vector<std::pair<PyObject *, PyjitValue>> nans;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OBJECTS_EXTERNALREADS_H
