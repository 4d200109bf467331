//===- Descriptors.cpp - What descriptors of a type hand out ------------===//

#include "ObjectKinds.h"
#include "Session.h"
#include "Tensors.h"

#include <cstring>

using namespace pyjit::capture;

namespace {

/// T_OBJECT of CPython's structmember.h, which the public headers lack.
constexpr int kOldObject = 6;

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
      "shape",       "dtype",     "device",    "layout",        "ndim",
      "is_cuda",     "is_cpu",    "is_sparse", "is_sparse_csr", "is_quantized",
      "is_meta",     "is_mkldnn", "is_nested", "requires_grad", "itemsize",
      "nbytes",      "names",     "is_xpu",    "is_mps",        "is_xla",
      "is_ipu",      "is_hpu",    "is_vulkan", "is_maia",       "is_mtia",
      "is_inference"};
  const char *name = PyUnicode_AsUTF8(pyjitDescrName(descr));
  return name && names.count(name);
}

/// Answered by `requires_grad` alone for tensors that do not require grad.
bool isLeafQuestion(PyObject *descr) {
  const char *name = PyUnicode_AsUTF8(pyjitDescrName(descr));
  return name &&
         (!std::strcmp(name, "is_leaf") || !std::strcmp(name, "grad_fn") ||
          !std::strcmp(name, "retains_grad"));
}

/// Getters of tensors whose effect is an operator that the dispatcher shows.
bool isTensorOperatorGetSet(PyObject *descr) {
  static const std::set<std::string> names = {"T",  "mT",   "H",
                                              "mH", "real", "imag"};
  const char *name = PyUnicode_AsUTF8(pyjitDescrName(descr));
  return name && names.count(name);
}

} // namespace

/// C attributes of functions; false for those that need no care.
static bool functionPart(Session &s, PyObject *object, PyObject *name,
                         Session::Found &found) {
  Node *node = s.find(object);
  auto *f = reinterpret_cast<PyFunctionObject *>(object);
  auto is = [&](const char *text) {
    return PyUnicode_CompareWithASCIIString(name, text) == 0;
  };
  PyObject *value = nullptr;
  if (is("__globals__") || is("__builtins__")) {
    // Read-only: the function's identity fixes them.
    value = is("__globals__") ? f->func_globals : f->func_builtins;
    s.pin(value);
    found = {Session::Found::Value, value};
    return true;
  }
  if (!node || !node->external)
    return false;
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
  if (is("__name__") || is("__qualname__")) {
    value = is("__name__") ? f->func_name : f->func_qualname;
    s.read(node, Select::Field, name, value);
    found = {Session::Found::Value, value};
    return true;
  }
  if (is("__type_params__")) {
    static PyObject *none = PyTuple_New(0);
    value = f->func_typeparams ? f->func_typeparams : none;
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
Session::Found Session::throughDescriptor(PyObject *descr, PyObject *object,
                                          PyObject *name) {
  Session &s = *this;
  using Found = Session::Found;
  PyTypeObject *kind = Py_TYPE(descr);
  if (PyFunction_Check(descr) || kind == &PyMethodDescr_Type ||
      kind == &PyWrapperDescr_Type || kind == &PyClassMethodDescr_Type)
    return {Found::Fresh, descr};
  if (kind == &PyInstanceMethod_Type) { // how pybind11 keeps its methods
    PyObject *function = PyInstanceMethod_GET_FUNCTION(descr);
    if (!s.find(function))
      s.pin(function);
    return {Found::Fresh, descr};
  }
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
    if (node && node->external && isHeapType(pyjitDescrType(descr))) {
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
      if (PyFunction_Check(object) && !dict) {
        // Reading it makes it.
        dict = PyObject_GenericGetDict(object, nullptr);
        Py_XDECREF(dict); // the function keeps it
        PyErr_Clear();
      }
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
      if (isTensorMetadata(descr)) {
        s.scalars.attribute(object, PyUnicode_AsUTF8(pyjitDescrName(descr)));
        return {Found::Fresh, nullptr};
      }
      if (isLeafQuestion(descr) && !s.tensors->requiresGrad(object))
        return {Found::Fresh, nullptr};
      if (isTensorOperatorGetSet(descr))
        return {Found::Python, nullptr};
      if (PyUnicode_CompareWithASCIIString(name, "data") == 0) {
        s.dataOf = object;
        return {Found::Fresh, nullptr};
      }
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
      if (!isHeapType(type))
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
  if (pyjitCache(descr)) // binds as a function does
    return {Found::Fresh, descr};
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
