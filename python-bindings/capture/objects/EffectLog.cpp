//===- EffectLog.cpp - What the call does to objects from before ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "objects/EffectLog.h"

#include <algorithm>

using namespace pyjit::capture;

EffectLog::~EffectLog() {
  for (PyObject *key : held)
    Py_DECREF(key);
}

void EffectLog::forgetInstruction() {
  // What was written before is written out all the same.
  writes.resize(mark.writes);
  for (size_t i = mark.replaced; i < replaced.size(); ++i) {
    Node *node = replaced[i];
    node->owned = node->replaced = false;
    node->appended =
        std::any_of(writes.begin(), writes.end(), [&](const Write &write) {
          return write.owner == node && write.appended;
        });
  }
  replaced.resize(mark.replaced);
  cells.resize(mark.cells);
  context.truncate(mark.context);
}

/// Whether a dict takes two keys for one. Of tensors `==` says nothing of that:
/// their hashes tell them apart.
static bool isSameKey(PyObject *a, PyObject *b) {
  if (a == b)
    return true;
  Py_hash_t first = PyObject_Hash(a), second = PyObject_Hash(b);
  int same = first == second && first != -1
                 ? PyObject_RichCompareBool(a, b, Py_EQ)
                 : 0;
  PyErr_Clear(); // of a user's `__eq__`
  return same == 1;
}

bool EffectLog::isReinserted(const Write &write) const {
  if (!reinserted.count(write.owner))
    return false;
  for (const Write *later = &write + 1; later != writes.data() + writes.size();
       ++later)
    if (later->owner == write.owner && later->select == write.select &&
        later->key && isSameKey(later->key, write.key))
      return true;
  return false;
}

void EffectLog::noteAttributes(PyObject *tensor) {
  changes.push_back(nullptr);
  if (std::find(withAttributes.begin(), withAttributes.end(), tensor) !=
      withAttributes.end())
    return;
  withAttributes.push_back(tensor);
  held.push_back(Py_NewRef(tensor));
}

void EffectLog::noteGradient(Node *node) {
  ++gradientChanges;
  if (!node->gradientWritten)
    writes.push_back({node, Select::Grad, nullptr});
  node->gradientWritten = true;
}

void EffectLog::noteData(Node *node) {
  if (!node->dataWritten)
    writes.push_back({node, Select::Data, nullptr});
  node->dataWritten = true;
}

void EffectLog::noteStorage(Node *node) {
  changes.push_back(node);
  if (!node->storageWritten)
    writes.push_back({node, Select::Storage, nullptr});
  node->storageWritten = true;
}

/// One entry per key says what becomes of it; an entry that was deleted comes
/// last when it is set again, and so does a second entry for its key.
void EffectLog::noteWrite(Node *node, Select select, PyObject *key,
                          PyObject *value) {
  changes.push_back(node);
  PyObject *&keys = select == Select::Attr   ? node->writtenAttrs
                    : select == Select::Slot ? node->writtenSlots
                                             : node->writtenItems;
  if (!keys)
    keys = PyDict_New();
  PyObject *before = PyDict_GetItemWithError(keys, key);
  bool isNew =
      PyAnySet_Check(node->object) ||
      (PyDict_Check(node->object) && !PyDict_Contains(node->object, key));
  if (select == Select::Item && !before && value && isNew) {
    if (!node->addedItems)
      node->addedItems = PyList_New(0);
    PyList_Append(node->addedItems, key);
  }
  bool again = before == Py_False && value;
  if (!before || again)
    writes.push_back({node, select, key});
  if (again)
    reinserted.insert(node);
  PyDict_SetItem(keys, key, value ? Py_True : Py_False);
  held.push_back(Py_NewRef(key));
}
