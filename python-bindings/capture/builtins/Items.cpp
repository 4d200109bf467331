//===- Items.cpp - Subscripts, iteration, membership ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"
#include "tensors/Tensors.h"

#include <cstring>

using namespace pyjit::capture;

/// Lists of plain integers and booleans, nested or not.
static bool isNumberList(PyObject *list, int depth = 0) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject *item = PyList_GET_ITEM(list, i);
    bool nested =
        PyList_CheckExact(item) && depth < 5 && isNumberList(item, depth + 1);
    if (!nested && !PyLong_CheckExact(item) && !PyBool_Check(item))
      return false;
  }
  return true;
}

/// Of a slice of a tensor: a bound may be a tensor, if no input reaches it.
static void readBounds(Recording &s, PyObject *slice) {
  s.containers.readFields(slice, {"start", "stop", "step"});
  auto *parts = reinterpret_cast<PySliceObject *>(slice);
  for (PyObject *bound : {parts->start, parts->stop, parts->step})
    if (!s.objects.isTensor(bound) || !s.tensors->isConstant(bound))
      s.containers.readDeep(bound);
}

/// What may stand between the brackets of a tensor without its data or Python
/// sequences becoming tensors behind the dispatcher's back.
static bool isTensorIndex(Recording &s, PyObject *key) {
  if (key == Py_None || key == Py_Ellipsis || PyLong_CheckExact(key))
    return true;
  if (PySlice_Check(key)) {
    readBounds(s, key);
    return true;
  }
  if (s.objects.isTensor(key))
    return s.objects.known(key);
  if (PyTuple_CheckExact(key)) {
    s.containers.readAll(key);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      if (PyTuple_Check(PyTuple_GET_ITEM(key, i)) ||
          !isTensorIndex(s, PyTuple_GET_ITEM(key, i)))
        return false;
    return true;
  }
  // A list of numbers, or a range that the call has made, becomes a tensor
  // behind the dispatcher's back.
  bool ownRange =
      PyRange_Check(key) && s.objects.find(key) && !s.objects.isExternal(key);
  if (ownRange || (PyList_CheckExact(key) && isNumberList(key))) {
    s.containers.readDeep(key);
    s.scalars.specializeDeep(key);
    s.now.numbersAsTensors = true;
    return true;
  }
  return false;
}

/// An item that a defaultdict lacks: it calls its factory and keeps what that
/// returns.
static ResultKind defaultItem(Recording &s, PyObject *dict, PyObject *key) {
  PyObject *factory = PyObject_GetAttrString(dict, "default_factory");
  PyErr_Clear();
  Py_XDECREF(factory); // the dict keeps it
  if (!factory)
    return s.calls.unknownNative({});
  s.containers.readFields(dict, {"default_factory"});
  s.containers.dictItem(dict, key);
  if (factory == Py_None || s.ended())
    return ResultKind::Known;
  Call call;
  call.callable = factory;
  ResultKind resultKind = s.calls.call(call);
  // What the factory returns has to be kept: no graph break can go on in it.
  s.now.callee = nullptr;
  s.now.callsNative = true;
  if (s.objects.isExternal(dict))
    s.containers.writeItem(dict, key, factory);
  return resultKind;
}

