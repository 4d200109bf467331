//===- NativesWarnings.cpp - warnings.warn() that shows nothing -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Most warnings are shown once, or never: the interpreter finds out by a note
// in the caller's module or by its filters, and a later call finds the same
// while these are as they are. What is shown is a graph break.
//
//===----------------------------------------------------------------------===//

#include "builtins/Natives.h"

using namespace pyjit::capture;

namespace {

bool is(PyObject *object, const char *text) {
  return object && PyUnicode_CheckExact(object) &&
         PyUnicode_CompareWithASCIIString(object, text) == 0;
}

/// An argument by its place or its name.
PyObject *argument(const Call &c, size_t place, const char *name) {
  return place < c.positional() ? c.args[place] : c.keyword(name);
}

/// The frame that the warning is about: as many frames down as it says.
const ShadowFrame *frameAt(Recording &s, long level) {
  size_t i = s.tracker.frames.size();
  PyjitFrame *frame = s.tracker.frames.back().frame;
  for (; level > 1 && frame; --level)
    frame = pyjitPreviousFrame(frame);
  while (frame && i-- > 1)
    if (s.tracker.frames[i].frame == frame)
      return s.tracker.frames[i].code ? &s.tracker.frames[i] : nullptr;
  return nullptr; // below what is recorded
}

/// Frames of the import system are left out of account.
bool isImporting(Recording &s) {
  for (const ShadowFrame &frame : s.tracker.frames) {
    const char *file =
        frame.code ? PyUnicode_AsUTF8(frame.code->co_filename) : "";
    if (!file || std::string(file).find("importlib") != std::string::npos)
      return true;
  }
  return false;
}

/// Whether a filter's pattern, a string or a compiled one, is `text`'s.
bool matches(PyObject *pattern, PyObject *text) {
  if (pattern == Py_None)
    return true;
  if (PyUnicode_CheckExact(pattern))
    return PyUnicode_Compare(pattern, text) == 0;
  PyObject *match = PyObject_CallMethod(pattern, "match", "O", text);
  bool found = match && match != Py_None;
  Py_XDECREF(match);
  PyErr_Clear();
  return found;
}

/// What the filters, all of them guarded, say of a warning; null: it cannot be
/// told.
PyObject *actionOf(Recording &s, PyObject *filters, PyObject *text,
                   PyTypeObject *category, long line, PyObject *module) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters); ++i) {
    PyObject *filter = PyList_GET_ITEM(filters, i);
    if (!PyTuple_CheckExact(filter) || PyTuple_GET_SIZE(filter) != 5)
      return nullptr;
    PyObject *kind = PyTuple_GET_ITEM(filter, 2);
    PyObject *at = PyTuple_GET_ITEM(filter, 4);
    if (!PyType_Check(kind) || Py_TYPE(kind) != &PyType_Type ||
        !PyLong_CheckExact(at))
      return nullptr;
    if (PyType_IsSubtype(category, reinterpret_cast<PyTypeObject *>(kind)) &&
        matches(PyTuple_GET_ITEM(filter, 1), text) &&
        matches(PyTuple_GET_ITEM(filter, 3), module) &&
        (PyLong_AsLong(at) == 0 || PyLong_AsLong(at) == line))
      return PyTuple_GET_ITEM(filter, 0);
  }
  return nullptr;
}

/// What Python does with a warning about `frame`.
struct Warning {
  PyObject *text, *category;
  const ShadowFrame *frame;
};

