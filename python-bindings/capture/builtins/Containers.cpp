//===- Containers.cpp - Reading and changing containers -----------------===//

#include "Session.h"
#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"
#include "tensors/Tensors.h"

#include <algorithm>

using namespace pyjit::capture;

/// `torch.Tensor.__hash__`, a Python function that returns `id(self)`.
static PyObject *tensorHash() {
  static PyObject *hash = findObject("torch:Tensor.__hash__");
  return hash;
}

void Session::readAll(PyObject *o) {
  Node *node = isValue(o) ? nullptr : require(o);
  if (!node)
    return;
  if (!node->external)
    return;
  if (PyList_Check(o) || PyTuple_Check(o)) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    bool fixed = node->pinned && PyTuple_CheckExact(o);
    if (!fixed)
      length(node, n);
    for (Py_ssize_t i = 0; i < n; ++i)
      readIndex(node, Select::Item, i, PySequence_Fast_GET_ITEM(o, i));
    return;
  }
  if (PyDict_Check(o)) {
    PyObject *list = keysInOrder(o);
    keys(node, list);
    keep(list);
    Py_DECREF(list);
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (!dead && PyDict_Next(o, &position, &key, &value))
      read(node, Select::Item, key, value);
    return;
  }
  if (PyFrozenSet_CheckExact(o) && node->pinned) {
    PyObject *list = PySequence_List(o);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
      if (!known(PyList_GET_ITEM(list, i)))
        pin(PyList_GET_ITEM(list, i));
    keep(list);
    Py_DECREF(list);
    return;
  }
  if (PyAnySet_Check(o))
    return end("walking a set from before the call: its order is not known");
  end("reading a " + typeName(o) + " from before the call");
}

void Session::readDeep(PyObject *o, int depth) {
  if (dead || isValue(o))
    return;
  if (depth > 20)
    return end("a deeply nested object");
  if (isTensor(o))
    return end("comparing, hashing or printing a tensor");
  if (!require(o))
    return;
  if (PySlice_Check(o))
    return readFields(o, {"start", "stop", "step"});
  if (PyMethod_Check(o))
    return readFields(o, {"__func__", "__self__"});
  if (isPlainObject(o) || isNumpyNumber(o))
    return;
  if (PyList_CheckExact(o) || PyTuple_Check(o)) {
    readAll(o);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
      readDeep(PySequence_Fast_GET_ITEM(o, i), depth + 1);
    return;
  }
  if (PyDict_CheckExact(o) || Py_IS_TYPE(o, &PyODict_Type)) {
    readAll(o);
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(o, &position, &key, &value)) {
      readDeep(key, depth + 1);
      readDeep(value, depth + 1);
    }
    return;
  }
  if (PyAnySet_Check(o))
    return readAll(o);
  if (isHeap(o)) {
    // By identity, or by Python code that is followed.
    PyObject *eq = special(o, "__eq__");
    special(o, "__hash__");
    if (eq && PyFunction_Check(eq))
      return;
    Node *node = find(o);
    if (eq && Py_TYPE(eq) == &PyWrapperDescr_Type &&
        pyjitDescrType(eq) == &PyBaseObject_Type) {
      if (node->external && !node->pinned)
        pin(o);
      return;
    }
    // IntEnum, str enumerations and the like, pinned by identity.
    if (node->pinned)
      return;
  }
  if (Node *node = find(o);
      node && node->pinned &&
      (Py_TYPE(o)->tp_richcompare == nullptr ||
       Py_TYPE(o)->tp_richcompare == PyBaseObject_Type.tp_richcompare))
    return;
  end("comparing, hashing or printing a " + typeName(o));
}

bool Session::holdsTensors(PyObject *set) {
  PyObject *item;
  Py_ssize_t position = 0;
  Py_hash_t hash;
  while (pyjitNextOfSet(set, &position, &item, &hash))
    if (isTensor(item))
      return true;
  return false;
}

/// A tensor's hash is its address and its equality identity, so that a set of
/// tensors says which of them are one object, and nothing else.
void Session::hashInto(PyObject *set, PyObject *item) {
  if (!isTensor(item))
    return readDeep(item);
  Node *node = require(item);
  PyObject *method = node ? special(item, "__hash__") : nullptr;
  PyObject *own = tensorHash();
  if (dead || !method)
    return;
  if (method != own || isExternal(set))
    return end("hashing a tensor");
  if (PySet_GET_SIZE(set) > 256)
    return end("a set of many tensors");
  now.hashing = true;
  PyObject *other;
  Py_ssize_t position = 0;
  Py_hash_t hash;
  while (pyjitNextOfSet(set, &position, &other, &hash))
    if (Node *known = find(other);
        known && known != node && known->external && node->external)
      apart(node, known);
}

void Session::dictItem(PyObject *dict, PyObject *key) {
  readDeep(key);
  Node *node = require(dict);
  if (!node || dead || !node->external)
    return;
  PyObject *value = PyDict_GetItemWithError(dict, key);
  if (value)
    read(node, Select::Item, key, value);
  else if (!PyErr_Occurred())
    absent(node, Select::Item, key);
  PyErr_Clear();
}

