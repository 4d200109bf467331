//===- Calls.cpp - What calling an object means, by its type --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "builtins/Natives.h"
#include "objects/Bases.h"
#include "objects/ObjectKinds.h"
#include "tensors/Tensors.h"

#include <cstring>
#include <optional>

using namespace pyjit::capture;

PyObject *Call::keyword(const char *name) const {
  if (!kwnames)
    return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); ++i)
    if (!PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), name))
      return args[positional() + i];
  return nullptr;
}

/// Whether pybind11 made the function, whose qualified name is that of the
/// record which it is bound to.
static bool isBoundToRecord(PyObject *callable) {
  return PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) &&
         typeName(PyCFunction_GET_SELF(callable))
                 .find("pybind11_detail_function_record") != std::string::npos;
}

std::string pyjit::capture::functionName(PyObject *callable) {
  PyObject *name = PyObject_GetAttrString(
      callable, isBoundToRecord(callable) ? "__name__" : "__qualname__");
  if (!name) {
    PyErr_Clear();
    name = PyObject_GetAttrString(callable, "__name__");
  }
  if (!name || !PyUnicode_Check(name)) {
    PyErr_Clear();
    Py_XDECREF(name);
    return typeName(callable);
  }
  std::string text = PyUnicode_AsUTF8(name);
  Py_DECREF(name);
  PyObject *module = PyObject_GetAttrString(callable, "__module__");
  if (module && PyUnicode_Check(module))
    text = std::string(PyUnicode_AsUTF8(module)) + "." + text;
  PyErr_Clear();
  Py_XDECREF(module);
  return text;
}

void Calls::callsBack(PyObject *function, unsigned uses) {
  if (!uses)
    return;
  s.objects.keep(function);
  callbacks[function] |= uses;
}

unsigned Calls::callbackOf(PyjitFrame *frame) {
  if (callbacks.empty())
    return 0;
  auto found = callbacks.find(pyjitFrameFunction(frame));
  return found == callbacks.end() ? 0 : found->second;
}

/// A method that an instance has of `object`.
static bool isOfObject(PyObject *method) {
  if (!PyCFunction_Check(method))
    return false;
  PyMethodDef *def = reinterpret_cast<PyCFunctionObject *>(method)->m_ml;
  for (PyMethodDef *own = PyBaseObject_Type.tp_methods; own->ml_name; ++own)
    if (own == def)
      return true;
  return false;
}

void Calls::returns(PyObject *result) {
  const auto &frames = s.tracker.frames;
  const ShadowFrame &frame = frames.back();
  if (frame.direct || !frame.frame)
    return;
  if (frames.size() > 1 && frames[frames.size() - 2].context.asksObject &&
      !isOfObject(result))
    s.end(ReasonKind::NativeFunction,
          "a copy of an object that says itself what is copied");
  if (result == Py_NotImplemented)
    s.operators.declined(frame);
  unsigned uses = callbackOf(frame.frame);
  if (uses & Truth)
    s.operators.truth(result);
  if (uses & Compared)
    s.containers.readDeep(result);
}

ResultKind Calls::unknownNative(const Call &call) {
  static PyObject *disabled = findObject("pyjit._C:call_disabled");
  s.end(call.callable == disabled ? ReasonKind::Disabled
                                  : ReasonKind::NativeFunction,
        "native function " + functionName(call.callable));
  return ResultKind::Fresh;
}

