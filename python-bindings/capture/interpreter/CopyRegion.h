//===- CopyRegion.h - copy.deepcopy() ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `copy.deepcopy` is Python code that is recorded as any other is. It remembers
// what it has copied by `id()`, in a dict of its own, which nobody else may
// see: no later call has these ids. So what ends the recording meanwhile is a
// graph break around the outermost call, and which of the copied objects are
// one is a guard.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_INTERPRETER_COPYREGION_H
#define PYJIT_CAPTURE_INTERPRETER_COPYREGION_H

#include "CPython.h"

#include <vector>

namespace pyjit::capture {

class Recording;
struct Call;
struct Node;

class CopyRegion {
public:
  explicit CopyRegion(Recording &recording) : s(recording) {}

  /// Whether `copy.deepcopy` is recorded through this call of it: the copied
  /// objects are numbers, texts, lists, tuples, dicts and plain instances, as
  /// far as that is seen ahead, and not too many.
  bool follows(const Call &call);
  bool isActive() const { return caller() >= 0; }
  /// The index, among the recording's frames, of the one that calls the
  /// outermost `deepcopy`; -1: there is none.
  int caller() const;
  /// Whether the call hands what is remembered to code of somebody else's.
  bool isShown(const Call &call) const;
  /// `id(object)` is asked by the running function. False: it is none of the
  /// module's that remember objects by it, or the object's origin is not known.
  bool asksFor(PyObject *object);

private:
  Recording &s;
  std::vector<Node *> copied; ///< from before the call, by the outermost one
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_INTERPRETER_COPYREGION_H
