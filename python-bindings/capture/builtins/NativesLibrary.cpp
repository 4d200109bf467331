//===- NativesLibrary.cpp - Natives of the standard library and others ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"
#include "tensors/TensorImpl.h"
#include "tensors/Tensors.h"

#include <algorithm>
#include <cstring>

using namespace pyjit::capture;

//===----------------------------------------------------------------------===//
// Callables told by their type
//===----------------------------------------------------------------------===//

ResultKind pyjit::capture::callWeakReference(Recording &s, const Call &c) {
  Node *node = s.objects.require(c.callable);
  if (!node || !c.args.empty())
    return ResultKind::Known;
  PyObject *target = PyWeakref_GetObject(c.callable);
  if (!node->external) {
    // What the call made may be gone; the recording keeps it alive.
    Node *referent =
        target && target != Py_None ? s.objects.find(target) : nullptr;
    if (!referent || !referent->external) {
      // Nor would it die while what goes on there is recorded.
      s.breaks.asksSegments = true;
      s.end(ReasonKind::ObjectIdentity,
            "a weak reference to what the call made");
    }
    return ResultKind::Known;
  }
  static PyObject *name = PyUnicode_InternFromString("referent");
  s.reads.read(node, Select::Field, name, target);
  return ResultKind::Known;
}

/// A tuple, or a tensor's shape: equal to each other, and hashed alike, where
/// their elements are.
static bool isTupleOrShape(PyObject *o) {
  return PyTuple_CheckExact(o) ||
         !std::strcmp(Py_TYPE(o)->tp_name, "torch.Size");
}

static bool isDevice(PyObject *o) {
  return !std::strcmp(Py_TYPE(o)->tp_name, "torch.device");
}

static bool isSameKey(PyObject *a, PyObject *b) {
  if (a == b)
    return true;
  if (isTupleOrShape(a) && isTupleOrShape(b)) {
    bool same = PyTuple_GET_SIZE(a) == PyTuple_GET_SIZE(b);
    for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(a); ++i)
      same = isSameKey(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i));
    return same;
  }
  int equal = Py_TYPE(a) == Py_TYPE(b) && (isValue(a) || isDevice(a))
                  ? PyObject_RichCompareBool(a, b, Py_EQ)
                  : 0;
  PyErr_Clear();
  return equal == 1;
}

/// The same with tuples for shapes, which constants of the trace are none of; a
/// new reference.
static PyObject *withoutShapes(PyObject *key) {
  if (!isTupleOrShape(key))
    return Py_NewRef(key);
  PyObject *plain = PyTuple_New(PyTuple_GET_SIZE(key));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    PyTuple_SET_ITEM(plain, i, withoutShapes(PyTuple_GET_ITEM(key, i)));
  return plain;
}

/// The dict's key for these arguments, or null: the one argument itself if it
/// is an int or a text, or a tuple of the positional ones and, behind a mark,
/// names and values. `typed`: then the types of all of them.
static PyObject *cacheKey(PyObject *cache, const Call &c, bool typed) {
  PyObject *key, *value;
  Py_ssize_t position = 0;
  size_t positional = c.positional(), named = c.args.size() - positional;
  bool itself =
      named == 0 && positional == 1 && !typed &&
      (PyLong_CheckExact(c.args[0]) || PyUnicode_CheckExact(c.args[0]));
  while (PyDict_Next(cache, &position, &key, &value)) {
    if (itself) {
      if (isSameKey(key, c.args[0]))
        return key;
      continue;
    }
    size_t plain = positional + (named ? 1 + 2 * named : 0);
    size_t length = plain + (typed ? c.args.size() : 0);
    if (!PyTuple_CheckExact(key) || size_t(PyTuple_GET_SIZE(key)) != length)
      continue;
    bool equal = true;
    for (size_t i = 0; i < positional; ++i)
      equal = equal && isSameKey(PyTuple_GET_ITEM(key, i), c.args[i]);
    for (size_t i = 0; i < named; ++i) {
      size_t at = positional + 1 + 2 * i;
      equal = equal &&
              isSameKey(PyTuple_GET_ITEM(key, at),
                        PyTuple_GET_ITEM(c.kwnames, i)) &&
              isSameKey(PyTuple_GET_ITEM(key, at + 1), c.args[positional + i]);
    }
    if (equal && named &&
        Py_TYPE(PyTuple_GET_ITEM(key, positional)) != &PyBaseObject_Type)
      continue;
    for (size_t i = 0; typed && i < c.args.size(); ++i)
      equal = equal && PyTuple_GET_ITEM(key, plain + i) ==
                           reinterpret_cast<PyObject *>(Py_TYPE(c.args[i]));
    if (equal)
      return key;
  }
  return nullptr;
}

