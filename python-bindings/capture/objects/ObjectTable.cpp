//===- ObjectTable.cpp - What is known about objects ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "objects/ObjectTable.h"

#include "Recording.h"
#include "builtins/Natives.h"
#include "objects/ObjectLayout.h"
#include "objects/SetContents.h"
#include "tensors/Tensors.h"

#include <cstring>

using namespace pyjit::capture;

ObjectTable::ObjectTable(Recording &recording) : s(recording) {
  list = PyList_New(0);
  external =
      s.writer.add(PyjitExternalOp{.resultType = s.writer.object("external")});
}

ObjectTable::~ObjectTable() {
  for (auto &entry : nodes) {
    Py_XDECREF(entry.second->writtenAttrs);
    Py_XDECREF(entry.second->writtenItems);
    Py_XDECREF(entry.second->writtenSlots);
    Py_XDECREF(entry.second->addedItems);
    Py_DECREF(entry.second->object);
  }
  for (PyObject *object : kept)
    Py_DECREF(object);
  Py_XDECREF(list);
}

void ObjectTable::keep(PyObject *object) { kept.push_back(Py_NewRef(object)); }

bool ObjectTable::isTensor(PyObject *object) {
  return TensorRecorder::isTensor(object);
}

Node *ObjectTable::find(PyObject *object) {
  auto it = nodes.find(object);
  if (it == nodes.end())
    return nullptr;
  s.checkpoint.noteMet(it->second.get());
  return it->second.get();
}

bool ObjectTable::known(PyObject *object) {
  if (isValue(object) || find(object) || isProcessConstant(object))
    return true;
  return isTensor(object) && s.tensors->valueOf(object) >= 0;
}

bool ObjectTable::isExternal(PyObject *object) {
  Node *node = find(object);
  return node && node->external;
}

Node *ObjectTable::allocated(PyObject *object) {
  auto &slot = nodes[object];
  if (!slot) {
    slot = std::make_unique<Node>();
    slot->object = Py_NewRef(object);
  }
  s.checkpoint.noteMet(slot.get());
  return slot.get();
}

Node *ObjectTable::require(PyObject *object) {
  if (Node *node = find(object))
    return node;
  if (isProcessConstant(object))
    return pin(object);
  if (isTensor(object) && s.tensors->valueOf(object) >= 0)
    return allocated(object);
  std::string what = "object of unknown origin (" + typeName(object) + ")";
  if (PyFunction_Check(object))
    what = "function of unknown origin " +
           std::string(PyUnicode_AsUTF8(
               reinterpret_cast<PyFunctionObject *>(object)->func_qualname));
  s.end(ReasonKind::UnknownOrigin, what);
  return s.surveying ? allocated(object) : nullptr;
}

void ObjectTable::setResult(ResultKind resultKind, PyObject *result) {
  if (!result || isValue(result))
    return;
  switch (resultKind) {
  case ResultKind::Known:
    return;
  case ResultKind::Constant:
    s.tensors->bindConstant(result);
    if (!isTensor(result)) // numpy's number, or of values
      setResult(ResultKind::FreshDeep, result);
    return;
  case ResultKind::Fresh:
    if (!isTensor(result) && !known(result))
      allocated(result);
    return;
  case ResultKind::FreshTuples:
    if (isTensor(result))
      return;
    if (!known(result))
      allocated(result);
    if (PyTuple_CheckExact(result) || PyList_CheckExact(result))
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); ++i)
        if (PyObject *item = PySequence_Fast_GET_ITEM(result, i);
            PyTuple_CheckExact(item) && !known(item))
          setResult(resultKind, item);
    return;
  case ResultKind::FreshDeep:
    if (isTensor(result)) {
      if (s.tensors->valueOf(result) < 0)
        s.end(ReasonKind::NativeFunction,
              "a native function returned a tensor that no operator made");
      return;
    }
    if (!known(result))
      allocated(result);
    if (PyTuple_Check(result))
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i)
        setResult(resultKind, PyTuple_GET_ITEM(result, i));
    else if (PyList_Check(result))
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(result); ++i)
        setResult(resultKind, PyList_GET_ITEM(result, i));
    else if (PyDict_CheckExact(result)) {
      PyObject *key, *value;
      Py_ssize_t position = 0;
      while (PyDict_Next(result, &position, &key, &value)) {
        setResult(resultKind, key);
        setResult(resultKind, value);
      }
    }
    return;
  }
}

PyjitType ObjectTable::irType(PyObject *object) {
  if (isTensor(object))
    return s.tensors->irType(object);
  return s.writer.object(typeName(object));
}

static std::string describeObject(PyObject *o) {
  auto text = [](PyObject *s) -> std::string {
    const char *utf8 = s && PyUnicode_Check(s) ? PyUnicode_AsUTF8(s) : nullptr;
    PyErr_Clear();
    return utf8 ? utf8 : "?";
  };
  if (PyType_Check(o))
    return std::string("class ") + reinterpret_cast<PyTypeObject *>(o)->tp_name;
  if (PyFunction_Check(o))
    return text(reinterpret_cast<PyFunctionObject *>(o)->func_qualname);
  if (PyCode_Check(o))
    return text(reinterpret_cast<PyCodeObject *>(o)->co_qualname);
  if (PyModule_Check(o))
    return std::string("module ") + text(PyModule_GetNameObject(o));
  return typeName(o);
}

