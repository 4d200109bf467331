//===- Operators.cpp - Truth, length, operators, printing -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Recording.h"
#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"
#include "tensors/Tensors.h"

#include <algorithm>
#include <cstring>
#include <iterator>

using namespace pyjit::capture;

void Operators::lengthOf(PyObject *o) {
  if (isValue(o))
    return;
  if (ObjectTable::isTensor(o)) {
    s.attributes.special(o, "__len__");
    return;
  }
  Node *node = s.objects.require(o);
  if (!node)
    return;
  if (isHeap(o) && !PyType_Check(o)) {
    PyObject *method = s.attributes.special(o, "__len__");
    if (!method || PyFunction_Check(method))
      return;
  }
  if (PyList_Check(o) || PyTuple_Check(o)) {
    if (!(node->pinned && PyTuple_CheckExact(o)))
      s.reads.length(node, PySequence_Fast_GET_SIZE(o));
    return;
  }
  if (PyDict_Check(o)) {
    if (node->dictOf && node->external)
      return s.containers.readAll(o);
    s.reads.length(node, PyDict_GET_SIZE(o));
    return;
  }
  if (PyAnySet_Check(o)) {
    if (node->external)
      s.reads.length(node, PySet_GET_SIZE(o));
    return;
  }
  if (PyRange_Check(o))
    return;
  if (pyjitIsDeque(o))
    return s.reads.length(node, Py_SIZE(o));
  if (isView(o) && !node->external)
    return;
  s.end(ReasonKind::UnusualObject, "the length of a " + typeName(o));
}

void Operators::truth(PyObject *o) {
  if (isValue(o))
    return;
  if (ObjectTable::isTensor(o)) {
    // In front of the graph break: merged with what follows, the branch is a
    // part of the specialization.
    s.attributes.special(o, "__bool__");
    if (!s.tensors->isConstant(o))
      s.end(ReasonKind::BranchOnData, kBranchOnData);
    return;
  }
  if (!s.objects.require(o))
    return;
  if (isHeap(o) && !PyType_Check(o)) {
    PyObject *method = s.attributes.special(o, "__bool__");
    if (method) {
      if (!PyFunction_Check(method))
        s.reads.typeOf(o);
      return;
    }
    if (!s.attributes.special(o, "__len__"))
      return;
    return lengthOf(o);
  }
  PyTypeObject *type = Py_TYPE(o);
  bool hasLength = (type->tp_as_mapping && type->tp_as_mapping->mp_length) ||
                   (type->tp_as_sequence && type->tp_as_sequence->sq_length);
  if (hasLength && !PyType_Check(o))
    return lengthOf(o);
}

bool Operators::assumesTruth(PyObject *o) {
  const ShadowFrame &top = s.tracker.frames.back();
  bool asks = ObjectTable::isTensor(o) && !s.tensors->isConstant(o) &&
              !isTransformed(o) && top.code && s.decisions.atTruth &&
              s.decisions.atTruth(top.code, top.offset, o);
  if (asks)
    s.now.deciding = true; // the question itself is not recorded
  return asks;
}

void Operators::truthAsValue(PyObject *o) {
  if (!assumesTruth(o))
    truth(o);
}

static bool isNumberLike(PyObject *o) { return isValue(o); }

/// A member of an enumeration that is an int or float, known by identity.
static bool isNumberMember(PyObject *o) {
  return (PyLong_Check(o) || PyFloat_Check(o)) &&
         !std::strcmp(Py_TYPE(Py_TYPE(o))->tp_name, "EnumType");
}

