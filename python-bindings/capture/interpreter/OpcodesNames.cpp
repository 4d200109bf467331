//===- OpcodesNames.cpp - Globals, imports, class bodies, closures --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "builtins/Natives.h"
#include "interpreter/Opcodes.h"

using namespace pyjit::capture;

static ResultKind loadNamed(const Op &o, PyObject *name) {
  PyObject *globals = pyjitFrameGlobals(o.frame);
  PyObject *builtins = pyjitFrameBuiltins(o.frame);
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) {
    o.s.end(ReasonKind::PythonFeature, "globals that are no plain dict");
    return ResultKind::Known;
  }
  Node *node = o.s.objects.pin(globals);
  if (PyObject *value = PyDict_GetItemWithError(globals, name)) {
    o.s.reads.read(node, Select::Item, name, value);
    return ResultKind::Known;
  }
  o.s.reads.absent(node, Select::Item, name);
  Node *builtinsNode = o.s.objects.pin(builtins);
  if (PyObject *value = PyDict_GetItemWithError(builtins, name))
    o.s.reads.read(builtinsNode, Select::Item, name, value);
  else
    o.s.reads.absent(builtinsNode, Select::Item, name);
  return ResultKind::Known;
}

ResultKind opcodes::loadGlobal(const Op &o) {
  return loadNamed(o, o.name(o.in.arg >> 1));
}

PyObject *pyjit::capture::ownNames(const Op &o) {
  PyObject *names = pyjitFrameNamespace(o.frame);
  return names && PyDict_CheckExact(names) && !o.s.objects.isExternal(names) &&
                 names != pyjitFrameGlobals(o.frame)
             ? names
             : nullptr;
}

ResultKind opcodes::loadName(const Op &o) {
  PyObject *names = ownNames(o), *name = o.name(o.in.arg);
  if (!names) {
    o.s.end(ReasonKind::PythonFeature,
            "names in a namespace that is no plain dict");
    return ResultKind::Known;
  }
  if (PyObject *value = PyDict_GetItemWithError(names, name)) {
    // Stored there by the body, or the dict of SETUP_ANNOTATIONS.
    if (PyDict_CheckExact(value) && !o.s.objects.known(value) &&
        PyUnicode_CompareWithASCIIString(name, "__annotations__") == 0)
      o.s.objects.allocated(value);
    return ResultKind::Known;
  }
  return loadNamed(o, name);
}

ResultKind opcodes::deleteName(const Op &o) {
  if (!ownNames(o))
    o.s.end(ReasonKind::PythonFeature,
            "names in a namespace that is no plain dict");
  return ResultKind::Known;
}

/// A class body's names, for the instruction behind it.
ResultKind opcodes::loadLocals(const Op &o) {
  if (!ownNames(o))
    o.s.end(ReasonKind::PythonFeature,
            "names in a namespace that is no plain dict");
  return ResultKind::Fresh;
}

/// A variable of a function around the class, unless the body has stored one of
/// that name.
ResultKind opcodes::loadFromDictOrDeref(const Op &o) {
  PyObject *names = ownNames(o);
  PyObject *name = PyTuple_GET_ITEM(o.code->co_localsplusnames, o.in.arg);
  if (!names || o.peek(1) != names)
    o.s.end(ReasonKind::PythonFeature,
            "names in a namespace that is no plain dict");
  else if (!PyDict_GetItemWithError(names, name))
    readDeref(o);
  return ResultKind::Known;
}

ResultKind opcodes::loadBuildClass(const Op &o) {
  PyObject *builtins = pyjitFrameBuiltins(o.frame);
  static PyObject *name = PyUnicode_InternFromString("__build_class__");
  PyObject *value = PyDict_CheckExact(builtins)
                        ? PyDict_GetItemWithError(builtins, name)
                        : nullptr;
  if (value)
    o.s.reads.read(o.s.objects.pin(builtins), Select::Item, name, value);
  else
    o.s.end(ReasonKind::PythonFeature, "builtins that are no plain dict");
  return ResultKind::Known;
}

void pyjit::capture::knowConstant(Recording &s, PyObject *constant) {
  if (isValue(constant) || s.objects.find(constant))
    return;
  if (PyCode_Check(constant)) { // as fixed as the code that it is part of
    s.objects.pin(constant);
    return;
  }
  s.objects.allocated(constant)->ofCode = true;
  if (PyTuple_CheckExact(constant))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant); ++i)
      knowConstant(s, PyTuple_GET_ITEM(constant, i));
}

