//===- Opcodes.cpp - What each instruction reads and creates --------------===//
//
// Instructions that only move known objects (LOAD_FAST, COPY, jumps, ...) need
// no work: objects are known by address, not by place. An opcode that is not
// listed ends the capture.
//
//===----------------------------------------------------------------------===//

#include "Natives.h"
#include "ObjectKinds.h"
#include "Session.h"
#include "Tensors.h"

#include <opcode.h>

#include <algorithm>
#include <cstring>

using namespace pyjit::capture;

namespace {

struct Op {
  Session &s;
  PyjitFrame *frame;
  PyCodeObject *code;
  const Instruction &in;

  PyObject *peek(int fromTop) const {
    return pyjitFrameStack(frame)[in.depth - fromTop];
  }
  PyObject *name(int index) const {
    return PyTuple_GET_ITEM(code->co_names, index);
  }
};

const char *binaryName(int arg) {
  static const char *names[] = {
      "add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
      "or",  "pow", "rshift",   "sub",    "truediv", "xor"};
  return names[arg % 13];
}

Post loadNamed(const Op &o, PyObject *name) {
  PyObject *globals = pyjitFrameGlobals(o.frame);
  PyObject *builtins = pyjitFrameBuiltins(o.frame);
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) {
    o.s.end("globals that are no plain dict");
    return Post::Known;
  }
  Node *node = o.s.pin(globals);
  if (PyObject *value = PyDict_GetItemWithError(globals, name)) {
    o.s.read(node, Select::Item, name, value);
    return Post::Known;
  }
  o.s.absent(node, Select::Item, name);
  Node *builtinsNode = o.s.pin(builtins);
  if (PyObject *value = PyDict_GetItemWithError(builtins, name))
    o.s.read(builtinsNode, Select::Item, name, value);
  else
    o.s.absent(builtinsNode, Select::Item, name);
  return Post::Known;
}

Post loadGlobal(const Op &o) { return loadNamed(o, o.name(o.in.arg >> 1)); }

/// The namespace of a class body that the call runs.
PyObject *ownNames(const Op &o) {
  PyObject *names = pyjitFrameNamespace(o.frame);
  return names && PyDict_CheckExact(names) && !o.s.isExternal(names) &&
                 names != pyjitFrameGlobals(o.frame)
             ? names
             : nullptr;
}

Post loadName(const Op &o) {
  PyObject *names = ownNames(o), *name = o.name(o.in.arg);
  if (!names) {
    o.s.end("names in a namespace that is no plain dict");
    return Post::Known;
  }
  if (PyObject *value = PyDict_GetItemWithError(names, name)) {
    // Stored there by the body, or the dict of SETUP_ANNOTATIONS.
    if (PyDict_CheckExact(value) && !o.s.known(value) &&
        PyUnicode_CompareWithASCIIString(name, "__annotations__") == 0)
      o.s.born(value);
    return Post::Known;
  }
  return loadNamed(o, name);
}

Post loadBuildClass(const Op &o) {
  PyObject *builtins = pyjitFrameBuiltins(o.frame);
  static PyObject *name = PyUnicode_InternFromString("__build_class__");
  PyObject *value = PyDict_CheckExact(builtins)
                        ? PyDict_GetItemWithError(builtins, name)
                        : nullptr;
  if (value)
    o.s.read(o.s.pin(builtins), Select::Item, name, value);
  else
    o.s.end("builtins that are no plain dict");
  return Post::Known;
}

/// Constants of code are fixed by the code's identity; tuples of them are
/// created anew where they escape.
void knowConstant(Session &s, PyObject *constant) {
  if (isValue(constant) || s.find(constant))
    return;
  if (PyCode_Check(constant)) { // as fixed as the code that it is part of
    s.pin(constant);
    return;
  }
  s.born(constant);
  if (PyTuple_CheckExact(constant))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant); ++i)
      knowConstant(s, PyTuple_GET_ITEM(constant, i));
}

Post toPost(Session::Found found) {
  return found.kind == Session::Found::Fresh ? Post::Fresh : Post::Known;
}

Post loadSuperAttr(const Op &o) {
  PyObject *super = o.peek(3), *cls = o.peek(2), *self = o.peek(1);
  PyObject *name = o.name(o.in.arg >> 2);
  if (super != reinterpret_cast<PyObject *>(&PySuper_Type) ||
      !PyType_Check(cls)) {
    o.s.end("super is not the builtin one");
    return Post::Known;
  }
  auto *type = reinterpret_cast<PyTypeObject *>(cls);
  PyTypeObject *start = Py_TYPE(self);
  if (PyType_Check(self) &&
      PyType_IsSubtype(reinterpret_cast<PyTypeObject *>(self), type))
    start = reinterpret_cast<PyTypeObject *>(self);
  return toPost(o.s.superAttr(type, self, start, name));
}

