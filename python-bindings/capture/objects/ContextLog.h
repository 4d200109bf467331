//===- ContextLog.h - Context variables that a call sets --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_OBJECTS_CONTEXTLOG_H
#define PYJIT_CAPTURE_OBJECTS_CONTEXTLOG_H

#include "objects/Node.h"

#include <vector>

namespace pyjit::capture {

class ObjectTable;

/// What the call does to context variables, in order. A variable is as it was
/// before the call once each of its sets is taken back, the last one first; in
/// another order it is what an earlier one had found, which no trace says.
class ContextLog {
public:
  void noteSet(PyObject *variable, ObjectTable &objects);
  /// `token` is of the call's own. False unless it is of the last set of its
  /// variable that is not taken back yet.
  bool noteReset(PyObject *token, ObjectTable &objects);
  /// A token from before the call is used.
  void noteReset(Node *token) { changes.push_back({nullptr, token}); }

  /// How many sets of a variable are not taken back.
  size_t depth(PyObject *variable) const { return openSets(variable).size(); }
  /// Whether a token from before the call has reset it.
  bool isResetFromBefore(PyObject *variable) const;
  /// Variables with sets that are not taken back, each once.
  std::vector<PyObject *> stillSet() const;
  /// The tokens from before the call that were used.
  std::vector<Node *> usedTokens() const;

  /// Whether what was done behind the first `count` changes leaves all as it
  /// was.
  bool isBalancedSince(size_t count) const;

  bool empty() const { return stillSet().empty() && usedTokens().empty(); }
  size_t size() const { return changes.size(); }
  /// Forgets all changes but the first ones.
  void truncate(size_t count) { changes.resize(count); }

private:
  struct Change {
    PyObject *variable; ///< that the call sets, or resets by a token of its own
    Node *earlier = nullptr; ///< or a token from before the call
    bool sets = false;
    PyObject *token = nullptr; ///< of a set, once somebody has asked for it
  };
  std::vector<size_t> openSets(PyObject *variable) const;
  void findTokens(ObjectTable &objects);

  std::vector<Change> changes; ///< never erased in the middle: a mark's size
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OBJECTS_CONTEXTLOG_H
