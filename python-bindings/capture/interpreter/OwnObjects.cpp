//===- OwnObjects.cpp - What a function finds of the call's own -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "interpreter/OwnObjects.h"

#include "Recording.h"

#include <unordered_set>
#include <utility>

using namespace pyjit::capture;

/// Those of a real program are a few; a walk that comes to more has lost its
/// way.
static constexpr size_t kMostObjects = 4096;

static int addPart(PyObject *part, void *parts) {
  static_cast<std::vector<PyObject *> *>(parts)->push_back(part);
  return 0;
}

/// What it refers to, borrowed. A function's globals are not the call's own.
static std::vector<PyObject *> partsOf(PyObject *object) {
  std::vector<PyObject *> parts;
  auto add = [&](PyObject *part) {
    if (part)
      parts.push_back(part);
  };
  if (PyFunction_Check(object)) {
    auto *f = reinterpret_cast<PyFunctionObject *>(object);
    for (PyObject *part : {f->func_closure, f->func_defaults,
                           f->func_kwdefaults, f->func_dict, f->func_code})
      add(part);
    return parts;
  }
  // Behind this, attributes are in the dict, whoever asks for it.
  add(pyjitInstanceDict(object));
  if (traverseproc traverse = Py_TYPE(object)->tp_traverse;
      traverse && PyObject_IS_GC(object))
    traverse(object, addPart, &parts);
  return parts;
}

/// The native type that a class of Python's is made on, or the type itself.
static PyTypeObject *nativeBase(PyTypeObject *type) {
  // What `class` makes is told by its destructor.
  static const destructor ofPython = [] {
    PyObject *type = PyObject_CallFunction(
        reinterpret_cast<PyObject *>(&PyType_Type), "s(){}", "Probe");
    return reinterpret_cast<PyTypeObject *>(type)->tp_dealloc;
  }();
  while (type->tp_base && type->tp_dealloc == ofPython)
    type = type->tp_base;
  return type;
}

/// Whether all of its state are references, and its type is none that others
/// change through it.
static bool showsItsState(PyObject *object) {
  PyTypeObject *type = nativeBase(Py_TYPE(object));
  for (PyTypeObject *plain :
       {&PyBaseObject_Type, &PyTuple_Type, &PyList_Type, &PyDict_Type,
        &PySet_Type, &PyFrozenSet_Type, &PyCell_Type, &PyMethod_Type,
        &PyFunction_Type, &PyCFunction_Type, &PyODict_Type, &PySlice_Type,
        &PyProperty_Type, &PyStaticMethod_Type, &PyClassMethod_Type})
    if (type == plain)
      return true;
  const std::string name = type->tp_name;
  return PyExceptionClass_Check(type) || isView(object) ||
         name == "functools.partial" || name == "collections.deque" ||
         name == "collections.defaultdict" || name == "types.SimpleNamespace";
}

class OwnObjects::Walk {
public:
  Walk(Recording &recording, OwnObjects &found) : s(recording), found(found) {}

  void meet(PyObject *object) {
    if (!object || isFixed(object) || !seen.insert(object).second)
      return;
    Node *node = s.objects.find(object);
    if (!node && PyType_Check(object))
      return;
    if (node ? node->external || node->ofCode : !isLikelyOwn(object))
      return;
    work.push_back(object);
  }
  /// From before the call: what the call has set there may be its own.
  void meetWritten(PyObject *object) {
    if (isFixed(object) || !seen.insert(object).second)
      return;
    for (PyObject *part : partsOf(object))
      meet(part);
  }
  bool run() {
    while (!work.empty()) {
      PyObject *object = work.back();
      work.pop_back();
      if (!showsItsState(object) || found.objects.size() == kMostObjects)
        return false;
      Object taken{Py_NewRef(object), partsOf(object)};
      for (PyObject *part : taken.parts) {
        Py_INCREF(part);
        meet(part);
      }
      found.objects.push_back(std::move(taken));
    }
    return true;
  }

private:
  /// Nothing of the call's own is behind it: a tensor's memory and attributes
  /// are watched elsewhere, and modules are not written in a recording.
  static bool isFixed(PyObject *object) {
    return isValue(object) || ObjectTable::isTensor(object) ||
           PyModule_Check(object) || PyCode_Check(object) ||
           isProcessConstant(object) || isTorchValueType(Py_TYPE(object));
  }
  /// Native code has made it as a part of something.
  static bool isLikelyOwn(PyObject *object) {
    return PyTuple_CheckExact(object) || PyDict_CheckExact(object) ||
           PyList_CheckExact(object) || PySet_Check(object) ||
           PyCell_Check(object) || PyMethod_Check(object) ||
           PyFunction_Check(object) || PyCFunction_CheckExact(object);
  }

  Recording &s;
  OwnObjects &found;
  std::unordered_set<PyObject *> seen;
  std::vector<PyObject *> work;
};

bool OwnObjects::take(Recording &s, const Call &call) {
  clear();
  Walk walk(s, *this);
  walk.meet(call.callable);
  for (PyObject *arg : call.args)
    walk.meet(arg);
  for (const Write &write : s.effects.writes)
    if (write.select == Select::Attr || write.select == Select::Slot ||
        write.select == Select::Item)
      walk.meetWritten(write.owner->object);
  for (const Node *node : s.effects.replaced)
    walk.meetWritten(node->object);
  for (PyObject *cell : s.effects.cells)
    walk.meetWritten(cell);
  return walk.run();
}

bool OwnObjects::areUnchanged() const {
  for (const Object &known : objects)
    if (partsOf(known.object) != known.parts)
      return false;
  return true;
}

OwnObjects::OwnObjects(OwnObjects &&other) noexcept
    : objects(std::exchange(other.objects, {})) {}

OwnObjects &OwnObjects::operator=(OwnObjects &&other) noexcept {
  std::swap(objects, other.objects);
  return *this;
}

void OwnObjects::clear() {
  for (const Object &known : objects) {
    for (PyObject *part : known.parts)
      Py_DECREF(part);
    Py_DECREF(known.object);
  }
  objects.clear();
}
