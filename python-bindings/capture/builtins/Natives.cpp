//===- Natives.cpp - Builtins that the recorder models --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "builtins/Natives.h"
#include "numbers/HostScalars.h"
#include "objects/Bases.h"
#include "tensors/Tensors.h"

#include <algorithm>
#include <cstring>

using namespace pyjit::capture;

/// `list(xs)`, `tuple(xs)`.
static ResultKind nativeSequence(Recording &s, const Call &c) {
  s.now.movesYields = c.args.size() == 1 && PyGen_CheckExact(c.args[0]);
  if (c.args.size() == 1)
    s.containers.hintLength(c.args[0]);
  return nativeShallow(s, c);
}

static ResultKind toResultKind(Attributes::Found found) {
  return found.kind == Attributes::Found::Fresh ? ResultKind::Fresh
                                                : ResultKind::Known;
}

static ResultKind nativeLen(Recording &s, const Call &c) {
  if (c.args.size() == 1)
    s.operators.lengthOf(c.args[0]);
  return ResultKind::Known;
}

static void classes(Recording &s, PyObject *spec, const char *hook,
                    int depth = 0) {
  if (PyTuple_Check(spec)) {
    s.containers.readAll(spec);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(spec) && depth < 10; ++i)
      classes(s, PyTuple_GET_ITEM(spec, i), hook, depth + 1);
    return;
  }
  if (PyType_Check(spec)) {
    s.objects.require(spec);
    s.attributes.special(spec, hook);
    return;
  }
  if (!std::strcmp(Py_TYPE(spec)->tp_name, "types.UnionType"))
    return;
  s.objects.require(spec);
  s.attributes.special(spec, hook); // typing's aliases: Python
}

static ResultKind nativeIsInstance(Recording &s, const Call &c) {
  if (c.args.size() != 2)
    return ResultKind::Known;
  PyObject *object = c.args[0];
  if (!isValue(object)) {
    if (!s.objects.require(object))
      return ResultKind::Known;
    s.reads.typeOf(object);
    readBases(s, Py_TYPE(object));
    // Where the type does not match, C asks for `__class__`.
    if (PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) &&
        !s.objects.isTensor(object))
      s.attributes.loadAttr(object, PyUnicode_InternFromString("__class__"));
  }
  classes(s, c.args[1], "__instancecheck__");
  return ResultKind::Known;
}

/// `type.__instancecheck__(cls, object)`.
static ResultKind nativeTypeCheck(Recording &s, const Call &c) {
  if (c.args.size() != 2)
    return ResultKind::Known;
  PyObject *object = c.args[1];
  if (!isValue(object) && s.objects.require(object)) {
    s.reads.typeOf(object);
    readBases(s, PyType_Check(object) ? reinterpret_cast<PyTypeObject *>(object)
                                      : Py_TYPE(object));
    if (PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) &&
        !s.objects.isTensor(object) && !PyType_Check(object))
      s.attributes.loadAttr(object, PyUnicode_InternFromString("__class__"));
  }
  return ResultKind::Known;
}

/// The hook of a class of collections.abc: of what was registered (a tuple is a
/// Sequence) it is asked each time. False where the hook is a program's own.
static bool followHook(Recording &s, PyObject *cls) {
  if (!PyType_Check(cls))
    return false;
  PyObject *found = s.attributes.typeLookup(
      reinterpret_cast<PyTypeObject *>(cls), "__subclasshook__");
  PyObject *hook = found ? pyjitInnerCallable(found) : nullptr;
  if (!hook || !PyFunction_Check(hook))
    return true;
  auto *code = reinterpret_cast<PyCodeObject *>(
      reinterpret_cast<PyFunctionObject *>(hook)->func_code);
  if (PyUnicode_CompareWithASCIIString(code->co_filename,
                                       "<frozen _collections_abc>"))
    return false;
  if (!s.objects.find(hook))
    s.objects.pin(hook);
  return true;
}

/// Lets the interpreter remember the answer, in front of the call: what it runs
/// in Python for that, once for each class, is none of the program's.
static void askBefore(const Call &c) {
  PyObject *answer =
      PyObject_Vectorcall(c.callable, c.args.data(), c.args.size(), nullptr);
  Py_XDECREF(answer);
  PyErr_Clear();
}

