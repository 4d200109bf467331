//===- Attributes.cpp - Attribute look-up as CPython does it --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A look-up is a chain of reads: the type's MRO, the instance's __dict__, a
// descriptor. Each link that was asked is recorded, those that found nothing
// included; a Python function at the end of the chain is simply followed when
// its frame starts.
//
//===----------------------------------------------------------------------===//

#include "Recording.h"
#include "builtins/Natives.h"
#include "objects/Bases.h"
#include "objects/ObjectKinds.h"
#include "tensors/FrozenLeaves.h"
#include "tensors/ReplacedData.h"
#include "tensors/Tensors.h"

#include <cstring>

using namespace pyjit::capture;

namespace {

PyObject *interned(const char *text) {
  // Interned strings live as long as the process.
  PyObject *name = PyUnicode_InternFromString(text);
  return name;
}

} // namespace

/// Made by the call.
static bool isOwn(Recording &s, PyObject *object) {
  Node *node = s.objects.find(object);
  return node && !node->external;
}

/// Itself, not by a base.
static bool defines(PyTypeObject *type, PyObject *name) {
  return type->tp_dict && PyDict_Contains(type->tp_dict, name) == 1;
}

PyObject *Attributes::typeLookup(PyTypeObject *type, PyObject *name,
                                 bool hidden) {
  ReadsNumbers scope(s.now, hidden ? ReadNumbers::Unseen : s.now.numbers);
  return typeLookup(type, name);
}

PyObject *Attributes::typeLookup(PyTypeObject *type, const char *name) {
  return typeLookup(type, interned(name));
}

PyObject *Attributes::typeLookup(PyTypeObject *type, PyObject *name) {
  PyObject *found = pyjitTypeLookup(type, name);
  if (!isHeapType(type)) {
    // Static types cannot change; their members need no path.
    if (found && !s.objects.find(found) && !isValue(found))
      s.objects.pin(found);
    return found;
  }
  if (Node *own = s.objects.find(reinterpret_cast<PyObject *>(type));
      own && !own->external) {
    // A class made by the call: what it inherits was there before.
    PyObject *mro = type->tp_mro;
    bool there = defines(type, name);
    for (Py_ssize_t i = 1; mro && i < PyTuple_GET_SIZE(mro); ++i) {
      auto *base = reinterpret_cast<PyTypeObject *>(PyTuple_GET_ITEM(mro, i));
      if (!isOwn(s, reinterpret_cast<PyObject *>(base)))
        there |= typeLookup(base, name, /*hidden=*/there) != nullptr;
      else
        there |= defines(base, name);
    }
    return found;
  }
  Node *node = s.objects.pin(reinterpret_cast<PyObject *>(type));
  if (found)
    s.reads.read(node, Select::TypeAttr, name, found);
  else
    s.reads.absent(node, Select::TypeAttr, name);
  return found;
}

PyObject *Attributes::special(PyObject *object, const char *name) {
  s.reads.typeOf(object);
  return typeLookup(Py_TYPE(object), name);
}

/// What a class defines decides whether its instances are descriptors, and
/// whether they come before an instance's own entries: a class of Python's may
/// be given `__get__`, `__set__` or `__delete__` later.
void Attributes::descriptorKind(PyObject *descr) {
  if (!descr || !isHeap(descr) ||
      PyType_HasFeature(Py_TYPE(descr), Py_TPFLAGS_IMMUTABLETYPE))
    return;
  for (const char *name : {"__get__", "__set__", "__delete__"})
    special(descr, name);
}