/// What a relative import names (PEP 328): `name` in the package that is
/// `level` - 1 above the module's own. Null where the module does not say which
/// that is.
static PyObject *absoluteName(const Op &o, PyObject *name, long level) {
  static PyObject *packageName = PyUnicode_InternFromString("__package__"),
                  *specName = PyUnicode_InternFromString("__spec__");
  PyObject *globals = pyjitFrameGlobals(o.frame);
  PyObject *package = PyDict_GetItemWithError(globals, packageName),
           *spec = PyDict_GetItemWithError(globals, specName);
  if (!package || !PyUnicode_CheckExact(package) || !spec)
    return nullptr;
  Node *module = o.s.objects.pin(globals);
  o.s.reads.read(module, Select::Item, packageName, package);
  // The import compares its `parent`, a function of importlib's, with that.
  o.s.reads.read(module, Select::Item, specName, spec);
  static PyObject *parent = findObject("_frozen_importlib:ModuleSpec.parent");
  if (PyObject *getter =
          parent ? PyObject_GetAttrString(parent, "fget") : nullptr) {
    o.s.objects.pin(getter);
    Py_DECREF(getter);
  }
  PyErr_Clear();
  Py_ssize_t end = PyUnicode_GET_LENGTH(package);
  for (; level > 1 && end > 0; --level)
    end = PyUnicode_FindChar(package, '.', 0, end, -1);
  if (end <= 0)
    return nullptr;
  PyObject *base = PyUnicode_Substring(package, 0, end);
  PyObject *full = PyUnicode_GET_LENGTH(name) == 0
                       ? Py_NewRef(base)
                       : PyUnicode_FromFormat("%U.%U", base, name);
  o.s.objects.keep(full);
  Py_DECREF(base);
  Py_DECREF(full);
  return full;
}

/// Whether `from package import name` has to find a module first.
static bool loadsPart(PyObject *package, PyObject *names) {
  static PyObject *path = PyUnicode_InternFromString("__path__"),
                  *hook = PyUnicode_InternFromString("__getattr__");
  PyObject *known =
      PyModule_CheckExact(package) ? PyModule_GetDict(package) : nullptr;
  if (!known || !PyTuple_CheckExact(names) ||
      PyDict_Contains(known, path) != 1 || PyDict_Contains(known, hook) != 0)
    return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    if (PyDict_Contains(known, PyTuple_GET_ITEM(names, i)) == 0)
      return true;
  return false;
}

ResultKind opcodes::importName(const Op &o) {
  PyObject *name = o.name(o.in.arg);
  long level = PyLong_Check(o.peek(2)) ? PyLong_AsLong(o.peek(2)) : -1;
  if (level != 0 &&
      !(level > 0 && (name = absoluteName(o, name, level)) != nullptr)) {
    o.s.end(ReasonKind::PythonFeature,
            "a relative import in a module of no known package");
    return ResultKind::Known;
  }
  // `import a.b` without names gives the package `a`.
  PyObject *modules = PyImport_GetModuleDict();
  PyObject *module = PyDict_GetItemWithError(modules, name);
  if (!module || loadsPart(module, o.peek(1))) {
    o.s.endOnce(ReasonKind::FirstTime, "the first import of a module");
    return ResultKind::Known;
  }
  o.s.reads.read(o.s.objects.pin(modules), Select::Item, name, module);
  // `from package import name` runs a function of importlib's.
  if (o.peek(1) != Py_None) {
    static PyObject *handle = findObject("_frozen_importlib:_handle_fromlist");
    if (handle && !o.s.objects.find(handle))
      o.s.objects.pin(handle);
  }
  if (o.peek(1) == Py_None) {
    Py_ssize_t dot =
        PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1);
    if (dot > 0) {
      PyObject *package = PyUnicode_Substring(name, 0, dot);
      PyObject *root = PyDict_GetItemWithError(modules, package);
      if (root)
        o.s.reads.read(o.s.objects.pin(modules), Select::Item, package, root);
      o.s.objects.keep(package);
      Py_DECREF(package);
    }
  }
  return ResultKind::Known;
}

void pyjit::capture::readDeref(const Op &o) {
  PyObject *cell = pyjitFrameLocals(o.frame)[o.in.arg];
  if (cell && PyCell_Check(cell))
    o.s.reads.readCell(cell);
}
