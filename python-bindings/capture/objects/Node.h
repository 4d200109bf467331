//===- Node.h - What is known about an object -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_OBJECTS_NODE_H
#define PYJIT_CAPTURE_OBJECTS_NODE_H

#include "TraceWriter.h"
#include "objects/AccessPath.h"

namespace pyjit::capture {

/// What is known about an object. External objects existed before the call:
/// they have a path (an SSA value of the text). Others were created by it.
struct Node {
  PyObject *object = nullptr; ///< strong: addresses are not reused
  bool external = false;
  /// External and identified by its index in the object table.
  bool pinned = false;
  /// External container whose contents before the call are recorded in full.
  bool owned = false;
  /// Made with the code that loads it, not by the call: as fixed as that is.
  bool ofCode = false;
  /// An argument, or an element of a container that is one: another object in
  /// each call.
  bool inArgument = false;
  /// Reached from an argument by way of objects that are no constants.
  bool ofArgument = false;
  bool typeRead = false;
  bool functionRead = false;
  bool paramDict = false; ///< `_parameters` or `_buffers` of an nn.Module
  /// Appended to without having been read.
  bool appended = false;
  /// How long it was before that: a deque may have lost elements since.
  Py_ssize_t lengthBefore = 0;
  /// The contents changed: written out whole at the end.
  bool replaced = false;
  bool dataWritten = false; ///< the host writes the number that a tensor holds
  bool gradientWritten = false; ///< the call has set a tensor's `.grad`
  bool storageWritten = false;  ///< the call has set a tensor's `.data`
  int index = -1;               ///< in the object table
  int value = -1;               ///< SSA number
  Node *dictOf = nullptr;       ///< this is the `__dict__` of that instance
  /// Keys of attributes, items and slots that the call has written (dicts,
  /// owned).
  PyObject *writtenAttrs = nullptr;
  PyObject *writtenItems = nullptr;
  PyObject *writtenSlots = nullptr;
  PyObject *addedItems = nullptr; ///< those that a dict had not, as a list
  AccessPath path;                ///< empty unless numbers are lifted
};

enum class Select {
  Arg = PyjitSelectorArg,
  Attr = PyjitSelectorAttr,
  Dict = PyjitSelectorDict,
  Item = PyjitSelectorItem,
  Type = PyjitSelectorType,
  TypeAttr = PyjitSelectorTypeattr,
  Code = PyjitSelectorCode,
  Defaults = PyjitSelectorDefaults,
  KwDefaults = PyjitSelectorKwdefaults,
  Globals = PyjitSelectorGlobals,
  Cell = PyjitSelectorCell,
  Slot = PyjitSelectorSlot,
  Field = PyjitSelectorField,
  Grad = PyjitSelectorGrad,
  Data = PyjitSelectorData,
  Storage = PyjitSelectorStorage
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OBJECTS_NODE_H