/// From before the call, and told from others by its address alone.
static bool isKnownByAddress(Recording &s, PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  Node *node = s.objects.find(object);
  if (node ? !node->external : !isProcessConstant(object))
    return false;
  if (isHeapType(type) && !PyType_Check(object))
    for (const char *name : {"__hash__", "__eq__"})
      s.attributes.special(object, name);
  return type->tp_hash == PyBaseObject_Type.tp_hash &&
         (!type->tp_richcompare ||
          type->tp_richcompare == PyBaseObject_Type.tp_richcompare);
}

/// Values, devices, objects that are hashed by their address, and tuples of
/// such: known without calling anything of the user's.
static bool isPlainKey(Recording &s, PyObject *object) {
  if (isValue(object) || (isDevice(object) && s.objects.known(object)))
    return true;
  if (!isTupleOrShape(object)) {
    bool known = isKnownByAddress(s, object);
    if (known)
      s.objects.pin(object);
    return known;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (!isPlainKey(s, PyTuple_GET_ITEM(object, i)))
      return false;
  return true;
}

static void pinObjects(Recording &s, PyObject *key) {
  if (!isTupleOrShape(key)) {
    if (!isValue(key))
      s.objects.pin(key);
    return;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    pinObjects(s, PyTuple_GET_ITEM(key, i));
}

/// `Union[...]` and the like: what `typing` keeps depends on nothing but the
/// classes that it is given.
static bool isOfTyping(PyObject *function) {
  PyObject *module = PyObject_GetAttrString(function, "__module__");
  bool is = module && PyUnicode_Check(module) &&
            !PyUnicode_CompareWithASCIIString(module, "typing");
  PyErr_Clear();
  Py_XDECREF(module);
  return is;
}

static bool isMadeOfClasses(Recording &s, PyObject *object) {
  if (isValue(object))
    return true;
  if (PyType_Check(object) ||
      (s.objects.isExternal(object) &&
       isOfTyping(reinterpret_cast<PyObject *>(Py_TYPE(object)))))
    return s.objects.pin(object) != nullptr;
  if (!PyTuple_CheckExact(object))
    return s.objects.known(object) && !s.objects.isTensor(object) &&
           !std::strcmp(Py_TYPE(object)->tp_name, "types.GenericAlias");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (!isMadeOfClasses(s, PyTuple_GET_ITEM(object, i)))
      return false;
  return true;
}

ResultKind pyjit::capture::callCached(Recording &s, const Call &c) {
  Node *node = s.objects.pin(c.callable);
  if (!node || s.ended())
    return ResultKind::Known;
  if (isOfTyping(c.callable) &&
      std::all_of(c.args.begin(), c.args.end(),
                  [&](PyObject *arg) { return isMadeOfClasses(s, arg); })) {
    // The first time it runs Python code of its own: let it be over.
    PyObject *made = PyObject_Vectorcall(c.callable, c.args.data(),
                                         c.positional(), c.kwnames);
    PyErr_Clear();
    Py_XDECREF(made);
    return ResultKind::Fresh;
  }
  for (PyObject *arg : c.args)
    s.scalars.specializeDeep(arg);
  for (PyObject *arg : c.args) {
    if (isTupleOrShape(arg))
      s.containers.readDeep(arg);
    if (s.ended() || !isPlainKey(s, arg)) {
      s.end(ReasonKind::NativeFunction,
            "a cached function given a " + typeName(arg));
      return ResultKind::Known;
    }
  }
  PyObject *cache = pyjitCache(c.callable);
  PyObject *key = cacheKey(cache, c, pyjitCacheTyped(c.callable));
  if (!key) {
    s.endOnce(ReasonKind::FirstTime,
              "the first call of a cached function with these arguments");
    return ResultKind::Known;
  }
  pinObjects(s, key);
  static PyObject *cacheName = PyUnicode_InternFromString("cache");
  static PyObject *resultName = PyUnicode_InternFromString("result");
  s.reads.read(node, Select::Field, cacheName, cache);
  PyObject *value = PyDict_GetItemWithError(cache, key);
  Node *dict = s.objects.find(cache);
  if (!value || !dict) {
    s.end(ReasonKind::NativeFunction, "a cached function");
    return ResultKind::Known;
  }
  key = withoutShapes(key);
  s.objects.keep(key);
  Py_DECREF(key);
  s.reads.read(dict, Select::Item, key, value);
  if (PyObject *result = pyjitCacheLink(value))
    s.reads.read(s.objects.find(value), Select::Field, resultName, result);
  // It counts, and its entry becomes the latest.
  s.effects.writes.push_back({node, Select::Item, nullptr, value});
  return ResultKind::Known;
}

bool pyjit::capture::isTorchOperator(PyObject *object) {
  if (!PyCFunction_Check(object))
    return false;
  PyObject *module = reinterpret_cast<PyCFunctionObject *>(object)->m_module;
  const char *name =
      module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  PyErr_Clear();
  return name && !std::strncmp(name, "torch._ops.", 11);
}

//===----------------------------------------------------------------------===//
// torch._dynamo.mutation_guard.GenerationTracker.tag(module)
//===----------------------------------------------------------------------===//

bool pyjit::capture::isModuleMark(PyObject *object) {
  static PyObject *tag = nullptr;
  static PyObject *name =
      PyUnicode_InternFromString("torch._dynamo.mutation_guard");
  if (!tag) {
    if (!PyDict_GetItemWithError(PyImport_GetModuleDict(), name))
      return false;
    tag = findObject("torch._dynamo.mutation_guard:GenerationTracker.tag");
    if (!tag)
      return false;
  }
  return PyMethod_Check(tag) && PyMethod_GET_FUNCTION(tag) == object;
}

/// The table lets go of a module when it dies; one that the call makes and
/// does not hand out leaves no trace there.
ResultKind pyjit::capture::callModuleMark(Recording &s, const Call &c) {
  Node *node = c.args.size() == 2 ? s.objects.find(c.args[1]) : nullptr;
  if (!node || node->external)
    s.end(ReasonKind::EarlierObject,
          "a module from before the call that Dynamo notes");
  else
    s.calls.markedModules.insert(c.args[1]);
  return ResultKind::Constant; // what the function does within is not looked at
}

namespace {

//===----------------------------------------------------------------------===//
// functools and operator
//===----------------------------------------------------------------------===//

struct Binary {
  const char *function;
  const char *special;
};
constexpr Binary kBinary[] = {{"add", "add"},       {"sub", "sub"},
                              {"mul", "mul"},       {"truediv", "truediv"},
                              {"matmul", "matmul"}, {"and_", "and"},
                              {"or_", "or"},        {"xor", "xor"},
                              {"mod", "mod"},       {"floordiv", "floordiv"},
                              {"pow", "pow"}};

template <size_t I> ResultKind binaryAt(Recording &s, const Call &c) {
  if (c.args.size() != 2)
    return s.calls.unknownNative(c);
  return s.operators.binary(c.args[0], c.args[1], kBinary[I].special, false);
}

template <size_t I> ResultKind inplaceAt(Recording &s, const Call &c) {
  if (c.args.size() != 2)
    return s.calls.unknownNative(c);
  return s.operators.binary(c.args[0], c.args[1], kBinary[I].special, true);
}

/// `iand` of `and_`.
std::string inplaceName(std::string name) {
  if (name.back() == '_')
    name.pop_back();
  return "_operator:i" + name;
}

template <size_t... I>
void addBinary(NativeTable &t, std::index_sequence<I...>) {
  (t.add(("_operator:" + std::string(kBinary[I].function)).c_str(),
         binaryAt<I>),
   ...);
  (t.add(inplaceName(kBinary[I].function).c_str(), inplaceAt<I>), ...);
}

ResultKind notOf(Recording &s, const Call &c) {
  if (c.args.size() != 1)
    return s.calls.unknownNative(c);
  s.operators.truth(c.args[0]);
  return ResultKind::Fresh;
}

/// `operator.is_` and `is_not`.
ResultKind identityOf(Recording &s, const Call &c) {
  if (c.args.size() != 2)
    return s.calls.unknownNative(c);
  s.operators.identity(c.args[0], c.args[1]);
  return ResultKind::Known;
}

/// Whether a truth is joined with what a map hands out, step by step: as long
/// as the result is a truth, so was everything.
bool joinsTruths(const Call &c) {
  const char *name = pyjitMethodDef(c.args[0])->ml_name;
  return c.args.size() == 3 && PyBool_Check(c.args[2]) &&
         Py_TYPE(c.args[1]) == &PyMap_Type &&
         (!std::strcmp(name, "and_") || !std::strcmp(name, "or_"));
}

/// Python functions are followed; of native ones, operators on tensors and
/// values: each step's result is one, too.
ResultKind reduce(Recording &s, const Call &c) {
  if (c.args.size() < 2)
    return ResultKind::Known;
  PyObject *f = c.args[0], *from = c.args[1];
  static PyObject *const extremes[] = {findObject("builtins:max"),
                                       findObject("builtins:min")};
  if (c.args.size() == 2 && (f == extremes[0] || f == extremes[1])) {
    // `max` of the whole compares the same in the same order.
    Call whole;
    whole.callable = f;
    whole.args = {from};
    return s.calls.call(whole);
  }
  s.containers.iterate(from);
  if (PyFunction_Check(f))
    return ResultKind::Known;
  NativeHandler handler = nullptr;
  if (PyMethodDef *def = pyjitMethodDef(f))
    handler = NativeTable::get().find(def);
  bool isOperator =
      handler && PyCFunction_Check(f) &&
      std::any_of(
          std::begin(kBinary), std::end(kBinary), [&](const Binary &binary) {
            return !std::strcmp(pyjitMethodDef(f)->ml_name, binary.function);
          });
  if (isOperator && joinsTruths(c))
    return ResultKind::Known;
  if (!isOperator || (!PyList_Check(from) && !PyTuple_Check(from))) {
    s.end(ReasonKind::NativeFunction,
          "reduce() with a " + typeName(f) + " over a " + typeName(from));
    return ResultKind::Known;
  }
  std::vector<PyObject *> items(c.args.begin() + 2, c.args.end());
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(from); ++i)
    items.push_back(PySequence_Fast_GET_ITEM(from, i));
  ResultKind resultKind = ResultKind::Known;
  for (PyObject *item : items) {
    if (!isValue(item) && !s.objects.isTensor(item))
      s.end(ReasonKind::NativeFunction, "reduce() over a " + typeName(item));
    Call call;
    call.callable = f;
    call.args = {items[0], item};
    resultKind = handler(s, call);
  }
  return resultKind;
}

//===----------------------------------------------------------------------===//
// collections.deque
//===----------------------------------------------------------------------===//

ResultKind dequeMethod(Recording &s, const Call &c) {
  if (s.objects.isExternal(c.args[0]))
    s.containers.own(c.args[0]);
  return ResultKind::Known;
}

ResultKind dequeAppend(Recording &s, const Call &c) {
  if (c.args.size() == 2 && pyjitIsDeque(c.args[0]) &&
      s.containers.append(c.args[0], c.args[1]))
    return ResultKind::Known;
  return dequeMethod(s, c);
}

ResultKind makeDefaultDict(Recording &s, const Call &c) {
  for (size_t i = 1; i < c.positional(); ++i) {
    if (!PyDict_Check(c.args[i]))
      s.end(ReasonKind::UnusualObject,
            "a defaultdict made of a " + typeName(c.args[i]));
    s.containers.iterate(c.args[i]);
  }
  return ResultKind::Fresh;
}

ResultKind dequeExtend(Recording &s, const Call &c) {
  dequeMethod(s, c);
  for (size_t i = 1; i < c.args.size(); ++i)
    s.containers.iterate(c.args[i]);
  return ResultKind::Known;
}

/// Hands back the tensor itself: those of functorch end the capture anyway.
ResultKind sameTensor(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    s.calls.tensorArgument(arg);
  return ResultKind::Known;
}

/// What stands behind a lock is often done once: loggers keep what their levels
/// come to.
ResultKind takeLock(Recording &s, const Call &c) {
  s.endOnce(ReasonKind::FirstTime, "a lock");
  return ResultKind::Known;
}

//===----------------------------------------------------------------------===//
// Copies of plain objects: `object.__reduce_ex__`
//===----------------------------------------------------------------------===//

/// What a class or `object` says, and no instance. Where Python code answers,
/// its answer is looked at when it is there (Calls::returns).
bool isInherited(Recording &s, PyObject *object, const char *name) {
  static PyObject *base = reinterpret_cast<PyObject *>(&PyBaseObject_Type);
  PyObject *text = PyUnicode_InternFromString(name);
  Attributes::Found found = s.attributes.loadAttr(object, text);
  if (found.kind == Attributes::Found::Python) {
    s.now.asksObject = true;
    return true;
  }
  PyObject *own = PyObject_GetAttr(base, text);
  PyErr_Clear();
  Py_XDECREF(own); // `object` keeps it
  return own ? found.kind == Attributes::Found::Fresh && found.object == own
             : found.kind == Attributes::Found::Absent;
}

/// (copyreg.__newobj__, (class,), __dict__ or None, None, None)
ResultKind reduceObject(Recording &s, const Call &c) {
  PyObject *object = c.arg(0);
  auto *type = Py_TYPE(object);
  if (c.args.size() != 2 || c.kwnames || !PyLong_CheckExact(c.args[1]) ||
      PyLong_AsLong(c.args[1]) < 2)
    return s.calls.unknownNative(c);
  if (!std::strcmp(type->tp_name, "torch.dtype")) // its name: it is a constant
    return ResultKind::Fresh;
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || PyType_Check(object) ||
      PyList_Check(object) || PyDict_Check(object) || PyTuple_Check(object) ||
      type->tp_itemsize)
    return s.calls.unknownNative(c);
  for (const char *name :
       {"__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__"})
    if (!isInherited(s, object, name))
      return s.calls.unknownNative(c);
  // Python code fills it in at the first copy, that is, now.
  static PyObject *fill = findObject("copyreg:_slotnames");
  static PyObject *slotNames = PyUnicode_InternFromString("__slotnames__");
  PyObject *slots = PyDict_GetItemWithError(type->tp_dict, slotNames);
  if (!slots && fill) {
    Py_XDECREF(PyObject_CallOneArg(fill, reinterpret_cast<PyObject *>(type)));
    PyErr_Clear();
    slots = PyDict_GetItemWithError(type->tp_dict, slotNames);
  }
  if (!slots)
    return s.calls.unknownNative(c);
  s.attributes.typeLookup(type, slotNames);
  s.containers.readAll(slots);
  if (!PyList_CheckExact(slots) || PyList_GET_SIZE(slots))
    return s.calls.unknownNative(c);
  static PyObject *dictName = PyUnicode_InternFromString("__dict__");
  Attributes::Found dict = s.attributes.genericAttr(object, dictName);
  if (dict.kind != Attributes::Found::Value || !dict.object)
    return s.calls.unknownNative(c);
  s.containers.readKeys(dict.object); // whether it is empty
  static PyObject *module = PyImport_ImportModule("copyreg");
  static PyObject *newName = PyUnicode_InternFromString("__newobj__");
  PyObject *globals = pyjitModuleDict(module);
  PyObject *make = PyDict_GetItemWithError(globals, newName);
  if (!make)
    return s.calls.unknownNative(c);
  s.reads.read(s.objects.pin(globals), Select::Item, newName, make);
  return ResultKind::FreshTuples;
}

//===----------------------------------------------------------------------===//
// The exception that is being handled: contextlib.ExitStack asks for it
//===----------------------------------------------------------------------===//

/// None, in a specialization for calls that begin while none is.
ResultKind handledException(Recording &s, const Call &c) {
  PyObject *handled = PyErr_GetHandledException();
  Py_XDECREF(handled);
  if (handled)
    return s.calls.unknownNative(c);
  s.add(PyjitStateOp{.values = s.writer.state("handles_exception", false)});
  return ResultKind::Fresh;
}

} // namespace

