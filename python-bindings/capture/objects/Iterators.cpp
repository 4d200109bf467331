//===- Iterators.cpp - Iterators that a graph break hands on --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A graph break within a loop hands on the loop's iterator. One over a list, a
// tuple, a text or a dict is what it walks over and where it stands, so a
// specialization can make it (`create "iterator"`), and what follows can take
// it over: it reads both, and goes on with an iterator of its own. That nobody
// else holds the one that it was given is guarded, for who did would not see it
// move. Iterators of ranges, whose place is a number like others, are in
// numbers/Ranges.cpp.
//
//===----------------------------------------------------------------------===//

#include "objects/Iterators.h"

#include "Recording.h"
#include "objects/ObjectKinds.h"

using namespace pyjit::capture;

/// So many items are looked at to find out of what kind they are.
static constexpr Py_ssize_t kLookedAt = 64;

/// Whether an item is known by identity, or by what it says.
static bool isKnownItem(Recording &s, PyObject *item) {
  if (PyTuple_CheckExact(item)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(item); ++i)
      if (PyObject *part = PyTuple_GET_ITEM(item, i);
          !PyTuple_Check(part) && isKnownItem(s, part))
        return true;
    return false;
  }
  if (isValue(item))
    return PyUnicode_Check(item);
  return !s.objects.isTensor(item) && s.objects.shouldPin(item);
}

static bool holdsKnown(Recording &s, PyTypeObject *type, PyObject *container) {
  if (PyUnicode_Check(container))
    return true;
  if (PyDict_Check(container)) {
    PyObject *key, *value;
    Py_ssize_t position = 0, count = 0;
    while (count++ < kLookedAt &&
           PyDict_Next(container, &position, &key, &value))
      if ((type != &PyDictIterValue_Type && isKnownItem(s, key)) ||
          (type != &PyDictIterKey_Type && isKnownItem(s, value)))
        return true;
    return false;
  }
  if (!PyList_Check(container) && !PyTuple_Check(container))
    return true; // a module list, backwards
  Py_ssize_t count =
      std::min(PySequence_Fast_GET_SIZE(container), Py_ssize_t(kLookedAt));
  for (Py_ssize_t i = 0; i < count; ++i)
    if (isKnownItem(s, PySequence_Fast_GET_ITEM(container, i)))
      return true;
  return false;
}

/// Whether guards can tell what is in it. `known`: some of what it hands out
/// has to be known.
static bool canTakeOver(Recording &s, PyObject *iterator, bool &known) {
  if (Py_IS_TYPE(iterator, &PyRangeIter_Type))
    return true;
  PyjitIteratorParts parts;
  if (!pyjitIteratorParts(iterator, &parts))
    return false;
  for (Py_ssize_t i = 0; i < parts.numInner; ++i)
    if (Py_REFCNT(parts.inner[i]) != 1 ||
        !canTakeOver(s, parts.inner[i], known))
      return false;
  PyObject *container = parts.container;
  if (!container)
    return true;
  bool builtin = PyList_Check(container) || PyTuple_Check(container) ||
                 PyDict_Check(container) || PyUnicode_CheckExact(container);
  if (!builtin && !s.objects.shouldPin(container))
    return false;
  known |= holdsKnown(s, Py_TYPE(iterator), container);
  return true;
}

bool pyjit::capture::handsOutKnown(Recording &s, PyObject *iterator) {
  bool known = false;
  return !Py_IS_TYPE(iterator, &PyRangeIter_Type) &&
         canTakeOver(s, iterator, known) && known;
}

namespace {

/// The reads of one iterator.
class Reader {
public:
  Reader(Recording &recording, PyObject *iterator, PyjitGetOp get)
      : s(recording), iterator(iterator) {
    PyTypeObject *type = Py_TYPE(iterator);
    get.exactType =
        some(s.objects.pin(reinterpret_cast<PyObject *>(type))->index);
    get.resultType = s.objects.irType(iterator);
    value = s.add(get);
    s.objects.meet(iterator, value);
    node = s.objects.allocated(iterator);
    node->external = node->typeRead = node->ofArgument = true;
    node->value = value;
  }