/// `_abc._abc_instancecheck(cls, object)` and `_abc_subclasscheck`: what they
/// answer follows from the classes and from what has been registered, for which
/// the interpreter keeps one number that grows.
static ResultKind nativeAbcCheck(Recording &s, const Call &c) {
  if (c.args.size() != 2)
    return s.calls.unknownNative(c);
  nativeTypeCheck(s, c);
  // What it does not remember it asks of Python, also for other classes. A hook
  // (`__subclasshook__`) of the program's is not called again: it stays a graph
  // break.
  if (PyType_Check(c.args[0]) && s.objects.require(c.args[0]))
    s.attributes.special(c.args[0], "__subclasscheck__");
  if (followHook(s, c.args[0]) && !s.ended())
    askBefore(c);
  static PyObject *getToken = findObject("_abc:get_cache_token");
  PyObject *token = getToken ? PyObject_CallNoArgs(getToken) : nullptr;
  if (!token) {
    PyErr_Clear();
    return s.calls.unknownNative(c);
  }
  static PyObject *field = PyUnicode_InternFromString("abc_cache_token");
  if (Node *node = s.objects.require(c.args[0]))
    s.reads.read(node, Select::Field, field, token);
  Py_DECREF(token);
  return ResultKind::Known;
}

static ResultKind nativeIsSubclass(Recording &s, const Call &c) {
  if (c.args.size() == 2) {
    s.objects.require(c.args[0]);
    if (PyType_Check(c.args[0]))
      readBases(s, reinterpret_cast<PyTypeObject *>(c.args[0]));
    classes(s, c.args[1], "__subclasscheck__");
  }
  return ResultKind::Known;
}

static ResultKind nativeGetattr(Recording &s, const Call &c) {
  if (c.args.size() < 2 || !PyUnicode_CheckExact(c.args[1]))
    return ResultKind::Known;
  s.now.numbers = ReadNumbers::HandedOn;
  return toResultKind(s.attributes.loadAttr(c.args[0], c.args[1]));
}

static ResultKind nativeHasattr(Recording &s, const Call &c) {
  s.now.numbers = ReadNumbers::Unseen;
  if (c.args.size() == 2 && PyUnicode_CheckExact(c.args[1]))
    s.attributes.loadAttr(c.args[0], c.args[1]);
  return ResultKind::Known;
}

static ResultKind nativeSetattr(Recording &s, const Call &c) {
  if (c.args.size() == 3 && PyUnicode_CheckExact(c.args[1]))
    s.attributes.storeAttr(c.args[0], c.args[1], c.args[2]);
  return ResultKind::Known;
}

static ResultKind nativeDelattr(Recording &s, const Call &c) {
  if (c.args.size() == 2 && PyUnicode_CheckExact(c.args[1]))
    s.attributes.storeAttr(c.args[0], c.args[1], nullptr);
  return ResultKind::Known;
}

static ResultKind nativeCallable(Recording &s, const Call &c) {
  if (c.args.size() == 1 && !isValue(c.args[0]) && s.objects.require(c.args[0]))
    s.attributes.special(c.args[0], "__call__");
  return ResultKind::Known;
}

static ResultKind nativeIter(Recording &s, const Call &c) {
  if (c.args.size() != 1)
    return s.calls.unknownNative(c);
  return s.containers.iterate(c.args[0]);
}

static ResultKind nativeNext(Recording &s, const Call &c) {
  return c.args.empty() ? ResultKind::Known : s.containers.next(c.args[0]);
}

static ResultKind nativeAllAny(Recording &s, const Call &c) {
  if (c.args.size() != 1)
    return ResultKind::Known;
  PyObject *arg = c.args[0];
  s.containers.iterate(arg);
  if (PyList_Check(arg) || PyTuple_Check(arg)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(arg); ++i)
      s.operators.truth(PySequence_Fast_GET_ITEM(arg, i));
  } else if (PyGen_CheckExact(arg)) {
    s.now.truthOfYields = true;
  } else if (Py_IS_TYPE(arg, &PyDictValues_Type) &&
             !s.objects.isExternal(arg)) {
    PyObject *values = PySequence_List(arg);
    for (Py_ssize_t i = 0; values && i < PyList_GET_SIZE(values); ++i)
      s.operators.truth(PyList_GET_ITEM(values, i));
    Py_XDECREF(values);
    PyErr_Clear();
  } else if (!PyDict_Check(arg) && !isValue(arg)) {
    s.end(ReasonKind::UnusualObject, "all() or any() of a " + typeName(arg));
  }
  return ResultKind::Known;
}