Attributes::Found Attributes::genericAttr(PyObject *object, PyObject *name,
                                          bool skipDict) {
  PyTypeObject *type = Py_TYPE(object);
  s.reads.typeOf(object);
  PyObject *dict = skipDict ? nullptr : pyjitInstanceDict(object);
  PyObject *value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  PyObject *descr = typeLookup(type, name, /*hidden=*/value != nullptr);
  descriptorKind(descr);
  if (descr && Py_TYPE(descr)->tp_descr_get && Py_TYPE(descr)->tp_descr_set)
    return throughDescriptor(descr, object, name);
  if (dict) {
    Node *node = s.objects.find(object);
    if (!s.reads.ownsDict(node, dict))
      return {Found::Fresh, nullptr};
    if (value) {
      s.reads.read(node, Select::Attr, name, value);
      return {Found::Value, value};
    }
    s.reads.absent(node, Select::Attr, name);
  } else if (!skipDict && (type->tp_dictoffset ||
                           (type->tp_flags & Py_TPFLAGS_MANAGED_DICT))) {
    s.reads.absent(s.objects.find(object), Select::Attr, name);
  }
  if (!descr)
    return {Found::Absent, nullptr};
  if (Py_TYPE(descr)->tp_descr_get)
    return throughDescriptor(descr, object, name);
  return {Found::Value, descr};
}

/// Attributes of classes: the metaclass first, then the class's own MRO.
static Attributes::Found classAttr(Recording &s, PyObject *object,
                                   PyObject *name) {
  using Found = Attributes::Found;
  auto *type = reinterpret_cast<PyTypeObject *>(object);
  s.reads.typeOf(object);
  bool own = pyjitTypeLookup(type, name) != nullptr;
  PyObject *meta = s.attributes.typeLookup(Py_TYPE(object), name, own);
  s.attributes.descriptorKind(meta);
  if (meta && Py_TYPE(meta)->tp_descr_get && Py_TYPE(meta)->tp_descr_set)
    return s.attributes.throughDescriptor(meta, object, name);
  if (PyObject *found = s.attributes.typeLookup(type, name)) {
    s.attributes.descriptorKind(found);
    if (PyObject *inner = pyjitInnerCallable(found)) {
      if (!s.objects.find(inner) && !isValue(inner))
        s.objects.pin(inner);
      if (PyObject_TypeCheck(found, &PyClassMethod_Type))
        return {Found::Fresh, inner};
      return {Found::Value, inner};
    }
    PyTypeObject *kind = Py_TYPE(found);
    if (kind == &PyClassMethodDescr_Type)
      return {Found::Fresh, found};
    if (!kind->tp_descr_get || PyFunction_Check(found) ||
        isCompiledFunction(found) || kind == &PyMethodDescr_Type ||
        kind == &PyWrapperDescr_Type || isProperty(found) ||
        kind == &PyGetSetDescr_Type || kind == &PyMemberDescr_Type)
      return {Found::Value, found};
    PyObject *get = s.attributes.special(found, "__get__");
    if (get && PyFunction_Check(get))
      return {Found::Python, nullptr};
    s.end(ReasonKind::PythonFeature,
          "class attribute through a descriptor of type " + typeName(found));
    return {Found::Fresh, nullptr};
  }
  if (!meta)
    return {Found::Absent, nullptr};
  if (Py_TYPE(meta)->tp_descr_get)
    return s.attributes.throughDescriptor(meta, object, name);
  return {Found::Value, meta};
}

void pyjit::capture::readBases(Recording &s, PyTypeObject *type) {
  PyObject *mro = type->tp_mro;
  auto *object = reinterpret_cast<PyObject *>(type);
  if (!mro || !isHeapType(type) || isOwn(s, object))
    return;
  static PyObject *order = PyUnicode_InternFromString("__mro__");
  s.objects.pin(mro);
  s.reads.read(s.objects.pin(object), Select::Field, order, mro);
}

/// Of a module that lacks an attribute: CPython 3.13 asks its spec for a file,
/// for an error that a `__getattr__` of its class may keep from being raised.
static void readLocation(Recording &s, PyObject *module) {
  static PyObject *specName = PyUnicode_InternFromString("__spec__");
  static PyObject *location =
      findObject("_frozen_importlib:ModuleSpec.has_location");
  PyObject *spec = PyDict_GetItemWithError(pyjitModuleDict(module), specName);
  PyObject *getter =
      location ? PyObject_GetAttrString(location, "fget") : nullptr;
  PyErr_Clear();
  if (spec && getter) {
    s.reads.read(s.objects.find(module), Select::Attr, specName, spec);
    s.objects.pin(getter);
  }
  Py_XDECREF(getter);
}