/// A partial object's parts, read-only C members.
bool pyjit::capture::partialParts(Recording &s, PyObject *partial, Call &out,
                                  const Call &call) {
  PyObject *parts[3];
  const char *names[] = {"func", "args", "keywords"};
  Node *node = s.objects.require(partial);
  if (!node)
    return false;
  for (int i = 0; i < 3; ++i) {
    parts[i] = PyObject_GetAttrString(partial, names[i]);
    if (!parts[i]) {
      PyErr_Clear();
      return false;
    }
    s.objects.keep(parts[i]);
    Py_DECREF(parts[i]);
    if (node->external) {
      PyObject *name = PyUnicode_InternFromString(names[i]);
      s.reads.read(node, Select::Field, name, parts[i]);
    } else if (!s.objects.known(parts[i])) {
      s.objects.allocated(parts[i]);
    }
  }
  out.callable = parts[0];
  s.containers.readAll(parts[1]);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts[1]); ++i)
    out.args.push_back(PyTuple_GET_ITEM(parts[1], i));
  out.args.insert(out.args.end(), call.args.begin(),
                  call.args.begin() + call.positional());
  s.containers.readAll(parts[2]);
  PyObject *merged = PyDict_Copy(parts[2]);
  for (size_t i = call.positional(); i < call.args.size(); ++i)
    PyDict_SetItem(merged,
                   PyTuple_GET_ITEM(call.kwnames, i - call.positional()),
                   call.args[i]);
  PyObject *kwnames = PyTuple_New(PyDict_GET_SIZE(merged));
  PyObject *key, *value;
  Py_ssize_t position = 0, i = 0;
  while (PyDict_Next(merged, &position, &key, &value)) {
    PyTuple_SET_ITEM(kwnames, i++, Py_NewRef(key));
    out.args.push_back(value);
  }
  out.kwnames = i ? kwnames : nullptr;
  s.objects.keep(merged);
  s.objects.keep(kwnames);
  Py_DECREF(merged);
  Py_DECREF(kwnames);
  return true;
}

/// What pybind11 binds its functions to.
static bool isFunctionRecord(PyObject *object) {
  return std::strstr(Py_TYPE(object)->tp_name,
                     "pybind11_detail_function_record") != nullptr;
}

/// Classes whose instances C code makes of nothing but their arguments.
static bool isPlainNew(PyObject *newMethod) {
  if (!PyCFunction_Check(newMethod))
    return false;
  PyObject *self = PyCFunction_GET_SELF(newMethod);
  if (!self || !PyType_Check(self))
    return false;
  auto *type = reinterpret_cast<PyTypeObject *>(self);
  return type == &PyBaseObject_Type || type == &PyDict_Type ||
         type == &PyList_Type || type == &PyTuple_Type || type == &PySet_Type ||
         type == &PyODict_Type || type == &PyProperty_Type ||
         PyType_IsSubtype(
             type, reinterpret_cast<PyTypeObject *>(PyExc_BaseException));
}

/// Functions of Python's whose inside is of no use to a specialization: what
/// they do is copying objects that it cannot make, changing generators' states,
/// or looking at frames and locks. One graph break around the call is better
/// than a dozen in it.
static bool isGraphBreakAround(PyObject *f) {
  static const std::set<PyObject *> functions = [] {
    std::set<PyObject *> found;
    for (const char *path :
         {"copy:deepcopy", "torch:manual_seed", "torch:seed",
          "torch:set_default_device", "random:Random.choice",
          "random:Random.choices", "random:Random.sample",
          "random:Random.shuffle", "random:Random.randint",
          "random:Random.randrange", "random:Random.uniform",
          "random:Random.gauss", "random:Random.normalvariate", "json:dumps",
          "json:loads", "logging:Logger._log", "traceback:format_exc",
          "traceback:format_stack", "traceback:print_exc"})
      if (PyObject *function = findObject(path))
        found.insert(function);
    return found;
  }();
  return functions.count(f);
}

/// A function may look at its callers' frames (`namedtuple` names their
/// module). What follows a graph break within it does not run in them, so the
/// graph breaks around it; a frame's variables are all there in eager alone.
static bool looksAtFrames(Recording &s, PyCodeObject *code) {
  if (!looksUp(code, {"_getframe", "_getframemodulename"}))
    return false;
  if (looksUp(code, {"f_locals"}))
    s.breaks.asksForVariables();
  return true;
}

/// Whether a user's function is marked by torch.compiler.disable. Torch's own
/// are marked for Dynamo's sake.
static bool isDisabled(PyObject *f) {
  auto *function = reinterpret_cast<PyFunctionObject *>(f);
  if (!function->func_dict || !function->func_module ||
      !PyUnicode_Check(function->func_module))
    return false;
  static PyObject *mark = PyUnicode_InternFromString("_torchdynamo_disable");
  if (PyDict_GetItemWithError(function->func_dict, mark) != Py_True)
    return false;
  const char *module = PyUnicode_AsUTF8(function->func_module);
  return module && std::strncmp(module, "torch.", 6) != 0;
}