/// `__add__` and `__radd__`, as far as there are any, are Python functions.
static bool addsInPython(Recording &s, PyObject *object) {
  if (!PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) ||
      !s.objects.require(object))
    return false;
  bool python = false;
  for (const char *name : {"__add__", "__radd__"})
    if (PyObject *method = s.attributes.special(object, name)) {
      if (!PyFunction_Check(method))
        return false;
      python = true;
    }
  return python;
}

static ResultKind nativeSum(Recording &s, const Call &c) {
  if (c.args.empty())
    return ResultKind::Known;
  s.containers.iterate(c.args[0]);
  PyObject *arg = c.args[0];
  if (PyGen_CheckExact(arg) && c.args.size() == 1)
    s.scalars.sumYields(nullptr);
  if (PyList_Check(arg) || PyTuple_Check(arg)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(arg); ++i) {
      PyObject *item = PySequence_Fast_GET_ITEM(arg, i);
      if (s.objects.isTensor(item)) {
        s.attributes.special(item, "__add__");
        s.attributes.special(item, "__radd__");
      } else if (PyList_CheckExact(item) || PyTuple_CheckExact(item)) {
        s.containers.readAll(item);
      } else if (!isValue(item) && !addsInPython(s, item)) {
        s.end(ReasonKind::UnusualObject, "sum() of a " + typeName(item));
      }
    }
  }
  for (size_t i = 1; i < c.args.size(); ++i)
    if (PyObject *start = c.args[i];
        !isValue(start) && !s.objects.isTensor(start) &&
        !PyList_CheckExact(start) && !PyTuple_CheckExact(start) &&
        !addsInPython(s, start))
      s.end(ReasonKind::UnusualObject, "sum() from a " + typeName(start));
  return ResultKind::Fresh;
}

/// Elements of a set are hashed and compared.
static ResultKind nativeSet(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    hashElements(s, arg);
  return ResultKind::FreshTuples;
}

static ResultKind nativePrint(Recording &s, const Call &) {
  s.end(ReasonKind::Print, "print");
  return ResultKind::Known;
}

/// Stable as long as the objects of the specialization live, and they do.
static ResultKind nativeId(Recording &s, const Call &c) {
  if (c.args.size() == 1) {
    PyObject *object = c.args[0];
    Node *node = isValue(object) ? nullptr : s.objects.require(object);
    if (s.copies.asksFor(object))
      return ResultKind::Known;
    if (node && node->external && !s.objects.isTensor(object)) {
      s.objects.pin(object);
      return ResultKind::Known;
    }
    if (isValue(object) && object != Py_None && !PyBool_Check(object))
      s.breaks.asks(ReasonKind::ObjectIdentity, "id() of a number or string");
  }
  // Its only use there is a hash: which tensors are one object is guarded.
  if (s.tracker.frames.size() > 1 &&
      s.tracker.frames[s.tracker.frames.size() - 2].context.hashing &&
      c.args.size() == 1 && s.objects.isTensor(c.args[0]))
    return ResultKind::Known;
  // An address that no later call will see: fine as a dictionary key, never as
  // something that leaves; the escape walk cannot tell, so it ends here.
  s.end(ReasonKind::ObjectIdentity, "id() of an object made by the call");
  return ResultKind::Known;
}

static ResultKind nativeStr(Recording &s, const Call &c) {
  if (c.args.size() == 1)
    return s.operators.format(c.args[0]);
  for (PyObject *arg : c.args)
    s.containers.readDeep(arg);
  return ResultKind::Fresh;
}

/// `float(x)`, `int(x)`, `bool(x)` by the user's own call.
static bool readsNumber(Recording &s, const Call &c) {
  auto is = [&](PyTypeObject &type) {
    return c.callable == reinterpret_cast<PyObject *>(&type);
  };
  if (c.args.size() != 1 || c.kwnames || s.calls.called != c.callable)
    return false;
  if (!is(PyFloat_Type) && !is(PyLong_Type) && !is(PyBool_Type))
    return false;
  return s.scalars.readData(c.args[0], is(PyFloat_Type)  ? NumberKind::Float
                                       : is(PyLong_Type) ? NumberKind::Int
                                                         : NumberKind::Bool);
}

