//===- Session.cpp - What is known about objects ------------------------===//

#include "breaks/Continuation.h"
#include "builtins/Natives.h"
#include "tensors/Tensors.h"

#include <cstring>

using namespace pyjit::capture;

Session *Session::current = nullptr;

bool pyjit::capture::isValue(PyObject *o) {
  return o == Py_None || o == Py_Ellipsis || PyBool_Check(o) ||
         PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
         PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) ||
         PyComplex_CheckExact(o) ||
         (PyTuple_CheckExact(o) && PyTuple_GET_SIZE(o) == 0);
}

static bool isStaticType(PyTypeObject *type) {
  return !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
}

bool pyjit::capture::isProcessConstant(PyObject *o) {
  if (PyType_Check(o))
    return isStaticType(reinterpret_cast<PyTypeObject *>(o));
  if (o == Py_NotImplemented)
    return true;
  PyTypeObject *type = Py_TYPE(o);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
      type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type ||
      type == &PyClassMethodDescr_Type)
    return isStaticType(pyjitDescrType(o));
  const char *n = type->tp_name;
  return !std::strcmp(n, "torch.dtype") || !std::strcmp(n, "torch.layout") ||
         !std::strcmp(n, "torch.memory_format");
}

std::string pyjit::capture::typeName(PyObject *o) {
  PyTypeObject *type = Py_TYPE(o);
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
    return type->tp_name;
  PyObject *dict = type->tp_dict;
  PyObject *module = dict ? PyDict_GetItemString(dict, "__module__") : nullptr;
  std::string name = type->tp_name;
  if (module && PyUnicode_Check(module)) {
    const char *text = PyUnicode_AsUTF8(module);
    static const std::set<std::string> reserved = {
        "dict", "list",  "tuple", "type", "function",  "code",   "cell",  "int",
        "str",  "float", "bool",  "set",  "frozenset", "module", "object"};
    if (text && reserved.count(name))
      return std::string(text) + "." + name;
    PyErr_Clear();
  }
  return name;
}

Session::Session(PyjitContext *context, const std::string &name, bool surveying,
                 AccessPaths lifted)
    : name(name), surveying(surveying), writer(context, name),
      tensors(std::make_unique<TensorRecorder>(*this)),
      scalars(*this, std::move(lifted)) {
  objects = PyList_New(0);
  external =
      writer.add(PyjitExternalOp{.resultType = writer.object("external")});
}

Session::~Session() {
  tensors.reset();
  for (auto &entry : nodes) {
    Py_XDECREF(entry.second->writtenAttrs);
    Py_XDECREF(entry.second->writtenItems);
    Py_XDECREF(entry.second->writtenSlots);
    Py_DECREF(entry.second->object);
  }
  for (PyObject *object : kept)
    Py_DECREF(object);
  Py_XDECREF(objects);
}

void Session::keep(PyObject *object) { kept.push_back(Py_NewRef(object)); }

bool Session::isTensor(PyObject *object) {
  return TensorRecorder::isTensor(object);
}

//===----------------------------------------------------------------------===//
// Known objects
//===----------------------------------------------------------------------===//

Node *Session::find(PyObject *object) {
  auto it = nodes.find(object);
  return it == nodes.end() ? nullptr : it->second.get();
}

bool Session::known(PyObject *object) {
  if (isValue(object) || find(object) || isProcessConstant(object))
    return true;
  return isTensor(object) && tensors->valueOf(object) >= 0;
}

bool Session::isExternal(PyObject *object) {
  Node *node = find(object);
  return node && node->external;
}

Node *Session::born(PyObject *object) {
  auto &slot = nodes[object];
  if (!slot) {
    slot = std::make_unique<Node>();
    slot->object = Py_NewRef(object);
  }
  return slot.get();
}

Node *Session::require(PyObject *object) {
  if (Node *node = find(object))
    return node;
  if (isProcessConstant(object))
    return pin(object);
  if (isTensor(object) && tensors->valueOf(object) >= 0)
    return born(object);
  std::string what = "object of unknown origin (" + typeName(object) + ")";
  if (PyFunction_Check(object))
    what = "function of unknown origin " +
           std::string(PyUnicode_AsUTF8(
               reinterpret_cast<PyFunctionObject *>(object)->func_qualname));
  end(what);
  return surveying ? born(object) : nullptr;
}

