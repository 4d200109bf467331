//===- Items.cpp - Subscripts, iteration, membership --------------------===//

#include "Session.h"
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

/// What may stand between the brackets of a tensor without its data or Python
/// sequences becoming tensors behind the dispatcher's back.
static bool isTensorIndex(Session &s, PyObject *key) {
  if (key == Py_None || key == Py_Ellipsis || PyLong_CheckExact(key))
    return true;
  if (PySlice_Check(key)) {
    s.readDeep(key);
    return true;
  }
  if (s.isTensor(key))
    return s.known(key);
  if (PyTuple_CheckExact(key)) {
    s.readAll(key);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      if (PyTuple_Check(PyTuple_GET_ITEM(key, i)) ||
          !isTensorIndex(s, PyTuple_GET_ITEM(key, i)))
        return false;
    return true;
  }
  // A list of numbers becomes a tensor behind the dispatcher's back.
  if (PyList_CheckExact(key) && isNumberList(key)) {
    s.readDeep(key);
    s.scalars.pinDeep(key);
    s.now.numbersAsTensors = true;
    return true;
  }
  return false;
}

static bool isDefaultDict(PyObject *dict) {
  return !std::strcmp(Py_TYPE(dict)->tp_name, "collections.defaultdict");
}

/// An item that a defaultdict lacks: it calls its factory and keeps what that
/// returns.
static Post defaultItem(Session &s, PyObject *dict, PyObject *key) {
  PyObject *factory = PyObject_GetAttrString(dict, "default_factory");
  PyErr_Clear();
  Py_XDECREF(factory); // the dict keeps it
  if (!factory)
    return s.unknownNative({});
  s.readFields(dict, {"default_factory"});
  s.dictItem(dict, key);
  if (factory == Py_None || s.ended())
    return Post::Known;
  Call call;
  call.callable = factory;
  Post post = s.call(call);
  // What the factory returns has to be kept: no cut can go on in it.
  s.now.callee = nullptr;
  s.now.callsNative = true;
  if (s.isExternal(dict))
    s.writeItem(dict, key, factory);
  return post;
}

Post Session::subscript(PyObject *o, PyObject *key) {
  if (isValue(o)) {
    readDeep(key);
    return Post::Fresh;
  }
  if (isTensor(o)) {
    special(o, "__getitem__");
    if (!isTensorIndex(*this, key))
      end("a tensor indexed by a " + typeName(key));
    return Post::Known;
  }
  Node *node = require(o);
  if (!node)
    return Post::Known;
  if (isDefaultDict(o) && PyDict_Contains(o, key) == 0)
    return defaultItem(*this, o, key);
  PyErr_Clear(); // a key that cannot be hashed
  if (isHeap(o) && !PyType_Check(o)) {
    PyObject *getter = special(o, "__getitem__");
    if (getter && PyFunction_Check(getter))
      return Post::Known;
    if (PyDict_Check(o)) {
      PyObject *missing = special(o, "__missing__");
      if (missing && !PyFunction_Check(missing) && !PyDict_Contains(o, key)) {
        PyErr_Clear();
        end("a missing key of a " + typeName(o));
      }
    }
  }
  if (PyTuple_Check(o) || PyList_Check(o)) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    if (PyLong_Check(key)) {
      Py_ssize_t i = PyLong_AsSsize_t(key);
      if (i < 0 || i >= n) {
        PyErr_Clear();
        if (node->external && !(node->pinned && PyTuple_CheckExact(o)))
          length(node, n);
        i = i < 0 ? i + n : i;
      }
      if (i >= 0 && i < n)
        readIndex(node, Select::Item, i, PySequence_Fast_GET_ITEM(o, i));
      return Post::Known;
    }
    readDeep(key);
    readAll(o);
    return Post::Fresh;
  }
  if (PyDict_Check(o)) {
    dictItem(o, key);
    return Post::Known;
  }
  if (PyType_Check(o)) {
    PyObject *meta = special(o, "__getitem__");
    if (meta && PyFunction_Check(meta))
      return Post::Known;
    typeLookup(reinterpret_cast<PyTypeObject *>(o), "__class_getitem__");
    return Post::Fresh;
  }
  if (PyRange_Check(o))
    return Post::Fresh;
  if (!node->external && !std::strcmp(Py_TYPE(o)->tp_name, "collections.deque"))
    return Post::Known;
  end("an item of a " + typeName(o));
  return Post::Fresh;
}

