//===- Opcodes.cpp - What each instruction reads and creates --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Instructions that only move known objects (LOAD_FAST, COPY, jumps, ...) need
// no work: objects are known by address, not by place.
//
//===----------------------------------------------------------------------===//

#include "interpreter/Opcodes.h"
#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"
#include "tensors/Tensors.h"

#include <opcode.h>

#include <algorithm>

using namespace pyjit::capture;

namespace {

/// A container under construction that is from before the recording.
void ownBegun(const Op &o, int fromTop) {
  if (o.s.objects.isExternal(o.peek(fromTop)))
    o.s.containers.own(o.peek(fromTop));
}

ResultKind unary(const Op &o, const char *special) {
  PyObject *operand = o.peek(1);
  if (isValue(operand))
    return ResultKind::Known;
  if (!o.s.attributes.special(operand, special))
    o.s.end(ReasonKind::UnusualObject,
            std::string(special) + " of a " + typeName(operand));
  return ResultKind::Fresh;
}

} // namespace

//===----------------------------------------------------------------------===//
// Handlers
//===----------------------------------------------------------------------===//

namespace pyjit::capture::opcodes {

ResultKind moves(const Op &) { return ResultKind::Known; }
ResultKind makesNew(const Op &) { return ResultKind::Fresh; }

/// Of the oparg of MAKE_FUNCTION, and of SET_FUNCTION_ATTRIBUTE: cells.
constexpr int kClosure = 8;

/// CPython 3.12 takes a function's parts, the cells last, off the stack.
ResultKind makesFunction(const Op &o) {
  if (o.in.arg & kClosure)
    o.s.reads.closure(o.peek(2), reinterpret_cast<PyCodeObject *>(o.peek(1)));
  return ResultKind::Fresh;
}

/// CPython 3.13 gives a function its defaults and cells behind MAKE_FUNCTION,
/// and a graph break may lie between the two.
ResultKind setFunctionPart(const Op &o) {
  PyObject *function = o.peek(1);
  if (o.s.objects.isExternal(function))
    o.s.end(ReasonKind::PythonFeature,
            "a part of a function that a graph break hands on");
  else if (o.in.arg == kClosure)
    o.s.reads.closure(o.peek(2), reinterpret_cast<PyCodeObject *>(
                                     PyFunction_GET_CODE(function)));
  return ResultKind::Known;
}

ResultKind returnConstant(const Op &o) {
  PyObject *constant = PyTuple_GET_ITEM(o.code->co_consts, o.in.arg);
  knowConstant(o.s, constant);
  o.s.calls.returns(constant);
  return ResultKind::Known;
}

ResultKind returnTop(const Op &o) {
  o.s.calls.returns(o.peek(1));
  return ResultKind::Known;
}

ResultKind loadConstant(const Op &o) {
  knowConstant(o.s, PyTuple_GET_ITEM(o.code->co_consts, o.in.arg));
  return ResultKind::Known;
}

ResultKind loadAssertionError(const Op &o) {
  o.s.objects.require(PyExc_AssertionError);
  return ResultKind::Known;
}

//===--- Names

ResultKind storeName(const Op &o) {
  if (!ownNames(o))
    o.s.end(ReasonKind::PythonFeature,
            "names in a namespace that is no plain dict");
  return ResultKind::Known;
}

ResultKind storeGlobal(const Op &o) {
  o.s.containers.writeItem(pyjitFrameGlobals(o.frame), o.name(o.in.arg),
                           o.peek(1));
  return ResultKind::Known;
}

ResultKind deleteGlobal(const Op &o) {
  PyObject *globals = pyjitFrameGlobals(o.frame);
  if (PyDict_CheckExact(globals) && o.s.objects.pin(globals))
    o.s.containers.storeSubscript(globals, o.name(o.in.arg), nullptr);
  else
    o.s.end(ReasonKind::PythonFeature, "globals that are no plain dict");
  return ResultKind::Known;
}

ResultKind loadDeref(const Op &o) {
  readDeref(o);
  return ResultKind::Known;
}

ResultKind storeDeref(const Op &o) {
  if (PyObject *cell = pyjitFrameLocals(o.frame)[o.in.arg])
    o.s.reads.writeCell(cell);
  return ResultKind::Known;
}

ResultKind deleteDeref(const Op &o) {
  readDeref(o);
  return storeDeref(o);
}

//===--- Attributes

ResultKind loadAttribute(const Op &o) {
  return toResultKind(
      o.s.attributes.loadAttr(o.peek(1), o.name(o.in.arg >> 1)));
}

ResultKind storeAttribute(const Op &o) {
  o.s.attributes.storeAttr(o.peek(1), o.name(o.in.arg), o.peek(2));
  return ResultKind::Known;
}

ResultKind deleteAttribute(const Op &o) {
  o.s.attributes.storeAttr(o.peek(1), o.name(o.in.arg), nullptr);
  return ResultKind::Known;
}

ResultKind importFrom(const Op &o) {
  if (!PyModule_Check(o.peek(1)))
    o.s.end(ReasonKind::PythonFeature,
            "import from something that is no module");
  return toResultKind(o.s.attributes.loadAttr(o.peek(1), o.name(o.in.arg)));
}

//===--- Items and iteration

ResultKind subscript(const Op &o) {
  return o.s.containers.subscript(o.peek(2), o.peek(1));
}

ResultKind slice(const Op &o) {
  PyObject *object = o.peek(3);
  if (o.s.objects.isTensor(object))
    o.s.attributes.special(object, "__getitem__");
  if (o.s.objects.isTensor(object) || isValue(object))
    return ResultKind::Fresh;
  if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) {
    PyObject *getter = o.s.attributes.special(object, "__getitem__");
    if (getter && PyFunction_Check(getter))
      return ResultKind::Fresh;
  }
  // Sizes and named tuples hold what plain tuples do.
  if (PyTuple_Check(object) || PyList_Check(object))
    o.s.containers.readSlice(object, o.peek(2), o.peek(1));
  else if (!PyRange_Check(object))
    o.s.end(ReasonKind::UnusualObject, "a slice of a " + typeName(object));
  return ResultKind::Fresh;
}

