//===- EffectLog.h - What the call does to objects from before --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_OBJECTS_EFFECTLOG_H
#define PYJIT_CAPTURE_OBJECTS_EFFECTLOG_H

#include "objects/ContextLog.h"
#include "objects/Node.h"

#include <set>
#include <vector>

namespace pyjit::capture {

/// A write of an attribute, a slot or an item of an object that existed before
/// the call, an element that was appended to a list, or the entry of a
/// functools.lru_cache that answered a call.
struct Write {
  Node *owner;
  Select select;
  PyObject *key;
  PyObject *appended = nullptr; ///< the element, or the entry
};

/// Effects that can be seen from outside, in the order in which Python made
/// them. What is written is the final state; the trace's end writes it out
/// (Escape.cpp).
class EffectLog {
public:
  EffectLog() = default;
  EffectLog(const EffectLog &) = delete;
  ~EffectLog();

  std::vector<Write> writes;
  /// Whose entries were deleted and set again.
  std::set<Node *> reinserted;
  /// Containers whose contents are written as a whole.
  std::vector<Node *> replaced;
  /// Closure cells of external functions, in the order of the first write.
  std::vector<PyObject *> cells;
  ContextLog context;

  /// Tensors of the call's own that were given Python attributes.
  std::vector<PyObject *> withAttributes;

  /// Of whatever was changed, again or for the first time, but for gradients:
  /// whose it was; null: not known. It only grows.
  std::vector<const Node *> changes;
  /// How often a gradient was changed.
  size_t gradientChanges = 0;

  /// `value`: null for a deletion.
  void noteWrite(Node *node, Select select, PyObject *key, PyObject *value);

  void noteAttributes(PyObject *tensor);

  /// The call sets `.grad` of a tensor from before.
  void noteGradient(Node *node);
  /// ... or the number that it holds (HostScalars.h).
  void noteData(Node *node);
  /// ... or its `.data` (ReplacedData.h).
  void noteStorage(Node *node);

  bool empty() const {
    return writes.empty() && replaced.empty() && cells.empty() &&
           context.empty();
  }
  /// What is noted from here on is forgotten if the handler of the instruction
  /// ends the recording: the interpreter will carry it out.
  void beginInstruction() {
    mark = {writes.size(), replaced.size(), cells.size(), context.size()};
  }
  void forgetInstruction();
  /// Whether a later write of the same entry comes after it was deleted.
  bool isReinserted(const Write &write) const;

private:
  struct Mark {
    size_t writes = 0, replaced = 0, cells = 0, context = 0;
  } mark;
  std::vector<PyObject *> held; ///< keys, and tensors with attributes
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OBJECTS_EFFECTLOG_H