void Session::readFields(PyObject *object,
                         std::initializer_list<const char *> names) {
  Node *node = find(object);
  if (!node || !node->external)
    return;
  for (const char *text : names) {
    PyObject *value = PyObject_GetAttrString(object, text);
    if (!value)
      return end("an unusual " + typeName(object));
    PyObject *name = PyUnicode_InternFromString(text);
    keep(value);
    Py_DECREF(value);
    read(node, Select::Field, name, value);
  }
}

bool Session::append(PyObject *list, PyObject *item) {
  Node *node = require(list);
  if (!node || dead || !node->external || node->owned)
    return node && !node->external;
  if (doneIndex.count({node, -1, 0})) // read already: its contents are at hand
    return false;
  // What was read before stays guarded; from now on nothing may be.
  node->appended = true;
  keep(item);
  effects.writes.push_back({node, Select::Item, nullptr, item});
  return true;
}

void Session::setItem(PyObject *set, PyObject *item) {
  Node *node = require(set);
  if (!node || dead || !node->external || node->owned)
    return;
  if (node->pinned && PyFrozenSet_CheckExact(set))
    return;
  int found = PySet_Contains(set, item);
  if (found < 0)
    return PyErr_Clear();
  if (!found)
    return absent(node, Select::Item, item);
  if (!firstTime(node, Select::Item, item))
    return;
  PyjitValue holder = ssa(node);
  add(PyjitHoldsOp{.holder = holder, .key = constant(item)});
}

/// What it held before the call is what stands before the appended elements.
void Session::ownAppended(Node *list) {
  size_t count = 0;
  for (const Write &write : effects.writes)
    count += write.owner == list;
  Py_ssize_t before = PyList_GET_SIZE(list->object) - Py_ssize_t(count);
  if (before < 0)
    return end("a list that changed behind the recorder's back");
  list->appended = false;
  length(list, before);
  for (Py_ssize_t i = 0; i < before && !dead; ++i)
    readIndex(list, Select::Item, i, PyList_GET_ITEM(list->object, i));
  effects.writes.erase(
      std::remove_if(effects.writes.begin(), effects.writes.end(),
                     [&](const Write &write) { return write.owner == list; }),
      effects.writes.end());
  list->owned = list->replaced = true;
  effects.replaced.push_back(list);
}

void Session::own(PyObject *o) {
  Node *node = require(o);
  if (!node || !node->external || node->owned)
    return;
  if (node->dictOf)
    return end("a change of an instance's __dict__");
  if (node->appended)
    return ownAppended(node);
  if (!PyList_CheckExact(o) && !PyDict_Check(o) && !PySet_Check(o))
    return end("a change of a " + typeName(o) + " from before the call");
  if (PySet_Check(o)) {
    // Its order is not known, and not needed unless somebody walks it.
    PyObject *list = PySequence_List(o);
    length(node, PySet_GET_SIZE(o));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      PyObject *item = PyList_GET_ITEM(list, i);
      if (!known(item))
        pin(item);
      setItem(o, item);
    }
    keep(list);
    Py_DECREF(list);
  } else {
    size_t before = scalars.pendingReads();
    readAll(o);
    if (PyList_CheckExact(o))
      scalars.ownNumbers(node, before);
  }
  if (dead)
    return;
  node->owned = node->replaced = true;
  effects.replaced.push_back(node);
}

void Session::writeItem(PyObject *dict, PyObject *key, PyObject *value) {
  Node *node = find(dict);
  if (!node)
    node = pin(dict);
  readDeep(key);
  if (dead || !node->external || node->owned)
    return;
  if (node->dictOf) {
    if (!PyUnicode_CheckExact(key))
      return end("a change of an instance's __dict__");
    return writeAttr(node->dictOf->object, key, value);
  }
  if (value && !isValue(value) && !require(value))
    return;
  PyObject *old = PyDict_GetItemWithError(dict, key);
  if (!value && !written(node, Select::Item, key)) {
    if (old)
      read(node, Select::Item, key, old);
    else
      absent(node, Select::Item, key);
  }
  noteWrite(node, Select::Item, key, value);
}

/// One entry per key says what becomes of it; an entry that was deleted comes
/// last when it is set again, and so does a second entry for its key.
void Session::noteWrite(Node *node, Select select, PyObject *key,
                        PyObject *value) {
  PyObject *&keys = select == Select::Attr   ? node->writtenAttrs
                    : select == Select::Slot ? node->writtenSlots
                                             : node->writtenItems;
  if (!keys)
    keys = PyDict_New();
  PyObject *before = PyDict_GetItemWithError(keys, key);
  bool again = before == Py_False && value;
  if (!before || again)
    effects.writes.push_back({node, select, key});
  if (again)
    effects.reinserted.insert(node);
  PyDict_SetItem(keys, key, value ? Py_True : Py_False);
  keep(key);
}
