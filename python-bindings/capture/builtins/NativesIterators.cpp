//===- NativesIterators.cpp - Natives that make iterators -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an iterator walks over is read when it is made. Python functions that it
// calls are followed when it does; what it asks of their results is noted with
// the function (Calls::callsBack).
//
//===----------------------------------------------------------------------===//

#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"

#include <algorithm>
#include <cstring>

using namespace pyjit::capture;

namespace {

/// The Python function that calling `f` runs; null if it is not one.
PyObject *pythonFunction(Recording &s, PyObject *f) {
  if (PyFunction_Check(f))
    return f;
  if (PyMethod_Check(f)) {
    if (s.objects.isExternal(f))
      s.containers.readFields(f, {"__func__", "__self__"});
    PyObject *function = PyMethod_GET_FUNCTION(f);
    return PyFunction_Check(function) ? function : nullptr;
  }
  if (PyType_Check(f) || !isHeap(f))
    return nullptr;
  PyObject *method = s.attributes.special(f, "__call__");
  return method && PyFunction_Check(method) ? method : nullptr;
}

/// A native function over lists and tuples: what its calls will read is read
/// now, call by call. `unpack`: each element is a tuple of the arguments.
ResultKind mapNative(Recording &s, const Call &c, bool unpack) {
  Py_ssize_t n = PY_SSIZE_T_MAX;
  // Numbers are followed through these where they are called alone.
  PyMethodDef *def = pyjitMethodDef(c.args[0]);
  for (const char *name : {"max", "min", "sum"})
    if (PyCFunction_Check(c.args[0]) && def && !std::strcmp(def->ml_name, name))
      s.end(ReasonKind::NativeFunction, std::string("map() of ") + name + "()");
  for (size_t i = 1; i < c.args.size(); ++i) {
    PyObject *from = c.args[i];
    s.containers.iterate(from);
    if (!PyTuple_Check(from) && !PyList_Check(from)) {
      if (def && PyCFunction_Check(c.args[0]) &&
          (!std::strcmp(def->ml_name, "is_") ||
           !std::strcmp(def->ml_name, "is_not")))
        s.operators.asksIdentity();
      s.end(ReasonKind::NativeFunction,
            "map() or filter() of a native function over a " + typeName(from));
      return ResultKind::Fresh;
    }
    n = std::min(n, PySequence_Fast_GET_SIZE(from));
  }
  for (Py_ssize_t k = 0; k < n && !s.ended(); ++k) {
    Call call;
    call.callable = c.args[0];
    for (size_t i = 1; i < c.args.size(); ++i) {
      PyObject *element = PySequence_Fast_GET_ITEM(c.args[i], k);
      s.containers.lookInto(element);
      if (!unpack) {
        call.args.push_back(element);
        continue;
      }
      if (!PyTuple_CheckExact(element)) {
        s.end(ReasonKind::NativeFunction,
              "starmap() over a " + typeName(element));
        break;
      }
      s.containers.readAll(element);
      for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(element); ++j)
        call.args.push_back(PyTuple_GET_ITEM(element, j));
    }
    if (s.ended())
      break;
    ResultKind resultKind = s.calls.call(call);
    if (resultKind == ResultKind::Constant)
      s.end(ReasonKind::NativeFunction,
            "map() of a function that makes tensors");
  }
  return ResultKind::Fresh;
}

