//===- Descriptors.cpp - What descriptors of a type hand out --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Recording.h"
#include "interpreter/OpcodeTable.h"
#include "objects/ObjectKinds.h"
#include "tensors/Tensors.h"

#include <opcode.h>

#include <cstring>
#include <optional>

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

using Found = Attributes::Found;

bool is(PyObject *name, const char *text) {
  return PyUnicode_CompareWithASCIIString(name, text) == 0;
}

/// Records the read of a C field.
Found readField(Recording &s, Node *node, PyObject *name, PyObject *value) {
  s.reads.read(node, Select::Field, name, value);
  return {Found::Value, value};
}

/// A member's value, held by the recording; null, without an error, if empty.
PyObject *memberValue(Recording &s, PyObject *object, PyMemberDef *member) {
  PyObject *value = PyMember_GetOne(reinterpret_cast<char *>(object), member);
  if (!value) {
    PyErr_Clear();
    return nullptr;
  }
  s.objects.keep(value);
  Py_DECREF(value);
  return value;
}

} // namespace

//===----------------------------------------------------------------------===//
// Kinds of descriptors
//===----------------------------------------------------------------------===//

/// C attributes of functions; nothing for those that need no care.
static std::optional<Found> functionAttribute(Recording &s, PyObject *object,
                                              PyObject *name) {
  Node *node = s.objects.find(object);
  auto *f = reinterpret_cast<PyFunctionObject *>(object);
  if (is(name, "__globals__") || is(name, "__builtins__")) {
    // Read-only: the function's identity fixes them.
    PyObject *value =
        is(name, "__globals__") ? f->func_globals : f->func_builtins;
    s.objects.pin(value);
    return Found{Found::Value, value};
  }
  if (!node || !node->external)
    return std::nullopt;
  if (is(name, "__code__") || is(name, "__defaults__") ||
      is(name, "__kwdefaults__")) {
    s.reads.function(node);
    PyObject *value = is(name, "__code__")       ? f->func_code
                      : is(name, "__defaults__") ? f->func_defaults
                                                 : f->func_kwdefaults;
    return Found{Found::Value, value ? value : Py_None};
  }
  if (is(name, "__name__"))
    return readField(s, node, name, f->func_name);
  if (is(name, "__qualname__"))
    return readField(s, node, name, f->func_qualname);
  if (is(name, "__type_params__")) {
    static PyObject *none = PyTuple_New(0);
    return readField(s, node, name,
                     f->func_typeparams ? f->func_typeparams : none);
  }
  if (is(name, "__annotations__")) {
    // Makes the dict, if it is not there yet, as the read itself would.
    PyObject *value = PyObject_GetAttr(object, name);
    if (!value) {
      PyErr_Clear();
      return std::nullopt;
    }
    s.objects.keep(value);
    Py_DECREF(value);
    return readField(s, node, name, value);
  }
  return std::nullopt;
}

static Found throughProperty(Recording &s, PyObject *descr, PyObject *object) {
  PyObject *getter = pyjitPropertyGetter(descr);
  if (!getter)
    return {Found::Absent, nullptr};
  if (!s.objects.find(getter))
    s.objects.pin(getter);
  if (PyFunction_Check(getter)) {
    // A getter that raises AttributeError sends the look-up on.
    s.attributes.special(object, "__getattr__");
    return {Found::Python, nullptr};
  }
  Call call;
  call.callable = getter;
  call.args.push_back(object);
  ResultKind resultKind = s.calls.call(call);
  return {resultKind == ResultKind::Known ? Found::Python : Found::Fresh,
          nullptr};
}

/// A C member, or an entry of `__slots__`.
static Found throughMember(Recording &s, PyObject *descr, PyObject *object,
                           PyObject *name) {
  Node *node = s.objects.find(object);
  if (!node || !node->external)
    return {Found::Fresh, nullptr};
  auto *member = reinterpret_cast<PyMemberDescrObject *>(descr)->d_member;
  if (isHeapType(pyjitDescrType(descr))) {
    PyObject *value = memberValue(s, object, member);
    if (!value) {
      s.reads.absent(node, Select::Slot, name);
      return {Found::Absent, nullptr};
    }
    s.reads.read(node, Select::Slot, name, value);
    return {Found::Value, value};
  }
  if (isTorchValueType(Py_TYPE(object)))
    return {Found::Fresh, nullptr};
  if (member->type == Py_T_OBJECT_EX || member->type == kOldObject) {
    PyObject *value = memberValue(s, object, member);
    if (!value) {
      s.end(ReasonKind::NativeFunction,
            "an empty C member of a " + typeName(object));
      return {Found::Absent, nullptr};
    }
    return readField(s, node, name, value);
  }
  if (!isFixedGetSet(object))
    s.end(ReasonKind::NativeFunction, "C member " +
                                          std::string(PyUnicode_AsUTF8(name)) +
                                          " of a " + typeName(object));
  return {Found::Fresh, nullptr};
}