static ResultKind callFunction(Recording &s, Node *node, const Call &call) {
  PyObject *f = call.callable;
  s.reads.function(node);
  if (asksDefaultDevice(s, call))
    return ResultKind::Constant;
  wrapForDynamo(f);
  prepareDevices(f);
  prepareTransforms(s, f);
  if (appliesDerivative(s, call))
    s.end(ReasonKind::AutogradFunction, "an autograd function with a gradient");
  if (CheckpointRegion::isCheckpoint(f))
    return s.checkpoint.call(call);
  if (std::optional<ResultKind> path = callContractionPath(s, call))
    return *path;
  auto *code = reinterpret_cast<PyCodeObject *>(
      reinterpret_cast<PyFunctionObject *>(f)->func_code);
  if (s.copies.isShown(call) || looksAtFrames(s, code) ||
      (isGraphBreakAround(f) && !s.copies.follows(call)))
    s.end(ReasonKind::NativeFunction,
          "a call of " +
              std::string(PyUnicode_AsUTF8(
                  reinterpret_cast<PyFunctionObject *>(f)->func_qualname)));
  if (isDisabled(f))
    s.end(ReasonKind::Disabled,
          "a call of " +
              std::string(PyUnicode_AsUTF8(
                  reinterpret_cast<PyFunctionObject *>(f)->func_qualname)) +
              ", which torch.compiler.disable marks");
  if (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR))
    s.end(ReasonKind::Coroutine, "a coroutine");
  if (!(code->co_flags & CO_GENERATOR))
    s.now.callee = f;
  return code->co_flags & CO_GENERATOR ? ResultKind::Fresh : ResultKind::Known;
}

static ResultKind callMethod(Recording &s, Node *node, const Call &call,
                             int depth) {
  PyObject *f = call.callable, *self = PyMethod_GET_SELF(f);
  Call inner;
  inner.callable = PyMethod_GET_FUNCTION(f);
  if (node->external) {
    s.reads.read(node, Select::Field, PyUnicode_InternFromString("__func__"),
                 inner.callable);
    s.reads.read(node, Select::Field, PyUnicode_InternFromString("__self__"),
                 self);
  }
  inner.args.push_back(self);
  inner.args.insert(inner.args.end(), call.args.begin(), call.args.end());
  inner.kwnames = call.kwnames;
  return s.calls.call(inner, depth + 1);
}

/// `T.__new__` of a builtin type.
static ResultKind callNew(Recording &s, const Call &call) {
  if (!isPlainNew(call.callable))
    return s.calls.unknownNative(call);
  s.now.callsNative = true;
  s.scalars.wrapper("__new__", call);
  if (PyCFunction_GET_SELF(call.callable) ==
      reinterpret_cast<PyObject *>(&PyTuple_Type))
    for (size_t i = 1; i < call.args.size(); ++i)
      s.containers.iterate(call.args[i]);
  return ResultKind::Fresh;
}

/// A function or method that C code defines.
static ResultKind callNative(Recording &s, Node *node, PyMethodDef *def,
                             const Call &call) {
  PyObject *f = call.callable;
  // All `__new__` methods share one definition.
  if (!std::strcmp(def->ml_name, "__new__"))
    return callNew(s, call);
  NativeHandler handler = NativeTable::get().find(def);
  if (!handler && isTorchOperator(f)) {
    for (PyObject *arg : call.args)
      s.scalars.specializeDeep(arg);
    if (s.calls.direct == f)
      s.run.device->callsOperator(s);
    return s.calls.torchCall(call);
  }
  if (!handler)
    return s.calls.unknownNative(call);
  s.now.callsNative = true;
  // Bound: handlers see `self` as the first argument.
  PyObject *self = PyCFunction_Check(f) ? PyCFunction_GET_SELF(f) : nullptr;
  if (!self || PyModule_Check(self) || PyType_Check(self) ||
      PyCapsule_CheckExact(self) || isFunctionRecord(self) ||
      (def->ml_flags & METH_STATIC)) {
    s.scalars.native(call, def->ml_name);
    return handler(s, call);
  }
  if (node->external && !s.objects.find(self) && !isValue(self)) {
    if (ObjectTable::isTensor(self))
      return s.calls.unknownNative(call);
    s.objects.pin(self);
  }
  Call inner = call;
  inner.args.insert(inner.args.begin(), self);
  s.scalars.native(inner, def->ml_name);
  return handler(s, inner);
}

