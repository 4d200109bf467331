//===- Containers.cpp - Reading and changing containers -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Recording.h"
#include "Sets.h"
#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"
#include "objects/SetContents.h"
#include "tensors/Tensors.h"

#include <algorithm>

using namespace pyjit::capture;

/// `torch.Tensor.__hash__`, a Python function that returns `id(self)`.
static PyObject *tensorHash() {
  static PyObject *hash = findObject("torch:Tensor.__hash__");
  return hash;
}

void Containers::readAll(PyObject *o) {
  Node *node = isValue(o) ? nullptr : s.objects.require(o);
  if (!node)
    return;
  if (!node->external)
    return;
  if (PyList_Check(o) || PyTuple_Check(o)) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    bool fixed = node->pinned && PyTuple_CheckExact(o);
    if (!fixed)
      s.reads.length(node, n);
    for (Py_ssize_t i = 0; i < n; ++i)
      s.reads.readIndex(node, Select::Item, i, PySequence_Fast_GET_ITEM(o, i));
    return;
  }
  if (pyjitIsDeque(o))
    return readDeque(o, /*lost=*/0, elementsIn(o));
  if (PyDict_Check(o)) {
    PyObject *list = keysInOrder(o);
    s.reads.keys(node, list);
    s.objects.keep(list);
    Py_DECREF(list);
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (!s.dead && PyDict_Next(o, &position, &key, &value))
      s.reads.read(node, Select::Item, key, value);
    return;
  }
  if (PyAnySet_Check(o)) {
    readElements(o);
    if (!s.dead && !(node->pinned && PyFrozenSet_CheckExact(o)))
      s.reads.table(node);
    return;
  }
  s.end(ReasonKind::EarlierObject,
        "reading a " + typeName(o) + " from before the call");
}

/// `elements`: what is left of those from before the call, `lost` of which the
/// call has pushed out. Numbers differ from call to call, and nothing follows
/// them from a deque on.
void Containers::readDeque(PyObject *deque, Py_ssize_t lost,
                           const std::vector<PyObject *> &elements) {
  Node *node = s.objects.require(deque);
  if (std::any_of(elements.begin(), elements.end(), isNumber))
    return s.end(ReasonKind::EarlierObject,
                 "a deque of numbers from before the call");
  s.reads.length(node, lost + Py_ssize_t(elements.size()));
  for (size_t i = 0; i < elements.size() && !s.dead; ++i)
    s.reads.readIndex(node, Select::Item, lost + Py_ssize_t(i), elements[i]);
}

void Containers::readElements(PyObject *set) {
  Node *node = s.objects.require(set);
  if (!node || !node->external)
    return;
  if (node->pinned && PyFrozenSet_CheckExact(set)) {
    for (PyObject *element : walkOver(set))
      if (!s.objects.known(element))
        s.objects.pin(element);
    return;
  }
  if (!isReadByElements(set))
    return s.end(ReasonKind::EarlierObject,
                 "walking a set from before the call: its order is not known");
  PyObject *list = PySequence_List(set);
  s.reads.keys(node, list);
  s.objects.keep(list);
  Py_DECREF(list);
}

/// `sequence[start:stop]`: the elements beside it say nothing.
void Containers::readSlice(PyObject *sequence, PyObject *start,
                           PyObject *stop) {
  Node *node = s.objects.require(sequence);
  if (!node || !node->external)
    return;
  auto isBound = [](PyObject *o) {
    return o == Py_None || PyLong_CheckExact(o);
  };
  Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence), first = 0, last = n;
  if (!isBound(start) || !isBound(stop))
    return readAll(sequence);
  if (start != Py_None)
    first = PyLong_AsSsize_t(start);
  if (stop != Py_None)
    last = PyLong_AsSsize_t(stop);
  if (PyErr_Occurred()) { // beyond all lists
    PyErr_Clear();
    return readAll(sequence);
  }
  PySlice_AdjustIndices(n, &first, &last, 1);
  if (!(node->pinned && PyTuple_CheckExact(sequence)))
    s.reads.length(node, n);
  for (Py_ssize_t i = first; i < last; ++i)
    s.reads.readIndex(node, Select::Item, i,
                      PySequence_Fast_GET_ITEM(sequence, i));
}