static Found instanceDict(Recording &s, PyObject *object) {
  PyObject *dict = pyjitInstanceDict(object);
  Node *node = s.objects.find(object);
  if (PyFunction_Check(object) && !dict) {
    // Reading it makes it.
    dict = PyObject_GenericGetDict(object, nullptr);
    Py_XDECREF(dict); // the function keeps it
    PyErr_Clear();
  }
  if (PyType_Check(object)) {
    s.end(ReasonKind::PythonFeature, "the __dict__ of a class");
    return {Found::Fresh, nullptr};
  }
  if (!dict || !node || !node->external) {
    if (dict && !s.objects.find(dict)) {
      Node *dictNode = s.objects.allocated(dict);
      dictNode->dictOf = node;
    }
    return {Found::Value, dict};
  }
  s.reads.read(node, Select::Dict, nullptr, dict);
  return {Found::Value, dict};
}

/// `.grad` of a leaf.
static Found readGradient(Recording &s, PyObject *object) {
  if (!isLeaf(object)) {
    s.end(ReasonKind::Backward,
          "the gradient of a tensor that the call computes");
    return {Found::Fresh, nullptr};
  }
  // `zero_grad()` may come between its two calls.
  if (s.checkpoint.repeats())
    s.end(ReasonKind::Checkpoint,
          "a function under checkpoint asks for a gradient");
  PyObject *gradient = gradOf(s, object);
  // The gradient of a leaf that the call made is the call's own, too.
  if (Node *node = s.objects.find(object); node && node->external)
    s.reads.read(node, Select::Grad, nullptr, gradient);
  return {Found::Value, gradient};
}

/// Whether the instruction after the present one asks no more of its result
/// than whether it is None.
static bool comparesToNone(Recording &s) {
  const ShadowFrame &frame = s.tracker.frames.back();
  if (!frame.code)
    return false;
  CodeInfo &info = s.tracker.info(frame.code);
  auto behind = [&](const Instruction &in) -> const Instruction & {
    const Instruction *next = &info.at(in.next);
    while (next->op == EXTENDED_ARG)
      next = &info.at(next->next);
    return *next;
  };
  const Instruction &next = behind(info.at(frame.running));
  if (next.op == LOAD_CONST)
    return PyTuple_GET_ITEM(frame.code->co_consts, next.arg) == Py_None &&
           behind(next).op == IS_OP;
  return next.op == POP_JUMP_IF_NONE || next.op == POP_JUMP_IF_NOT_NONE ||
         isJumpIf(next.op) || asksTruth(next);
}

/// Torch's own code asks a node for no more than all of them have.
static bool isTorchCode(const ShadowFrame &frame) {
  PyObject *name =
      frame.frame
          ? PyDict_GetItemString(pyjitFrameGlobals(frame.frame), "__name__")
          : nullptr;
  return name && PyUnicode_Check(name) &&
         (utf8(name) + ".").compare(0, 6, "torch.") == 0;
}

static Found tensorAttribute(Recording &s, PyObject *descr, PyObject *object,
                             PyObject *name) {
  if (isTensorMetadata(descr)) {
    s.scalars.attribute(object, PyUnicode_AsUTF8(pyjitDescrName(descr)));
    return {Found::Fresh, nullptr};
  }
  if (isLeafQuestion(descr) && !s.tensors->requiresGrad(object))
    return {Found::Fresh, nullptr};
  if (isTensorOperatorGetSet(descr))
    return {Found::Python, nullptr};
  bool isWrapper = isTransformed(object);
  if (is(name, "grad") && !isWrapper)
    return readGradient(s, object);
  if (is(name, "data") && !isWrapper) {
    s.now.dataOf = object;
    return {Found::Fresh, nullptr};
  }
  // What computed it is one node for all that is compiled.
  bool ofCall = s.breaks.resumed || !s.objects.isExternal(object);
  if (is(name, "grad_fn") && ofCall && !isWrapper && !comparesToNone(s) &&
      !isTorchCode(s.tracker.frames.back()))
    s.breaks.asks(ReasonKind::TensorAttribute, "a node of autograd's graph");
  s.end(ReasonKind::TensorAttribute,
        "tensor attribute " + std::string(PyUnicode_AsUTF8(name)));
  return {Found::Fresh, nullptr};
}

