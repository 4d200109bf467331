//===- NativeContainers.cpp - Methods of builtin containers ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "builtins/Natives.h"
#include "numbers/ListNumbers.h"
#include "objects/ObjectKinds.h"
#include "tensors/Tensors.h"

using namespace pyjit::capture;

void pyjit::capture::hashElements(Recording &s, PyObject *from) {
  if (isValue(from) || PyFunction_Check(from))
    return;
  s.containers.iterate(from);
  s.containers.lookAtItems(from);
  if (PyAnySet_Check(from)) {
    s.containers.readAll(from);
  } else if (PyList_Check(from) || PyTuple_Check(from)) {
    s.containers.readDeep(from);
  } else if (PyDict_Check(from)) {
    PyObject *key;
    Py_ssize_t position = 0;
    while (PyDict_Next(from, &position, &key, nullptr))
      s.containers.readDeep(key);
  }
}

void pyjit::capture::hashPairs(Recording &s, PyObject *pairs) {
  s.containers.lookAtItems(pairs);
  if (!PyList_Check(pairs) && !PyTuple_Check(pairs))
    return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(pairs); ++i) {
    PyObject *pair = PySequence_Fast_GET_ITEM(pairs, i);
    s.containers.iterate(pair);
    if ((PyList_Check(pair) || PyTuple_Check(pair)) &&
        PySequence_Fast_GET_SIZE(pair) > 0)
      s.containers.readDeep(PySequence_Fast_GET_ITEM(pair, 0));
  }
}

