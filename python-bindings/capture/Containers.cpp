//===- Containers.cpp - Items, iteration, comparison, truth ---------------===//

#include "Session.h"
#include "Tensors.h"

#include <cstring>

using namespace pyjit::capture;

namespace {

bool isHeap(PyObject *o) {
  return PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_HEAPTYPE);
}

/// Native iterators and views over things that were read when they were made.
bool isNativeIterator(PyObject *o) {
  static const std::set<std::string> names = {"list_iterator",
                                              "tuple_iterator",
                                              "range_iterator",
                                              "str_iterator",
                                              "str_ascii_iterator",
                                              "set_iterator",
                                              "dict_keyiterator",
                                              "dict_valueiterator",
                                              "dict_itemiterator",
                                              "dict_reversekeyiterator",
                                              "dict_reversevalueiterator",
                                              "dict_reverseitemiterator",
                                              "odict_iterator",
                                              "list_reverseiterator",
                                              "reversed",
                                              "enumerate",
                                              "zip",
                                              "map",
                                              "filter",
                                              "generator",
                                              "bytes_iterator",
                                              "itertools.chain",
                                              "itertools.islice",
                                              "itertools.product",
                                              "itertools.zip_longest",
                                              "itertools.starmap",
                                              "itertools.repeat",
                                              "itertools.count",
                                              "itertools.accumulate",
                                              "itertools.combinations",
                                              "itertools.permutations",
                                              "itertools.pairwise"};
  return names.count(Py_TYPE(o)->tp_name);
}

bool isView(PyObject *o) {
  static const std::set<std::string> names = {
      "dict_keys",   "dict_values",  "dict_items", "odict_keys", "odict_values",
      "odict_items", "mappingproxy", "range",      "slice"};
  return names.count(Py_TYPE(o)->tp_name);
}

/// Compared by identity, or by C code over immutable data.
bool isPlainObject(PyObject *o) {
  if (PyType_Check(o) || PyFunction_Check(o) || PyCFunction_Check(o) ||
      PyModule_Check(o) || PyCode_Check(o) || PySlice_Check(o) ||
      PyRange_Check(o) || PyMethod_Check(o))
    return true;
  static const std::set<std::string> names = {
      "torch.dtype",         "torch.device",      "torch.layout",
      "torch.memory_format", "method_descriptor", "wrapper_descriptor",
      "method-wrapper",      "getset_descriptor", "member_descriptor",
      "types.GenericAlias",  "types.UnionType",   "traceback"};
  return names.count(Py_TYPE(o)->tp_name);
}

} // namespace

//===----------------------------------------------------------------------===//
// Reading external containers
//===----------------------------------------------------------------------===//

void Session::readAll(PyObject *o) {
  Node *node = isValue(o) ? nullptr : require(o);
  if (!node)
    return;
  if (!node->external)
    return;
  if (PyList_Check(o) || PyTuple_Check(o)) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    bool fixed = node->pinned && PyTuple_CheckExact(o);
    if (!fixed)
      length(node, n);
    for (Py_ssize_t i = 0; i < n; ++i)
      readIndex(node, Select::Item, i, PySequence_Fast_GET_ITEM(o, i));
    return;
  }
  if (PyDict_Check(o)) {
    PyObject *list = PyDict_Keys(o);
    keys(node, list);
    keep(list);
    Py_DECREF(list);
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (!dead && PyDict_Next(o, &position, &key, &value))
      read(node, Select::Item, key, value);
    return;
  }
  if (PyFrozenSet_CheckExact(o) && node->pinned) {
    PyObject *list = PySequence_List(o);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
      if (!known(PyList_GET_ITEM(list, i)))
        pin(PyList_GET_ITEM(list, i));
    keep(list);
    Py_DECREF(list);
    return;
  }
  if (PyAnySet_Check(o))
    return end("walking a set from before the call: its order is not known");
  end("reading a " + typeName(o) + " from before the call");
}