void Session::settle(Post post, PyObject *result) {
  if (!result || isValue(result))
    return;
  switch (post) {
  case Post::Known:
    return;
  case Post::Constant:
    tensors->bindConstant(result);
    if (!isTensor(result) && !known(result)) // numpy's number
      born(result);
    return;
  case Post::Fresh:
    if (!isTensor(result) && !known(result))
      born(result);
    return;
  case Post::FreshTuples:
    if (isTensor(result))
      return;
    if (!known(result))
      born(result);
    if (PyTuple_CheckExact(result) || PyList_CheckExact(result))
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); ++i)
        if (PyObject *item = PySequence_Fast_GET_ITEM(result, i);
            PyTuple_CheckExact(item) && !known(item))
          settle(post, item);
    return;
  case Post::FreshDeep:
    if (isTensor(result)) {
      if (tensors->valueOf(result) < 0)
        end("a native function returned a tensor that no operator made");
      return;
    }
    if (!known(result))
      born(result);
    if (PyTuple_Check(result))
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i)
        settle(post, PyTuple_GET_ITEM(result, i));
    else if (PyList_Check(result))
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(result); ++i)
        settle(post, PyList_GET_ITEM(result, i));
    return;
  }
}

PyjitType Session::irType(PyObject *object) {
  if (isTensor(object))
    return tensors->irType(object);
  return writer.object(typeName(object));
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

Node *Session::pin(PyObject *object) {
  Node *node = find(object);
  if (node && node->pinned)
    return node;
  if (node && !node->external) {
    end("an object made by the call is needed by identity (" +
        typeName(object) + ")");
    if (!surveying)
      return node;
  }
  bool hadPath = node && node->external;
  int path = hadPath ? node->value : -1;
  if (!node)
    node = born(object);
  node->external = node->pinned = true;
  node->index = int(PyList_GET_SIZE(objects));
  PyList_Append(objects, object);
  if (hadPath && path >= 0) {
    node->value = -1;
    int root = ssa(node);
    addSame(root, path);
    node->value = path;
  }
  if (unseen.count(object))
    meet(object, ssa(node));
  return node;
}

void Session::meet(PyObject *object, int value) {
  auto found = unseen.find(object);
  if (found == unseen.end())
    return;
  addSame(found->second, value);
  unseen.erase(found);
}

int Session::ssa(Node *node) {
  if (node->value >= 0)
    return node->value;
  std::string hint = describeObject(node->object);
  node->value = add(PyjitObjectOp{.index = node->index,
                                  .hint = view(hint),
                                  .resultType = irType(node->object)});
  return node->value;
}

int Session::noteSite() {
  const ShadowFrame &frame = frames.back();
  Origin origin = originOf(frame.code, nullptr);
  keep(reinterpret_cast<PyObject *>(origin.code));
  sites.push_back({origin.code, frame.offset - origin.shift});
  return int(sites.size()) - 1;
}

bool Session::shouldPin(PyObject *o) {
  PyTypeObject *type = Py_TYPE(o);
  if (type == &PyList_Type || type == &PyDict_Type || type == &PyTuple_Type ||
      type == &PySet_Type || type == &PyODict_Type || type == &PySlice_Type ||
      type == &PyMethod_Type || type == &PyCell_Type ||
      !std::strcmp(type->tp_name, "functools.partial"))
    return false;
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
    return std::strcmp(type->tp_name, "torch.Size") != 0 && !isByValue(o) &&
           type != &PyContextToken_Type;
  if (PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) || PyType_Check(o))
    return true;
  // Enumeration members are compared by identity; modules rarely change.
  if (!std::strcmp(Py_TYPE(type)->tp_name, "EnumType"))
    return true;
  static PyObject *moduleClass = findObject("torch.nn:Module");
  if (moduleClass &&
      PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject *>(moduleClass)))
    return true;
  // What hides state in C is known by identity only.
  PyTypeObject *base = type;
  while (base && PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE))
    base = base->tp_base;
  return !(base == &PyBaseObject_Type || base == &PyDict_Type ||
           base == &PyList_Type || base == &PyTuple_Type ||
           base == &PyODict_Type);
}