ResultKind Containers::subscript(PyObject *o, PyObject *key) {
  if (isValue(o)) {
    readDeep(key);
    return ResultKind::Fresh;
  }
  if (ObjectTable::isTensor(o)) {
    s.attributes.special(o, "__getitem__");
    if (!isTensorIndex(s, key))
      s.end(ReasonKind::TensorArgument,
            "a tensor indexed by a " + typeName(key));
    return ResultKind::Known;
  }
  Node *node = s.objects.require(o);
  if (!node)
    return ResultKind::Known;
  if (isDefaultDict(o) && PyDict_Contains(o, key) == 0)
    return defaultItem(s, o, key);
  PyErr_Clear(); // a key that cannot be hashed
  if (isHeap(o) && !PyType_Check(o)) {
    PyObject *getter = s.attributes.special(o, "__getitem__");
    if (getter && PyFunction_Check(getter))
      return ResultKind::Known;
    if (PyDict_Check(o)) {
      PyObject *missing = s.attributes.special(o, "__missing__");
      if (missing && !PyFunction_Check(missing) && PyDict_Contains(o, key) == 0)
        s.end(ReasonKind::UnusualObject, "a missing key of a " + typeName(o));
      PyErr_Clear(); // a key that cannot be hashed
    }
  }
  if (PyTuple_Check(o) || PyList_Check(o)) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    if (PyLong_Check(key)) {
      Py_ssize_t i = PyLong_AsSsize_t(key);
      if (i < 0 && i >= -s.containers.appendedTo(node))
        return ResultKind::Known; // `losses.append(l)`, then `losses[-1]`
      if (i < 0 || i >= n) {
        PyErr_Clear();
        if (node->external && !(node->pinned && PyTuple_CheckExact(o)))
          s.reads.length(node, n);
        i = i < 0 ? i + n : i;
      }
      if (i >= 0 && i < n)
        s.reads.readIndex(node, Select::Item, i,
                          PySequence_Fast_GET_ITEM(o, i));
      return ResultKind::Known;
    }
    readDeep(key);
    readAll(o);
    return ResultKind::Fresh;
  }
  if (PyDict_Check(o)) {
    dictItem(o, key);
    return ResultKind::Known;
  }
  // `Callable[[A], B]` in an annotation of a nested function: made in Python.
  static PyObject *callableClass = findObject("collections.abc:Callable");
  if (o == callableClass) {
    readDeep(key);
    return ResultKind::Constant;
  }
  if (PyType_Check(o)) {
    PyObject *meta = s.attributes.special(o, "__getitem__");
    if (meta && PyFunction_Check(meta))
      return ResultKind::Known;
    s.attributes.typeLookup(reinterpret_cast<PyTypeObject *>(o),
                            "__class_getitem__");
    // What is made keeps it.
    s.scalars.specializeDeep(key);
    readDeep(key);
    return ResultKind::Fresh;
  }
  if (PyRange_Check(o))
    return ResultKind::Fresh;
  if (pyjitIsDeque(o)) {
    Py_ssize_t i = PyLong_Check(key) ? PyLong_AsSsize_t(key) : 0;
    PyErr_Clear();
    if (node->external && (i >= 0 || i < -s.containers.appendedTo(node)))
      readAll(o);
    return ResultKind::Known;
  }
  if (!node->external && !std::strcmp(Py_TYPE(o)->tp_name, "re.Match") &&
      isValue(key)) {
    s.scalars.specializeDeep(key);
    return ResultKind::Fresh;
  }
  s.end(ReasonKind::UnusualObject, "an item of a " + typeName(o));
  return ResultKind::Fresh;
}

/// Whether a subscript of this dict is set, or deleted, by its builtin type's
/// own method.
static bool storesPlainly(Recording &s, PyObject *dict, PyObject *value) {
  if (PyDict_CheckExact(dict) || PyODict_CheckExact(dict) ||
      isDefaultDict(dict))
    return true;
  PyObject *setter =
      isHeap(dict)
          ? s.attributes.special(dict, value ? "__setitem__" : "__delitem__")
          : nullptr;
  if (!setter || Py_TYPE(setter) != &PyWrapperDescr_Type)
    return false;
  PyTypeObject *owner = pyjitDescrType(setter);
  return owner == (PyODict_Check(dict) ? &PyODict_Type : &PyDict_Type);
}

void Containers::storeSubscript(PyObject *o, PyObject *key, PyObject *value) {
  if (ObjectTable::isTensor(o)) {
    s.attributes.special(o, "__setitem__");
    bool number = value && (isValue(value) || isNumpyNumber(value));
    if (!value || !isTensorIndex(s, key))
      s.end(ReasonKind::TensorArgument,
            "storing into a tensor at a " + typeName(key));
    else if (!number && !ObjectTable::isTensor(value))
      s.end(ReasonKind::TensorArgument,
            "storing a " + typeName(value) + " into a tensor");
    if (number && !isValue(value))
      s.objects.require(value);
    s.now.storingNumber = number;
    return;
  }
  Node *node = s.objects.require(o);
  if (!node)
    return;
  if (isHeap(o)) {
    PyObject *setter =
        s.attributes.special(o, value ? "__setitem__" : "__delitem__");
    if (setter && PyFunction_Check(setter))
      return;
  }
  if (PyDict_Check(o)) {
    if (node->external && !storesPlainly(s, o, value))
      return s.end(ReasonKind::EarlierObject,
                   "a change of a " + typeName(o) + " from before the call");
    return writeItem(o, key, value);
  }
  if (PyList_CheckExact(o)) {
    if (node->external)
      own(o);
    if (!PyLong_Check(key) && value)
      iterate(value);
    return;
  }
  if (pyjitIsDeque(o))
    return own(o);
  s.end(ReasonKind::UnusualObject, "storing an item of a " + typeName(o));
}

/// Whether a call of a Python function makes a generator, and runs nothing.
static bool makesGenerator(PyObject *function) {
  auto *code = reinterpret_cast<PyCodeObject *>(
      reinterpret_cast<PyFunctionObject *>(function)->func_code);
  return code->co_flags & CO_GENERATOR;
}

