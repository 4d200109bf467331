//===- AccessPath.cpp - Where a guard reads something ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "objects/AccessPath.h"

#include "CPython.h"
#include "objects/ObjectKinds.h"

#include <algorithm>
#include <cstdio>
#include <functional>

using namespace pyjit::capture;

AccessPath AccessPath::argument(int number) {
  AccessPath path;
  path.number = number;
  return path;
}

AccessPath AccessPath::object(PyObject *object) {
  AccessPath path;
  path.root = object;
  return path;
}

AccessPath AccessPath::then(Step step, std::string name) const {
  AccessPath path = *this;
  if (path)
    path.steps.push_back({step, 0, std::move(name)});
  return path;
}

AccessPath AccessPath::then(Step step, int64_t index) const {
  AccessPath path = *this;
  if (path)
    path.steps.push_back({step, index, ""});
  return path;
}

/// Whether `repr` says all of a key.
static bool isKnownByText(PyObject *key) {
  if (!PyTuple_CheckExact(key))
    return isValue(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    if (!isKnownByText(PyTuple_GET_ITEM(key, i)))
      return false;
  return true;
}

AccessPath AccessPath::entry(PyObject *key) const {
  if (PyLong_CheckExact(key)) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(key, &overflow);
    return overflow ? AccessPath() : then(Step::Item, int64_t(number));
  }
  if (isKnownByText(key)) {
    bool plain = PyUnicode_CheckExact(key);
    PyObject *written = plain ? Py_NewRef(key) : PyObject_Repr(key);
    const char *text = written ? PyUnicode_AsUTF8(written) : nullptr;
    AccessPath path =
        text ? then(plain ? Step::Key : Step::Value, text) : AccessPath();
    Py_XDECREF(written);
    PyErr_Clear();
    return path;
  }
  AccessPath path = then(Step::Entry, "");
  if (path)
    path.steps.back().key = key;
  return path;
}

bool AccessPath::leadsTo(const AccessPath &other) const {
  return number == other.number && root == other.root &&
         steps.size() <= other.steps.size() &&
         std::equal(steps.begin(), steps.end(), other.steps.begin());
}

std::string AccessPath::text() const {
  if (empty())
    return "";
  auto identity = [](PyObject *object) {
    char text[32];
    std::snprintf(text, sizeof text, "@%p", static_cast<void *>(object));
    return std::string(text);
  };
  std::string text = root ? identity(root) : "#" + std::to_string(number);
  for (const Element &element : steps) {
    static constexpr char kMarks[] = {'.', '~', ':', '[', '[', '^',
                                      '>', '$', '%', '/', '='};
    text += kMarks[size_t(element.step)];
    text += element.key            ? identity(element.key)
            : element.name.empty() ? std::to_string(element.index)
                                   : element.name;
  }
  return text;
}

//===----------------------------------------------------------------------===//
// From one frame to another
//===----------------------------------------------------------------------===//

AccessPath AccessPath::from(int argument, size_t step) const {
  AccessPath path = AccessPath::argument(argument);
  path.steps.assign(steps.begin() + std::ptrdiff_t(step), steps.end());
  return path;
}

bool AccessPath::leadsOn(PyObject *name) {
  return PyUnicode_Check(name) &&
         (!PyUnicode_CompareWithASCIIString(name, "__self__") ||
          !PyUnicode_CompareWithASCIIString(name, "referent"));
}