/// `x.__add__` of a builtin type, bound to `x`.
static ResultKind callMethodWrapper(Recording &s, Node *node,
                                    const Call &call) {
  PyObject *f = call.callable;
  Call inner = call;
  PyObject *self = PyObject_GetAttrString(f, "__self__");
  if (node->external && !s.objects.find(self) && !isValue(self))
    s.objects.pin(self);
  inner.args.insert(inner.args.begin(), self);
  s.objects.keep(self);
  Py_DECREF(self);
  return s.calls.callWrapper(pyjitWrapperName(f), f, inner);
}

/// A function that pybind11 keeps for a class's property or method.
static ResultKind callInstanceMethod(Recording &s, const Call &call,
                                     int depth) {
  Call inner = call;
  inner.callable = PyInstanceMethod_GET_FUNCTION(call.callable);
  if (!s.objects.find(inner.callable))
    s.objects.pin(inner.callable);
  return s.calls.call(inner, depth + 1);
}

/// Calls of what pyjit itself has compiled are followed.
static ResultKind callCompiled(Recording &s, const Call &call, int depth) {
  Call inner = call;
  inner.callable = PyObject_GetAttrString(call.callable, "target");
  if (!inner.callable) {
    PyErr_Clear();
    return s.calls.unknownNative(call);
  }
  s.objects.keep(inner.callable);
  Py_DECREF(inner.callable);
  if (!s.objects.find(inner.callable))
    s.objects.pin(inner.callable);
  return s.calls.call(inner, depth + 1);
}

ResultKind Calls::call(const Call &call, int depth) {
  PyObject *f = call.callable;
  if (s.dead)
    return ResultKind::Known;
  if (depth > 20) {
    s.end(ReasonKind::PythonFeature, "a chain of callables");
    return ResultKind::Known;
  }
  Node *node = s.objects.require(f);
  if (!node)
    return ResultKind::Known;
  // A function of Python's is followed: what its frame does with a value that
  // is passed on unseen shows there.
  bool followed = PyFunction_Check(f) || PyMethod_Check(f);
  for (PyObject *arg : call.args)
    if (!isValue(arg) && !(followed && s.objects.unseen.count(arg)) &&
        !s.objects.require(arg))
      return ResultKind::Known;

  if (PyFunction_Check(f) && isModuleMark(f)) {
    s.reads.function(node);
    return callModuleMark(s, call);
  }
  if (PyFunction_Check(f))
    return callFunction(s, node, call);
  if (PyMethod_Check(f))
    return callMethod(s, node, call, depth);
  if (PyMethodDef *def = pyjitMethodDef(f))
    return callNative(s, node, def, call);
  if (PyInstanceMethod_Check(f))
    return callInstanceMethod(s, call, depth);
  if (isGetter(f))
    return callGetter(s, call);
  if (isNumpyFunction(f))
    return callNumpy(s, call);
  if (PyWeakref_CheckRefExact(f))
    return callWeakReference(s, call);
  if (pyjitCache(f))
    return callCached(s, call);
  if (isScriptFunction(f) && s.transforms.isActive())
    return unknownNative(call);
  if (isScriptFunction(f)) {
    // It computes with sizes by itself.
    for (PyObject *arg : call.args)
      s.sizes.layoutDeep(arg);
    return callScript(s, call);
  }
  PyTypeObject *type = Py_TYPE(f);
  if (type == &PyWrapperDescr_Type)
    return callWrapper(pyjitWrapperName(f), f, call);
  if (pyjitIsMethodWrapper(f))
    return callMethodWrapper(s, node, call);
  if (PyType_Check(f))
    return callType(reinterpret_cast<PyTypeObject *>(f), call);
  if (!std::strcmp(type->tp_name, "functools.partial")) {
    Call inner;
    if (partialParts(s, f, inner, call))
      return this->call(inner, depth + 1);
    s.end(ReasonKind::UnusualObject, "an unusual functools.partial");
    return ResultKind::Known;
  }
  if (isCompiledFunction(f))
    return callCompiled(s, call, depth);
  PyObject *method = s.attributes.special(f, "__call__");
  if (!method || Py_TYPE(method) == &PyWrapperDescr_Type)
    return unknownNative(call);
  Call inner = call;
  inner.callable = method;
  inner.args.insert(inner.args.begin(), f);
  return this->call(inner, depth + 1);
}