void Session::readDeep(PyObject *o, int depth) {
  if (dead || isValue(o))
    return;
  if (depth > 20)
    return end("a deeply nested object");
  if (isTensor(o))
    return end("comparing, hashing or printing a tensor");
  if (!require(o))
    return;
  if (PySlice_Check(o))
    return readFields(o, {"start", "stop", "step"});
  if (PyMethod_Check(o))
    return readFields(o, {"__func__", "__self__"});
  if (isPlainObject(o))
    return;
  if (PyList_CheckExact(o) || PyTuple_Check(o)) {
    readAll(o);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
      readDeep(PySequence_Fast_GET_ITEM(o, i), depth + 1);
    return;
  }
  if (PyDict_CheckExact(o) || Py_IS_TYPE(o, &PyODict_Type)) {
    readAll(o);
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(o, &position, &key, &value)) {
      readDeep(key, depth + 1);
      readDeep(value, depth + 1);
    }
    return;
  }
  if (PyAnySet_Check(o))
    return readAll(o);
  if (isHeap(o)) {
    // By identity, or by Python code that is followed.
    PyObject *eq = special(o, "__eq__");
    special(o, "__hash__");
    if (eq && PyFunction_Check(eq))
      return;
    Node *node = find(o);
    if (eq && Py_TYPE(eq) == &PyWrapperDescr_Type &&
        pyjitDescrType(eq) == &PyBaseObject_Type) {
      if (node->external && !node->pinned)
        pin(o);
      return;
    }
    // IntEnum, str enumerations and the like, pinned by identity.
    if (node->pinned)
      return;
  }
  if (Node *node = find(o);
      node && node->pinned &&
      (Py_TYPE(o)->tp_richcompare == nullptr ||
       Py_TYPE(o)->tp_richcompare == PyBaseObject_Type.tp_richcompare))
    return;
  end("comparing, hashing or printing a " + typeName(o));
}

void Session::dictItem(PyObject *dict, PyObject *key) {
  readDeep(key);
  Node *node = require(dict);
  if (!node || dead || !node->external)
    return;
  PyObject *value = PyDict_GetItemWithError(dict, key);
  if (value)
    read(node, Select::Item, key, value);
  else if (!PyErr_Occurred())
    absent(node, Select::Item, key);
  PyErr_Clear();
}

void Session::readFields(PyObject *object,
                         std::initializer_list<const char *> names) {
  Node *node = find(object);
  if (!node || !node->external)
    return;
  for (const char *text : names) {
    PyObject *value = PyObject_GetAttrString(object, text);
    if (!value)
      return end("an unusual " + typeName(object));
    PyObject *name = PyUnicode_InternFromString(text);
    keep(value);
    Py_DECREF(value);
    read(node, Select::Field, name, value);
  }
}

bool Session::append(PyObject *list, PyObject *item) {
  Node *node = require(list);
  if (!node || dead || !node->external || node->owned)
    return node && !node->external;
  if (doneIndex.count({node, -1, 0})) // read already: its contents are at hand
    return false;
  // What was read before stays guarded; from now on nothing may be.
  node->appended = true;
  keep(item);
  writes.push_back({node, Select::Item, nullptr, item});
  return true;
}

void Session::setItem(PyObject *set, PyObject *item) {
  Node *node = require(set);
  if (!node || dead || !node->external || node->owned)
    return;
  if (node->pinned && PyFrozenSet_CheckExact(set))
    return;
  int found = PySet_Contains(set, item);
  if (found < 0)
    return PyErr_Clear();
  if (!found)
    return absent(node, Select::Item, item);
  if (!firstTime(node, Select::Item, item))
    return;
  int value = ssa(node);
  writer.line("refgraph.holds %" + std::to_string(value) + " item(" +
                  keyText(item) + ") : " + node->type,
              location());
}

void Session::own(PyObject *o) {
  Node *node = require(o);
  if (!node || !node->external || node->owned)
    return;
  if (node->dictOf)
    return end("a change of an instance's __dict__");
  if (node->appended)
    return end("a list from before the call is changed after an append");
  if (!PyList_CheckExact(o) && !PyDict_CheckExact(o) && !PySet_Check(o))
    return end("a change of a " + typeName(o) + " from before the call");
  readAll(o);
  node->owned = node->replaced = true;
  replacedNodes.push_back(node);
}

void Session::writeItem(PyObject *dict, PyObject *key, PyObject *value) {
  Node *node = find(dict);
  if (!node)
    node = pin(dict);
  readDeep(key);
  if (dead || !node->external || node->owned)
    return;
  if (node->dictOf) {
    if (!PyUnicode_CheckExact(key))
      return end("a change of an instance's __dict__");
    return genericStore(node->dictOf->object, key, value);
  }
  if (value && !isValue(value) && !require(value))
    return;
  PyObject *old = PyDict_GetItemWithError(dict, key);
  if (!written(node, Select::Item, key)) {
    if (old)
      read(node, Select::Item, key, old);
    else
      absent(node, Select::Item, key);
  }
  if (!node->writtenItems)
    node->writtenItems = PyDict_New();
  if (PyDict_Contains(node->writtenItems, key) != 1)
    writes.push_back({node, Select::Item, key});
  PyDict_SetItem(node->writtenItems, key, Py_True);
  keep(key);
}

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

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
  return false;
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
  end("an item of a " + typeName(o));
  return Post::Fresh;
}

