//===- NativesOrder.cpp - Natives that put things in order ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What sorted(), min() and max() compare are their elements or, with a key,
// what the key makes of each. A key that is a Python function is followed when
// C calls it, and its results are looked at there (Calls::returns); a native
// one is carried out here, in front of the call, for what it will read.
//
//===----------------------------------------------------------------------===//

#include "builtins/Natives.h"
#include "numbers/ListNumbers.h"
#include "objects/ObjectKinds.h"

#include <cstring>

using namespace pyjit::capture;

//===----------------------------------------------------------------------===//
// operator.itemgetter and the like
//===----------------------------------------------------------------------===//

bool pyjit::capture::isGetter(PyObject *object) {
  const char *name = Py_TYPE(object)->tp_name;
  return !std::strcmp(name, "operator.itemgetter") ||
         !std::strcmp(name, "operator.attrgetter") ||
         !std::strcmp(name, "operator.methodcaller");
}

/// Its keys or names, or a method's name and arguments: fixed when it was made.
static PyObject *getterParts(Recording &s, PyObject *getter) {
  PyObject *reduced = PyObject_CallMethod(getter, "__reduce__", nullptr);
  PyObject *parts = reduced && PyTuple_Check(reduced) &&
                            PyTuple_GET_SIZE(reduced) == 2 &&
                            PyType_Check(PyTuple_GET_ITEM(reduced, 0))
                        ? PyTuple_GET_ITEM(reduced, 1)
                        : nullptr;
  PyErr_Clear();
  if (!parts || !PyTuple_Check(parts)) {
    Py_XDECREF(reduced);
    s.end(ReasonKind::UnusualObject, "an unusual " + typeName(getter));
    return nullptr;
  }
  s.objects.keep(reduced);
  Py_DECREF(reduced);
  bool external = s.objects.isExternal(getter);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i)
    if (PyObject *part = PyTuple_GET_ITEM(parts, i);
        external && !isValue(part) && !s.objects.known(part))
      s.objects.pin(part);
  return parts;
}

/// `object.a.b`, as far as it can be told before it happens.
static Attributes::Found dotted(Recording &s, PyObject *object,
                                PyObject *path) {
  PyObject *names = PyUnicode_Check(path)
                        ? PyObject_CallMethod(path, "split", "s", ".")
                        : nullptr;
  Attributes::Found found{Attributes::Found::Value, object};
  for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names); ++i) {
    if (found.kind != Attributes::Found::Value || !found.object) {
      s.end(ReasonKind::PythonFeature, "a chain of attributes");
      break;
    }
    PyObject *name = Py_NewRef(PyList_GET_ITEM(names, i));
    PyUnicode_InternInPlace(&name);
    s.objects.keep(name);
    found = s.attributes.loadAttr(found.object, name);
    Py_DECREF(name);
  }
  PyErr_Clear();
  Py_XDECREF(names);
  return found;
}

ResultKind pyjit::capture::callGetter(Recording &s, const Call &c) {
  PyObject *parts = getterParts(s, c.callable);
  if (!parts || c.args.size() != 1 || c.kwnames)
    return s.calls.unknownNative(c);
  PyObject *object = c.args[0];
  Py_ssize_t count = PyTuple_GET_SIZE(parts);
  const char *kind = Py_TYPE(c.callable)->tp_name;
  if (!std::strcmp(kind, "operator.methodcaller")) {
    PyObject *name = PyTuple_GET_ITEM(parts, 0);
    Attributes::Found found = dotted(s, object, name);
    if (found.kind != Attributes::Found::Fresh || !found.object)
      return s.calls.unknownNative(c);
    Call call;
    call.callable = found.object;
    call.args.push_back(object);
    for (Py_ssize_t i = 1; i < count; ++i)
      call.args.push_back(PyTuple_GET_ITEM(parts, i));
    return s.calls.call(call);
  }
  bool items = !std::strcmp(kind, "operator.itemgetter");
  ResultKind resultKind = ResultKind::Known;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *part = PyTuple_GET_ITEM(parts, i);
    if (items)
      resultKind = s.containers.subscript(object, part);
    else
      resultKind = dotted(s, object, part).kind == Attributes::Found::Fresh
                       ? ResultKind::Fresh
                       : ResultKind::Known;
    // A tuple of them: each is known, or comes out of a dispatcher's operator.
    if (count > 1 && resultKind != ResultKind::Known)
      s.end(ReasonKind::NativeFunction,
            "several new objects at once of a " + std::string(kind));
  }
  return count > 1 ? ResultKind::Fresh : resultKind;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