void Containers::readDeep(PyObject *o, int depth) {
  if (s.dead || isValue(o))
    return;
  ReadsNumbers scope(s.now, ReadNumbers::LookedAt);
  if (depth > 20)
    return s.end(ReasonKind::TooMuch, "a deeply nested object");
  if (ObjectTable::isTensor(o))
    return s.end(ReasonKind::DataInPython,
                 "comparing, hashing or printing a tensor");
  if (!s.objects.require(o))
    return;
  if (PySlice_Check(o)) {
    readFields(o, {"start", "stop", "step"});
    auto *slice = reinterpret_cast<PySliceObject *>(o);
    for (PyObject *bound : {slice->start, slice->stop, slice->step})
      readDeep(bound, depth + 1);
    return;
  }
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
  if (PyDict_CheckExact(o) || Py_IS_TYPE(o, &PyODict_Type) ||
      isDefaultDict(o)) {
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
    return readElements(o);
  if (isHeap(o)) {
    // By identity, or by Python code that is followed.
    PyObject *eq = s.attributes.special(o, "__eq__");
    s.attributes.special(o, "__hash__");
    if (eq && PyFunction_Check(eq))
      return;
    Node *node = s.objects.find(o);
    if (eq && Py_TYPE(eq) == &PyWrapperDescr_Type &&
        pyjitDescrType(eq) == &PyBaseObject_Type) {
      if (node->external && !node->pinned)
        s.objects.pin(o);
      return;
    }
    // IntEnum, str enumerations and the like, pinned by identity.
    if (node->pinned)
      return;
  }
  if (Node *node = s.objects.find(o);
      node && node->pinned &&
      (Py_TYPE(o)->tp_richcompare == nullptr ||
       Py_TYPE(o)->tp_richcompare == PyBaseObject_Type.tp_richcompare))
    return;
  s.end(ReasonKind::UnusualObject,
        "comparing, hashing or printing a " + typeName(o));
}

bool Containers::holdsTensors(PyObject *set) {
  PyObject *item;
  Py_ssize_t position = 0;
  Py_hash_t hash;
  while (pyjitNextOfSet(set, &position, &item, &hash))
    if (ObjectTable::isTensor(item))
      return true;
  return false;
}

/// A tensor's hash is its address and its equality identity, so that a set of
/// tensors says which of them are one object, and nothing else.
void Containers::hashInto(PyObject *set, PyObject *item) {
  if (!ObjectTable::isTensor(item))
    return readDeep(item);
  Node *node = s.objects.require(item);
  PyObject *method = node ? s.attributes.special(item, "__hash__") : nullptr;
  PyObject *own = tensorHash();
  if (s.dead || !method)
    return;
  if (method != own || s.objects.isExternal(set))
    return s.end(ReasonKind::ObjectIdentity, "hashing a tensor");
  if (PySet_GET_SIZE(set) > 256)
    return s.end(ReasonKind::ObjectIdentity, "a set of many tensors");
  s.now.hashing = true;
  PyObject *other;
  Py_ssize_t position = 0;
  Py_hash_t hash;
  while (pyjitNextOfSet(set, &position, &other, &hash))
    if (Node *known = s.objects.find(other);
        known && known != node && known->external && node->external)
      s.operators.apart(node, known);
}

/// A tensor from before is known by identity then, as objects are.
void Containers::readKey(PyObject *key) {
  if (!ObjectTable::isTensor(key))
    return readDeep(key);
  Node *node = s.objects.require(key);
  PyObject *method = node ? s.attributes.special(key, "__hash__") : nullptr;
  PyObject *own = tensorHash();
  if (s.dead || !method)
    return;
  if (method != own || !node->external)
    return s.end(ReasonKind::ObjectIdentity, "hashing a tensor");
  s.objects.pin(key);
  s.now.hashing = true;
}

void Containers::readKeys(PyObject *dict) {
  Node *node = s.objects.require(dict);
  if (!node || !node->external || !PyDict_Check(dict))
    return;
  PyObject *list = keysInOrder(dict);
  s.reads.keys(node, list);
  s.objects.keep(list);
  Py_DECREF(list);
}

/// Of numbers, texts and such tuples and lists.
static bool holdsValues(PyObject *o, int depth = 0) {
  if (depth > 4 || (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)))
    return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
    if (PyObject *item = PySequence_Fast_GET_ITEM(o, i);
        !isValue(item) && !holdsValues(item, depth + 1))
      return false;
  return true;
}