static ResultKind nativeNumber(Recording &s, const Call &c) {
  for (PyObject *arg : c.args) {
    if (isValue(arg))
      continue;
    if (s.objects.isTensor(arg)) {
      if (!s.tensors->isConstant(arg) && !readsNumber(s, c))
        s.end(ReasonKind::DataInPython, "a tensor's data as a Python number");
      for (const char *name : {"__int__", "__index__", "__float__", "__bool__"})
        s.attributes.special(arg, name);
    } else if (isNumpyNumber(arg)) {
      s.objects.require(arg);
    } else {
      s.end(ReasonKind::UnusualObject, "a number made of a " + typeName(arg));
    }
  }
  return ResultKind::Known;
}

static ResultKind nativeRange(Recording &s, const Call &c) {
  nativeNumber(s, c);
  return ResultKind::Fresh;
}

static ResultKind nativeBool(Recording &s, const Call &c) {
  if (c.args.size() == 1 && s.objects.isTensor(c.args[0]) &&
      !s.tensors->isConstant(c.args[0])) {
    s.attributes.special(c.args[0], "__bool__");
    if (s.tensors->host().answers(c.args[0])) {
      s.now.deciding = true;
      return ResultKind::Known;
    }
    if (readsNumber(s, c))
      return ResultKind::Known;
  }
  if (c.args.size() == 1)
    s.operators.truthAsValue(c.args[0]);
  return ResultKind::Known;
}

static ResultKind nativeRound(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    if (!isValue(arg))
      s.end(ReasonKind::UnusualObject,
            "abs() or round() of a " + typeName(arg));
  return ResultKind::Known;
}

static ResultKind nativeAbs(Recording &s, const Call &c) {
  if (c.args.size() == 1 && s.objects.isTensor(c.args[0])) {
    s.attributes.special(c.args[0], "__abs__");
    return ResultKind::Known;
  }
  return nativeRound(s, c);
}

static ResultKind nativeTypeCall(Recording &s, const Call &c) {
  if (c.args.size() != 1)
    return s.calls.unknownNative(c);
  if (!isValue(c.args[0]) && s.objects.require(c.args[0]))
    s.reads.typeOf(c.args[0]);
  return ResultKind::Known;
}

static ResultKind nativeSuper(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    if (!isValue(arg))
      s.objects.require(arg);
  return ResultKind::Fresh;
}

/// The dict that the running function's names are looked up in.
static ResultKind nativeGlobals(Recording &s, const Call &) {
  s.objects.pin(pyjitFrameGlobals(s.tracker.top()->frame));
  return ResultKind::Known;
}

/// A weak reference of the call's own; with a callback it would tell.
static ResultKind nativeReference(Recording &s, const Call &c) {
  return c.args.size() == 1 ? ResultKind::Fresh : s.calls.unknownNative(c);
}

/// `class C(B):` where nobody but `type` makes the class. The body is Python
/// code that is followed.
static ResultKind nativeBuildClass(Recording &s, const Call &c) {
  if (c.kwnames || c.args.size() < 2)
    return s.calls.unknownNative(c);
  static PyObject *hook = PyUnicode_InternFromString("__init_subclass__");
  for (size_t i = 2; i < c.args.size(); ++i) {
    if (Py_TYPE(c.args[i]) != &PyType_Type)
      return s.calls.unknownNative(c);
    PyObject *found = s.attributes.typeLookup(
        reinterpret_cast<PyTypeObject *>(c.args[i]), hook);
    if (!found || Py_TYPE(found) != &PyClassMethodDescr_Type)
      return s.calls.unknownNative(c);
  }
  return ResultKind::Fresh;
}

/// `os.fspath` of what is a path's name already; other objects are asked.
static ResultKind nativePathName(Recording &s, const Call &c) {
  return c.args.size() == 1 && PyUnicode_CheckExact(c.args[0])
             ? nativePure(s, c)
             : s.calls.unknownNative(c);
}

static ResultKind nativeVars(Recording &s, const Call &c) {
  if (c.args.size() != 1)
    return s.calls.unknownNative(c);
  return toResultKind(
      s.attributes.loadAttr(c.args[0], PyUnicode_InternFromString("__dict__")));
}

