//===- CopyRegion.cpp - copy.deepcopy() -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "interpreter/CopyRegion.h"

#include "Recording.h"
#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"
#include "objects/ObjectLayout.h"

#include <algorithm>
#include <set>

using namespace pyjit::capture;

/// Each pair of objects of one type is a guard.
static constexpr size_t kMostObjects = 64;
static constexpr size_t kMostElements = 2000;

static PyObject *deepcopy() {
  static PyObject *function = findObject("copy:deepcopy");
  return function;
}

/// A function of the module's own, told by where its globals are.
static bool isOfCopy(PyObject *function) {
  return function && deepcopy() && PyFunction_Check(function) &&
         reinterpret_cast<PyFunctionObject *>(function)->func_globals ==
             reinterpret_cast<PyFunctionObject *>(deepcopy())->func_globals;
}

static PyObject *copyOfEnum() {
  static PyObject *function = findObject("enum:Enum.__deepcopy__");
  return function;
}

namespace {

/// A look ahead at what would be copied: nothing of it is recorded.
class Ahead {
public:
  bool isFollowed(PyObject *object, int depth = 0) {
    if (isAtom(object))
      return true;
    if (!seen.insert(object).second)
      return true;
    if (seen.size() > kMostObjects || depth > 20)
      return false;
    if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
      elements += PySequence_Fast_GET_SIZE(object);
      for (Py_ssize_t i = 0; isWithin() && i < PySequence_Fast_GET_SIZE(object);
           ++i)
        if (!isFollowed(PySequence_Fast_GET_ITEM(object, i), depth + 1))
          return false;
      return isWithin();
    }
    if (PyDict_CheckExact(object))
      return holdsFollowed(object, depth);
    PyObject *dict = isReduced(object) ? pyjitInstanceDict(object) : nullptr;
    return dict && holdsFollowed(dict, depth);
  }

private:
  bool isWithin() const { return size_t(elements) <= kMostElements; }

  static bool isAtom(PyObject *object) {
    if (isValue(object) || PyType_Check(object) || PyFunction_Check(object) ||
        PyCFunction_CheckExact(object) ||
        !std::strcmp(Py_TYPE(object)->tp_name, "torch.dtype"))
      return true;
    PyObject *method = lookup(object, "__deepcopy__");
    return method && method == copyOfEnum();
  }

  static PyObject *lookup(PyObject *object, const char *name) {
    return pyjitTypeLookup(Py_TYPE(object), PyUnicode_InternFromString(name));
  }

  /// An instance that is copied as its `__dict__`, by no code of its class's.
  static bool isReduced(PyObject *object) {
    if (!isPlainInstance(object) || PyDict_Check(object) ||
        PyTuple_Check(object) || PyList_Check(object) || !isHeap(object) ||
        !slotsOf(object).empty())
      return false;
    for (const char *name : {"__deepcopy__", "__setstate__", "__getnewargs__",
                             "__getnewargs_ex__"})
      if (lookup(object, name))
        return false;
    for (const char *name :
         {"__new__", "__reduce__", "__reduce_ex__", "__getstate__"})
      if (lookup(object, name) !=
          pyjitTypeLookup(&PyBaseObject_Type, PyUnicode_InternFromString(name)))
        return false;
    return true;
  }

  bool holdsFollowed(PyObject *dict, int depth) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    elements += PyDict_GET_SIZE(dict);
    while (isWithin() && PyDict_Next(dict, &position, &key, &value))
      if (!isFollowed(key, depth + 1) || !isFollowed(value, depth + 1))
        return false;
    return isWithin();
  }

  std::set<PyObject *> seen;
  Py_ssize_t elements = 0;
};

} // namespace

int CopyRegion::caller() const {
  const auto &frames = s.tracker.frames;
  for (size_t i = 1; i < frames.size(); ++i)
    if (frames[i].code && pyjitFrameFunction(frames[i].frame) == deepcopy())
      return int(i) - 1;
  return -1;
}

bool CopyRegion::follows(const Call &call) {
  if (!deepcopy() || call.callable != deepcopy())
    return false;
  if (isActive())
    return isOfCopy(pyjitFrameFunction(s.tracker.top()->frame));
  copied.clear();
  return call.args.size() == 1 && !call.kwnames &&
         Ahead().isFollowed(call.args[0]);
}

bool CopyRegion::isShown(const Call &call) const {
  int around = caller();
  if (around < 0 || isOfCopy(call.callable) || call.callable == copyOfEnum())
    return false;
  // deepcopy(x, memo, _nil)
  PyObject *memo = pyjitFrameLocals(s.tracker.frames[around + 1].frame)[1];
  return memo && std::count(call.args.begin(), call.args.end(), memo);
}

bool CopyRegion::asksFor(PyObject *object) {
  if (!isActive() || !isOfCopy(pyjitFrameFunction(s.tracker.top()->frame)))
    return false;
  if (isValue(object))
    return true; // each is its own copy
  Node *node = s.objects.require(object);
  if (!node || ObjectTable::isTensor(object))
    return false;
  if (!node->external)
    return true;
  for (Node *other : copied)
    if (other != node)
      s.operators.apart(node, other);
  if (!std::count(copied.begin(), copied.end(), node))
    copied.push_back(node);
  return true;
}