Post importName(const Op &o) {
  PyObject *name = o.name(o.in.arg);
  PyObject *level = o.peek(2);
  if (!PyLong_Check(level) || PyLong_AsLong(level) != 0) {
    o.s.end("a relative import inside a function");
    return Post::Known;
  }
  // `import a.b` without names gives the package `a`.
  PyObject *modules = PyImport_GetModuleDict();
  PyObject *module = PyDict_GetItemWithError(modules, name);
  if (!module) {
    o.s.end("the first import of a module");
    return Post::Known;
  }
  o.s.read(o.s.pin(modules), Select::Item, name, module);
  // `from package import name` runs a function of importlib's.
  if (o.peek(1) != Py_None) {
    static PyObject *handle = findObject("_frozen_importlib:_handle_fromlist");
    if (handle && !o.s.find(handle))
      o.s.pin(handle);
  }
  if (o.peek(1) == Py_None) {
    Py_ssize_t dot =
        PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1);
    if (dot > 0) {
      PyObject *package = PyUnicode_Substring(name, 0, dot);
      PyObject *root = PyDict_GetItemWithError(modules, package);
      if (root)
        o.s.read(o.s.pin(modules), Select::Item, package, root);
      o.s.keep(package);
      Py_DECREF(package);
    }
  }
  return Post::Known;
}

/// Functions, methods and objects whose `__call__` is a Python function.
bool isPythonCallable(const Op &o, PyObject *callable) {
  if (PyMethod_Check(callable))
    callable = PyMethod_GET_FUNCTION(callable);
  if (PyFunction_Check(callable))
    return true;
  if (PyType_Check(callable) || !isHeap(callable))
    return false;
  PyObject *method = o.s.special(callable, "__call__");
  return method && PyFunction_Check(method);
}

Post callFunctionEx(const Op &o) {
  bool hasKwargs = o.in.arg & 1;
  PyObject *kwargs = hasKwargs ? o.peek(1) : nullptr;
  PyObject *args = o.peek(hasKwargs ? 2 : 1);
  Call call;
  call.callable = o.peek(hasKwargs ? 3 : 2);
  bool isSize = !std::strcmp(Py_TYPE(args)->tp_name, "torch.Size");
  if (!PyTuple_CheckExact(args) && !PyList_CheckExact(args) && !isSize) {
    o.s.iterate(args);
    // What the generator yields becomes arguments within the instruction; a
    // Python function needs no look at them.
    if (PyGen_CheckExact(args) && !kwargs && isPythonCallable(o, call.callable))
      return o.s.call(call);
    o.s.end("a call with * of a " + typeName(args));
    return Post::Known;
  }
  o.s.readAll(args);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(args); ++i)
    call.args.push_back(PySequence_Fast_GET_ITEM(args, i));
  if (kwargs) {
    if (!PyDict_CheckExact(kwargs)) {
      o.s.end("a call with ** of a " + typeName(kwargs));
      return Post::Known;
    }
    o.s.readAll(kwargs);
    PyObject *names = PyTuple_New(PyDict_GET_SIZE(kwargs));
    Py_ssize_t position = 0, i = 0;
    PyObject *key, *value;
    while (PyDict_Next(kwargs, &position, &key, &value)) {
      PyTuple_SET_ITEM(names, i++, Py_NewRef(key));
      call.args.push_back(value);
    }
    o.s.keep(names);
    Py_DECREF(names);
    call.kwnames = i ? names : nullptr;
  }
  return o.s.call(call);
}

Post callOp(const Op &o) {
  int nargs = o.in.arg;
  PyObject *method = o.peek(nargs + 2), *callable = o.peek(nargs + 1);
  Call call;
  if (method) {
    call.callable = method;
    call.args.push_back(callable);
  } else {
    call.callable = callable;
  }
  for (int i = nargs; i > 0; --i)
    call.args.push_back(o.peek(i));
  call.kwnames = o.in.kwnames;
  o.s.called = call.callable;
  Post post = o.s.call(call);
  o.s.called = nullptr;
  return post;
}

Post beforeWith(const Op &o) {
  PyObject *manager = o.peek(1);
  o.s.special(manager, "__enter__");
  PyObject *exit = o.s.special(manager, "__exit__");
  // It switches off what only subclasses of tensors have.
  bool idle = !std::strcmp(Py_TYPE(manager)->tp_name,
                           "torch._C.DisableTorchFunctionSubclass");
  if (!idle && (!exit || !PyFunction_Check(exit)))
    o.s.end("a with statement over a native " + typeName(manager));
  o.s.freshAt = 2; // the bound `__exit__`
  return Post::Known;
}

/// LOAD_DEREF and friends: the cell lies among the locals.
void readDeref(const Op &o) {
  PyObject *cell = pyjitFrameLocals(o.frame)[o.in.arg];
  if (cell && PyCell_Check(cell))
    o.s.readCell(cell);
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
      s.storingNumber = isValue(o.peek(4));
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
    s.freshAt = (in.arg & 0xff) + 1; // the list of the rest
    return Post::Known;
  case GET_LEN:
    s.lengthOf(o.peek(1));
    return Post::Known;
  case CONTAINS_OP:
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
    if (s.frames.size() > 1 && s.frames[s.frames.size() - 2].truthOfYields)
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