Node *ObjectTable::pin(PyObject *object) {
  Node *node = find(object);
  if (node && node->pinned)
    return node;
  if (node && !node->external && !node->ofCode) {
    s.end(ReasonKind::ObjectIdentity,
          "an object made by the call is needed by identity (" +
              typeName(object) + ")");
    if (!s.surveying)
      return node;
  }
  bool hadPath = node && node->external;
  int path = hadPath ? node->value : -1;
  if (!node)
    node = allocated(object);
  node->external = node->pinned = true;
  node->index = int(PyList_GET_SIZE(list));
  PyList_Append(list, object);
  if (hadPath && path >= 0) {
    node->value = -1;
    int root = ssa(node);
    s.addSame(root, path);
    node->value = path;
  }
  if (unseen.count(object))
    meet(object, ssa(node));
  return node;
}

void ObjectTable::meet(PyObject *object, int value) {
  auto found = unseen.find(object);
  if (found == unseen.end())
    return;
  s.addSame(found->second, value);
  unseen.erase(found);
}

int ObjectTable::ssa(Node *node) {
  if (node->value >= 0)
    return node->value;
  std::string hint = describeObject(node->object);
  node->value = s.add(PyjitObjectOp{.index = node->index,
                                    .hint = view(hint),
                                    .resultType = irType(node->object)});
  return node->value;
}

bool ObjectTable::shouldPin(PyObject *o) {
  PyTypeObject *type = Py_TYPE(o);
  if (type == &PyList_Type || type == &PyDict_Type || type == &PyTuple_Type ||
      type == &PySet_Type || type == &PyODict_Type || type == &PySlice_Type ||
      type == &PyMethod_Type || type == &PyCell_Type || isDefaultDict(o) ||
      !std::strcmp(type->tp_name, "functools.partial"))
    return false;
  if (type == &PyFrozenSet_Type)
    return !isReadByElements(o);
  if (pyjitIsDeque(o))
    return false;
  // Nor do these hide state: a dict, items.
  if (!std::strcmp(type->tp_name, "types.SimpleNamespace") ||
      isStructSequence(o))
    return false;
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
    return std::strcmp(type->tp_name, "torch.Size") != 0 && !isByValue(o) &&
           type != &PyContextToken_Type;
  if (PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) || PyType_Check(o))
    return true;
  // Enumeration members are compared by identity; modules rarely change.
  if (!std::strcmp(Py_TYPE(type)->tp_name, "EnumType") || isPybindEnum(type))
    return true;
  if (isModule(o))
    return true;
  // What hides state in C is known by identity only.
  PyTypeObject *base = type;
  while (base && PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE))
    base = base->tp_base;
  return !(base == &PyBaseObject_Type || base == &PyDict_Type ||
           base == &PyList_Type || base == &PyTuple_Type ||
           base == &PyODict_Type);
}

PyjitAttribute ObjectTable::constant(PyObject *o) {
  PyjitContext *context = s.writer.getContext();
  if (o == Py_None)
    return s.writer.none();
  if (o == Py_Ellipsis)
    return pyjitAttributeEllipsis(context);
  if (PyBool_Check(o))
    return s.writer.boolean(o == Py_True);
  if (PyLong_CheckExact(o)) {
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow)
      return s.writer.integer(value);
    PyObject *digits = PyObject_Str(o);
    if (!digits) { // beyond the limit of digits
      PyErr_Clear();
      s.end(ReasonKind::TooMuch, "a very large integer");
      return s.writer.integer(0);
    }
    std::string text = PyUnicode_AsUTF8(digits);
    Py_DECREF(digits);
    return pyjitAttributeBigInt(context, view(text),
                                uint32_t(_PyLong_NumBits(o) + 2));
  }
  if (PyFloat_CheckExact(o))
    return s.writer.real(PyFloat_AS_DOUBLE(o));
  if (PyComplex_CheckExact(o))
    return pyjitAttributeComplex(context, PyComplex_RealAsDouble(o),
                                 PyComplex_ImagAsDouble(o));
  if (PyUnicode_CheckExact(o))
    return s.writer.string(utf8(o));
  if (PyBytes_CheckExact(o))
    return pyjitAttributeBytes(
        context, {PyBytes_AS_STRING(o), size_t(PyBytes_GET_SIZE(o))});
  if (PyTuple_CheckExact(o)) {
    std::vector<PyjitAttribute> elements;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      elements.push_back(constant(PyTuple_GET_ITEM(o, i)));
    return s.writer.list(elements);
  }
  // A tuple finds the same entry, but is another key to whoever writes it.
  if (isTorchSize(o))
    return pyjitAttributeObject(context, addEqual(o));
  Node *node = find(o);
  if (!node && isProcessConstant(o))
    node = pin(o);
  // Equal ones are one key, whichever of them the dict holds. (Of two equal
  // ranges without elements each has its own bounds.)
  if (node && isByValue(o) && !PyRange_Check(o))
    return pyjitAttributeObject(context, addEqual(o));
  if (!node || !node->external) {
    s.end(ReasonKind::UnusualObject, "a key of type " + typeName(o));
    return s.writer.none();
  }
  return pyjitAttributeObject(context, pin(o)->index);
}

int ObjectTable::addEqual(PyObject *object) {
  PyList_Append(list, object);
  return int(PyList_GET_SIZE(list)) - 1;
}

PyjitValue ObjectTable::addConstant(PyObject *object) {
  return s.add(
      PyjitConstantOp{.value = constant(object), .resultType = irType(object)});
}

/// Argument `i`, on which the specialization does not depend.
void ObjectTable::passUnseen(size_t i, PyObject *object, PyObject *name) {
  keep(object);
  std::string label = name ? utf8(name) : "";
  PyjitValue value = s.add(PyjitGetOp{.holder = external,
                                      .selector = PyjitSelectorArg,
                                      .key = s.writer.integer(int64_t(i)),
                                      .label = view(label),
                                      .resultType = irType(object)});
  if (Node *node = find(object); node && node->external)
    return s.addSame(value, ssa(node));
  auto [first, isNew] = unseen.insert({object, value});
  if (!isNew)
    s.addSame(value, first->second);
}
