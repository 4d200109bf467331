//===- Attributes.cpp - Attribute look-up as CPython does it --------------===//
//
// A look-up is a chain of reads: the type's MRO, the instance's __dict__, a
// descriptor. Each link that was asked is recorded, those that found nothing
// included; a Python function at the end of the chain is simply followed when
// its frame starts.
//
//===----------------------------------------------------------------------===//

#include "Session.h"
#include "Tensors.h"

#include <cstring>

using namespace pyjit::capture;

namespace {

/// T_OBJECT of CPython's structmember.h, which the public headers lack.
constexpr int kOldObject = 6;

PyObject *interned(const char *text) {
  // Interned strings live as long as the process.
  PyObject *name = PyUnicode_InternFromString(text);
  return name;
}

bool isHeap(PyTypeObject *type) {
  return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
}

/// C attributes of external objects that cannot change: those of code, and the
/// names of builtin functions and descriptors.
bool isFixedGetSet(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  return PyCode_Check(object) || PyCFunction_Check(object) ||
         type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
         type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type ||
         type == &PyClassMethodDescr_Type;
}

/// Metadata of tensors, dtypes, devices: covered by the tensor's guard.
bool isTensorMetadata(PyObject *descr) {
  static const std::set<std::string> names = {
      "shape",         "dtype",        "device",        "layout",
      "ndim",          "is_cuda",      "is_cpu",        "is_sparse",
      "is_sparse_csr", "is_quantized", "is_meta",       "is_mkldnn",
      "is_nested",     "is_leaf",      "requires_grad", "itemsize",
      "nbytes",        "names",        "is_xpu",        "is_mps",
      "is_xla",        "is_ipu",       "is_hpu",        "is_vulkan",
      "is_maia",       "is_mtia",      "grad_fn",       "retains_grad",
      "output_nr",     "_is_view",     "is_inference"};
  const char *name = PyUnicode_AsUTF8(pyjitDescrName(descr));
  return name && names.count(name);
}

/// Getters of tensors whose effect is an operator that the dispatcher shows.
bool isTensorOperatorGetSet(PyObject *descr) {
  static const std::set<std::string> names = {"T",  "mT",   "H",
                                              "mH", "real", "imag"};
  const char *name = PyUnicode_AsUTF8(pyjitDescrName(descr));
  return name && names.count(name);
}

bool isTorchValueType(PyTypeObject *type) {
  static const std::set<std::string> names = {
      "torch.dtype",  "torch.device", "torch.finfo",        "torch.iinfo",
      "torch.layout", "torch.Size",   "torch.memory_format"};
  return names.count(type->tp_name);
}

} // namespace

PyObject *Session::typeLookup(PyTypeObject *type, const char *name) {
  return typeLookup(type, interned(name));
}

PyObject *Session::typeLookup(PyTypeObject *type, PyObject *name) {
  PyObject *found = pyjitTypeLookup(type, name);
  if (!isHeap(type)) {
    // Static types cannot change; their members need no path.
    if (found && !find(found) && !isValue(found))
      pin(found);
    return found;
  }
  Node *node = pin(reinterpret_cast<PyObject *>(type));
  if (!node->external) // a class made by the call
    return found;
  if (found)
    read(node, Select::TypeAttr, name, found);
  else
    absent(node, Select::TypeAttr, name);
  return found;
}

PyObject *Session::special(PyObject *object, const char *name) {
  typeOf(object);
  return typeLookup(Py_TYPE(object), name);
}