/// What an object holds there; borrowed, null if nothing that is found without
/// running code.
PyObject *AccessPath::follow(PyObject *holder, const Element &element) {
  auto lookUp = [](PyObject *dict, const Element &element) {
    PyObject *key = element.name.empty()
                        ? PyLong_FromLongLong(element.index)
                        : PyUnicode_FromString(element.name.c_str());
    PyObject *found = key ? PyDict_GetItemWithError(dict, key) : nullptr;
    Py_XDECREF(key);
    PyErr_Clear();
    return found;
  };
  switch (element.step) {
  case Step::Attr: {
    PyObject *dict = pyjitInstanceDict(holder);
    return dict ? lookUp(dict, element) : nullptr;
  }
  case Step::Key:
    return PyDict_Check(holder) ? lookUp(holder, element) : nullptr;
  case Step::Item:
    if (PyDict_Check(holder))
      return lookUp(holder, element);
    if ((PyList_Check(holder) || PyTuple_Check(holder)) && element.index >= 0 &&
        element.index < PySequence_Fast_GET_SIZE(holder))
      return PySequence_Fast_GET_ITEM(holder, element.index);
    return nullptr;
  case Step::Cell:
    if (PyCell_Check(holder))
      return PyCell_GET(holder);
    if (PyFunction_Check(holder)) {
      PyObject *closure = PyFunction_GET_CLOSURE(holder);
      if (closure && element.index < PyTuple_GET_SIZE(closure))
        return PyCell_GET(PyTuple_GET_ITEM(closure, element.index));
    }
    return nullptr;
  case Step::Slot:
  case Step::Class:
  case Step::Entry: // its key may be gone
  case Step::Value:
  case Step::Field:
  case Step::Size:
  case Step::Stride:
    return nullptr;
  }
  return nullptr;
}

std::vector<AccessPath>
AccessPath::seenFrom(const std::vector<PyObject *> &arguments,
                     const std::vector<PyObject *> &values,
                     const std::vector<PyObject *> &alive) const {
  std::vector<AccessPath> found;
  PyObject *holder = root;
  bool looksUp =
      !root || std::find(alive.begin(), alive.end(), root) != alive.end();
  if (!root) {
    if (number < 0 || size_t(number) >= arguments.size())
      return found;
    holder = arguments[number];
  } else {
    found.push_back(*this);
  }
  // The number itself is no object to be known by.
  for (size_t i = 0; holder && i < steps.size(); ++i) {
    for (size_t j = 0; j < values.size(); ++j)
      if (values[j] == holder)
        found.push_back(from(int(j), i));
    holder = looksUp ? follow(holder, steps[i]) : nullptr;
  }
  return found;
}

//===----------------------------------------------------------------------===//
// As a Python object
//===----------------------------------------------------------------------===//