ResultKind Operators::binary(PyObject *a, PyObject *b, const char *op,
                             bool inplace) {
  if (isNumberLike(a) && isNumberLike(b))
    return ResultKind::Fresh;
  bool tensor = ObjectTable::isTensor(a) || ObjectTable::isTensor(b);
  bool python = false;
  auto method = [&](PyObject *o, const std::string &name) {
    if (isValue(o) || !isHeap(o) || PyType_Check(o))
      return;
    if (!s.objects.require(o))
      return;
    if (PyObject *found = s.attributes.special(o, name.c_str()))
      python |= PyFunction_Check(found);
  };
  if (inplace)
    method(a, std::string("__i") + op + "__");
  method(a, std::string("__") + op + "__");
  method(b, std::string("__r") + op + "__");
  if (tensor) {
    for (PyObject *o : {a, b})
      if (!ObjectTable::isTensor(o) && !isValue(o)) {
        // A class of the user's with `__radd__`: the tensor's own method looks
        // for `__torch_function__` and declines.
        if (python && isHeap(o)) {
          if (s.attributes.special(o, "__torch_function__"))
            s.end(ReasonKind::TensorKind, "an object with __torch_function__");
          continue;
        }
        // Numbers of numpy, which leave the operator to the tensor
        // (`__array_priority__`), and members of enumerations.
        if (isNumpyNumber(o) || isNumberMember(o)) {
          s.objects.require(o);
          continue;
        }
        s.end(ReasonKind::TensorArgument,
              "an operator of a tensor and a " + typeName(o));
      } else if (ObjectTable::isTensor(o)) {
        s.objects.require(o);
      }
    return ResultKind::Known;
  }
  if ((isNumberLike(a) || isNumpyNumber(a)) &&
      (isNumberLike(b) || isNumpyNumber(b))) {
    for (PyObject *o : {a, b})
      if (!isValue(o))
        s.objects.require(o);
    return PyUnicode_Check(a) || PyUnicode_Check(b) || PyBytes_Check(a) ||
                   PyBytes_Check(b)
               ? (s.end(ReasonKind::UnusualObject,
                        "an operator of a string and a number of numpy's"),
                  ResultKind::Fresh)
               : ResultKind::Fresh;
  }
  if (inplace &&
      (PyList_CheckExact(a) || PySet_Check(a) || PyDict_CheckExact(a)))
    s.containers.own(a);
  for (PyObject *o : {a, b}) {
    if (isValue(o))
      continue;
    if (PyList_Check(o) || PyTuple_Check(o) || PyDict_Check(o) ||
        PyAnySet_Check(o)) {
      // `d.keys() & xs` makes a set of the other operand.
      if (isView(a) || isView(b))
        hashElements(s, o);
      else
        s.containers.readAll(o);
    } else if (python || PyType_Check(o) ||
               (!std::strcmp(op, "or") &&
                PyObject_TypeCheck(o, &Py_GenericAliasType))) {
      s.objects.require(o);
    } else if (isView(o) && !s.objects.isExternal(o)) {
    } else if (inplace && PyList_CheckExact(a)) {
      s.containers.iterate(o);
    } else {
      s.end(ReasonKind::UnusualObject,
            std::string("operator ") + op + " of a " + typeName(o));
    }
  }
  // `"%s" % x` prints.
  if (PyUnicode_CheckExact(a) && !std::strcmp(op, "mod"))
    s.containers.readDeep(b);
  return ResultKind::Fresh;
}

ResultKind Operators::compare(PyObject *a, PyObject *b, const char *op) {
  if (ObjectTable::isTensor(a) || ObjectTable::isTensor(b)) {
    std::string name = std::string("__") + op + "__";
    for (PyObject *o : {a, b}) {
      if (ObjectTable::isTensor(o)) {
        s.objects.require(o);
        s.attributes.special(o, name.c_str());
      } else if (isNumpyNumber(o)) {
        s.objects.require(o);
      } else if (!isValue(o)) {
        s.end(ReasonKind::TensorArgument,
              "a comparison of a tensor and a " + typeName(o));
      }
    }
    return ResultKind::Known;
  }
  std::string name = std::string("__") + op + "__";
  for (PyObject *o : {a, b})
    if (!isValue(o) && isHeap(o) && !PyType_Check(o) && s.objects.require(o))
      s.attributes.special(o, name.c_str());
  s.containers.readDeep(a);
  s.containers.readDeep(b);
  return ResultKind::Fresh;
}

/// Whether the same values could be one object in one call, and two in another.
/// Numbers that are lifted have other values then, too.
static bool mayBeOne(PyObject *a, PyObject *b) {
  if (Py_TYPE(a) != Py_TYPE(b))
    return false;
  // Of which CPython has one object each.
  auto shared = [](PyObject *o) {
    int overflow = 0;
    long number = PyLong_AsLongAndOverflow(o, &overflow);
    return !overflow && number >= -5 && number <= 256;
  };
  if (PyLong_CheckExact(a))
    return !shared(a) || !shared(b);
  if (PyUnicode_CheckExact(a) || PyBytes_CheckExact(a))
    return PyObject_RichCompareBool(a, b, Py_EQ);
  return true;
}

void Operators::asksIdentity() {
  s.breaks.asks(ReasonKind::ObjectIdentity,
                "`is` between two numbers or strings");
}

void Operators::identity(PyObject *a, PyObject *b) {
  auto singleton = [](PyObject *o) {
    return o == Py_None || PyBool_Check(o) || o == Py_Ellipsis ||
           o == Py_NotImplemented;
  };
  if (singleton(a) || singleton(b)) {
    for (PyObject *o : {a, b})
      if (!isValue(o))
        s.objects.require(o);
    return;
  }
  if (isValue(a) || isValue(b)) {
    // What is copied as itself is the same one.
    bool ofCopy = a == b && s.copies.isActive();
    if (isValue(a) && isValue(b) && !ofCopy && mayBeOne(a, b))
      asksIdentity();
    return;
  }
  if (isByValue(a) || isByValue(b))
    return s.end(ReasonKind::ObjectIdentity,
                 "`is` between two objects that are told apart by their value");
  Node *left = s.objects.require(a), *right = s.objects.require(b);
  if (!left || !right || left == right || !left->external || !right->external)
    return;
  apart(left, right);
}