ResultKind Calls::callType(PyTypeObject *type, const Call &call) {
  if (NativeHandler handler = NativeTable::get().find(type)) {
    s.now.callsNative = true;
    s.scalars.nativeType(type, call);
    return handler(s, call);
  }
  if (isNumpyNumberType(type))
    return callNumpy(s, call);
  auto *object = reinterpret_cast<PyObject *>(type);
  PyObject *metaCall = s.attributes.special(object, "__call__");
  if (metaCall && PyFunction_Check(metaCall))
    return ResultKind::Known;
  if (!metaCall || Py_TYPE(metaCall) != &PyWrapperDescr_Type)
    return unknownNative(call);
  return callTypeDirectly(type, call);
}

bool Calls::handsOnArguments(PyTypeObject *type) {
  auto *object = reinterpret_cast<PyObject *>(type);
  PyObject *metaCall = s.attributes.special(object, "__call__");
  PyObject *newMethod = s.attributes.typeLookup(type, "__new__");
  PyObject *init = s.attributes.typeLookup(type, "__init__");
  return isHeapType(type) && metaCall &&
         Py_TYPE(metaCall) == &PyWrapperDescr_Type && newMethod &&
         PyCFunction_Check(newMethod) &&
         PyCFunction_GET_SELF(newMethod) ==
             reinterpret_cast<PyObject *>(&PyBaseObject_Type) &&
         init && PyFunction_Check(init) && !NativeTable::get().find(type);
}

/// What `type.__call__` does: `__new__`, then `__init__`.
ResultKind Calls::callTypeDirectly(PyTypeObject *type, const Call &call) {
  auto *object = reinterpret_cast<PyObject *>(type);
  PyObject *newMethod = s.attributes.typeLookup(type, "__new__");
  PyObject *init = s.attributes.typeLookup(type, "__init__");
  // It dies when the last reference goes, and the recorder's are more.
  if (s.attributes.typeLookup(type, "__del__"))
    s.endWhole(ReasonKind::ObjectIdentity, "an object with __del__");
  // `except` goes by them.
  if (PyExceptionClass_Check(object))
    readBases(s, type);
  if (newMethod)
    if (PyObject *inner = pyjitInnerCallable(newMethod)) {
      if (!s.objects.find(inner))
        s.objects.pin(inner);
      newMethod = inner;
    }
  bool pythonNew = newMethod && PyFunction_Check(newMethod);
  if (!pythonNew && (!newMethod || !isPlainNew(newMethod)))
    return unknownNative(call);
  bool pythonInit = init && PyFunction_Check(init);
  if (!pythonInit) {
    if (!init || Py_TYPE(init) != &PyWrapperDescr_Type)
      return unknownNative(call);
    if (pyjitDescrType(init) != &PyBaseObject_Type) {
      if (!PyExceptionClass_Check(object))
        for (PyObject *arg : call.args)
          s.containers.iterate(arg);
    }
  }
  if (!pythonInit ||
      (newMethod && !pythonNew && PyType_IsSubtype(type, &PyTuple_Type)))
    s.scalars.nativeType(type, call);
  if (PyType_IsSubtype(type, &PyTuple_Type) && !pythonNew)
    for (PyObject *arg : call.args)
      s.containers.iterate(arg);
  s.now.instantiating = type;
  return pythonNew ? ResultKind::Known : ResultKind::Fresh;
}