  void read() {
    // Another holder would see the specialization leave its iterator as it was.
    s.add(PyjitGetOp{.holder = value,
                     .selector = PyjitSelectorField,
                     .key = s.writer.string("alone"),
                     .equals = s.writer.boolean(true),
                     .resultType = s.writer.object("bool")});
    if (Py_IS_TYPE(iterator, &PyRangeIter_Type))
      readRange();
    else
      readParts();
    node->external = false; // it is the call's from now on
    node->value = -1;
  }

private:
  void field(const char *name, PyObject *held) {
    PyObject *key = PyUnicode_InternFromString(name);
    s.objects.keep(key);
    s.objects.keep(held);
    s.reads.read(node, Select::Field, key, held);
    Py_DECREF(key);
  }

  void number(const char *name, Py_ssize_t held) {
    PyObject *object = PyLong_FromSsize_t(held);
    field(name, object);
    Py_DECREF(object);
  }

  void readRange() {
    long next, step, left;
    pyjitRangeParts(iterator, &next, &step, &left);
    number("next", next);
    number("step", step);
    number("left", left);
  }

  void readParts() {
    PyjitIteratorParts parts;
    pyjitIteratorParts(iterator, &parts);
    number("position", parts.position);
    if (parts.container) {
      field("container", parts.container);
      readItems(parts.container, parts.position);
      return;
    }
    number("count", parts.numInner);
    number("strict", parts.strict);
    for (Py_ssize_t i = 0; i < parts.numInner && !s.ended(); ++i)
      Reader(s, parts.inner[i],
             PyjitGetOp{.holder = value,
                        .selector = PyjitSelectorField,
                        .key = s.writer.string("inner" + std::to_string(i))})
          .read();
  }

  /// As where an iterator is made (Containers::iterate), but for what it has
  /// handed out.
  void readItems(PyObject *container, Py_ssize_t position) {
    if (isValue(container))
      return;
    if (PyDict_Check(container))
      return s.containers.readAll(container);
    if (PyList_Check(container) || PyTuple_Check(container)) {
      bool forwards = Py_IS_TYPE(iterator, &PyListIter_Type) ||
                      Py_IS_TYPE(iterator, &PyTupleIter_Type);
      PyObject *bound = PyLong_FromSsize_t(position + !forwards);
      s.containers.readSlice(container, forwards ? bound : Py_None,
                             forwards ? Py_None : bound);
      Py_DECREF(bound);
      return;
    }
    s.attributes.special(container, "__len__");
    s.attributes.special(container, "__getitem__");
  }

  Recording &s;
  PyObject *iterator;
  PyjitValue value;
  Node *node;
};

} // namespace

void pyjit::capture::takeOver(Recording &s, PyObject *iterator,
                              Py_ssize_t index, PyObject *name) {
  std::string label = name ? utf8(name) : "";
  Reader(s, iterator,
         PyjitGetOp{.holder = s.objects.external,
                    .selector = PyjitSelectorArg,
                    .key = s.writer.integer(index),
                    .label = view(label)})
      .read();
}

PyObject *pyjit::capture::iteratorPosition(PyObject *iterator) {
  const char *type = Py_TYPE(iterator)->tp_name;
  long next, step, left;
  if (pyjitRangeParts(iterator, &next, &step, &left))
    return Py_BuildValue("(sll)", type, next, left);
  PyjitIteratorParts parts;
  if (!pyjitIteratorParts(iterator, &parts))
    Py_RETURN_NONE;
  if (parts.container) {
    PyObject *container = parts.container;
    Py_ssize_t length = PyDict_Check(container) ? PyDict_GET_SIZE(container)
                        : PyUnicode_Check(container)
                            ? PyUnicode_GET_LENGTH(container)
                        : PyList_Check(container) || PyTuple_Check(container)
                            ? PySequence_Fast_GET_SIZE(container)
                            : parts.position; // backwards
    return Py_BuildValue("(snn)", type, parts.position, length);
  }
  PyObject *inner = PyTuple_New(parts.numInner);
  for (Py_ssize_t i = 0; inner && i < parts.numInner; ++i) {
    PyObject *position = iteratorPosition(parts.inner[i]);
    if (!position) {
      Py_DECREF(inner);
      return nullptr;
    }
    PyTuple_SET_ITEM(inner, i, position);
  }
  return inner ? Py_BuildValue("(snN)", type, parts.position, inner) : nullptr;
}