namespace {

ResultKind dictGet(Recording &s, const Call &c) {
  s.now.numbers = ReadNumbers::HandedOn;
  if (c.args.size() >= 2 && PyDict_Check(c.args[0]))
    s.containers.dictItem(c.args[0], c.args[1]);
  return ResultKind::Known;
}

ResultKind dictContains(Recording &s, const Call &c) {
  if (c.args.size() == 2 && PyDict_Check(c.args[0]))
    s.containers.contains(c.args[0], c.args[1]);
  return ResultKind::Known;
}

/// 1, 0, or -1 for a key that cannot be hashed: the call raises.
int holds(PyObject *container, PyObject *key) {
  int found = PySequence_Contains(container, key);
  PyErr_Clear();
  return found;
}

ResultKind dictSetDefault(Recording &s, const Call &c) {
  if (c.args.size() < 2)
    return ResultKind::Known;
  s.now.numbers = ReadNumbers::HandedOn;
  s.containers.dictItem(c.args[0], c.args[1]);
  if (holds(c.args[0], c.args[1]) == 0)
    s.containers.writeItem(c.args[0], c.args[1],
                           c.arg(2) ? c.args[2] : Py_None);
  return ResultKind::Known;
}

ResultKind dictPop(Recording &s, const Call &c) {
  if (c.args.size() < 2)
    return ResultKind::Known;
  s.now.numbers = ReadNumbers::HandedOn;
  // What is deleted is read first.
  if (holds(c.args[0], c.args[1]) == 1)
    s.containers.writeItem(c.args[0], c.args[1], nullptr);
  else
    s.containers.dictItem(c.args[0], c.args[1]);
  return ResultKind::Known;
}

/// Views and copies: what they show is read now.
ResultKind dictView(Recording &s, const Call &c) {
  s.containers.readAll(c.args[0]);
  return ResultKind::Fresh;
}

ResultKind dictKeys(Recording &s, const Call &c) {
  s.containers.readKeys(c.args[0]);
  return ResultKind::Fresh;
}

ResultKind dictUpdate(Recording &s, const Call &c) {
  if (s.objects.isExternal(c.args[0]))
    s.containers.own(c.args[0]);
  for (size_t i = 1; i < c.positional(); ++i) {
    PyObject *arg = c.args[i];
    s.containers.iterate(arg);
    hashPairs(s, arg);
    if (!PyList_Check(arg) && !PyTuple_Check(arg) && !PyDict_Check(arg) &&
        !PyGen_CheckExact(arg))
      s.end(ReasonKind::UnusualObject, "dict.update with a " + typeName(arg));
  }
  return ResultKind::Known;
}

ResultKind mutate(Recording &s, const Call &c) {
  if (s.objects.isExternal(c.args[0]))
    s.containers.own(c.args[0]);
  return ResultKind::Known;
}

ResultKind listAppend(Recording &s, const Call &c) {
  if (c.args.size() == 2 && PyList_CheckExact(c.args[0]) &&
      s.containers.append(c.args[0], c.args[1]))
    return ResultKind::Known;
  return mutate(s, c);
}

ResultKind mutateFresh(Recording &s, const Call &c) {
  mutate(s, c);
  return ResultKind::Fresh;
}

ResultKind mutateFrom(Recording &s, const Call &c) {
  mutate(s, c);
  for (size_t i = 1; i < c.args.size(); ++i) {
    s.containers.hintLength(c.args[i]);
    s.containers.iterate(c.args[i]);
  }
  return ResultKind::Known;
}

ResultKind listExtend(Recording &s, const Call &c) {
  s.now.movesYields = c.args.size() == 2 && PyGen_CheckExact(c.args[1]);
  return mutateFrom(s, c);
}

ResultKind setUpdate(Recording &s, const Call &c) {
  mutate(s, c);
  for (size_t i = 1; i < c.args.size(); ++i)
    hashElements(s, c.args[i]);
  return ResultKind::Known;
}

ResultKind mutateHashing(Recording &s, const Call &c) {
  mutate(s, c);
  for (size_t i = 1; i < c.args.size(); ++i)
    s.containers.readDeep(c.args[i]);
  return ResultKind::Known;
}

ResultKind searching(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    s.containers.readDeep(arg);
  return ResultKind::Known;
}

/// Which element goes is a matter of comparisons.
ResultKind listRemove(Recording &s, const Call &c) {
  if (c.args.size() != 2)
    return ResultKind::Known;
  mutate(s, c);
  searching(s, c);
  if (!s.ended())
    ListNumbers(s.scalars).remove(c.args[0], c.args[1]);
  return ResultKind::Known;
}

/// Adds or removes one element.
ResultKind changeSet(Recording &s, const Call &c, bool isIn) {
  return s.ended() || s.containers.writeElement(c.args[0], c.args[1], isIn)
             ? ResultKind::Known
             : mutate(s, c);
}

/// `discard` and `add` change nothing where there is nothing to do.
ResultKind setDiscard(Recording &s, const Call &c) {
  if (c.args.size() != 2)
    return ResultKind::Known;
  s.containers.readDeep(c.args[1]);
  s.containers.setItem(c.args[0], c.args[1]);
  return holds(c.args[0], c.args[1]) == 1 ? changeSet(s, c, false)
                                          : ResultKind::Known;
}

ResultKind setAdd(Recording &s, const Call &c) {
  if (c.args.size() != 2)
    return ResultKind::Known;
  s.containers.hashInto(c.args[0], c.args[1]);
  s.containers.setItem(c.args[0], c.args[1]);
  if (s.objects.isTensor(c.args[1])) // into a set that the call made
    return ResultKind::Known;
  return holds(c.args[0], c.args[1]) == 0 ? changeSet(s, c, true)
                                          : ResultKind::Known;
}

ResultKind setContains(Recording &s, const Call &c) {
  if (c.args.size() == 2)
    s.containers.contains(c.args[0], c.args[1]);
  return ResultKind::Known;
}

/// Of sets, and of what they are given, by the elements.
ResultKind hashes(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    hashElements(s, arg);
  return ResultKind::FreshTuples;
}

/// Methods of immutable builtin types: functions of their arguments' contents.
ResultKind pureMethod(Recording &s, const Call &c) {
  for (PyObject *arg : c.args) {
    if (isValue(arg))
      continue;
    if (PyGen_CheckExact(arg)) // str.join(generator)
      s.containers.iterate(arg);
    else
      s.containers.readDeep(arg);
  }
  return ResultKind::Fresh;
}

/// `Counter.update`: counts what it is given into a dict of the call's own.
ResultKind countElements(Recording &s, const Call &c) {
  if (c.args.size() != 2 || !PyDict_Check(c.args[0]) ||
      s.objects.isExternal(c.args[0]))
    return s.calls.unknownNative(c);
  hashElements(s, c.args[1]);
  return ResultKind::Known;
}

/// A generator's or iterator's own methods.
ResultKind generatorMethod(Recording &s, const Call &c) {
  if (s.objects.isExternal(c.args[0]))
    s.end(ReasonKind::EarlierObject, "a generator from before the call");
  return ResultKind::Known;
}

ResultKind proxyGet(Recording &s, const Call &c) {
  // Views made by the call are over things read when they were made.
  if (s.objects.isExternal(c.args[0]))
    s.end(ReasonKind::EarlierObject, "a mappingproxy from before the call");
  return ResultKind::Known;
}

ResultKind proxyView(Recording &s, const Call &c) {
  proxyGet(s, c);
  return ResultKind::Fresh;
}

} // namespace