ResultKind storeSubscript(const Op &o) {
  o.s.containers.storeSubscript(o.peek(2), o.peek(1), o.peek(3));
  return ResultKind::Known;
}

ResultKind deleteSubscript(const Op &o) {
  o.s.containers.storeSubscript(o.peek(2), o.peek(1), nullptr);
  return ResultKind::Known;
}

ResultKind storeSlice(const Op &o) {
  PyObject *object = o.peek(3);
  if (o.s.objects.isTensor(object)) {
    o.s.attributes.special(object, "__setitem__");
    for (int i : {1, 2, 4}) {
      PyObject *part = o.peek(i);
      if (isNumpyNumber(part))
        o.s.objects.require(part);
      else if (!isValue(part) && !o.s.objects.isTensor(part))
        o.s.end(ReasonKind::UnusualObject,
                "a slice assignment of a " + typeName(part));
    }
    o.s.now.storingNumber = isValue(o.peek(4)) || isNumpyNumber(o.peek(4));
  } else if (PyList_CheckExact(object)) {
    o.s.containers.own(object);
    o.s.containers.iterate(o.peek(4));
  } else {
    o.s.end(ReasonKind::UnusualObject,
            "a slice assignment to a " + typeName(object));
  }
  return ResultKind::Known;
}

/// Whether the subject is a sequence, or a mapping.
ResultKind matchKind(const Op &o) {
  if (!isValue(o.peek(1)) && o.s.objects.require(o.peek(1)))
    o.s.reads.typeOf(o.peek(1));
  return ResultKind::Known;
}

/// `case {"k": v}`: the keys are constants.
ResultKind matchKeys(const Op &o) {
  PyObject *keys = o.peek(1), *subject = o.peek(2);
  if (!PyDict_CheckExact(subject)) {
    o.s.end(ReasonKind::PythonFeature,
            "matching the keys of a " + typeName(subject));
    return ResultKind::Known;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i)
    o.s.containers.dictItem(subject, PyTuple_GET_ITEM(keys, i));
  return ResultKind::Fresh;
}