/// C attributes of functions; false for those that need no care.
static bool functionPart(Session &s, PyObject *object, PyObject *name,
                         Session::Found &found) {
  Node *node = s.find(object);
  if (!node || !node->external)
    return false;
  auto *f = reinterpret_cast<PyFunctionObject *>(object);
  auto is = [&](const char *text) {
    return PyUnicode_CompareWithASCIIString(name, text) == 0;
  };
  PyObject *value = nullptr;
  if (is("__code__"))
    value = f->func_code;
  else if (is("__defaults__"))
    value = f->func_defaults;
  else if (is("__kwdefaults__"))
    value = f->func_kwdefaults;
  if (value || is("__defaults__") || is("__kwdefaults__")) {
    s.function(node);
    found = {Session::Found::Value, value ? value : Py_None};
    return true;
  }
  if (is("__globals__") || is("__builtins__")) {
    // Read-only: the function's identity fixes them.
    value = is("__globals__") ? f->func_globals : f->func_builtins;
    s.pin(value);
    found = {Session::Found::Value, value};
    return true;
  }
  if (is("__name__") || is("__qualname__")) {
    value = is("__name__") ? f->func_name : f->func_qualname;
    s.read(node, Select::Field, name, value);
    found = {Session::Found::Value, value};
    return true;
  }
  if (is("__annotations__")) {
    // Makes the dict, if it is not there yet, as the read itself would.
    value = PyObject_GetAttr(object, name);
    if (!value) {
      PyErr_Clear();
      return false;
    }
    s.keep(value);
    Py_DECREF(value);
    s.read(node, Select::Field, name, value);
    found = {Session::Found::Value, value};
    return true;
  }
  return false;
}

/// What reading through the descriptor `descr` of `object`'s type gives.
static Session::Found throughDescriptor(Session &s, PyObject *descr,
                                        PyObject *object, PyObject *name) {
  using Found = Session::Found;
  PyTypeObject *kind = Py_TYPE(descr);
  if (PyFunction_Check(descr) || kind == &PyMethodDescr_Type ||
      kind == &PyWrapperDescr_Type || kind == &PyClassMethodDescr_Type)
    return {Found::Fresh, descr};
  if (kind == &PyProperty_Type) {
    PyObject *getter = pyjitPropertyGetter(descr);
    if (!getter)
      return {Found::Absent, nullptr};
    if (PyFunction_Check(getter)) {
      if (!s.find(getter))
        s.pin(getter);
      // A getter that raises AttributeError sends the look-up on.
      s.special(object, "__getattr__");
      return {Found::Python, nullptr};
    }
    Call call;
    call.callable = getter;
    call.args.push_back(object);
    if (!s.find(getter))
      s.pin(getter);
    Post post = s.call(call);
    return {post == Post::Known ? Found::Python : Found::Fresh, nullptr};
  }
  if (PyObject *inner = pyjitInnerCallable(descr)) {
    if (!s.find(inner) && !isValue(inner))
      s.pin(inner);
    if (PyObject_TypeCheck(descr, &PyClassMethod_Type))
      return {Found::Fresh, inner};
    return {Found::Value, inner};
  }
  if (PyFunction_Check(object)) {
    Session::Found found;
    if (functionPart(s, object, name, found))
      return found;
  }
  if (kind == &PyMemberDescr_Type) {
    // A C member or a __slots__ entry.
    Node *node = s.find(object);
    if (node && node->external && isHeap(pyjitDescrType(descr))) {
      PyObject *value = PyMember_GetOne(
          reinterpret_cast<char *>(object),
          reinterpret_cast<PyMemberDescrObject *>(descr)->d_member);
      if (!value) {
        PyErr_Clear();
        s.absent(node, Select::Slot, name);
        return {Found::Absent, nullptr};
      }
      s.keep(value);
      Py_DECREF(value);
      s.read(node, Select::Slot, name, value);
      return {Found::Value, value};
    }
    auto *member = reinterpret_cast<PyMemberDescrObject *>(descr)->d_member;
    if (node && node->external && !isTorchValueType(Py_TYPE(object)) &&
        (member->type == Py_T_OBJECT_EX || member->type == kOldObject)) {
      PyObject *value =
          PyMember_GetOne(reinterpret_cast<char *>(object), member);
      if (!value) {
        PyErr_Clear();
        s.end("an empty C member of a " + typeName(object));
        return {Found::Absent, nullptr};
      }
      s.keep(value);
      Py_DECREF(value);
      s.read(node, Select::Field, name, value);
      return {Found::Value, value};
    }
    if (node && node->external && !isFixedGetSet(object) &&
        !isTorchValueType(Py_TYPE(object)))
      s.end("C member " + std::string(PyUnicode_AsUTF8(name)) + " of a " +
            typeName(object));
    return {Found::Fresh, nullptr};
  }
  if (kind == &PyGetSetDescr_Type) {
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0)
      return {Found::Value, reinterpret_cast<PyObject *>(Py_TYPE(object))};
    if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0) {
      PyObject *dict = pyjitInstanceDict(object);
      Node *node = s.find(object);
      if (PyType_Check(object)) {
        s.end("the __dict__ of a class");
        return {Found::Fresh, nullptr};
      }
      if (!dict || !node || !node->external) {
        if (dict && !s.find(dict)) {
          Node *dictNode = s.born(dict);
          dictNode->dictOf = node;
        }
        return {Found::Value, dict};
      }
      s.read(node, Select::Dict, nullptr, dict);
      return {Found::Value, dict};
    }
    if (s.isTensor(object)) {
      if (isTensorMetadata(descr))
        return {Found::Fresh, nullptr};
      if (isTensorOperatorGetSet(descr))
        return {Found::Python, nullptr};
      s.end("tensor attribute " + std::string(PyUnicode_AsUTF8(name)));
      return {Found::Fresh, nullptr};
    }
    if (isTorchValueType(Py_TYPE(object)) || !s.isExternal(object) ||
        isFixedGetSet(object)) {
      // Objects made by the call have no state that is not known; what is
      // handed out is checked where it is used.
      return {Found::Fresh, nullptr};
    }
    if (PyType_Check(object)) {
      auto *type = reinterpret_cast<PyTypeObject *>(object);
      if (!isHeap(type))
        return {Found::Fresh, nullptr};
      auto is = [&](const char *text) {
        return PyUnicode_CompareWithASCIIString(name, text) == 0;
      };
      auto *heap = reinterpret_cast<PyHeapTypeObject *>(object);
      if (is("__name__") || is("__qualname__")) {
        PyObject *value = is("__name__") ? heap->ht_name : heap->ht_qualname;
        s.read(s.find(object), Select::Field, name, value);
        return {Found::Value, value};
      }
      if (is("__module__") || is("__doc__"))
        return {Found::Value, s.typeLookup(type, name)};
    }
    s.end("C attribute " + std::string(PyUnicode_AsUTF8(name)) + " of a " +
          typeName(object));
    return {Found::Fresh, nullptr};
  }
  Py_ssize_t index = pyjitTupleGetterIndex(descr);
  if (index >= 0 && PyTuple_Check(object) && index < PyTuple_GET_SIZE(object)) {
    PyObject *value = PyTuple_GET_ITEM(object, index);
    if (Node *node = s.find(object))
      s.readIndex(node, Select::Item, index, value);
    return {Found::Value, value};
  }
  PyObject *get = s.special(descr, "__get__");
  if (!get)
    return {Found::Value, descr};
  if (PyFunction_Check(get)) {
    if (s.isTensor(object))
      s.special(object, "__getattr__");
    return {Found::Python, nullptr};
  }
  s.end("descriptor of type " + typeName(descr));
  return {Found::Fresh, nullptr};
}