namespace {

struct PathObject {
  PyObject_HEAD AccessPath *path;
};

PyTypeObject *pathType();

const AccessPath &pathOf(PyObject *object) {
  return *reinterpret_cast<PathObject *>(object)->path;
}

void destroy(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  delete reinterpret_cast<PathObject *>(object)->path;
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject *compare(PyObject *a, PyObject *b, int how) {
  if (!Py_IS_TYPE(b, pathType()) || (how != Py_EQ && how != Py_NE))
    Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((pathOf(a) == pathOf(b)) == (how == Py_EQ));
}

Py_hash_t hash(PyObject *self) {
  auto value = Py_hash_t(std::hash<std::string>()(pathOf(self).text()));
  return value == -1 ? -2 : value;
}

PyObject *print(PyObject *self) {
  std::string text = pathOf(self).text();
  return PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace");
}

PyObject *ofArgument(PyObject *, PyObject *number) {
  int index = int(PyLong_AsLong(number));
  return PyErr_Occurred() ? nullptr
                          : wrapAccessPath(AccessPath::argument(index));
}

PyObject *size(PyObject *self, PyObject *dim) {
  int64_t index = PyLong_AsLongLong(dim);
  return PyErr_Occurred() ? nullptr : wrapAccessPath(pathOf(self).size(index));
}

PyObject *item(PyObject *self, PyObject *number) {
  int64_t index = PyLong_AsLongLong(number);
  return PyErr_Occurred()
             ? nullptr
             : wrapAccessPath(pathOf(self).then(AccessPath::Step::Item, index));
}

PyObject *field(PyObject *self, PyObject *name) {
  const char *text = PyUnicode_AsUTF8(name);
  return text ? wrapAccessPath(pathOf(self).then(AccessPath::Step::Field, text))
              : nullptr;
}

PyObject *seenFrom(PyObject *self, PyObject *args) {
  PyObject *arguments, *values, *alive = nullptr;
  if (!PyArg_ParseTuple(args, "O!O!|O!:seen_from", &PyTuple_Type, &arguments,
                        &PyTuple_Type, &values, &PyTuple_Type, &alive))
    return nullptr;
  std::vector<PyObject *> known;
  if (alive)
    known = elementsOf(alive);
  PyObject *found = PySet_New(nullptr);
  for (const AccessPath &path : pathOf(self).seenFrom(
           elementsOf(arguments), elementsOf(values), known)) {
    PyObject *wrapped = wrapAccessPath(path);
    if (!found || !wrapped || PySet_Add(found, wrapped) < 0)
      Py_CLEAR(found);
    Py_XDECREF(wrapped);
  }
  return found;
}

PyObject *getArgument(PyObject *self, void *) {
  int number = pathOf(self).getArgument();
  return number < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(number);
}

template <bool (AccessPath::*question)() const>
PyObject *ask(PyObject *self, void *) {
  return PyBool_FromLong((pathOf(self).*question)());
}

PyMethodDef methods[] = {
    {"of_argument", ofArgument, METH_O | METH_STATIC,
     "of_argument(number): of an argument of the call."},
    {"size", size, METH_O, "size(dim): of the tensor's size."},
    {"item", item, METH_O, "item(index): of an element of the tuple or list."},
    {"field", field, METH_O,
     "field(name): of 'next' or 'left' of a range's iterator."},
    {"seen_from", seenFrom, METH_VARARGS,
     "seen_from(arguments, values, alive=()): the paths that lead to the same "
     "from `values`, where this one leads through them from `arguments`, or "
     "from one of the objects `alive`."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef getset[] = {
    {"argument", getArgument, nullptr,
     "Number of the argument that it begins at, or None.", nullptr},
    {"is_size", ask<&AccessPath::isSize>, nullptr,
     "Whether it leads to a size of a tensor, or to a stride.", nullptr},
    {"is_field", ask<&AccessPath::isField>, nullptr,
     "Whether it leads to a field of an iterator.", nullptr},
    {"is_position", ask<&AccessPath::isPosition>, nullptr,
     "Whether it leads to where an iterator over a container stands.", nullptr},
    {"begins_with_item", ask<&AccessPath::beginsWithItem>, nullptr,
     "Whether its first step is to an element.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
                       {Py_tp_richcompare, reinterpret_cast<void *>(compare)},
                       {Py_tp_hash, reinterpret_cast<void *>(hash)},
                       {Py_tp_str, reinterpret_cast<void *>(print)},
                       {Py_tp_repr, reinterpret_cast<void *>(print)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, getset},
                       {0, nullptr}};

PyType_Spec spec = {"pyjit._C.AccessPath", sizeof(PathObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                        Py_TPFLAGS_IMMUTABLETYPE,
                    slots};

/// Made when first asked for.
PyTypeObject *pathType() {
  static PyTypeObject *type =
      reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  return type;
}

} // namespace

bool pyjit::capture::addAccessPathType(PyObject *module) {
  auto *type = reinterpret_cast<PyObject *>(pathType());
  return type && PyModule_AddObjectRef(module, "AccessPath", type) == 0;
}

PyObject *pyjit::capture::wrapAccessPath(const AccessPath &path) {
  auto *object = PyObject_New(PathObject, pathType());
  if (object)
    object->path = new AccessPath(path);
  return reinterpret_cast<PyObject *>(object);
}

const AccessPath *pyjit::capture::accessPathOf(PyObject *object) {
  if (Py_IS_TYPE(object, pathType()))
    return &pathOf(object);
  PyErr_Format(PyExc_TypeError, "expected an AccessPath, not %R",
               Py_TYPE(object));
  return nullptr;
}
