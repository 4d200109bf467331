//===- Opcodes.cpp - What each instruction reads and creates --------------===//
//
// Instructions that only move known objects (LOAD_FAST, COPY, jumps, ...) need
// no work: objects are known by address, not by place. An opcode that is not
// listed ends the capture.
//
//===----------------------------------------------------------------------===//

#include "interpreter/Opcodes.h"
#include "objects/ObjectKinds.h"
#include "tensors/Tensors.h"

#include <opcode.h>

#include <algorithm>

using namespace pyjit::capture;

namespace {

const char *binaryName(int arg) {
  static const char *names[] = {
      "add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
      "or",  "pow", "rshift",   "sub",    "truediv", "xor"};
  return names[arg % 13];
}

/// A container under construction that is from before the recording.
void ownBegun(const Op &o, int fromTop) {
  if (o.s.isExternal(o.peek(fromTop)))
    o.s.own(o.peek(fromTop));
}

Post intrinsic1(const Op &o) {
  switch (o.in.arg) {
  case 3: // INTRINSIC_STOPITERATION_ERROR
    return Post::Fresh;
  case 5: { // INTRINSIC_UNARY_POSITIVE
    if (o.s.isTensor(o.peek(1)))
      o.s.special(o.peek(1), "__pos__");
    else if (!isValue(o.peek(1)))
      o.s.end("unary + on a " + typeName(o.peek(1)));
    return Post::Fresh;
  }
  case 6: // INTRINSIC_LIST_TO_TUPLE
    return Post::Fresh;
  default:
    o.s.end("intrinsic " + std::to_string(o.in.arg));
    return Post::Known;
  }
}

Post unary(const Op &o, const char *special) {
  PyObject *operand = o.peek(1);
  if (isValue(operand))
    return Post::Known;
  if (!o.s.special(operand, special))
    o.s.end(std::string(special) + " of a " + typeName(operand));
  return Post::Fresh;
}

/// `case {"k": v}`: the keys are constants.
Post matchKeys(const Op &o) {
  PyObject *keys = o.peek(1), *subject = o.peek(2);
  if (!PyDict_CheckExact(subject)) {
    o.s.end("matching the keys of a " + typeName(subject));
    return Post::Known;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i)
    o.s.dictItem(subject, PyTuple_GET_ITEM(keys, i));
  return Post::Fresh;
}

/// `case C(x=y)`: isinstance, then attributes.
Post matchClass(const Op &o) {
  PyObject *names = o.peek(1), *cls = o.peek(2), *subject = o.peek(3);
  Call test;
  static PyObject *isInstance =
      PyDict_GetItemString(PyEval_GetBuiltins(), "isinstance");
  test.callable = isInstance;
  test.args = {subject, cls};
  if (!PyType_Check(cls) || !isInstance || !PyCFunction_Check(isInstance)) {
    o.s.end("matching a class");
    return Post::Known;
  }
  o.s.pin(isInstance);
  o.s.call(test);
  auto *type = reinterpret_cast<PyTypeObject *>(cls);
  if (o.in.arg > 0 && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
    static PyObject *matchArgs = PyUnicode_InternFromString("__match_args__");
    PyObject *positional = o.s.typeLookup(type, matchArgs);
    if (!positional || !PyTuple_CheckExact(positional)) {
      o.s.end("matching a class by position");
      return Post::Known;
    }
    for (Py_ssize_t i = 0;
         i < std::min<Py_ssize_t>(o.in.arg, PyTuple_GET_SIZE(positional)); ++i)
      o.s.loadAttr(subject, PyTuple_GET_ITEM(positional, i));
  } else if (o.in.arg > 1) {
    o.s.end("matching a builtin class by position");
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    o.s.loadAttr(subject, PyTuple_GET_ITEM(names, i));
  return Post::Fresh;
}

} // namespace

Post pyjit::capture::handleOpcode(Session &s, PyjitFrame *frame,
                                  PyCodeObject *code, const Instruction &in) {
  Op o{s, frame, code, in};
  switch (in.op) {
  // What only moves known objects about.
  case RESUME:
  case NOP:
  case CACHE:
  case POP_TOP:
  case PUSH_NULL:
  case LOAD_FAST:
  case LOAD_FAST_CHECK:
  case LOAD_FAST_AND_CLEAR:
  case STORE_FAST:
  case DELETE_FAST:
  case COPY:
  case SWAP:
  case LOAD_CLOSURE:
  case JUMP_FORWARD:
  case JUMP_BACKWARD:
  case JUMP_BACKWARD_NO_INTERRUPT:
  case POP_JUMP_IF_NONE:
  case POP_JUMP_IF_NOT_NONE:
  case KW_NAMES:
  case END_FOR:
  case END_SEND:
  case POP_EXCEPT:
  case RERAISE:
  case EXTENDED_ARG:
  case COPY_FREE_VARS:
  case MAKE_CELL:
  case CHECK_EXC_MATCH:
  case INTERPRETER_EXIT:
    return Post::Known;
  case RETURN_CONST:
    knowConstant(s, PyTuple_GET_ITEM(code->co_consts, in.arg));
    s.returns(PyTuple_GET_ITEM(code->co_consts, in.arg));
    return Post::Known;
  case RETURN_VALUE:
    s.returns(o.peek(1));
    return Post::Known;
  case LOAD_CONST:
    knowConstant(s, PyTuple_GET_ITEM(code->co_consts, in.arg));
    return Post::Known;
  case LOAD_ASSERTION_ERROR:
    s.require(PyExc_AssertionError);
    return Post::Known;

  // Names.
  case LOAD_GLOBAL:
    return loadGlobal(o);
  // In the body of a class.
  case LOAD_BUILD_CLASS:
    return loadBuildClass(o);
  case LOAD_NAME:
    return loadName(o);
  case STORE_NAME:
  case SETUP_ANNOTATIONS:
    if (!ownNames(o))
      s.end("names in a namespace that is no plain dict");
    return Post::Known;
  case STORE_GLOBAL:
    s.writeItem(pyjitFrameGlobals(frame), o.name(in.arg), o.peek(1));
    return Post::Known;
  case LOAD_DEREF:
    readDeref(o);
    return Post::Known;
  case STORE_DEREF:
    if (PyObject *cell = pyjitFrameLocals(frame)[in.arg])
      s.writeCell(cell);
    return Post::Known;
  case DELETE_DEREF:
    s.end("del of a closure variable");
    return Post::Known;

  // Attributes.
  case LOAD_ATTR:
    return toPost(s.loadAttr(o.peek(1), o.name(in.arg >> 1)));
  case STORE_ATTR:
    s.storeAttr(o.peek(1), o.name(in.arg), o.peek(2));
    return Post::Known;
  case DELETE_ATTR:
    s.storeAttr(o.peek(1), o.name(in.arg), nullptr);
    return Post::Known;
  case LOAD_SUPER_ATTR:
    return loadSuperAttr(o);
  case IMPORT_NAME:
    return importName(o);
  case IMPORT_FROM:
    if (!PyModule_Check(o.peek(1)))
      s.end("import from something that is no module");
    return toPost(s.loadAttr(o.peek(1), o.name(in.arg)));

  // Items and iteration.
  case BINARY_SUBSCR:
    return s.subscript(o.peek(2), o.peek(1));
  case BINARY_SLICE: {
    PyObject *object = o.peek(3);
    if (s.isTensor(object))
      s.special(object, "__getitem__");
    else if (PyTuple_CheckExact(object) || PyList_CheckExact(object))
      s.readAll(object);
    else if (!isValue(object) && !s.special(object, "__getitem__"))
      s.end("a slice of a " + typeName(object));
    return Post::Fresh;
  }
  case STORE_SUBSCR:
    s.storeSubscript(o.peek(2), o.peek(1), o.peek(3));
    return Post::Known;
  case DELETE_SUBSCR:
    s.storeSubscript(o.peek(2), o.peek(1), nullptr);
    return Post::Known;
  case STORE_SLICE:
    if (s.isTensor(o.peek(3))) {
      s.special(o.peek(3), "__setitem__");
      for (int i : {1, 2, 4})
        if (!isValue(o.peek(i)) && !s.isTensor(o.peek(i)))
          s.end("a slice assignment of a " + typeName(o.peek(i)));
      s.now.storingNumber = isValue(o.peek(4));
    } else if (PyList_CheckExact(o.peek(3)))
      s.own(o.peek(3)), s.iterate(o.peek(4));
    else
      s.end("a slice assignment to a " + typeName(o.peek(3)));
    return Post::Known;
  case MATCH_SEQUENCE:
  case MATCH_MAPPING:
    if (!isValue(o.peek(1)) && s.require(o.peek(1)))
      s.typeOf(o.peek(1));
    return Post::Known;
  case MATCH_KEYS:
    return matchKeys(o);
  case MATCH_CLASS:
    return matchClass(o);
  case GET_ITER:
    return s.iterate(o.peek(1));
  case FOR_ITER:
    return s.next(o.peek(1));
  case UNPACK_SEQUENCE:
    s.iterate(o.peek(1));
    return Post::FreshTuples;
  case UNPACK_EX:
    s.iterate(o.peek(1));
    s.now.freshAt = (in.arg & 0xff) + 1; // the list of the rest
    return Post::Known;
  case GET_LEN:
    s.lengthOf(o.peek(1));
    return Post::Known;
  case CONTAINS_OP:
    if (s.scalars.findData(o.peek(1), o.peek(2), /*negated=*/in.arg & 1))
      return Post::Constant;
    s.contains(o.peek(1), o.peek(2));
    return Post::Known;

  // Operators.
  case BINARY_OP:
    return s.binary(o.peek(2), o.peek(1), binaryName(in.arg), in.arg >= 13);
  case COMPARE_OP: {
    static const char *names[] = {"lt", "le", "eq", "ne", "gt", "ge"};
    return s.compare(o.peek(2), o.peek(1), names[in.arg >> 4]);
  }
  case IS_OP:
    s.identity(o.peek(2), o.peek(1));
    return Post::Known;
  case UNARY_NEGATIVE:
    return unary(o, "__neg__");
  case UNARY_INVERT:
    return unary(o, "__invert__");
  case UNARY_NOT:
  case POP_JUMP_IF_TRUE:
  case POP_JUMP_IF_FALSE:
    s.truth(o.peek(1));
    return Post::Known;

  // New objects. Their elements are known: they came from the stack.
  case BUILD_TUPLE:
  case BUILD_LIST:
  case BUILD_SLICE:
  case MAKE_FUNCTION:
  case RETURN_GENERATOR:
  case BUILD_STRING:
  case BUILD_CONST_KEY_MAP:
    return Post::Fresh;
  case BUILD_MAP:
    for (int i = 0; i < in.arg; ++i)
      s.readDeep(o.peek(2 * i + 2));
    return Post::Fresh;
  case BUILD_SET:
    for (int i = 0; i < in.arg; ++i)
      s.readDeep(o.peek(i + 1));
    return Post::Fresh;
  // The container is the call's own, unless it was begun before a cut.
  case LIST_EXTEND: {
    // Items, zips and the like make a tuple for each step.
    PyObject *from = o.peek(1);
    ownBegun(o, in.arg + 1);
    s.iterate(from);
    bool makesTuples = !PyList_Check(from) && !PyTuple_Check(from);
    return makesTuples && in.arg == 1 ? Post::FreshTuples : Post::Known;
  }
  case SET_UPDATE:
    ownBegun(o, in.arg + 1);
    s.iterate(o.peek(1));
    return Post::Known;
  case LIST_APPEND:
    if (PyObject *list = o.peek(in.arg + 1);
        s.isExternal(list) && !s.append(list, o.peek(1)))
      s.own(list);
    return Post::Known;
  case SET_ADD:
    ownBegun(o, in.arg + 1);
    s.hashInto(o.peek(in.arg + 1), o.peek(1));
    return Post::Known;
  case MAP_ADD:
    ownBegun(o, in.arg + 2);
    s.readDeep(o.peek(2));
    return Post::Known;
  case DICT_UPDATE:
  case DICT_MERGE:
    ownBegun(o, in.arg + 1);
    if (!PyDict_Check(o.peek(1)))
      s.end("** of a " + typeName(o.peek(1)));
    s.readAll(o.peek(1));
    return Post::Known;
  case FORMAT_VALUE: {
    bool hasSpec = in.arg & 4;
    return s.format(o.peek(hasSpec ? 2 : 1));
  }

  // Calls.
  case CALL:
    return callOp(o);
  case CALL_FUNCTION_EX:
    return callFunctionEx(o);
  case CALL_INTRINSIC_1:
    return intrinsic1(o);
  case BEFORE_WITH:
    return beforeWith(o);
  case WITH_EXCEPT_START:
    return Post::Known;

  // Generators.
  case YIELD_VALUE:
    // `all(f(x) for x in xs)`: C code looks at the truth of what is yielded.
    if (s.frames.size() > 1 &&
        s.frames[s.frames.size() - 2].context.truthOfYields)
      s.truth(o.peek(1));
    return Post::Known;
  case GET_YIELD_FROM_ITER:
    return s.iterate(o.peek(1));
  case SEND:
    return s.next(o.peek(2));

  // Exceptions.
  case PUSH_EXC_INFO:
    s.born(o.peek(1));
    return Post::Known;
  case RAISE_VARARGS:
    if (in.arg >= 1) {
      PyObject *what = o.peek(in.arg);
      if (PyType_Check(what)) {
        Call call;
        call.callable = what;
        s.call(call);
      } else {
        s.require(what);
      }
    }
    return Post::Known;

  default:
    s.end("opcode " + std::to_string(in.op));
    return Post::Known;
  }
}
