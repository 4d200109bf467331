//===- Operators.cpp - Truth, length, operators, printing ---------------===//

#include "Session.h"
#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"
#include "tensors/Tensors.h"

#include <cstring>

using namespace pyjit::capture;

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
  if ((isView(o) || !std::strcmp(Py_TYPE(o)->tp_name, "collections.deque")) &&
      !node->external)
    return;
  end("the length of a " + typeName(o));
}

void Session::truth(PyObject *o) {
  if (isValue(o))
    return;
  if (isTensor(o)) {
    // In front of the cut: merged with what follows, the branch is a part of
    // the record.
    special(o, "__bool__");
    if (!tensors->isConstant(o))
      end("a branch on a tensor's data");
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

/// A member of an enumeration that is an int or float, known by identity.
static bool isNumberMember(PyObject *o) {
  return (PyLong_Check(o) || PyFloat_Check(o)) &&
         !std::strcmp(Py_TYPE(Py_TYPE(o))->tp_name, "EnumType");
}

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
        // numpy's number on the right, and members of enumerations that are
        // numbers, are taken as numbers.
        if ((isNumpyNumber(o) && o == b) || isNumberMember(o)) {
          require(o);
          continue;
        }
        end("an operator of a tensor and a " + typeName(o));
      } else if (isTensor(o)) {
        require(o);
      }
    return Post::Known;
  }
  if ((isNumberLike(a) || isNumpyNumber(a)) &&
      (isNumberLike(b) || isNumpyNumber(b))) {
    for (PyObject *o : {a, b})
      if (!isValue(o))
        require(o);
    return PyUnicode_Check(a) || PyUnicode_Check(b) || PyBytes_Check(a) ||
                   PyBytes_Check(b)
               ? (end("an operator of a string and a number of numpy's"),
                  Post::Fresh)
               : Post::Fresh;
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
  if (isByValue(a) || isByValue(b))
    return end("`is` between two objects that are told apart by their value");
  Node *left = require(a), *right = require(b);
  if (!left || !right || left == right || !left->external || !right->external)
    return;
  apart(left, right);
}

void Session::apart(Node *left, Node *right) {
  PyObject *a = left->object, *b = right->object;
  if ((left->pinned && right->pinned) || Py_TYPE(a) != Py_TYPE(b))
    return;
  if (!doneIndex.insert({left, -3, reinterpret_cast<Py_ssize_t>(b)}).second)
    return;
  PyjitValue x = ssa(left), y = ssa(right);
  add(PyjitDistinctOp{.lhs = x, .rhs = y});
}

/// What C code raised holds a tuple that no instruction made.
void Session::exceptionArguments(PyObject *exception) {
  PyObject *args = reinterpret_cast<PyBaseExceptionObject *>(exception)->args;
  if (!args || !PyTuple_Check(args))
    return;
  if (!known(args))
    born(args);
  readDeep(args);
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
    if (PyExceptionInstance_Check(o) && !isExternal(o)) {
      exceptionArguments(o);
      return Post::Fresh;
    }
    end("printing a " + typeName(o));
    return Post::Fresh;
  }
  if (PyExceptionInstance_Check(o) && !isExternal(o)) {
    exceptionArguments(o);
    return Post::Fresh;
  }
  if (PyType_Check(o) && isHeap(o)) // a metaclass of the user's
    special(o, "__repr__");
  if (PyType_Check(o)) {
    for (const char *name : {"__module__", "__qualname__"})
      loadAttr(o, PyUnicode_InternFromString(name));
    return Post::Fresh;
  }
  if (PyFunction_Check(o) || PyCFunction_Check(o) || PyMethod_Check(o) ||
      PyCode_Check(o))
    end("printing a " + typeName(o)); // its address
  else
    formatParts(o);
  return Post::Fresh;
}

/// A container prints its elements by their own classes.
void Session::formatParts(PyObject *o) {
  readDeep(o);
  auto part = [&](PyObject *element) {
    if (!isValue(element) && !ended())
      format(element);
  };
  // One that holds itself prints that as dots.
  if (Py_ReprEnter(o) != 0)
    return;
  if (PyList_Check(o) || PyTuple_Check(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
      part(PySequence_Fast_GET_ITEM(o, i));
  } else if (PyDict_Check(o)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(o, &position, &key, &value)) {
      part(key);
      part(value);
    }
  }
  Py_ReprLeave(o);
}