Attributes::Found Attributes::superAttr(PyTypeObject *cls, PyObject *self,
                                        PyTypeObject *start, PyObject *name) {
  if (!isValue(self) && !s.objects.require(self))
    return {};
  s.reads.typeOf(self);
  PyObject *mro = start->tp_mro;
  readBases(s, start);
  bool behind = false;
  for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject *base = PyTuple_GET_ITEM(mro, i);
    if (!behind) {
      behind = base == reinterpret_cast<PyObject *>(cls);
      continue;
    }
    auto *baseType = reinterpret_cast<PyTypeObject *>(base);
    // What each class on the way answers fixes that it defines nothing itself,
    // and what the one that does defines.
    PyObject *found = typeLookup(baseType, name);
    bool own =
        !isHeapType(baseType) ? found != nullptr : defines(baseType, name);
    if (!own)
      continue;
    descriptorKind(found);
    if (!Py_TYPE(found)->tp_descr_get)
      return {Found::Value, found};
    if (start != Py_TYPE(self)) { // super() inside a classmethod or __new__
      if (PyObject *inner = pyjitInnerCallable(found)) {
        if (!s.objects.find(inner))
          s.objects.pin(inner);
        return {Found::Fresh, inner};
      }
      return {Found::Fresh, found};
    }
    return throughDescriptor(found, self, name);
  }
  // super falls back to its own attributes (`__class__`, ...).
  return {Found::Absent, nullptr};
}

/// What `int | None` and `list[int]` hold of their own; the rest they may ask
/// of a class.
static bool isAliasField(PyTypeObject *type, PyObject *name) {
  bool isUnion = !std::strcmp(type->tp_name, "types.UnionType");
  if (!isUnion && type != &Py_GenericAliasType)
    return false;
  return !PyUnicode_CompareWithASCIIString(name, "__args__") ||
         (!isUnion && !PyUnicode_CompareWithASCIIString(name, "__origin__"));
}

Attributes::Found Attributes::loadAttr(PyObject *object, PyObject *name) {
  if (!isValue(object) && !s.objects.require(object))
    return {};
  s.reads.typeOf(object);
  PyTypeObject *type = Py_TYPE(object);
  getattrofunc getter = type->tp_getattro;
  bool hasHook = false;
  if (isHeapType(type)) {
    PyObject *implementation = typeLookup(type, "__getattribute__");
    if (implementation && PyFunction_Check(implementation)) {
      typeLookup(type, "__getattr__");
      return {Found::Python, nullptr};
    }
    if (!implementation || Py_TYPE(implementation) != &PyWrapperDescr_Type) {
      s.end(ReasonKind::PythonFeature,
            "__getattribute__ of type " + typeName(implementation));
      return {};
    }
    getter = reinterpret_cast<getattrofunc>(pyjitWrappedSlot(implementation));
    hasHook = true;
  }
  Found found;
  bool isClass = PyType_Check(object) &&
                 isPybindClass(reinterpret_cast<PyTypeObject *>(object));
  if (getter == PyType_Type.tp_getattro || isClass) {
    found = classAttr(s, object, name);
  } else if (getter == PyModule_Type.tp_getattro) {
    found = genericAttr(object, name);
    if (found.kind == Found::Absent) {
      PyObject *dict = pyjitModuleDict(object);
      static PyObject *hookName = interned("__getattr__");
      PyObject *hook = PyDict_GetItemWithError(dict, hookName);
      if (hook) {
        s.reads.read(s.objects.find(object), Select::Attr, hookName, hook);
        found.kind = Found::Python;
      } else {
        s.reads.absent(s.objects.find(object), Select::Attr, hookName);
        readLocation(s, object);
      }
    }
  } else if (getter == PySuper_Type.tp_getattro) {
    PyTypeObject *cls, *objType;
    PyObject *self;
    if (!pyjitSuperParts(object, &cls, &self, &objType)) {
      s.end(ReasonKind::PythonFeature, "an unbound super object");
      return {};
    }
    found = superAttr(cls, self, objType, name);
  } else if (getter == PyMethod_Type.tp_getattro) {
    found = genericAttr(object, name, /*skipDict=*/true);
    if (found.kind == Found::Absent) {
      PyObject *function = PyMethod_GET_FUNCTION(object);
      if (!s.objects.find(function) && s.objects.isExternal(object))
        s.objects.pin(function);
      return loadAttr(function, name);
    }
  } else if (getter == PyObject_GenericGetAttr || !getter ||
             isAliasField(type, name)) {
    found = genericAttr(object, name);
  } else if (!isHeapType(type) && isTorchValueType(type)) {
    return {Found::Fresh, nullptr};
  } else {
    s.end(ReasonKind::UnusualObject, "attributes of a " + typeName(object));
    return {};
  }
  if (found.kind == Found::Absent && hasHook) {
    PyObject *hook = typeLookup(type, "__getattr__");
    if (hook && PyFunction_Check(hook))
      found.kind = Found::Python;
    else if (hook)
      found = throughItem(object, name, hook);
  }
  return found;
}