Session::Found Session::genericAttr(PyObject *object, PyObject *name,
                                    bool skipDict) {
  PyTypeObject *type = Py_TYPE(object);
  typeOf(object);
  PyObject *descr = typeLookup(type, name);
  if (descr && Py_TYPE(descr)->tp_descr_get && Py_TYPE(descr)->tp_descr_set)
    return throughDescriptor(*this, descr, object, name);
  if (PyObject *dict = skipDict ? nullptr : pyjitInstanceDict(object)) {
    PyObject *value = PyDict_GetItemWithError(dict, name);
    Node *node = find(object);
    if (value) {
      read(node, Select::Attr, name, value);
      return {Found::Value, value};
    }
    absent(node, Select::Attr, name);
  } else if (!skipDict && (type->tp_dictoffset ||
                           (type->tp_flags & Py_TPFLAGS_MANAGED_DICT))) {
    absent(find(object), Select::Attr, name);
  }
  if (!descr)
    return {Found::Absent, nullptr};
  if (Py_TYPE(descr)->tp_descr_get)
    return throughDescriptor(*this, descr, object, name);
  return {Found::Value, descr};
}

/// Attributes of classes: the metaclass first, then the class's own MRO.
static Session::Found classAttr(Session &s, PyObject *object, PyObject *name) {
  using Found = Session::Found;
  auto *type = reinterpret_cast<PyTypeObject *>(object);
  s.typeOf(object);
  PyObject *meta = s.typeLookup(Py_TYPE(object), name);
  if (meta && Py_TYPE(meta)->tp_descr_get && Py_TYPE(meta)->tp_descr_set)
    return throughDescriptor(s, meta, object, name);
  if (PyObject *found = s.typeLookup(type, name)) {
    if (PyObject *inner = pyjitInnerCallable(found)) {
      if (!s.find(inner) && !isValue(inner))
        s.pin(inner);
      if (PyObject_TypeCheck(found, &PyClassMethod_Type))
        return {Found::Fresh, inner};
      return {Found::Value, inner};
    }
    PyTypeObject *kind = Py_TYPE(found);
    if (kind == &PyClassMethodDescr_Type)
      return {Found::Fresh, found};
    if (!kind->tp_descr_get || PyFunction_Check(found) ||
        kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type ||
        kind == &PyProperty_Type || kind == &PyGetSetDescr_Type ||
        kind == &PyMemberDescr_Type)
      return {Found::Value, found};
    PyObject *get = s.special(found, "__get__");
    if (get && PyFunction_Check(get))
      return {Found::Python, nullptr};
    s.end("class attribute through a descriptor of type " + typeName(found));
    return {Found::Fresh, nullptr};
  }
  if (!meta)
    return {Found::Absent, nullptr};
  if (Py_TYPE(meta)->tp_descr_get)
    return throughDescriptor(s, meta, object, name);
  return {Found::Value, meta};
}