void Session::storeSubscript(PyObject *o, PyObject *key, PyObject *value) {
  if (isTensor(o)) {
    special(o, "__setitem__");
    if (!value || !isTensorIndex(*this, key) ||
        !(isTensor(value) || isValue(value)))
      end("storing into a tensor at a " + typeName(key));
    storingNumber = value && isValue(value);
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
    if (!PyDict_CheckExact(o) && node->external)
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
    // These make a tuple for every step; others hand out what is known.
    static const std::set<std::string> makers = {"enumerate",
                                                 "zip",
                                                 "dict_itemiterator",
                                                 "odict_iterator",
                                                 "itertools.product",
                                                 "itertools.zip_longest",
                                                 "itertools.pairwise",
                                                 "itertools.combinations",
                                                 "itertools.permutations",
                                                 "map",
                                                 "dict_reverseitemiterator"};
    return makers.count(Py_TYPE(iterator)->tp_name) ? Post::FreshTuples
                                                    : Post::Known;
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
    readDeep(item);
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

//===----------------------------------------------------------------------===//
// Truth, length, operators
//===----------------------------------------------------------------------===//

void Session::lengthOf(PyObject *o) {
  if (isValue(o))
    return;
  if (isTensor(o)) {
    special(o, "__len__");
    return;
  }
  Node *node = require(o);
  if (!node)
    return;
  if (isHeap(o) && !PyType_Check(o)) {
    PyObject *method = special(o, "__len__");
    if (!method || PyFunction_Check(method))
      return;
  }
  if (PyList_Check(o) || PyTuple_Check(o)) {
    if (!(node->pinned && PyTuple_CheckExact(o)))
      length(node, PySequence_Fast_GET_SIZE(o));
    return;
  }
  if (PyDict_Check(o)) {
    if (node->dictOf && node->external)
      return readAll(o);
    length(node, PyDict_GET_SIZE(o));
    return;
  }
  if (PyAnySet_Check(o)) {
    if (node->external)
      length(node, PySet_GET_SIZE(o));
    return;
  }
  if (isView(o) && !node->external)
    return;
  end("the length of a " + typeName(o));
}

void Session::truth(PyObject *o) {
  if (isValue(o))
    return;
  if (isTensor(o)) {
    if (!tensors->isConstant(o))
      end("a branch on a tensor's data");
    special(o, "__bool__");
    return;
  }
  if (!require(o))
    return;
  if (isHeap(o) && !PyType_Check(o)) {
    PyObject *method = special(o, "__bool__");
    if (method) {
      if (!PyFunction_Check(method))
        typeOf(o);
      return;
    }
    if (!special(o, "__len__"))
      return;
    return lengthOf(o);
  }
  PyTypeObject *type = Py_TYPE(o);
  bool hasLength = (type->tp_as_mapping && type->tp_as_mapping->mp_length) ||
                   (type->tp_as_sequence && type->tp_as_sequence->sq_length);
  if (hasLength && !PyType_Check(o))
    return lengthOf(o);
}

static bool isNumberLike(PyObject *o) { return isValue(o); }

Post Session::binary(PyObject *a, PyObject *b, const char *op, bool inplace) {
  if (isNumberLike(a) && isNumberLike(b))
    return Post::Fresh;
  bool tensor = isTensor(a) || isTensor(b);
  bool python = false;
  auto method = [&](PyObject *o, const std::string &name) {
    if (isValue(o) || !isHeap(o) || PyType_Check(o))
      return;
    if (!require(o))
      return;
    if (PyObject *found = special(o, name.c_str()))
      python |= PyFunction_Check(found);
  };
  if (inplace)
    method(a, std::string("__i") + op + "__");
  method(a, std::string("__") + op + "__");
  method(b, std::string("__r") + op + "__");
  if (tensor) {
    for (PyObject *o : {a, b})
      if (!isTensor(o) && !isValue(o)) {
        // A class of the user's with `__radd__`: the tensor's own method looks
        // for `__torch_function__` and declines.
        if (python && isHeap(o)) {
          if (special(o, "__torch_function__"))
            end("an object with __torch_function__");
          continue;
        }
        end("an operator of a tensor and a " + typeName(o));
      } else if (isTensor(o)) {
        require(o);
      }
    return Post::Known;
  }
  if (inplace &&
      (PyList_CheckExact(a) || PySet_Check(a) || PyDict_CheckExact(a)))
    own(a);
  for (PyObject *o : {a, b}) {
    if (isValue(o))
      continue;
    if (PyList_Check(o) || PyTuple_Check(o) || PyDict_Check(o) ||
        PyAnySet_Check(o)) {
      readAll(o);
    } else if (python || PyType_Check(o)) {
      require(o);
    } else if (isView(o) && !isExternal(o)) {
    } else if (inplace && PyList_CheckExact(a)) {
      iterate(o);
    } else {
      end(std::string("operator ") + op + " of a " + typeName(o));
    }
  }
  // `"%s" % x` prints.
  if (PyUnicode_CheckExact(a) && !std::strcmp(op, "mod"))
    readDeep(b);
  return Post::Fresh;
}

Post Session::compare(PyObject *a, PyObject *b, const char *op) {
  if (isTensor(a) || isTensor(b)) {
    std::string name = std::string("__") + op + "__";
    for (PyObject *o : {a, b}) {
      if (isTensor(o)) {
        require(o);
        special(o, name.c_str());
      } else if (!isValue(o)) {
        end("a comparison of a tensor and a " + typeName(o));
      }
    }
    return Post::Known;
  }
  std::string name = std::string("__") + op + "__";
  for (PyObject *o : {a, b})
    if (!isValue(o) && isHeap(o) && !PyType_Check(o) && require(o))
      special(o, name.c_str());
  readDeep(a);
  readDeep(b);
  return Post::Fresh;
}

void Session::identity(PyObject *a, PyObject *b) {
  auto singleton = [](PyObject *o) {
    return o == Py_None || PyBool_Check(o) || o == Py_Ellipsis ||
           o == Py_NotImplemented;
  };
  if (singleton(a) || singleton(b)) {
    for (PyObject *o : {a, b})
      if (!isValue(o))
        require(o);
    return;
  }
  if (isValue(a) || isValue(b)) {
    if (isValue(a) && isValue(b) && Py_TYPE(a) == Py_TYPE(b))
      end("`is` between two numbers or strings");
    return;
  }
  Node *left = require(a), *right = require(b);
  if (!left || !right || left == right || !left->external || !right->external)
    return;
  if ((left->pinned && right->pinned) || Py_TYPE(a) != Py_TYPE(b))
    return;
  if (!doneIndex.insert({left, -3, reinterpret_cast<Py_ssize_t>(b)}).second)
    return;
  int x = ssa(left), y = ssa(right);
  writer.line("refgraph.distinct %" + std::to_string(x) + ", %" +
                  std::to_string(y) + " : " + left->type + ", " + right->type,
              location());
}

Post Session::format(PyObject *o) {
  if (isValue(o))
    return Post::Fresh;
  if (isTensor(o)) {
    end("printing a tensor");
    return Post::Fresh;
  }
  if (!require(o))
    return Post::Fresh;
  if (isHeap(o) && !PyType_Check(o)) {
    for (const char *name : {"__format__", "__str__", "__repr__"})
      special(o, name);
    PyObject *str =
        pyjitTypeLookup(Py_TYPE(o), PyUnicode_InternFromString("__str__"));
    PyObject *repr =
        pyjitTypeLookup(Py_TYPE(o), PyUnicode_InternFromString("__repr__"));
    if ((str && PyFunction_Check(str)) || (repr && PyFunction_Check(repr)))
      return Post::Fresh;
    if (PyExceptionInstance_Check(o) && !isExternal(o))
      return Post::Fresh;
    end("printing a " + typeName(o));
    return Post::Fresh;
  }
  if (PyExceptionInstance_Check(o) && !isExternal(o))
    return Post::Fresh;
  if (PyFunction_Check(o) || PyCFunction_Check(o) || PyMethod_Check(o) ||
      PyCode_Check(o))
    end("printing a " + typeName(o)); // its address
  else
    readDeep(o);
  return Post::Fresh;
}