void record(Recording &s, const Warning &warning) {
  auto [text, category, frame] = warning;
  PyObject *globals = frame ? pyjitFrameGlobals(frame->frame) : nullptr;
  if (!globals || !PyDict_CheckExact(globals) || !s.objects.require(category))
    return s.end(ReasonKind::Warning, "a warning");
  long line = PyCode_Addr2Line(frame->code, frame->offset);
  static PyObject *registryName =
      PyUnicode_InternFromString("__warningregistry__");
  static PyObject *versionName = PyUnicode_InternFromString("version");
  PyObject *registry = PyDict_GetItemWithError(globals, registryName);
  PyObject *version = registry && PyDict_CheckExact(registry)
                          ? PyDict_GetItemWithError(registry, versionName)
                          : nullptr;
  PyObject *now = PyLong_FromLong(pyjitWarningFilters());
  s.objects.keep(now);
  Py_DECREF(now);
  if (!version || !PyLong_CheckExact(version) ||
      PyLong_AsLong(version) != pyjitWarningFilters())
    // Notes of older filters.
    return s.endOnce(ReasonKind::Warning, "a warning that may be shown");
  // The module that holds the filters; its C half counts their changes.
  static PyObject *warnings = PyImport_ImportModule("warnings");
  static PyObject *versionField = PyUnicode_InternFromString("filters_version");
  s.reads.read(s.objects.pin(warnings), Select::Field, versionField, now);
  s.reads.read(s.objects.pin(globals), Select::Item, registryName, registry);
  Node *notes = s.objects.find(registry);
  s.reads.read(notes, Select::Item, versionName, version);
  PyObject *key = Py_BuildValue("(OOl)", text, category, line);
  s.objects.keep(key);
  Py_DECREF(key);
  PyObject *noted = PyDict_GetItemWithError(registry, key);
  PyErr_Clear();
  if (noted == Py_True)
    return s.reads.read(notes, Select::Item, key, noted);
  static PyObject *filtersName = PyUnicode_InternFromString("filters");
  static PyObject *moduleName = PyUnicode_InternFromString("__name__");
  PyObject *own = pyjitModuleDict(warnings);
  PyObject *filters = PyDict_GetItemWithError(own, filtersName);
  PyObject *module = PyDict_GetItemWithError(globals, moduleName);
  PyObject *action =
      filters && PyList_CheckExact(filters) && module &&
              PyUnicode_CheckExact(module)
          ? actionOf(s, filters, text,
                     reinterpret_cast<PyTypeObject *>(category), line, module)
          : nullptr;
  if (noted || !is(action, "ignore")) {
    if (is(action, "always") || is(action, "error"))
      return s.end(ReasonKind::Warning, "a warning that is shown");
    return s.endOnce(ReasonKind::Warning, "a warning that is shown");
  }
  s.reads.absent(notes, Select::Item, key);
  s.reads.read(s.objects.pin(globals), Select::Item, moduleName, module);
  // Filters are tuples, which copies of the list share.
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters); ++i)
    s.objects.pin(PyList_GET_ITEM(filters, i));
  s.reads.read(s.objects.pin(own), Select::Item, filtersName, filters);
  s.containers.readAll(filters);
}

ResultKind warn(Recording &s, const Call &c) {
  PyObject *text = argument(c, 0, "message");
  PyObject *category = argument(c, 1, "category");
  PyObject *level = argument(c, 2, "stacklevel");
  PyObject *source = argument(c, 3, "source");
  if (!category || category == Py_None)
    category = PyExc_UserWarning;
  bool known = text && PyUnicode_CheckExact(text) && PyType_Check(category) &&
               Py_TYPE(category) == &PyType_Type &&
               (!level || PyLong_CheckExact(level)) &&
               (!source || source == Py_None) &&
               !c.keyword("skip_file_prefixes") && !isImporting(s);
  record(s, {text, category,
             known ? frameAt(s, level ? PyLong_AsLong(level) : 1) : nullptr});
  return ResultKind::Known;
}

} // namespace

void pyjit::capture::warnOf(Recording &s, PyObject *category,
                            const std::string &text) {
  PyObject *shown = PyUnicode_FromStringAndSize(text.data(), text.size());
  s.objects.keep(shown);
  Py_DECREF(shown);
  record(s, {shown, category, frameAt(s, 1)});
}

void pyjit::capture::addWarnings(NativeTable &t) {
  t.add("_warnings:warn", warn);
}
