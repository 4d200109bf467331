//===- NativesFormat.cpp - str.format() and str.format_map() --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A replacement field names an attribute or an item of an argument
// ("{0.rate:.3f}", "{sizes[0]}"), which C code looks up where no instruction
// is seen. What the fields of a text reach is told ahead, in the order of the
// fields (Python's reference, "Format String Syntax").
//
//===----------------------------------------------------------------------===//

#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"

#include <algorithm>

using namespace pyjit::capture;

namespace {

/// The fields of one call's text.
class Fields {
public:
  Fields(Recording &recording, const Call &call, bool isMap)
      : s(recording), call(call), isMap(isMap) {}

  /// Reads what the fields of `text`, and those within their specifications,
  /// name.
  void read(PyObject *text, int depth = 0) {
    PyObject *parts = parse("formatter_parser", text);
    PyObject *part;
    // What is malformed raises in the call itself.
    while (parts && !s.ended() && (part = PyIter_Next(parts))) {
      PyObject *name = PyTuple_GET_ITEM(part, 1);
      PyObject *specification = PyTuple_GET_ITEM(part, 2);
      if (name != Py_None)
        readField(name);
      if (name != Py_None && depth < 2)
        read(specification, depth + 1);
      s.objects.keep(part);
      Py_DECREF(part);
    }
    PyErr_Clear();
    Py_XDECREF(parts);
  }

private:
  static PyObject *parse(const char *function, PyObject *text) {
    PyObject *module = PyImport_ImportModule("_string");
    PyObject *result =
        module ? PyObject_CallMethod(module, function, "O", text) : nullptr;
    PyErr_Clear();
    Py_XDECREF(module);
    return result;
  }

  /// The argument that a field begins with; null where there is none.
  PyObject *argument(PyObject *first) {
    if (isMap)
      return item(call.arg(1), first);
    if (PyUnicode_Check(first) && PyUnicode_GET_LENGTH(first) != 0)
      return call.keyword(PyUnicode_AsUTF8(first));
    size_t place = PyLong_Check(first) ? PyLong_AsSize_t(first) : unnumbered++;
    PyErr_Clear();
    return place < call.positional() - 1 ? call.args[1 + place] : nullptr;
  }

  void readField(PyObject *name) {
    PyObject *parts = parse("formatter_field_name_split", name);
    if (!parts)
      return;
    s.objects.keep(parts);
    PyObject *object = argument(PyTuple_GET_ITEM(parts, 0));
    PyObject *step, *steps = PyTuple_GET_ITEM(parts, 1);
    while (object && !s.ended() && (step = PyIter_Next(steps))) {
      s.objects.keep(step);
      PyObject *key = PyTuple_GET_ITEM(step, 1);
      object = PyObject_IsTrue(PyTuple_GET_ITEM(step, 0))
                   ? attribute(object, key)
                   : item(object, key);
      Py_DECREF(step);
    }
    PyErr_Clear();
    Py_DECREF(parts);
    if (!object || s.ended())
      return;
    s.scalars.specializeDeep(object);
    s.operators.format(object);
  }

  PyObject *attribute(PyObject *object, PyObject *name) {
    PyObject *interned = Py_NewRef(name);
    PyUnicode_InternInPlace(&interned);
    s.objects.keep(interned);
    Attributes::Found found = s.attributes.loadAttr(object, interned);
    Py_DECREF(interned);
    if (found.kind == Attributes::Found::Value && found.object)
      return found.object;
    if (found.kind != Attributes::Found::Absent)
      s.end(ReasonKind::Print,
            "a field of a format that is computed when it is looked up");
    return nullptr;
  }

  PyObject *item(PyObject *container, PyObject *key) {
    if (isValue(container))
      return nullptr; // a text's character, or an error
    s.containers.subscript(container, key);
    if (PyDict_CheckExact(container))
      return PyDict_GetItemWithError(container, key);
    bool isSequence =
        PyList_CheckExact(container) || PyTuple_CheckExact(container);
    if (isSequence && PyLong_Check(key)) {
      Py_ssize_t place = PyLong_AsSsize_t(key);
      return place >= 0 && place < PySequence_Fast_GET_SIZE(container)
                 ? PySequence_Fast_GET_ITEM(container, place)
                 : nullptr;
    }
    s.end(ReasonKind::Print,
          "a field of a format that is an item of a " + typeName(container));
    return nullptr;
  }

  Recording &s;
  const Call &call;
  bool isMap;
  size_t unnumbered = 0;
};

ResultKind format(Recording &s, const Call &c) {
  // Attributes of values never change.
  bool values = std::all_of(c.args.begin(), c.args.end(), isValue);
  if (!values && PyUnicode_Check(c.args[0]))
    Fields(s, c, false).read(c.args[0]);
  return ResultKind::Fresh;
}

ResultKind formatMap(Recording &s, const Call &c) {
  if (c.args.size() != 2 || !PyUnicode_Check(c.args[0]))
    return s.calls.unknownNative(c);
  Fields(s, c, true).read(c.args[0]);
  return ResultKind::Fresh;
}

} // namespace

void pyjit::capture::addFormats(NativeTable &t) {
  t.add("builtins:str.format", format);
  t.add("builtins:str.format_map", formatMap);
}