void pyjit::capture::addLibrary(NativeTable &t) {
  // Numbers only: other arguments end the capture.
  PyObject *math = PyImport_ImportModule("math");
  PyObject *dict = math ? PyModule_GetDict(math) : nullptr;
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (dict && PyDict_Next(dict, &position, &key, &value))
    if (PyCFunction_Check(value))
      t.add(value, nativePure);
  Py_XDECREF(math);

  t.add("_functools:reduce", reduce);
  addBinary(t, std::make_index_sequence<std::size(kBinary)>());
  t.add("_operator:not_", notOf);
  t.add("_operator:truth", notOf);
  t.add("_operator:is_", identityOf);
  t.add("_operator:is_not", identityOf);

  t.add("collections:defaultdict", makeDefaultDict);
  t.add("collections:deque", nativeShallow);
  for (const char *name :
       {"appendleft", "pop", "popleft", "reverse", "rotate", "clear"})
    t.add(("collections:deque." + std::string(name)).c_str(), dequeMethod);
  t.add("collections:deque.append", dequeAppend);
  for (const char *name : {"extend", "extendleft"})
    t.add(("collections:deque." + std::string(name)).c_str(), dequeExtend);

  t.add("torch._C._functorch:unwrap_if_dead", sameTensor);
  t.add("builtins:object.__reduce_ex__", reduceObject);
  t.add("_thread:RLock.acquire", takeLock);
  t.add("_thread:RLock.__enter__", takeLock);
  t.add("_thread:lock.acquire", takeLock);
  t.add("_thread:lock.__enter__", takeLock);
  t.add("sys:exc_info", handledException);
  t.add("sys:exception", handledException);
}
