//===- NativesPlain.cpp - Natives whose results never change --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Made of values and shapes alone, and immutable: what they hand out follows
// from what they were made of.
//
//===----------------------------------------------------------------------===//

#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"

#include <algorithm>
#include <cstring>

using namespace pyjit::capture;

//===----------------------------------------------------------------------===//
// numpy's numbers
//===----------------------------------------------------------------------===//

/// numpy.NAME, if numpy is there; borrowed for good.
static PyObject *numpyMember(const char *name) {
  PyObject *modules = PyImport_GetModuleDict();
  PyObject *numpy = PyDict_GetItemString(modules, "numpy");
  PyObject *found = numpy ? PyObject_GetAttrString(numpy, name) : nullptr;
  PyErr_Clear();
  return found;
}

bool pyjit::capture::isNumpyNumberType(PyTypeObject *type) {
  if (std::strncmp(type->tp_name, "numpy.", 6) || isHeapType(type))
    return false;
  static PyObject *base = nullptr;
  if (!base)
    base = numpyMember("number");
  // Python's floats do not hold these.
  if (!std::strcmp(type->tp_name, "numpy.longdouble") ||
      !std::strcmp(type->tp_name, "numpy.clongdouble"))
    return false;
  return base && PyType_Check(base) &&
         PyType_IsSubtype(type, reinterpret_cast<PyTypeObject *>(base));
}

bool pyjit::capture::isNumpyNumber(PyObject *object) {
  return isNumpyNumberType(Py_TYPE(object));
}

bool pyjit::capture::isByValue(PyObject *object) {
  return isNumpyNumber(object) || PyRange_Check(object) ||
         !std::strcmp(Py_TYPE(object)->tp_name, "torch.device");
}

static bool isNumpyDispatcher(PyObject *object) {
  return !std::strcmp(Py_TYPE(object)->tp_name,
                      "numpy._ArrayFunctionDispatcher");
}

bool pyjit::capture::isNumpyFunction(PyObject *object) {
  return !std::strcmp(Py_TYPE(object)->tp_name, "numpy.ufunc") ||
         isNumpyDispatcher(object);
}

/// `np.prod(x.shape)`: one number made of a list of numbers. The Python code
/// beneath computes with arrays that nobody else sees.
static ResultKind reduceNumbers(Recording &s, const Call &c) {
  static const char *const names[] = {"prod", "sum",  "mean",   "max", "min",
                                      "amax", "amin", "median", "std", "var"};
  bool known = false;
  for (const char *name : names) {
    PyObject *function = numpyMember(name);
    known |= function == c.callable;
    Py_XDECREF(function);
  }
  PyObject *list = c.arg(0);
  if (!known || c.args.size() != 1 || c.kwnames || s.objects.isTensor(list) ||
      (!PyTuple_Check(list) && !PyList_CheckExact(list)))
    return s.calls.unknownNative(c);
  s.containers.readAll(list);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); ++i)
    if (PyObject *item = PySequence_Fast_GET_ITEM(list, i);
        !PyLong_CheckExact(item) && !PyFloat_CheckExact(item) &&
        !PyBool_Check(item))
      return s.calls.unknownNative(c);
  s.scalars.specializeDeep(list);
  return ResultKind::Constant;
}

ResultKind pyjit::capture::callNumpy(Recording &s, const Call &c) {
  if (isNumpyDispatcher(c.callable))
    return reduceNumbers(s, c);
  for (PyObject *arg : c.args) {
    bool number = PyLong_CheckExact(arg) || PyFloat_CheckExact(arg) ||
                  PyBool_Check(arg) || isNumpyNumber(arg);
    if (!number || c.kwnames)
      return s.calls.unknownNative(c);
    s.scalars.specializeDeep(arg);
  }
  return ResultKind::Fresh;
}