namespace {

/// Compared with `<`.
void compared(Recording &s, PyObject *object, int depth = 0) {
  if (isValue(object) || s.ended())
    return;
  if (isHeap(object) && !PyType_Check(object) && s.objects.require(object)) {
    for (const char *name : {"__lt__", "__gt__"})
      s.attributes.special(object, name);
    if (PyObject *method = s.attributes.special(object, "__lt__");
        method && PyFunction_Check(method))
      return;
  }
  if ((PyTuple_CheckExact(object) || PyList_CheckExact(object)) && depth < 10) {
    s.containers.readAll(object);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      compared(s, PySequence_Fast_GET_ITEM(object, i), depth + 1);
    return;
  }
  s.containers.readDeep(object);
}

/// What iterating hands out, where it is there already.
bool takeElements(PyObject *from, std::vector<PyObject *> &out) {
  if (PyList_Check(from) || PyTuple_Check(from)) {
    out = elementsOf(from);
    return true;
  }
  if (!PyDict_CheckExact(from))
    return false;
  PyObject *key;
  Py_ssize_t position = 0;
  while (PyDict_Next(from, &position, &key, nullptr))
    out.push_back(key);
  return true;
}

bool isNamed(PyObject *function, std::initializer_list<const char *> names) {
  PyMethodDef *def = pyjitMethodDef(function);
  for (const char *name : names)
    if (def && !std::strcmp(def->ml_name, name))
      return true;
  return false;
}

/// What a native key makes of an element is read and compared.
void applyKey(Recording &s, PyObject *key, PyObject *element) {
  Call call;
  call.callable = key;
  call.args = {element};
  if (isGetter(key)) {
    PyObject *parts = getterParts(s, key);
    bool items = !std::strcmp(Py_TYPE(key)->tp_name, "operator.itemgetter");
    if (!parts || !s.objects.require(element))
      return;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i) {
      PyObject *part = PyTuple_GET_ITEM(parts, i);
      if (items && (PyTuple_CheckExact(element) || PyList_CheckExact(element) ||
                    PyDict_CheckExact(element))) {
        s.containers.subscript(element, part);
        PyObject *value = PyObject_GetItem(element, part);
        PyErr_Clear();
        if (value)
          compared(s, value);
        Py_XDECREF(value);
      } else if (Attributes::Found found =
                     items ? Attributes::Found{} : dotted(s, element, part);
                 found.kind == Attributes::Found::Value && found.object) {
        compared(s, found.object);
      } else {
        s.end(ReasonKind::UnusualObject, "a key of a " + typeName(element));
      }
    }
    return;
  }
  PyObject *self = PyCFunction_Check(key) ? PyCFunction_GET_SELF(key) : nullptr;
  if (self && PyDict_CheckExact(self) && isNamed(key, {"get", "__getitem__"})) {
    if (!s.objects.find(self) && s.objects.isExternal(key))
      s.objects.pin(self);
    s.containers.dictItem(self, element);
    PyObject *value = PyDict_GetItemWithError(self, element);
    PyErr_Clear();
    if (value)
      compared(s, value);
    return;
  }
  // Numbers and strings come out of these.
  bool plain =
      (self && PyModule_Check(self) &&
       isNamed(key, {"len", "abs", "ord", "round", "sqrt", "log", "fabs"})) ||
      (Py_IS_TYPE(key, &PyMethodDescr_Type) &&
       (pyjitDescrType(key) == &PyUnicode_Type ||
        pyjitDescrType(key) == &PyLong_Type ||
        pyjitDescrType(key) == &PyFloat_Type)) ||
      key == reinterpret_cast<PyObject *>(&PyLong_Type) ||
      key == reinterpret_cast<PyObject *>(&PyFloat_Type) ||
      (key == reinterpret_cast<PyObject *>(&PyUnicode_Type) &&
       isValue(element));
  if (!plain)
    return s.end(ReasonKind::UnusualObject, "a key that is a " + typeName(key));
  s.calls.call(call);
}