/// C attributes of classes; nothing for those that are not modelled.
static std::optional<Found> classAttribute(Recording &s, PyObject *object,
                                           PyObject *name) {
  auto *type = reinterpret_cast<PyTypeObject *>(object);
  if (!isHeapType(type))
    return Found{Found::Fresh, nullptr};
  auto *heap = reinterpret_cast<PyHeapTypeObject *>(object);
  if (is(name, "__name__"))
    return readField(s, s.objects.find(object), name, heap->ht_name);
  if (is(name, "__qualname__"))
    return readField(s, s.objects.find(object), name, heap->ht_qualname);
  if (is(name, "__module__") || is(name, "__doc__"))
    return Found{Found::Value, s.attributes.typeLookup(type, name)};
  // Tuples that CPython replaces where the bases of a class are set.
  if (is(name, "__mro__"))
    return readField(s, s.objects.find(object), name, type->tp_mro);
  if (is(name, "__bases__"))
    return readField(s, s.objects.find(object), name, type->tp_bases);
  return std::nullopt;
}

/// An attribute that C code computes.
static Found throughGetSet(Recording &s, PyObject *descr, PyObject *object,
                           PyObject *name) {
  if (is(name, "__class__"))
    return {Found::Value, reinterpret_cast<PyObject *>(Py_TYPE(object))};
  if (is(name, "__dict__"))
    return instanceDict(s, object);
  if (s.objects.isTensor(object))
    return tensorAttribute(s, descr, object, name);
  if (PyFrame_Check(object) && is(name, "f_locals"))
    s.breaks.asksForVariables();
  // Objects made by the call have no state that is not known; what is handed
  // out is checked where it is used.
  if (isTorchValueType(Py_TYPE(object)) || !s.objects.isExternal(object) ||
      isFixedGetSet(object))
    return {Found::Fresh, nullptr};
  if (PyType_Check(object))
    if (std::optional<Found> found = classAttribute(s, object, name))
      return *found;
  s.end(ReasonKind::NativeFunction, "C attribute " +
                                        std::string(PyUnicode_AsUTF8(name)) +
                                        " of a " + typeName(object));
  return {Found::Fresh, nullptr};
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

/// What reading through the descriptor `descr` of `object`'s type gives.
Found Attributes::throughDescriptor(PyObject *descr, PyObject *object,
                                    PyObject *name) {
  PyTypeObject *kind = Py_TYPE(descr);
  if (PyFunction_Check(descr) || kind == &PyMethodDescr_Type ||
      kind == &PyWrapperDescr_Type || kind == &PyClassMethodDescr_Type)
    return {Found::Fresh, descr};
  if (kind == &PyInstanceMethod_Type) { // how pybind11 keeps its methods
    PyObject *function = PyInstanceMethod_GET_FUNCTION(descr);
    if (!s.objects.find(function))
      s.objects.pin(function);
    return {Found::Fresh, descr};
  }
  if (isProperty(descr))
    return throughProperty(s, descr, object);
  if (PyObject *inner = pyjitInnerCallable(descr)) {
    if (!s.objects.find(inner) && !isValue(inner))
      s.objects.pin(inner);
    if (PyObject_TypeCheck(descr, &PyClassMethod_Type))
      return {Found::Fresh, inner};
    return {Found::Value, inner};
  }
  if (PyFunction_Check(object))
    if (std::optional<Found> found = functionAttribute(s, object, name))
      return *found;
  if (kind == &PyMemberDescr_Type)
    return throughMember(s, descr, object, name);
  if (kind == &PyGetSetDescr_Type)
    return throughGetSet(s, descr, object, name);
  Py_ssize_t index = pyjitTupleGetterIndex(descr);
  if (index >= 0 && PyTuple_Check(object) && index < PyTuple_GET_SIZE(object)) {
    PyObject *value = PyTuple_GET_ITEM(object, index);
    if (Node *node = s.objects.find(object))
      s.reads.readIndex(node, Select::Item, index, value);
    return {Found::Value, value};
  }
  if (pyjitCache(descr) || isCompiledFunction(descr)) // bind as functions do
    return {Found::Fresh, descr};
  PyObject *get = special(descr, "__get__");
  if (!get)
    return {Found::Value, descr};
  if (PyFunction_Check(get)) {
    if (ObjectTable::isTensor(object))
      special(object, "__getattr__");
    return {Found::Python, nullptr};
  }
  s.end(ReasonKind::PythonFeature, "descriptor of type " + typeName(descr));
  return {Found::Fresh, nullptr};
}