void Containers::lookInto(PyObject *o, int depth) {
  if (depth > 4 || (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)))
    return;
  if (holdsValues(o))
    return readDeep(o);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
    lookInto(PySequence_Fast_GET_ITEM(o, i), depth + 1);
}

void Containers::lookAtItems(PyObject *iterator) {
  if (isValue(iterator) || PyList_Check(iterator) || PyTuple_Check(iterator) ||
      PyDict_CheckExact(iterator) || PyAnySet_Check(iterator))
    return;
  if (PyGen_CheckExact(iterator))
    s.now.looksAtYields = true;
  // What an iterator walks over was read when it was made.
  std::vector<PyObject *> tuples;
  for (const auto &entry : s.objects.nodes)
    if (entry.second->external && !entry.second->pinned &&
        PyTuple_CheckExact(entry.first) && holdsValues(entry.first))
      tuples.push_back(entry.first);
  for (PyObject *tuple : tuples)
    readDeep(tuple);
}

void Containers::dictItem(PyObject *dict, PyObject *key) {
  readKey(key);
  Node *node = s.objects.require(dict);
  if (!node || s.dead || !node->external)
    return;
  PyObject *value = PyDict_GetItemWithError(dict, key);
  if (value)
    s.reads.read(node, Select::Item, key, value);
  else if (!PyErr_Occurred())
    s.reads.absent(node, Select::Item, key);
  PyErr_Clear();
}

void Containers::dictKey(PyObject *dict, PyObject *key) {
  Node *node = s.objects.require(dict);
  if (!node || !node->external || node->dictOf)
    return dictItem(dict, key);
  readKey(key);
  if (s.dead)
    return;
  if (PyDict_GetItemWithError(dict, key))
    s.reads.holds(node, key);
  else if (!PyErr_Occurred())
    s.reads.absent(node, Select::Item, key);
  PyErr_Clear();
}

void Containers::readFields(PyObject *object,
                            std::initializer_list<const char *> names) {
  Node *node = s.objects.find(object);
  if (!node || !node->external)
    return;
  for (const char *text : names) {
    PyObject *value = PyObject_GetAttrString(object, text);
    if (!value)
      return s.end(ReasonKind::UnusualObject, "an unusual " + typeName(object));
    PyObject *name = PyUnicode_InternFromString(text);
    s.objects.keep(value);
    Py_DECREF(value);
    s.reads.read(node, Select::Field, name, value);
  }
}

bool Containers::append(PyObject *list, PyObject *item) {
  Node *node = s.objects.require(list);
  if (!node || s.dead || !node->external || node->owned)
    return node && !node->external;
  if (s.reads.lengthIsRead(node)) // its contents are at hand
    return false;
  if (!node->appended)
    node->lengthBefore = Py_SIZE(list);
  node->appended = true;
  s.effects.changes.push_back(node);
  s.objects.keep(item);
  s.effects.writes.push_back({node, Select::Item, nullptr, item});
  return true;
}

void Containers::setItem(PyObject *set, PyObject *item) {
  Node *node = s.objects.require(set);
  if (!node || s.dead || !node->external || node->owned)
    return;
  if (node->pinned && PyFrozenSet_CheckExact(set))
    return;
  if (holdsNan(item))
    return s.end(ReasonKind::UnusualObject, "a nan as a key");
  int found = PySet_Contains(set, item);
  if (found < 0)
    return PyErr_Clear();
  if (!found)
    return s.reads.absent(node, Select::Item, item);
  s.reads.holds(node, item);
}