/// Notes what will be compared. `sources`: the container, or the things
/// themselves.
void order(Recording &s, PyObject *key, std::vector<PyObject *> sources,
           bool themselves) {
  if (key && (PyFunction_Check(key) || PyMethod_Check(key))) {
    unsigned uses = Calls::Compared;
    if (!themselves) {
      s.containers.iterate(sources[0]);
      if (makesTuples(sources[0]))
        uses |= Calls::Tuples;
    }
    if (PyMethod_Check(key) && s.objects.isExternal(key))
      s.containers.readFields(key, {"__func__", "__self__"});
    PyObject *function = PyMethod_Check(key) ? PyMethod_GET_FUNCTION(key) : key;
    if (!PyFunction_Check(function) || !s.objects.require(function))
      return s.end(ReasonKind::UnusualObject,
                   "a key that is a " + typeName(key));
    return s.calls.callsBack(function, uses);
  }
  std::vector<PyObject *> elements = sources;
  if (!themselves) {
    s.containers.iterate(sources[0]);
    s.containers.lookAtItems(sources[0]);
    elements.clear();
    PyObject *view = sources[0];
    bool there = takeElements(view, elements);
    if (!there && !key && (isValue(view) || PyRange_Check(view)))
      return;
    if (!there && (PyAnySet_Check(view) || ((isView(view) || isValue(view)) &&
                                            !s.objects.isExternal(view)))) {
      // Walking it has no effect.
      PyObject *list = PySequence_List(view);
      PyErr_Clear();
      if (!list)
        return s.end(ReasonKind::EarlierObject,
                     "the order of a " + typeName(view));
      s.objects.setResult(ResultKind::FreshTuples, list);
      s.objects.keep(list);
      Py_DECREF(list);
      there = takeElements(list, elements);
    }
    if (!there) {
      bool values = !makesTuples(view) || Py_IS_TYPE(view, &PyMap_Type) ||
                    !std::strcmp(Py_TYPE(view)->tp_name, "itertools._tee");
      if (key || !values)
        s.end(ReasonKind::EarlierObject, "the order of a " + typeName(view));
      return; // Python code hands them out, or a native iterator of values
    }
  }
  for (PyObject *element : elements)
    if (key)
      applyKey(s, key, element);
    else
      compared(s, element);
}

PyObject *keyOf(const Call &c) {
  PyObject *key = c.keyword("key");
  return key == Py_None ? nullptr : key;
}

ResultKind sorted(Recording &s, const Call &c) {
  if (c.positional() != 1)
    return s.calls.unknownNative(c);
  order(s, keyOf(c), {c.args[0]}, false);
  return ResultKind::FreshTuples;
}

ResultKind sortList(Recording &s, const Call &c) {
  if (c.positional() != 1)
    return s.calls.unknownNative(c);
  if (s.objects.isExternal(c.args[0]))
    s.containers.own(c.args[0]);
  order(s, keyOf(c), {c.args[0]}, false);
  if (s.ended())
    return ResultKind::Known;
  PyObject *reverse = c.keyword("reverse");
  if (!keyOf(c))
    ListNumbers(s.scalars).sort(c.args[0],
                                reverse && PyObject_IsTrue(reverse) == 1);
  else if (!PyFunction_Check(keyOf(c)) && !PyMethod_Check(keyOf(c)))
    s.scalars.specializeDeep(c.args[0]);
  return ResultKind::Known;
}

/// A tensor of one element, whose comparison runs no Python code, or a number.
bool isComparable(Recording &s, PyObject *o) {
  if (!ObjectTable::isTensor(o))
    return PyFloat_CheckExact(o) || PyLong_CheckExact(o);
  static PyObject *tensorClass = findObject("torch:Tensor");
  static PyObject *parameterClass = findObject("torch.nn:Parameter");
  auto *type = reinterpret_cast<PyObject *>(Py_TYPE(o));
  PyObject *count = type == tensorClass || type == parameterClass
                        ? PyObject_CallMethod(o, "numel", nullptr)
                        : nullptr;
  bool one = count && PyLong_AsLong(count) == 1;
  Py_XDECREF(count);
  PyErr_Clear();
  return one && s.objects.require(o);
}