void pyjit::capture::addContainerMethods(NativeTable &t) {
  for (const char *type : {"builtins:dict.", "collections:OrderedDict."}) {
    auto add = [&](const char *name, NativeHandler handler) {
      t.add((std::string(type) + name).c_str(), handler);
    };
    add("get", dictGet);
    add("__getitem__", dictGet);
    add("__contains__", dictContains);
    add("pop", dictPop);
    add("setdefault", dictSetDefault);
    add("items", dictView);
    add("values", dictView);
    add("copy", dictView);
    add("keys", dictKeys);
    add("update", dictUpdate);
    add("clear", mutate);
    add("popitem", mutateFresh);
  }
  t.add("collections:OrderedDict.move_to_end", mutateHashing);
  t.add("builtins:dict.fromkeys", hashes);
  for (const char *name : {"insert", "pop", "reverse", "clear"})
    t.add(("builtins:list." + std::string(name)).c_str(), mutate);
  t.add("builtins:list.append", listAppend);
  t.add("builtins:list.extend", listExtend);
  t.add("builtins:list.remove", listRemove);
  t.add("builtins:list.index", searching);
  t.add("builtins:list.count", searching);
  t.add("builtins:list.copy", dictView);
  t.add("builtins:list.__getitem__", searching);
  t.add("builtins:set.add", setAdd);
  t.add("builtins:set.discard", setDiscard);
  t.add("builtins:set.remove", setDiscard);
  t.add("builtins:set.update", setUpdate);
  t.add("builtins:set.clear", mutate);
  t.add("builtins:set.pop", mutate);
  for (const char *name :
       {"difference", "intersection", "symmetric_difference"})
    t.add(("builtins:set." + std::string(name) + "_update").c_str(), setUpdate);
  t.add("builtins:set.__contains__", setContains);
  t.add("builtins:frozenset.__contains__", setContains);
  t.addMethods(&PySet_Type, hashes);
  t.addMethods(&PyFrozenSet_Type, hashes);
  for (PyTypeObject *type :
       {&PyUnicode_Type, &PyBytes_Type, &PyLong_Type, &PyFloat_Type,
        &PyComplex_Type, &PyTuple_Type, &PyRange_Type, &PySlice_Type})
    t.addMethods(type, pureMethod);
  t.addMethods(&PyGen_Type, generatorMethod);
  t.add("_collections:_count_elements", countElements);
  t.add("types:MappingProxyType.get", proxyGet);
  t.add("types:MappingProxyType.items", proxyView);
  t.add("types:MappingProxyType.values", proxyView);
  t.add("types:MappingProxyType.keys", proxyView);
  t.addMethods(reinterpret_cast<PyTypeObject *>(PyExc_BaseException),
               nativeNothing);
}