/// Whether a subscript of this dict is set, or deleted, by its builtin type's
/// own method.
static bool storesPlainly(Session &s, PyObject *dict, PyObject *value) {
  if (PyDict_CheckExact(dict) || PyODict_CheckExact(dict) ||
      isDefaultDict(dict))
    return true;
  PyObject *setter =
      isHeap(dict) ? s.special(dict, value ? "__setitem__" : "__delitem__")
                   : nullptr;
  if (!setter || Py_TYPE(setter) != &PyWrapperDescr_Type)
    return false;
  PyTypeObject *owner = pyjitDescrType(setter);
  return owner == (PyODict_Check(dict) ? &PyODict_Type : &PyDict_Type);
}

void Session::storeSubscript(PyObject *o, PyObject *key, PyObject *value) {
  if (isTensor(o)) {
    special(o, "__setitem__");
    if (!value || !isTensorIndex(*this, key) ||
        !(isTensor(value) || isValue(value)))
      end("storing into a tensor at a " + typeName(key));
    now.storingNumber = value && isValue(value);
    return;
  }
  Node *node = require(o);
  if (!node)
    return;
  if (isHeap(o)) {
    PyObject *setter = special(o, value ? "__setitem__" : "__delitem__");
    if (setter && PyFunction_Check(setter))
      return;
  }
  if (PyDict_Check(o)) {
    if (node->external && !storesPlainly(*this, o, value))
      return end("a change of a " + typeName(o) + " from before the call");
    return writeItem(o, key, value);
  }
  if (PyList_CheckExact(o)) {
    if (node->external)
      own(o);
    if (!PyLong_Check(key) && value)
      iterate(value);
    return;
  }
  end("storing an item of a " + typeName(o));
}

Post Session::iterate(PyObject *o) {
  if (isValue(o))
    return Post::Fresh;
  if (isTensor(o)) {
    special(o, "__iter__");
    return Post::Known;
  }
  if (!require(o))
    return Post::Known;
  if (isHeap(o) && !PyType_Check(o)) {
    PyObject *iter = special(o, "__iter__");
    if (iter && PyFunction_Check(iter))
      return Post::Known;
    if (!iter) {
      special(o, "__getitem__");
      special(o, "__len__");
      return Post::Fresh;
    }
  }
  if (PyList_Check(o) || PyTuple_Check(o) || PyDict_Check(o) ||
      PyAnySet_Check(o)) {
    readAll(o);
    if (PyAnySet_Check(o) && holdsTensors(o))
      end("walking a set of tensors: its order follows their addresses");
    return Post::Fresh;
  }
  if (!std::strcmp(Py_TYPE(o)->tp_name, "collections.deque")) {
    if (isExternal(o))
      end("a deque from before the call");
    return Post::Fresh;
  }
  if (isNativeIterator(o) || isView(o)) {
    if (isExternal(o))
      end("iterating over a " + typeName(o) + " from before the call");
    return Post::Fresh;
  }
  if (PyType_Check(o)) {
    PyObject *iter = special(o, "__iter__");
    if (iter && PyFunction_Check(iter))
      return Post::Known;
  }
  end("iterating over a " + typeName(o));
  return Post::Fresh;
}

Post Session::next(PyObject *iterator) {
  Node *node = require(iterator);
  if (!node)
    return Post::Known;
  if (isNativeIterator(iterator)) {
    if (node->external)
      end("a " + typeName(iterator) + " from before the call");
    return makesTuples(iterator) ? Post::FreshTuples : Post::Known;
  }
  PyObject *method = special(iterator, "__next__");
  if (!method || !PyFunction_Check(method))
    end("the next item of a " + typeName(iterator));
  return Post::Known;
}

void Session::contains(PyObject *container, PyObject *item) {
  if (isValue(container))
    return readDeep(item);
  if (isTensor(container))
    return end("`in` of a tensor");
  if (!require(container))
    return;
  if (isHeap(container)) {
    PyObject *method = special(container, "__contains__");
    if (method && PyFunction_Check(method))
      return;
    if (!method)
      iterate(container);
  }
  if (PyDict_Check(container))
    return dictItem(container, item);
  if (PyAnySet_Check(container)) {
    hashInto(container, item);
    return setItem(container, item);
  }
  if (PyList_Check(container) || PyTuple_Check(container)) {
    // Identity comes first: `tensor in [tensor]` never compares it.
    readDeep(item);
    return readDeep(container);
  }
  if (Py_IS_TYPE(container, &PyDictKeys_Type) || isView(container)) {
    if (isExternal(container))
      return end("`in` of a " + typeName(container) + " from before the call");
    return readDeep(item);
  }
  if (PyType_Check(container)) { // an enumeration class
    PyObject *method = special(container, "__contains__");
    if (method && PyFunction_Check(method))
      return;
  }
  if (isNativeIterator(container) && !isExternal(container))
    return;
  end("`in` of a " + typeName(container));
}