/// Of `max(a, b)` with a tensor: whether the program checks that the comparison
/// comes out as it does now.
bool assumesOrder(Recording &s, PyObject *first, PyObject *second, int op) {
  if (!ObjectTable::isTensor(first) && !ObjectTable::isTensor(second))
    return false;
  if (!isComparable(s, first) || !isComparable(s, second))
    return false;
  s.scalars.specializeDeep(first);
  s.scalars.specializeDeep(second);
  s.operators.compare(second, first, op == Py_GT ? "gt" : "lt");
  // Recorded as an operator of its own; the native function's is not.
  PyObject *answer =
      s.ended() ? nullptr : PyObject_RichCompare(second, first, op);
  PyErr_Clear();
  if (!answer)
    return false;
  s.objects.keep(answer);
  Py_DECREF(answer);
  s.objects.setResult(ResultKind::FreshDeep, answer);
  return !s.ended() && s.operators.assumesTruth(answer);
}

ResultKind minMax(Recording &s, const Call &c) {
  size_t n = c.positional();
  if (!n)
    return ResultKind::Known;
  std::vector<PyObject *> sources(c.args.begin(), c.args.begin() + n);
  if (n == 2 && !c.kwnames &&
      assumesOrder(s, sources[0], sources[1],
                   isNamed(c.callable, {"max"}) ? Py_GT : Py_LT))
    return ResultKind::Known;
  order(s, keyOf(c), sources, n > 1);
  if (n == 1 && PyGen_CheckExact(sources[0]) && !keyOf(c))
    s.scalars.bestOfYields(isNamed(c.callable, {"max"})
                               ? pyjit::rt::Arith::Max
                               : pyjit::rt::Arith::Min);
  return n == 1 && makesTuples(sources[0]) ? ResultKind::FreshTuples
                                           : ResultKind::Known;
}

/// Where a value belongs among sorted values.
ResultKind bisect(Recording &s, const Call &c) {
  PyObject *sorted = c.arg(0), *value = c.arg(1);
  if (c.kwnames || !value || !isValue(value) ||
      !(PyList_CheckExact(sorted) || PyTuple_CheckExact(sorted)))
    return s.calls.unknownNative(c);
  s.containers.readAll(sorted);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sorted); ++i)
    if (!isValue(PySequence_Fast_GET_ITEM(sorted, i)))
      return s.calls.unknownNative(c);
  s.scalars.specializeDeep(sorted);
  return ResultKind::Fresh;
}

/// Puts an element where it belongs in a list, or takes one out, by comparisons
/// of elements (`heapq`, `bisect.insort`).
ResultKind changeOrdered(Recording &s, const Call &c) {
  PyObject *list = c.arg(0);
  if (c.kwnames || !list || !PyList_CheckExact(list))
    return s.calls.unknownNative(c);
  if (s.objects.isExternal(list))
    s.containers.own(list);
  std::vector<PyObject *> compares = elementsIn(list);
  compares.insert(compares.end(), c.args.begin() + 1, c.args.end());
  for (PyObject *element : compares) {
    compared(s, element);
    // Also numbers that became the list's own just now.
    s.scalars.specializeDeep(element);
  }
  return ResultKind::Known;
}

} // namespace

void pyjit::capture::addOrder(NativeTable &t) {
  t.add("_bisect:bisect_left", bisect);
  t.add("_bisect:bisect_right", bisect);
  for (const char *name :
       {"_bisect:insort_left", "_bisect:insort_right", "_heapq:heappush",
        "_heapq:heappop", "_heapq:heapify", "_heapq:heapreplace",
        "_heapq:heappushpop", "_heapq:_heappop_max", "_heapq:_heapify_max",
        "_heapq:_heapreplace_max"})
    t.add(name, changeOrdered);
  t.add("builtins:sorted", sorted);
  t.add("builtins:list.sort", sortList);
  t.add("builtins:min", minMax);
  t.add("builtins:max", minMax);
  for (const char *name : {"itemgetter", "attrgetter", "methodcaller"})
    t.add(("operator:" + std::string(name)).c_str(), nativeNothing);
}