Py_ssize_t Containers::appendedTo(const Node *list) const {
  if (!list->appended)
    return 0;
  return std::count_if(s.effects.writes.begin(), s.effects.writes.end(),
                       [&](const Write &write) { return write.owner == list; });
}

/// What it held before the call is what stands before the appended elements.
void Containers::ownAppended(Node *list) {
  std::vector<PyObject *> elements = elementsIn(list->object);
  Py_ssize_t left = Py_ssize_t(elements.size()) - appendedTo(list),
             before = list->lengthBefore;
  bool isDeque = pyjitIsDeque(list->object);
  if (isDeque ? left > before : left != before)
    return s.end(ReasonKind::NativeFunction,
                 "a list that changed behind the recorder's back");
  list->appended = false;
  elements.resize(std::max<Py_ssize_t>(left, 0));
  if (isDeque) {
    readDeque(list->object, before - Py_ssize_t(elements.size()), elements);
    readBound(list->object);
  } else {
    s.reads.length(list, before);
    for (Py_ssize_t i = 0; i < before && !s.dead; ++i)
      s.reads.readIndex(list, Select::Item, i, elements[i]);
  }
  if (s.dead)
    return;
  list->owned = list->replaced = true;
  s.effects.replaced.push_back(list);
}

void Containers::own(PyObject *o) {
  Node *node = s.objects.require(o);
  if (!node || !node->external)
    return;
  s.effects.changes.push_back(node);
  if (node->owned)
    return;
  if (node->dictOf)
    return s.end(ReasonKind::EarlierObject,
                 "a change of an instance's __dict__");
  if (node->appended)
    return ownAppended(node);
  // A set that is filled again lies as its table does then, which is not how
  // eager's lies that grew from another one.
  if (!PyList_CheckExact(o) && !PyDict_Check(o) && !pyjitIsDeque(o))
    return s.end(ReasonKind::EarlierObject,
                 "a change of a " + typeName(o) + " from before the call");
  size_t before = s.scalars.pendingReads();
  readAll(o);
  if (PyList_CheckExact(o))
    s.scalars.ownNumbers(node, before);
  if (pyjitIsDeque(o))
    readBound(o);
  if (s.dead)
    return;
  node->owned = node->replaced = true;
  s.effects.replaced.push_back(node);
}

/// Of how many elements at most a deque is.
void Containers::readBound(PyObject *deque) {
  readFields(deque, {"maxlen"});
  PyObject *bound = PyObject_GetAttrString(deque, "maxlen");
  s.scalars.specializeDeep(bound);
  Py_XDECREF(bound);
  PyErr_Clear();
}

bool Containers::writeElement(PyObject *set, PyObject *item, bool isIn) {
  Node *node = s.objects.require(set);
  if (!node || s.dead || !node->external)
    return true;
  // What is removed and added again comes to lie elsewhere.
  if (!PySet_CheckExact(set) || !isHashedInC(item) ||
      s.reads.written(node, Select::Item, item))
    return false;
  s.effects.noteWrite(node, Select::Item, item, isIn ? Py_True : nullptr);
  return true;
}

void Containers::writeItem(PyObject *dict, PyObject *key, PyObject *value) {
  Node *node = s.objects.find(dict);
  if (!node)
    node = s.objects.pin(dict);
  readKey(key);
  if (s.dead || !node->external)
    return;
  s.effects.changes.push_back(node);
  if (node->owned)
    return;
  if (node->dictOf) {
    if (!PyUnicode_CheckExact(key))
      return s.end(ReasonKind::EarlierObject,
                   "a change of an instance's __dict__");
    return s.attributes.writeAttr(node->dictOf->object, key, value);
  }
  if (value && !isValue(value) && !s.objects.require(value))
    return;
  if (holdsNan(key))
    return s.end(ReasonKind::UnusualObject, "a nan as a key");
  PyObject *old = PyDict_GetItemWithError(dict, key);
  if (!value && !s.reads.written(node, Select::Item, key)) {
    if (old)
      s.reads.read(node, Select::Item, key, old);
    else
      s.reads.absent(node, Select::Item, key);
  }
  s.effects.noteWrite(node, Select::Item, key, value);
}