static const char *const kComparisons[] = {"__eq__", "__ne__", "__lt__",
                                           "__le__", "__gt__", "__ge__"};

static bool isMethod(PyObject *function, PyObject *self, const char *name) {
  PyObject *text = PyUnicode_InternFromString(name);
  bool same = text && pyjitTypeLookup(Py_TYPE(self), text) == function;
  Py_XDECREF(text);
  return same;
}

void Operators::askedBy(PyObject *method, PyObject *a, PyObject *b) {
  if (isValue(a) || isValue(b) || Py_TYPE(a) != Py_TYPE(b) ||
      !(isMethod(method, a, "__eq__") || isMethod(method, a, "__ne__")))
    return;
  Node *left = s.objects.find(a), *right = s.objects.find(b);
  if (left && right && left != right && left->external && right->external)
    apart(left, right);
}

/// Whether C code compares what such an object holds: a list, of a class of
/// Python's with a method of its own.
static bool isComparedNatively(PyObject *o) {
  PyTypeObject *type = Py_TYPE(o);
  while (type && isHeapType(type))
    type = type->tp_base;
  return type && type->tp_richcompare &&
         type->tp_richcompare != PyBaseObject_Type.tp_richcompare;
}

void Operators::declined(const ShadowFrame &frame) {
  PyObject *self =
      frame.code->co_argcount ? FrameTracker::parameterOf(frame, 0) : nullptr;
  PyObject *method = pyjitFrameFunction(frame.frame);
  bool compares =
      self && std::any_of(std::begin(kComparisons), std::end(kComparisons),
                          [&](const char *name) {
                            return isMethod(method, self, name);
                          });
  // Tuples were read whole.
  bool wasRead = self && (ObjectTable::isTensor(self) || PyTuple_Check(self));
  if (compares && !wasRead && isComparedNatively(self))
    s.end(ReasonKind::UnusualObject, "a comparison that the class " +
                                         typeName(self) +
                                         " leaves to native code");
}

void Operators::apart(Node *left, Node *right) {
  PyObject *a = left->object, *b = right->object;
  if ((left->pinned && right->pinned) || Py_TYPE(a) != Py_TYPE(b))
    return;
  if (!s.reads.firstApart(left, right))
    return;
  PyjitValue x = s.objects.ssa(left), y = s.objects.ssa(right);
  s.add(PyjitDistinctOp{.lhs = x, .rhs = y});
}

/// What C code raised holds a tuple that no instruction made.
void Operators::exceptionArguments(PyObject *exception) {
  PyObject *args = reinterpret_cast<PyBaseExceptionObject *>(exception)->args;
  if (!args || !PyTuple_Check(args))
    return;
  if (!s.objects.known(args))
    s.objects.allocated(args);
  s.containers.readDeep(args);
}

ResultKind Operators::format(PyObject *o) {
  if (isValue(o))
    return ResultKind::Fresh;
  if (ObjectTable::isTensor(o)) {
    s.end(ReasonKind::Print, "printing a tensor");
    return ResultKind::Fresh;
  }
  if (!s.objects.require(o))
    return ResultKind::Fresh;
  if (isHeap(o) && !PyType_Check(o)) {
    for (const char *name : {"__format__", "__str__", "__repr__"})
      s.attributes.special(o, name);
    PyObject *str =
        pyjitTypeLookup(Py_TYPE(o), PyUnicode_InternFromString("__str__"));
    PyObject *repr =
        pyjitTypeLookup(Py_TYPE(o), PyUnicode_InternFromString("__repr__"));
    if ((str && PyFunction_Check(str)) || (repr && PyFunction_Check(repr)))
      return ResultKind::Fresh;
    if (PyExceptionInstance_Check(o) && !s.objects.isExternal(o)) {
      exceptionArguments(o);
      return ResultKind::Fresh;
    }
    s.end(ReasonKind::Print, "printing a " + typeName(o));
    return ResultKind::Fresh;
  }
  if (PyExceptionInstance_Check(o) && !s.objects.isExternal(o)) {
    exceptionArguments(o);
    return ResultKind::Fresh;
  }
  if (PyType_Check(o) && isHeap(o)) // a metaclass of the user's
    s.attributes.special(o, "__repr__");
  if (PyType_Check(o)) {
    for (const char *name : {"__module__", "__qualname__"})
      s.attributes.loadAttr(o, PyUnicode_InternFromString(name));
    return ResultKind::Fresh;
  }
  if (PyFunction_Check(o) || PyCFunction_Check(o) || PyMethod_Check(o) ||
      PyCode_Check(o))
    s.end(ReasonKind::Print, "printing a " + typeName(o)); // its address
  else
    formatParts(o);
  return ResultKind::Fresh;
}

/// A container prints its elements by their own classes.
void Operators::formatParts(PyObject *o) {
  s.containers.readDeep(o);
  auto part = [&](PyObject *element) {
    if (!isValue(element) && !s.ended())
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
