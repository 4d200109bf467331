//===- ContextLog.cpp - Context variables that a call sets ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "objects/ContextLog.h"
#include "CPython.h"
#include "objects/ObjectTable.h"

#include <algorithm>
#include <map>

using namespace pyjit::capture;

std::vector<size_t> ContextLog::openSets(PyObject *variable) const {
  std::vector<size_t> open;
  for (size_t i = 0; i < changes.size(); ++i) {
    if (changes[i].variable != variable)
      continue;
    if (changes[i].sets)
      open.push_back(i);
    else
      open.pop_back();
  }
  return open;
}

/// A token is made behind the handler of the instruction that sets a variable:
/// it is the one of that variable that no earlier set has made.
void ContextLog::findTokens(ObjectTable &objects) {
  auto isOfASet = [&](PyObject *token) {
    return std::any_of(changes.begin(), changes.end(),
                       [&](const Change &c) { return c.token == token; });
  };
  for (Change &change : changes) {
    if (!change.sets || change.token)
      continue;
    for (const auto &[object, node] : objects.nodes)
      if (PyContextToken_CheckExact(object) && !node->external &&
          pyjitTokenVariable(object) == change.variable && !isOfASet(object))
        change.token = object;
  }
}

void ContextLog::noteSet(PyObject *variable, ObjectTable &objects) {
  findTokens(objects);
  changes.push_back({variable, nullptr, true});
}

bool ContextLog::noteReset(PyObject *token, ObjectTable &objects) {
  findTokens(objects);
  PyObject *variable = pyjitTokenVariable(token);
  std::vector<size_t> open = openSets(variable);
  if (open.empty() || changes[open.back()].token != token)
    return false;
  changes.push_back({variable});
  return true;
}

bool ContextLog::isResetFromBefore(PyObject *variable) const {
  return std::any_of(changes.begin(), changes.end(), [&](const Change &c) {
    return c.earlier && pyjitTokenVariable(c.earlier->object) == variable;
  });
}

std::vector<PyObject *> ContextLog::stillSet() const {
  std::vector<PyObject *> found;
  for (const Change &change : changes)
    if (change.sets && depth(change.variable) &&
        std::find(found.begin(), found.end(), change.variable) == found.end())
      found.push_back(change.variable);
  return found;
}

bool ContextLog::isBalancedSince(size_t count) const {
  std::map<PyObject *, size_t> open;
  for (size_t i = count; i < changes.size(); ++i) {
    const Change &change = changes[i];
    if (change.earlier || (!change.sets && !open[change.variable]))
      return false;
    open[change.variable] += change.sets ? 1 : -1;
  }
  return std::all_of(open.begin(), open.end(),
                     [](const auto &entry) { return !entry.second; });
}

std::vector<Node *> ContextLog::usedTokens() const {
  std::vector<Node *> found;
  for (const Change &change : changes)
    if (change.earlier)
      found.push_back(change.earlier);
  return found;
}