/// `dict`'s own method of this name.
static PyObject *dictMethod(const char *name) {
  return PyObject_GetAttrString(reinterpret_cast<PyObject *>(&PyDict_Type),
                                name);
}

/// `__getattr__ = dict.__getitem__` (or `dict.get`) in a class of dicts whose
/// items are read as attributes.
Attributes::Found Attributes::throughItem(PyObject *object, PyObject *name,
                                          PyObject *hook) {
  static PyObject *item = dictMethod("__getitem__"), *get = dictMethod("get");
  if (!PyDict_Check(object) || (hook != item && hook != get)) {
    s.end(ReasonKind::NativeFunction, "a native __getattr__");
    return {};
  }
  s.containers.dictItem(object, name);
  if (PyObject *value = PyDict_GetItemWithError(object, name))
    return {Found::Value, value};
  if (hook == get)
    return {Found::Value, Py_None};
  if (special(object, "__missing__"))
    s.end(ReasonKind::UnusualObject, "a missing key of a " + typeName(object));
  return {};
}

/// `__setattr__ = dict.__setitem__`, likewise, and `__delattr__`.
bool Attributes::storesItem(PyObject *object, PyObject *setter,
                            PyObject *value) {
  static PyObject *set = dictMethod("__setitem__"),
                  *remove = dictMethod("__delitem__");
  PyObject *own = value ? set : remove;
  return PyDict_Check(object) && setter == own &&
         typeLookup(Py_TYPE(object), value ? "__setitem__" : "__delitem__") ==
             own;
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

void Attributes::storeAttr(PyObject *object, PyObject *name, PyObject *value) {
  Node *node = s.objects.require(object);
  if (!node)
    return;
  s.reads.typeOf(object);
  PyTypeObject *type = Py_TYPE(object);
  if (isHeapType(type)) {
    PyObject *setter = typeLookup(type, value ? "__setattr__" : "__delattr__");
    if (setter && PyFunction_Check(setter))
      return;
    if (storesItem(object, setter, value))
      return s.containers.storeSubscript(object, name, value);
    if (!setter || Py_TYPE(setter) != &PyWrapperDescr_Type ||
        pyjitWrappedSlot(setter) !=
            reinterpret_cast<void *>(PyObject_GenericSetAttr))
      return s.end(ReasonKind::NativeFunction,
                   "a native __setattr__ of a " + typeName(object));
  } else if (type->tp_setattro != PyObject_GenericSetAttr) {
    return s.end(ReasonKind::UnusualObject,
                 "setting an attribute of a " + typeName(object));
  }
  genericStore(object, name, value);
}

/// A place that `__slots__` of a class of Python's made.
static bool isSlot(PyObject *descr, PyObject *object) {
  auto *member = reinterpret_cast<PyMemberDescrObject *>(descr);
  return Py_TYPE(descr) == &PyMemberDescr_Type &&
         isHeapType(pyjitDescrType(descr)) &&
         !PyType_HasFeature(pyjitDescrType(descr), Py_TPFLAGS_IMMUTABLETYPE) &&
         PyObject_TypeCheck(object, pyjitDescrType(descr)) &&
         member->d_member->type == Py_T_OBJECT_EX &&
         !(member->d_member->flags & Py_READONLY) &&
         !ObjectTable::isTensor(object);
}

/// Sets, or empties (`value` null), a slot of an object from before the call.
void Attributes::writeSlot(PyObject *object, PyObject *descr, PyObject *name,
                           PyObject *value) {
  Node *node = s.objects.require(object);
  if (!node || (value && !isValue(value) && !s.objects.require(value)))
    return;
  if (!value && !s.reads.written(node, Select::Slot, name))
    throughDescriptor(descr, object, name); // whether it holds something
  s.effects.noteWrite(node, Select::Slot, name, value);
}

/// Sets `.grad` of a leaf from before the call.
void Attributes::writeGradient(PyObject *object, PyObject *value) {
  if (const char *why = whyNotGradientOf(s, object, value))
    return s.end(ReasonKind::Backward,
                 "setting a gradient " + std::string(why));
  s.effects.noteGradient(s.objects.find(object));
}

void Attributes::genericStore(PyObject *object, PyObject *name,
                              PyObject *value) {
  if (!s.objects.require(object))
    return;
  PyObject *descr = typeLookup(Py_TYPE(object), name);
  descriptorKind(descr);
  if (ObjectTable::isTensor(object) && isTransformed(object))
    return s.end(ReasonKind::TensorAttribute,
                 "setting an attribute of a tensor under a transform");
  if (descr && Py_TYPE(descr)->tp_descr_set) {
    if (Py_TYPE(descr) == &PyProperty_Type) {
      PyObject *setter = pyjitPropertySetter(descr);
      if (setter && PyFunction_Check(setter)) {
        if (!s.objects.find(setter))
          s.objects.pin(setter);
        return;
      }
    } else if (Py_TYPE(descr) == &PyMemberDescr_Type ||
               Py_TYPE(descr) == &PyGetSetDescr_Type) {
      if (!s.objects.isExternal(object) && !ObjectTable::isTensor(object) &&
          !(value && s.objects.isExternal(value) &&
            !PyUnicode_CompareWithASCIIString(name, "__dict__")))
        return;
      if (isSlot(descr, object))
        return writeSlot(object, descr, name, value);
      if (ObjectTable::isTensor(object) && value &&
          !PyUnicode_CompareWithASCIIString(name, "grad"))
        return writeGradient(object, value);
      if (ObjectTable::isTensor(object) && value &&
          !PyUnicode_CompareWithASCIIString(name, "data") &&
          setData(s, object, value))
        return;
      if (value && PyBool_Check(value) &&
          !PyUnicode_CompareWithASCIIString(name, "requires_grad") &&
          setRequiresGrad(s, object, value == Py_True))
        return;
    } else {
      PyObject *set = special(descr, value ? "__set__" : "__delete__");
      if (set && PyFunction_Check(set))
        return;
    }
    return s.end(ReasonKind::EarlierObject,
                 "setting the attribute " +
                     std::string(PyUnicode_AsUTF8(name)) + " of a " +
                     typeName(object));
  }
  writeAttr(object, name, value);
}

/// A change of the instance's `__dict__`, however it comes about.
void Attributes::writeAttr(PyObject *object, PyObject *name, PyObject *value) {
  Node *node = s.objects.find(object);
  if (!node || !node->external) {
    if (ObjectTable::isTensor(object))
      s.effects.noteAttributes(object);
    return;
  }
  PyObject *dict = pyjitInstanceDict(object);
  if (dict == object)
    return s.containers.writeItem(object, name, value);
  if (!s.reads.ownsDict(node, dict))
    return;
  if (PyType_Check(object) || PyModule_Check(object))
    return s.end(ReasonKind::EarlierObject,
                 "setting the attribute " +
                     std::string(PyUnicode_AsUTF8(name)) + " of a " +
                     typeName(object) + " from before the call");
  if (value && !isValue(value) && !s.objects.require(value))
    return;
  // Setting does the same to a dict with and without the entry; deleting does
  // not.
  PyObject *old = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  if (!value && !s.reads.written(node, Select::Attr, name)) {
    if (old)
      s.reads.read(node, Select::Attr, name, old);
    else
      s.reads.absent(node, Select::Attr, name);
  }
  s.effects.noteWrite(node, Select::Attr, name, value);
}