/// Whether the results of calling `f` need no look: it is Python's, or makes
/// values.
ResultKind mapOver(Recording &s, const Call &c, unsigned uses) {
  if (c.args.empty())
    return ResultKind::Fresh;
  PyObject *f = c.args[0];
  if (PyCFunction_Check(f) || Py_TYPE(f) == &PyMethodDescr_Type ||
      !std::strcmp(Py_TYPE(f)->tp_name, "functools.partial"))
    return mapNative(s, c, false);
  PyObject *function = pythonFunction(s, f);
  for (size_t i = 1; i < c.args.size(); ++i) {
    s.containers.iterate(c.args[i]);
    if (makesTuples(c.args[i]))
      uses |= Calls::Tuples;
    if (!function && (PyList_Check(c.args[i]) || PyTuple_Check(c.args[i])))
      s.containers.readDeep(c.args[i]);
  }
  if (function) {
    if (s.objects.require(function))
      s.calls.callsBack(function, uses);
  } else if (f != Py_None && f != (PyObject *)&PyLong_Type &&
             f != (PyObject *)&PyUnicode_Type &&
             f != (PyObject *)&PyFloat_Type) {
    s.end(ReasonKind::NativeFunction,
          "map() or filter() with a " + typeName(f));
  }
  return ResultKind::Fresh;
}

ResultKind map(Recording &s, const Call &c) { return mapOver(s, c, 0); }

/// The truth of what the function returns is asked for, or of the elements.
ResultKind filter(Recording &s, const Call &c) {
  if (c.args.size() == 2 &&
      (c.args[0] == Py_None || c.args[0] == (PyObject *)&PyBool_Type)) {
    s.containers.iterate(c.args[1]);
    if (!PyList_Check(c.args[1]) && !PyTuple_Check(c.args[1]))
      s.end(ReasonKind::NativeFunction,
            "filter() over a " + typeName(c.args[1]));
    else
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(c.args[1]); ++i)
        s.operators.truth(PySequence_Fast_GET_ITEM(c.args[1], i));
    return ResultKind::Fresh;
  }
  if (!c.args.empty() && !PyFunction_Check(c.args[0]) &&
      !PyMethod_Check(c.args[0]))
    s.end(ReasonKind::NativeFunction, "filter() with a " + typeName(c.args[0]));
  return mapOver(s, c, Calls::Truth);
}

/// `compress(data, selectors)`.
ResultKind compress(Recording &s, const Call &c) {
  if (c.args.size() != 2 || c.kwnames)
    return s.calls.unknownNative(c);
  s.containers.iterate(c.args[0]);
  s.containers.iterate(c.args[1]);
  if (!PyList_Check(c.args[1]) && !PyTuple_Check(c.args[1])) {
    s.end(ReasonKind::NativeFunction, "compress() by a " + typeName(c.args[1]));
    return ResultKind::Fresh;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(c.args[1]); ++i)
    s.operators.truth(PySequence_Fast_GET_ITEM(c.args[1], i));
  return ResultKind::Fresh;
}

/// accumulate() of Python functions; sums of values and tensors.
ResultKind accumulate(Recording &s, const Call &c) {
  if (c.args.empty())
    return ResultKind::Fresh;
  PyObject *from = c.args[0];
  s.containers.iterate(from);
  PyObject *f = c.arg(1) && c.positional() > 1 ? c.args[1] : c.keyword("func");
  if (f && f != Py_None && PyFunction_Check(f))
    return ResultKind::Fresh;
  PyMethodDef *def = f ? pyjitMethodDef(f) : nullptr;
  bool add =
      !f || f == Py_None ||
      (def && PyCFunction_Check(f) && !std::strcmp(def->ml_name, "add") &&
       NativeTable::get().find(def));
  bool sums =
      add && (PyList_Check(from) || PyTuple_Check(from) || PyRange_Check(from));
  for (Py_ssize_t i = 0;
       sums && !PyRange_Check(from) && i < PySequence_Fast_GET_SIZE(from);
       ++i) {
    PyObject *item = PySequence_Fast_GET_ITEM(from, i);
    if (s.objects.isTensor(item))
      for (const char *name : {"__add__", "__radd__"})
        s.attributes.special(item, name);
    else
      sums = isValue(item);
  }
  if (PyObject *initial = c.keyword("initial"))
    sums &= isValue(initial) || s.objects.isTensor(initial);
  if (!sums)
    s.end(ReasonKind::NativeFunction,
          "accumulate() of something else than numbers and tensors");
  return ResultKind::Fresh;
}