/// `case C(x=y)`: isinstance, then attributes.
ResultKind matchClass(const Op &o) {
  PyObject *names = o.peek(1), *cls = o.peek(2), *subject = o.peek(3);
  Call test;
  static PyObject *isInstance =
      PyDict_GetItemString(PyEval_GetBuiltins(), "isinstance");
  test.callable = isInstance;
  test.args = {subject, cls};
  if (!PyType_Check(cls) || !isInstance || !PyCFunction_Check(isInstance)) {
    o.s.end(ReasonKind::PythonFeature, "matching a class");
    return ResultKind::Known;
  }
  o.s.objects.pin(isInstance);
  o.s.calls.call(test);
  auto *type = reinterpret_cast<PyTypeObject *>(cls);
  if (o.in.arg > 0 && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
    static PyObject *matchArgs = PyUnicode_InternFromString("__match_args__");
    PyObject *positional = o.s.attributes.typeLookup(type, matchArgs);
    if (!positional || !PyTuple_CheckExact(positional)) {
      o.s.end(ReasonKind::PythonFeature, "matching a class by position");
      return ResultKind::Known;
    }
    for (Py_ssize_t i = 0;
         i < std::min<Py_ssize_t>(o.in.arg, PyTuple_GET_SIZE(positional)); ++i)
      o.s.attributes.loadAttr(subject, PyTuple_GET_ITEM(positional, i));
  } else if (o.in.arg > 1) {
    o.s.end(ReasonKind::PythonFeature, "matching a builtin class by position");
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    o.s.attributes.loadAttr(subject, PyTuple_GET_ITEM(names, i));
  return ResultKind::Fresh;
}

ResultKind iterate(const Op &o) { return o.s.containers.iterate(o.peek(1)); }
ResultKind nextOf(const Op &o) {
  o.s.now.movesYields = PyGen_CheckExact(o.peek(1));
  return o.s.containers.next(o.peek(1));
}

ResultKind unpackSequence(const Op &o) {
  size_t before = o.s.scalars.pendingReads();
  o.s.containers.iterate(o.peek(1));
  o.s.scalars.unpackNumbers(o.peek(1), before);
  if (makesTuples(o.peek(1)))
    o.s.now.results = o.in.arg;
  return ResultKind::FreshTuples;
}

ResultKind unpackRest(const Op &o) {
  o.s.containers.iterate(o.peek(1));
  o.s.now.freshAt = (o.in.arg & 0xff) + 1; // the list of the rest
  return ResultKind::Known;
}

ResultKind length(const Op &o) {
  o.s.operators.lengthOf(o.peek(1));
  return ResultKind::Known;
}

ResultKind contains(const Op &o) {
  if (o.s.scalars.findData(o.peek(1), o.peek(2), /*negated=*/o.in.arg & 1))
    return ResultKind::Constant;
  o.s.containers.contains(o.peek(1), o.peek(2));
  return ResultKind::Known;
}

//===--- Operators

ResultKind binaryOperator(const Op &o) {
  return o.s.operators.binary(o.peek(2), o.peek(1), binaryName(o.in.arg),
                              /*inplace=*/o.in.arg >= 13);
}

ResultKind compareOperator(const Op &o) {
  static const char *names[] = {"lt", "le", "eq", "ne", "gt", "ge"};
  return o.s.operators.compare(o.peek(2), o.peek(1),
                               names[comparisonOf(o.in.arg)]);
}

ResultKind identity(const Op &o) {
  o.s.operators.identity(o.peek(2), o.peek(1));
  return ResultKind::Known;
}

ResultKind intrinsic1(const Op &o) {
  switch (o.in.arg) {
  case 3: // INTRINSIC_STOPITERATION_ERROR
    return ResultKind::Fresh;
  case 5: { // INTRINSIC_UNARY_POSITIVE
    if (o.s.objects.isTensor(o.peek(1)))
      o.s.attributes.special(o.peek(1), "__pos__");
    else if (!isValue(o.peek(1)))
      o.s.end(ReasonKind::UnusualObject, "unary + on a " + typeName(o.peek(1)));
    return ResultKind::Fresh;
  }
  case 6: // INTRINSIC_LIST_TO_TUPLE, of a list that a graph break may have left
    o.s.containers.iterate(o.peek(1));
    return ResultKind::Fresh;
  default:
    o.s.end(ReasonKind::PythonFeature, "intrinsic " + std::to_string(o.in.arg));
    return ResultKind::Known;
  }
}

ResultKind negative(const Op &o) { return unary(o, "__neg__"); }
ResultKind invert(const Op &o) { return unary(o, "__invert__"); }

ResultKind truthAsValue(const Op &o) {
  o.s.operators.truthAsValue(o.peek(1));
  return ResultKind::Known;
}

ResultKind truth(const Op &o) {
  o.s.operators.truth(o.peek(1));
  return ResultKind::Known;
}

//===--- New objects

ResultKind buildMap(const Op &o) {
  for (int i = 0; i < o.in.arg; ++i)
    o.s.containers.readDeep(o.peek(2 * i + 2));
  return ResultKind::Fresh;
}

ResultKind buildSet(const Op &o) {
  for (int i = 0; i < o.in.arg; ++i)
    o.s.containers.readDeep(o.peek(i + 1));
  return ResultKind::Fresh;
}

ResultKind listExtend(const Op &o) {
  // Items, zips and the like make a tuple for each step.
  PyObject *from = o.peek(1);
  ownBegun(o, o.in.arg + 1);
  o.s.containers.hintLength(from);
  o.s.containers.iterate(from);
  o.s.now.movesYields = PyGen_CheckExact(from);
  bool makesTuples = !PyList_Check(from) && !PyTuple_Check(from);
  return makesTuples && o.in.arg == 1 ? ResultKind::FreshTuples
                                      : ResultKind::Known;
}

ResultKind setUpdate(const Op &o) {
  ownBegun(o, o.in.arg + 1);
  hashElements(o.s, o.peek(1));
  return ResultKind::Known;
}

ResultKind listAppend(const Op &o) {
  PyObject *list = o.peek(o.in.arg + 1);
  if (o.s.objects.isExternal(list) && !o.s.containers.append(list, o.peek(1)))
    o.s.containers.own(list);
  return ResultKind::Known;
}

ResultKind setAdd(const Op &o) {
  ownBegun(o, o.in.arg + 1);
  o.s.containers.hashInto(o.peek(o.in.arg + 1), o.peek(1));
  return ResultKind::Known;
}

ResultKind mapAdd(const Op &o) {
  ownBegun(o, o.in.arg + 2);
  o.s.containers.readDeep(o.peek(2));
  return ResultKind::Known;
}

ResultKind dictUpdate(const Op &o) {
  ownBegun(o, o.in.arg + 1);
  if (!PyDict_Check(o.peek(1)))
    o.s.end(ReasonKind::UnusualObject, "** of a " + typeName(o.peek(1)));
  o.s.containers.readAll(o.peek(1));
  return ResultKind::Known;
}

//===--- Generators and exceptions

/// Whether contextlib goes on with the generator, whatever becomes of the
/// block.
static bool isContextManager(const ShadowFrame &caller) {
  return caller.code &&
         !PyUnicode_CompareWithASCIIString(
             caller.code->co_qualname, "_GeneratorContextManager.__enter__");
}

ResultKind yieldValue(const Op &o) {
  // `all(f(x) for x in xs)`: C code looks at the truth of what is yielded.
  const auto &frames = o.s.tracker.frames;
  if (frames.size() > 1 && frames[frames.size() - 2].context.truthOfYields)
    o.s.operators.truthAsValue(o.peek(1));
  // Its handlers run when the last reference goes, and the recorder's are more.
  if (o.s.tracker.info(o.code).isProtected(frames.back().offset) &&
      !(frames.size() > 1 && isContextManager(frames[frames.size() - 2])))
    o.s.endWhole(ReasonKind::ObjectIdentity,
                 "a generator that yields within `try` or `with`");
  if (frames.size() > 1 && frames[frames.size() - 2].context.looksAtYields)
    o.s.containers.lookInto(o.peek(1));
  o.s.scalars.yielded(o.peek(1));
  return ResultKind::Known;
}

ResultKind send(const Op &o) { return o.s.containers.next(o.peek(2)); }

ResultKind pushException(const Op &o) {
  o.s.objects.allocated(o.peek(1));
  return ResultKind::Known;
}

ResultKind raise(const Op &o) {
  if (o.in.arg < 1)
    return ResultKind::Known;
  PyObject *what = o.peek(o.in.arg);
  if (PyType_Check(what)) {
    Call call;
    call.callable = what;
    o.s.calls.call(call);
  } else {
    o.s.objects.require(what);
  }
  return ResultKind::Known;
}

} // namespace pyjit::capture::opcodes