Session::Found Session::superAttr(PyTypeObject *cls, PyObject *self,
                                  PyTypeObject *start, PyObject *name) {
  if (!isValue(self) && !require(self))
    return {};
  typeOf(self);
  PyObject *mro = start->tp_mro;
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
    PyObject *dict = baseType->tp_dict;
    bool own = !isHeap(baseType) ? found != nullptr
                                 : dict && PyDict_Contains(dict, name) == 1;
    if (!own)
      continue;
    if (!Py_TYPE(found)->tp_descr_get)
      return {Found::Value, found};
    if (start != Py_TYPE(self)) { // super() inside a classmethod or __new__
      if (PyObject *inner = pyjitInnerCallable(found)) {
        if (!find(inner))
          pin(inner);
        return {Found::Fresh, inner};
      }
      return {Found::Fresh, found};
    }
    return throughDescriptor(*this, found, self, name);
  }
  // super falls back to its own attributes (`__class__`, ...).
  return {Found::Absent, nullptr};
}

Session::Found Session::loadAttr(PyObject *object, PyObject *name) {
  if (!isValue(object) && !require(object))
    return {};
  typeOf(object);
  PyTypeObject *type = Py_TYPE(object);
  getattrofunc getter = type->tp_getattro;
  bool hasHook = false;
  if (isHeap(type)) {
    PyObject *implementation = typeLookup(type, "__getattribute__");
    if (implementation && PyFunction_Check(implementation)) {
      typeLookup(type, "__getattr__");
      return {Found::Python, nullptr};
    }
    if (!implementation || Py_TYPE(implementation) != &PyWrapperDescr_Type) {
      end("__getattribute__ of type " + typeName(implementation));
      return {};
    }
    getter = reinterpret_cast<getattrofunc>(pyjitWrappedSlot(implementation));
    hasHook = true;
  }
  Found found;
  if (getter == PyType_Type.tp_getattro) {
    found = classAttr(*this, object, name);
  } else if (getter == PyModule_Type.tp_getattro) {
    found = genericAttr(object, name);
    if (found.kind == Found::Absent) {
      PyObject *dict = pyjitModuleDict(object);
      static PyObject *hookName = interned("__getattr__");
      PyObject *hook = PyDict_GetItemWithError(dict, hookName);
      if (hook) {
        read(find(object), Select::Attr, hookName, hook);
        found.kind = Found::Python;
      } else {
        absent(find(object), Select::Attr, hookName);
      }
    }
  } else if (getter == PySuper_Type.tp_getattro) {
    PyTypeObject *cls, *objType;
    PyObject *self;
    if (!pyjitSuperParts(object, &cls, &self, &objType)) {
      end("an unbound super object");
      return {};
    }
    found = superAttr(cls, self, objType, name);
  } else if (getter == PyMethod_Type.tp_getattro) {
    found = genericAttr(object, name, /*skipDict=*/true);
    if (found.kind == Found::Absent) {
      PyObject *function = PyMethod_GET_FUNCTION(object);
      if (!find(function) && isExternal(object))
        pin(function);
      return loadAttr(function, name);
    }
  } else if (getter == PyObject_GenericGetAttr || !getter) {
    found = genericAttr(object, name);
  } else if (!isHeap(type) && isTorchValueType(type)) {
    return {Found::Fresh, nullptr};
  } else {
    end("attributes of a " + typeName(object));
    return {};
  }
  if (found.kind == Found::Absent && hasHook) {
    PyObject *hook = typeLookup(type, "__getattr__");
    if (hook && PyFunction_Check(hook))
      found.kind = Found::Python;
    else if (hook)
      end("a native __getattr__");
  }
  return found;
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

void Session::storeAttr(PyObject *object, PyObject *name, PyObject *value) {
  Node *node = require(object);
  if (!node)
    return;
  typeOf(object);
  PyTypeObject *type = Py_TYPE(object);
  if (isHeap(type)) {
    PyObject *setter = typeLookup(type, value ? "__setattr__" : "__delattr__");
    if (setter && PyFunction_Check(setter))
      return;
    if (!setter || Py_TYPE(setter) != &PyWrapperDescr_Type ||
        pyjitWrappedSlot(setter) !=
            reinterpret_cast<void *>(PyObject_GenericSetAttr))
      return end("a native __setattr__ of a " + typeName(object));
  } else if (type->tp_setattro != PyObject_GenericSetAttr) {
    return end("setting an attribute of a " + typeName(object));
  }
  genericStore(object, name, value);
}

void Session::genericStore(PyObject *object, PyObject *name, PyObject *value) {
  if (!require(object))
    return;
  PyObject *descr = typeLookup(Py_TYPE(object), name);
  if (descr && Py_TYPE(descr)->tp_descr_set) {
    if (Py_TYPE(descr) == &PyProperty_Type) {
      PyObject *setter = pyjitPropertySetter(descr);
      if (setter && PyFunction_Check(setter)) {
        if (!find(setter))
          pin(setter);
        return;
      }
    } else if (Py_TYPE(descr) == &PyMemberDescr_Type ||
               Py_TYPE(descr) == &PyGetSetDescr_Type) {
      if (!isExternal(object) && !isTensor(object))
        return;
    } else {
      PyObject *set = special(descr, value ? "__set__" : "__delete__");
      if (set && PyFunction_Check(set))
        return;
    }
    return end("setting the attribute " + std::string(PyUnicode_AsUTF8(name)) +
               " of a " + typeName(object));
  }
  Node *node = find(object);
  if (!node || !node->external) {
    if (isTensor(object))
      end("a Python attribute set on a tensor");
    return;
  }
  PyObject *dict = pyjitInstanceDict(object);
  if (isTensor(object) || PyType_Check(object) || PyModule_Check(object))
    return end("setting the attribute " + std::string(PyUnicode_AsUTF8(name)) +
               " of a " + typeName(object) + " from before the call");
  if (value && !isValue(value) && !require(value))
    return;
  // Whether the entry was there decides where it ends up in the dict.
  PyObject *old = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  if (!written(node, Select::Attr, name)) {
    if (old)
      read(node, Select::Attr, name, old);
    else
      absent(node, Select::Attr, name);
  }
  if (!node->writtenAttrs)
    node->writtenAttrs = PyDict_New();
  if (PyDict_Contains(node->writtenAttrs, name) != 1)
    writes.push_back({node, Select::Attr, name});
  PyDict_SetItem(node->writtenAttrs, name, Py_True);
  keep(name);
}