/// What the elements of a list or tuple hold is read as well.
void iterateElements(Recording &s, PyObject *from) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(from) && !s.ended(); ++i)
    s.containers.iterate(PySequence_Fast_GET_ITEM(from, i));
}

ResultKind starmap(Recording &s, const Call &c) {
  if (c.args.size() != 2)
    return ResultKind::Fresh;
  if (PyCFunction_Check(c.args[0]))
    return mapNative(s, c, true);
  if (!PyFunction_Check(c.args[0]))
    s.end(ReasonKind::NativeFunction, "starmap() of a " + typeName(c.args[0]));
  s.containers.iterate(c.args[1]);
  if (PyList_Check(c.args[1]) || PyTuple_Check(c.args[1]))
    iterateElements(s, c.args[1]);
  else if (!makesTuples(c.args[1]))
    s.end(ReasonKind::NativeFunction,
          "starmap() over a " + typeName(c.args[1]));
  return ResultKind::Fresh;
}

/// `chain.from_iterable(lists)`.
ResultKind chainFrom(Recording &s, const Call &c) {
  if (c.args.size() != 1)
    return s.calls.unknownNative(c);
  PyObject *from = c.args[0];
  s.containers.iterate(from);
  if (!PyList_Check(from) && !PyTuple_Check(from)) {
    s.end(ReasonKind::NativeFunction,
          "chain.from_iterable() over a " + typeName(from));
    return ResultKind::Fresh;
  }
  iterateElements(s, from);
  return ResultKind::Fresh;
}

ResultKind tee(Recording &s, const Call &c) {
  if (!c.args.empty())
    s.containers.iterate(c.args[0]);
  return ResultKind::FreshDeep;
}

/// Of a class of the user's: by its own method, or by length and items.
ResultKind reversed(Recording &s, const Call &c) {
  if (c.args.size() != 1)
    return s.calls.unknownNative(c);
  PyObject *o = c.args[0];
  if (isValue(o) || !isHeap(o) || PyType_Check(o) || pyjitIsDeque(o)) {
    s.containers.iterate(o);
    return ResultKind::Fresh;
  }
  if (!s.objects.require(o))
    return ResultKind::Fresh;
  PyObject *method = s.attributes.special(o, "__reversed__");
  if (method && PyFunction_Check(method))
    return ResultKind::Known;
  if (method) {
    if (PyList_Check(o) || PyDict_Check(o))
      s.containers.readAll(o);
    else
      s.end(ReasonKind::UnusualObject, "reversed() of a " + typeName(o));
    return ResultKind::Fresh;
  }
  for (const char *name : {"__len__", "__getitem__"})
    if (PyObject *found = s.attributes.special(o, name);
        !found || !PyFunction_Check(found)) {
      if (PyTuple_Check(o))
        s.containers.readAll(o);
      else
        s.end(ReasonKind::UnusualObject, "reversed() of a " + typeName(o));
      break;
    }
  return ResultKind::Fresh;
}

} // namespace

void pyjit::capture::addIterators(NativeTable &t) {
  t.addType(&PyMap_Type, map);
  t.addType(&PyFilter_Type, filter);
  t.addType(&PyReversed_Type, reversed);
  for (const char *name : {"chain", "islice", "product", "zip_longest",
                           "combinations", "permutations", "pairwise", "cycle",
                           "combinations_with_replacement", "batched"})
    t.add(("itertools:" + std::string(name)).c_str(), nativeShallow);
  for (const char *name : {"takewhile", "dropwhile", "filterfalse"})
    t.add(("itertools:" + std::string(name)).c_str(), filter);
  t.add("itertools:compress", compress);
  t.add("itertools:chain.from_iterable", chainFrom);
  t.add("itertools:tee", tee);
  t.add("itertools:repeat", nativeNothing);
  t.add("itertools:count", nativeNothing);
  t.add("itertools:accumulate", accumulate);
  t.add("itertools:starmap", starmap);
}