namespace {

//===----------------------------------------------------------------------===//
// Strings
//===----------------------------------------------------------------------===//

bool areValues(const Call &c, size_t from) {
  for (size_t i = from; i < c.args.size(); ++i)
    if (!isValue(c.args[i]))
      return false;
  return true;
}

/// A compiled pattern is known by identity and never changes.
ResultKind pattern(Recording &s, const Call &c) {
  auto known = [&](PyObject *argument) {
    // A mark of re's for "no count", which is an int of a class of its own; a
    // text of one, such as `torch.__version__`.
    bool isOfClass = PyLong_Check(argument) || PyUnicode_Check(argument);
    return isValue(argument) || (isOfClass && s.objects.pin(argument));
  };
  if (c.args.empty() || !std::all_of(c.args.begin() + 1, c.args.end(), known))
    return s.calls.unknownNative(c); // a replacement that is a function, say
  return ResultKind::FreshDeep;
}

/// So is a match.
ResultKind match(Recording &s, const Call &c) { return pattern(s, c); }

ResultKind bytes(Recording &s, const Call &c) {
  return areValues(c, 0) ? ResultKind::Fresh : s.calls.unknownNative(c);
}

ResultKind plain(Recording &s, const Call &c) { return bytes(s, c); }

//===----------------------------------------------------------------------===//
// Namespaces
//===----------------------------------------------------------------------===//

ResultKind makeNamespace(Recording &s, const Call &c) {
  return c.positional() ? s.calls.unknownNative(c) : ResultKind::Fresh;
}

/// Marks for a profiler, and switches for tensor subclasses, of which there are
/// none: nothing that a call is to do.
ResultKind nothingToDo(Recording &, const Call &) { return ResultKind::Fresh; }

void addPatterns(NativeTable &t) {
  PyObject *re = PyImport_ImportModule("re");
  for (auto [name, handler] :
       {std::pair<const char *, NativeHandler>("Pattern", pattern),
        {"Match", match}}) {
    PyObject *type = re ? PyObject_GetAttrString(re, name) : nullptr;
    static const char *methods[] = {
        "match", "search",    "fullmatch", "split",  "findall",
        "sub",   "subn",      "group",     "groups", "start",
        "end",   "groupdict", "span",      "expand", "__getitem__"};
    for (const char *method : methods)
      if (PyObject *found =
              type ? PyObject_GetAttrString(type, method) : nullptr) {
        t.add(found, handler);
        Py_DECREF(found);
      }
    PyErr_Clear();
    Py_XDECREF(type);
  }
  Py_XDECREF(re);
}

} // namespace

void pyjit::capture::addPlain(NativeTable &t) {
  addPatterns(t);
  t.add("builtins:str.maketrans", plain);
  t.addType(&PyBytes_Type, bytes);
  t.add("types:SimpleNamespace", makeNamespace);
  // pyjit.is_compiling(): true in a recording, hence in what comes of it.
  t.add("pyjit._C:is_capturing", nothingToDo);
  t.add("torch._C:DisableTorchFunctionSubclass", nothingToDo);
  t.add("torch._C:DisableTorchFunctionSubclass.__enter__", nothingToDo);
  t.add("torch._C:DisableTorchFunctionSubclass.__exit__", nothingToDo);
}

//===----------------------------------------------------------------------===//
// opt_einsum
//===----------------------------------------------------------------------===//

/// What says in which order operands are multiplied. Some draw random numbers.
static bool isStrategy(PyObject *optimize) {
  if (!PyUnicode_Check(optimize))
    return optimize == Py_None || PyBool_Check(optimize);
  std::string name = utf8(optimize);
  return name.find("random") == std::string::npos && name != "auto-hq";
}

/// `opt_einsum.contract_path`, which `torch.einsum` asks where it is installed:
/// searches in Python, over sets, that follow from the equation and the shapes.
std::optional<ResultKind> pyjit::capture::callContractionPath(Recording &s,
                                                              const Call &c) {
  PyObject *modules = PyImport_GetModuleDict();
  if (!PyDict_GetItemString(modules, "opt_einsum.contract"))
    return std::nullopt;
  static PyObject *path = findObject("opt_einsum.contract:contract_path");
  if (c.callable != path)
    return std::nullopt;
  for (size_t i = 0; i < c.args.size(); ++i) {
    bool known = i < c.positional() ? PyUnicode_Check(c.args[i]) ||
                                          s.objects.isTensor(c.args[i])
                                    : isStrategy(c.args[i]);
    if (!known)
      return std::nullopt;
  }
  for (PyObject *arg : c.args)
    if (s.objects.isTensor(arg) && s.objects.require(arg))
      s.sizes.layoutDeep(arg);
  return ResultKind::Constant;
}