static ResultKind nativeDictType(Recording &s, const Call &c) {
  for (size_t i = 0; i < c.positional(); ++i) {
    s.containers.iterate(c.args[i]);
    hashPairs(s, c.args[i]);
  }
  return ResultKind::Fresh;
}

static ResultKind nativeRecursionLimit(Recording &s, const Call &c) {
  static PyObject *sys = PyImport_ImportModule("sys");
  static PyObject *name = PyUnicode_InternFromString("recursion_limit");
  PyObject *now = PyLong_FromLong(Py_GetRecursionLimit());
  s.objects.keep(now);
  Py_DECREF(now);
  s.reads.read(s.objects.pin(sys), Select::Field, name, now);
  return ResultKind::Fresh;
}

void pyjit::capture::addBuiltins(NativeTable &t) {
  t.add("builtins:len", nativeLen);
  t.add("builtins:isinstance", nativeIsInstance);
  t.add("builtins:issubclass", nativeIsSubclass);
  t.add("builtins:getattr", nativeGetattr);
  t.add("builtins:hasattr", nativeHasattr);
  t.add("builtins:setattr", nativeSetattr);
  t.add("builtins:delattr", nativeDelattr);
  t.add("builtins:callable", nativeCallable);
  t.add("builtins:iter", nativeIter);
  t.add("builtins:next", nativeNext);
  t.add("builtins:all", nativeAllAny);
  t.add("builtins:any", nativeAllAny);
  t.add("builtins:sum", nativeSum);
  t.add("builtins:print", nativePrint);
  t.add("builtins:id", nativeId);
  t.add("builtins:repr", nativeStr);
  t.add("builtins:abs", nativeAbs);
  t.add("builtins:round", nativeRound);
  t.add("builtins:pow", nativeRound);
  t.add("builtins:divmod", nativePure);
  t.add("builtins:ord", nativePure);
  t.add("builtins:chr", nativePure);
  t.add("builtins:bin", nativePure);
  t.add("builtins:oct", nativePure);
  t.add("builtins:hex", nativePure);
  t.add("builtins:hash", nativePure);
  t.add("builtins:vars", nativeVars);
  t.add("builtins:globals", nativeGlobals);
  t.add("builtins:__build_class__", nativeBuildClass);
  t.add("sys:getrecursionlimit", nativeRecursionLimit);
  t.add("sys:intern", nativePure);
  t.add("posix:fspath", nativePathName);
  t.add("_operator:index", nativePure);
  t.add("_abc:_abc_instancecheck", nativeAbcCheck);
  t.add("_abc:_abc_subclasscheck", nativeAbcCheck);
  t.add("builtins:type.__instancecheck__", nativeTypeCheck);
  t.add("builtins:type.__subclasscheck__", nativeTypeCheck);

  t.addType(&PyType_Type, nativeTypeCall);
  t.addType(&PySuper_Type, nativeSuper);
  t.addType(&PyUnicode_Type, nativeStr);
  t.addType(&PyLong_Type, nativeNumber);
  t.addType(&PyFloat_Type, nativeNumber);
  t.addType(&PyComplex_Type, nativeNumber);
  t.addType(&PyBool_Type, nativeBool);
  t.addType(&PyTuple_Type, nativeSequence);
  t.addType(&PyList_Type, nativeSequence);
  t.addType(&PySet_Type, nativeSet);
  t.addType(&PyFrozenSet_Type, nativeSet);
  t.addType(&PyDict_Type, nativeDictType);
  t.addType(&PyODict_Type, nativeDictType);
  t.addType(&PyDictProxy_Type, nativeShallow);
  t.addType(&_PyWeakref_RefType, nativeReference);
  t.addType(&PyRange_Type, nativeRange);
  t.addType(&PySlice_Type, nativeNothing);
  t.addType(&PyEnum_Type, nativeShallow);
  t.addType(&PyZip_Type, nativeShallow);
  t.addType(&PyBaseObject_Type, nativeNothing);
  t.addType(&PyProperty_Type, nativeNothing);
  t.addType(&PyStaticMethod_Type, nativeNothing);
  t.addType(&PyClassMethod_Type, nativeNothing);
  t.addType(&PyMethod_Type, nativeNothing);
  t.add("functools:partial", nativeNothing);
}