ResultKind Containers::iterate(PyObject *o) {
  if (isValue(o))
    return ResultKind::Fresh;
  if (ObjectTable::isTensor(o)) {
    s.attributes.special(o, "__iter__");
    return ResultKind::Known;
  }
  if (!s.objects.require(o))
    return ResultKind::Known;
  if (isHeap(o) && !PyType_Check(o)) {
    PyObject *iter = s.attributes.special(o, "__iter__");
    if (iter && PyFunction_Check(iter))
      return makesGenerator(iter) ? ResultKind::Fresh : ResultKind::Known;
    if (!iter) {
      s.attributes.special(o, "__getitem__");
      s.attributes.special(o, "__len__");
      return ResultKind::Fresh;
    }
  }
  if (PyAnySet_Check(o)) {
    readElements(o);
    if (holdsTensors(o))
      s.end(ReasonKind::ObjectIdentity,
            "walking a set of tensors: its order follows their addresses");
    return ResultKind::Fresh;
  }
  if (PyList_Check(o) || PyTuple_Check(o) || PyDict_Check(o) ||
      pyjitIsDeque(o)) {
    readAll(o);
    return ResultKind::Fresh;
  }
  if (PyRange_Check(o))
    return ResultKind::Fresh;
  if (isNativeIterator(o) || isView(o)) {
    if (s.objects.isExternal(o))
      s.end(ReasonKind::EarlierObject,
            "iterating over a " + typeName(o) + " from before the call");
    return ResultKind::Fresh;
  }
  if (PyType_Check(o)) {
    PyObject *iter = s.attributes.special(o, "__iter__");
    if (iter && PyFunction_Check(iter))
      return makesGenerator(iter) ? ResultKind::Fresh : ResultKind::Known;
  }
  s.end(ReasonKind::UnusualObject, "iterating over a " + typeName(o));
  return ResultKind::Fresh;
}

void Containers::hintLength(PyObject *o) {
  if (isValue(o) || !isHeap(o) || PyType_Check(o) || !s.objects.require(o))
    return;
  if (!s.attributes.special(o, "__len__"))
    s.attributes.special(o, "__length_hint__");
}

ResultKind Containers::next(PyObject *iterator) {
  Node *node = s.objects.require(iterator);
  if (!node)
    return ResultKind::Known;
  if (isNativeIterator(iterator)) {
    if (node->external)
      s.end(ReasonKind::EarlierObject,
            "a " + typeName(iterator) + " from before the call");
    return makesTuples(iterator) ? ResultKind::FreshTuples : ResultKind::Known;
  }
  PyObject *method = s.attributes.special(iterator, "__next__");
  if (!method || !PyFunction_Check(method))
    s.end(ReasonKind::UnusualObject,
          "the next item of a " + typeName(iterator));
  return ResultKind::Known;
}

void Containers::contains(PyObject *container, PyObject *item) {
  if (isValue(container))
    return readDeep(item);
  if (ObjectTable::isTensor(container))
    return s.end(ReasonKind::DataInPython, "`in` of a tensor");
  if (!s.objects.require(container))
    return;
  if (isHeap(container)) {
    PyObject *method = s.attributes.special(container, "__contains__");
    if (method && PyFunction_Check(method))
      return;
    if (!method)
      iterate(container);
  }
  if (PyDict_Check(container))
    return s.scalars.isFollowed(item) ? readKeys(container)
                                      : dictKey(container, item);
  if (PyAnySet_Check(container)) {
    hashInto(container, item);
    return setItem(container, item);
  }
  if (PyList_Check(container) || PyTuple_Check(container) ||
      PyRange_Check(container)) {
    // Identity comes first: `tensor in [tensor]` never compares it.
    readDeep(item);
    return readDeep(container);
  }
  if (pyjitIsDeque(container)) {
    readDeep(item);
    for (PyObject *element : elementsIn(container))
      readDeep(element);
    return readAll(container);
  }
  if (Py_IS_TYPE(container, &PyDictKeys_Type) || isView(container)) {
    if (s.objects.isExternal(container))
      return s.end(ReasonKind::UnusualObject, "`in` of a " +
                                                  typeName(container) +
                                                  " from before the call");
    return readDeep(item);
  }
  if (PyType_Check(container)) { // an enumeration class
    PyObject *method = s.attributes.special(container, "__contains__");
    if (method && PyFunction_Check(method))
      return;
  }
  if (isNativeIterator(container) && !s.objects.isExternal(container)) {
    readDeep(item);
    return lookAtItems(container);
  }
  s.end(ReasonKind::UnusualObject, "`in` of a " + typeName(container));
}
