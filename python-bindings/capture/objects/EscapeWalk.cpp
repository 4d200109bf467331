//===- EscapeWalk.cpp - Objects that leave the call -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "objects/EscapeWalk.h"
#include "builtins/Natives.h"
#include "numbers/HostScalars.h"
#include "objects/ObjectKinds.h"
#include "objects/ObjectLayout.h"
#include "objects/SetContents.h"
#include "tensors/ReplacedData.h"
#include "tensors/Tensors.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstring>

using namespace pyjit::capture;

std::vector<PyjitValue>
EscapeWalk::values(const std::vector<PyObject *> &objects) {
  std::vector<PyjitValue> out;
  for (PyObject *object : objects)
    out.push_back(value(object));
  return out;
}

std::vector<PyjitValue> EscapeWalk::entries(PyObject *dict,
                                            PyjitAttribute &keys) {
  std::vector<PyjitValue> out;
  std::vector<PyjitAttribute> names;
  PyObject *inOrder = keysInOrder(dict);
  for (PyObject *key : elementsOf(inOrder)) {
    PyObject *item = PyDict_GetItemWithError(dict, key);
    if (!item || s.ended())
      break;
    out.push_back(value(item));
    if (holdsNan(key)) // equal to nothing but itself
      refuse(dict, " with a nan as a key");
    names.push_back(s.objects.constant(key));
  }
  s.objects.keep(inOrder);
  Py_DECREF(inOrder);
  keys = s.writer.list(names);
  return out;
}

PyjitValue EscapeWalk::add(const Creation &made, PyjitType type) {
  return s.add(PyjitCreateOp{.kind = view(made.kind),
                             .exactType = made.exactType,
                             .itemKeys = made.itemKeys,
                             .attrNames = made.attributeNames,
                             .elements = view(made.elements),
                             .items = view(made.items),
                             .entries = view(made.attributes),
                             .resultType = type});
}

PyjitValue EscapeWalk::tuple(const std::vector<PyjitValue> &elements) {
  Creation made;
  made.kind = "tuple";
  made.elements = elements;
  return add(made, s.writer.object("tuple"));
}

PyjitValue EscapeWalk::truth(int tensor) {
  Creation made;
  made.kind = "number";
  made.elements = {s.dataNumbers.proxyValue(tensor)};
  return add(made, s.writer.object("bool"));
}

/// The trace is not used: any value will do.
PyjitValue EscapeWalk::refuse(PyObject *object, const char *why) {
  if (!s.ended())
    s.breaks.refused = object;
  s.end(ReasonKind::ResultObject,
        "the result holds a " + typeName(object) + why);
  return s.objects.external;
}

//===----------------------------------------------------------------------===//
// Objects that the trace knows already
//===----------------------------------------------------------------------===//

PyjitValue EscapeWalk::value(PyObject *object) {
  auto found = done.find(object);
  if (found != done.end())
    return found->second;
  PyjitValue result = compute(object);
  done[object] = result;
  return result;
}

PyjitValue EscapeWalk::compute(PyObject *object) {
  if (auto found = s.objects.unseen.find(object);
      found != s.objects.unseen.end())
    return found->second;
  if (int number = s.scalars.valueOf(object); number >= 0)
    return number;
  if (PyjitValue nan = s.reads.nanValue(object); nan >= 0)
    return nan;
  if (isValue(object))
    return s.objects.addConstant(object);
  if (s.objects.isTensor(object))
    return computeTensor(object);
  Node *node = s.objects.find(object);
  if (!node && isProcessConstant(object))
    node = s.objects.pin(object);
  if (!node && PyCell_Check(object) && s.reads.isOwnCell(object))
    return create(object);
  if (!node)
    return refuse(object, " of unknown origin");
  if (!node->external &&
      (!std::strcmp(Py_TYPE(object)->tp_name, "torch.device") ||
       isNumpyNumber(object)))
    return immutable(object);
  return node->external ? s.objects.ssa(node) : create(object);
}

PyjitValue EscapeWalk::computeTensor(PyObject *object) {
  if (dataSet(s, object)) // it is the input itself
    return s.objects.ssa(s.objects.find(object));
  int value = s.tensors->valueOf(object);
  if (value < 0)
    return refuse(object, " of unknown origin");
  if (isTransformed(object))
    return refuse(object, " that a transform of torch.func has wrapped");
  if (s.tensors->isUninitialized(object))
    return refuse(object, " whose memory no recorded operator has filled");
  if (s.tensors->host().isShownBy(object))
    return refuse(object, " that shows a number which the host has changed");
  if (const at::Tensor &t = THPVariable_Unpack(object);
      t.is_conj() || t.is_neg())
    return refuse(object, " that is still to be conjugated or negated");
  if (s.tensors->showsData(object))
    return refuse(object, " that shows the .data of another one");
  if (s.tensors->isKeptCast(object))
    return refuse(object, " that shows a weight's cast, which autocast keeps");
  if (!s.tensors->leaves(object)) {
    PyjitValue refused =
        refuse(object, " of inference mode beside one that is not");
    s.breaks.refused = s.calls.firstInferenceMode;
    return refused;
  }
  return value;
}

PyjitValue EscapeWalk::immutable(PyObject *object) {
  std::string hint = typeName(object);
  return s.add(PyjitObjectOp{.index = s.objects.addEqual(object),
                             .hint = view(hint),
                             .resultType = s.objects.irType(object)});
}

//===----------------------------------------------------------------------===//
// Objects that the call made
//===----------------------------------------------------------------------===//

PyjitValue EscapeWalk::create(PyObject *object) {
  if ((PyList_CheckExact(object) || PyDict_CheckExact(object)) &&
      holdsItself(object) && !instanceDicts.count(object))
    return createCyclic(object);
  if (!open.insert(object).second)
    return refuse(object, " that contains itself");
  if (s.calls.markedModules.count(object))
    return refuse(object, " that Dynamo has noted");
  Creation made;
  if (const char *why = describe(object, made))
    return refuse(object, why);
  std::vector<std::pair<std::string, PyjitValue>> slots;
  if (made.kind == "instance")
    for (const HeldSlot &slot : slotsOf(object)) {
      if (slot.reachable)
        slots.emplace_back(slot.name, value(slot.held));
      else
        refuse(object, " with a slot that is hidden");
    }
  open.erase(object);
  PyjitValue result = add(made, s.objects.irType(object));
  for (auto &[slot, held] : slots)
    s.add(PyjitSetOp{.holder = result,
                     .selector = PyjitSelectorSlot,
                     .key = s.writer.string(slot),
                     .value = held});
  return result;
}

void EscapeWalk::describeList(Creation &made, const char *kind,
                              const std::vector<PyObject *> &elements) {
  made.kind = kind;
  made.elements = values(elements);
}

/// With its table, where that follows from what it holds: in which order it is
/// walked over, now and when somebody adds to it.
void EscapeWalk::describeSet(PyObject *set, Creation &made) {
  std::vector<PyObject *> elements = walkOver(set);
  describeList(made, PyFrozenSet_CheckExact(set) ? "frozenset" : "set",
               elements);
  if (!std::all_of(elements.begin(), elements.end(), isHashedInC))
    return;
  std::vector<char> places = tableOf(set);
  PyObject *table = PyBytes_FromStringAndSize(places.data(), places.size());
  s.objects.keep(table);
  Py_DECREF(table);
  made.attributes = {value(table)};
  made.attributeNames = s.writer.list({s.writer.string("table")});
}

void EscapeWalk::describeDeque(PyObject *deque, Creation &made) {
  describeList(made, "deque", elementsIn(deque));
  PyObject *bound = PyObject_GetAttrString(deque, "maxlen");
  s.objects.keep(bound);
  Py_DECREF(bound);
  made.attributes = {value(bound)};
  made.attributeNames = s.writer.list({s.writer.string("maxlen")});
}

/// Fills in `made`; returns null, or why the object cannot leave.
const char *EscapeWalk::describe(PyObject *object, Creation &made) {
  PyTypeObject *type = Py_TYPE(object);
  if (type == &PyTuple_Type || type == &PyList_Type) {
    describeList(made, type == &PyTuple_Type ? "tuple" : "list",
                 elementsOf(object));
  } else if (!std::strcmp(type->tp_name, "torch.Size")) {
    describeList(made, "size", elementsOf(object));
  } else if (type == &PyDict_Type) {
    if (instanceDicts.count(object))
      return " that is the __dict__ of an object which leaves, too";
    made.kind = "dict";
    made.items = entries(object, made.itemKeys);
  } else if (type == &PySet_Type || type == &PyFrozenSet_Type) {
    describeSet(object, made);
  } else if (pyjitIsDeque(object)) {
    describeDeque(object, made);
  } else if (type == &PySlice_Type) {
    auto *slice = reinterpret_cast<PySliceObject *>(object);
    describeList(made, "slice", {slice->start, slice->stop, slice->step});
  } else if (type == &PyRangeIter_Type) {
    Scalars::Range parts;
    if (!s.scalars.rangeParts(object, parts))
      return " that moved unseen";
    PyObject *step = PyLong_FromLong(parts.step);
    s.objects.keep(step);
    Py_DECREF(step);
    describeList(made, "range_iterator", {parts.next, step, parts.left});
  } else if (type == &PyCell_Type) {
    PyObject *held = PyCell_GET(object);
    describeList(made, "cell",
                 held ? std::vector<PyObject *>{held}
                      : std::vector<PyObject *>{});
  } else if (type == &PyContextToken_Type && staysSet(object)) {
    return describeToken(object, made);
  } else if (type == &PyFunction_Type && isPlainFunction(object)) {
    describeFunction(object, made);
  } else if (type == &PyMethod_Type) {
    describeList(made, "method",
                 {PyMethod_GET_FUNCTION(object), PyMethod_GET_SELF(object)});
  } else if (isPlainInstance(object) || isStructSequence(object)) {
    return describeInstance(object, made);
  } else if (PyGen_CheckExact(object)) {
    return describeGenerator(object, made);
  } else {
    return describeIterator(object, made);
  }
  return nullptr;
}

/// What it walks over, and where it stands: see objects/Iterators.cpp.
const char *EscapeWalk::describeIterator(PyObject *object, Creation &made) {
  PyjitIteratorParts parts;
  if (!pyjitIteratorParts(object, &parts))
    return " made by the call";
  auto number = [&](Py_ssize_t value) {
    PyObject *made = PyLong_FromSsize_t(value);
    s.objects.keep(made);
    Py_DECREF(made);
    return s.objects.addConstant(made);
  };
  made.kind = "iterator";
  made.exactType =
      some(s.objects.pin(reinterpret_cast<PyObject *>(Py_TYPE(object)))->index);
  if (parts.container) {
    if (const char *why = whyNotWalked(parts.container))
      return why;
    made.elements = {value(parts.container), number(parts.position)};
    return nullptr;
  }
  std::vector<PyjitValue> inner;
  for (Py_ssize_t i = 0; i < parts.numInner && !s.ended(); ++i)
    inner.push_back(innerIterator(parts.inner[i]));
  // Where the one in it cannot leave, the next run breaks in front of both.
  if (s.ended() && !s.breaks.allocationSites.count(s.breaks.refused))
    s.breaks.refused = object;
  if (Py_IS_TYPE(object, &PyEnum_Type)) {
    made.elements = inner;
    made.elements.push_back(number(parts.position));
  } else {
    made.elements = {s.objects.addConstant(parts.strict ? Py_True : Py_False)};
    made.elements.insert(made.elements.end(), inner.begin(), inner.end());
  }
  return nullptr;
}

/// An iterator counts a dict's entries: these are to be what they are now when
/// it is made.
const char *EscapeWalk::whyNotWalked(PyObject *container) {
  if (open.count(container))
    return " over what holds it";
  Node *node = s.objects.find(container);
  if (!PyDict_Check(container) || !node || !node->external)
    return nullptr;
  bool changed = node->owned || node->dictOf || node->addedItems ||
                 (node->writtenItems && PyDict_GET_SIZE(node->writtenItems));
  return changed ? " over a dict that the call has changed" : nullptr;
}

/// One that `enumerate` or `zip` has made itself has no node: nobody else can
/// hold it.
PyjitValue EscapeWalk::innerIterator(PyObject *iterator) {
  if (s.objects.find(iterator) || s.objects.unseen.count(iterator))
    return value(iterator);
  return Py_REFCNT(iterator) == 1 ? create(iterator)
                                  : refuse(iterator, " of unknown origin");
}

const char *EscapeWalk::describeToken(PyObject *token, Creation &made) {
  PyObject *variable = pyjitTokenVariable(token), *set = nullptr;
  if (PyContextVar_Get(variable, nullptr, &set) < 0 || !set)
    return " of a variable that is not set";
  s.objects.keep(set);
  Py_DECREF(set);
  describeList(made, "token", {variable, set});
  tokens.insert(token);
  return nullptr;
}

void EscapeWalk::describeFunction(PyObject *object, Creation &made) {
  auto *function = reinterpret_cast<PyFunctionObject *>(object);
  s.objects.pin(function->func_globals);
  // The tuple of cells was made by the instruction that made the function.
  if (PyObject *closure = function->func_closure)
    if (!s.objects.find(closure))
      s.objects.allocated(closure);
  auto orNone = [](PyObject *part) { return part ? part : Py_None; };
  describeList(
      made, "function",
      {function->func_code, function->func_globals,
       orNone(function->func_defaults), orNone(function->func_kwdefaults),
       orNone(function->func_annotations), orNone(function->func_closure)});
}

/// An instance is made with a `__dict__` of its own: nobody else is to hold the
/// one that it has.
const char *EscapeWalk::describeInstance(PyObject *object, Creation &made) {
  made.exactType =
      some(s.objects.pin(reinterpret_cast<PyObject *>(Py_TYPE(object)))->index);
  if (PyTuple_Check(object) || PyList_Check(object))
    describeList(made, "instance", elementsOf(object));
  made.kind = "instance";
  if (PyDict_Check(object))
    made.items = entries(object, made.itemKeys);
  if (PyObject *dict = pyjitInstanceDict(object)) {
    if (sharesDict(dict))
      return " whose __dict__ leaves, too";
    instanceDicts.insert(dict);
    if (PyDict_GET_SIZE(dict))
      made.attributes = entries(dict, made.attributeNames);
  }
  return nullptr;
}

/// Made empty, so that its elements can hold it, and then filled.
PyjitValue EscapeWalk::createCyclic(PyObject *object) {
  Creation empty;
  empty.kind = PyDict_Check(object) ? "dict" : "list";
  PyjitValue made = add(empty, s.objects.irType(object));
  done[object] = made;
  open.insert(object);
  if (PyDict_Check(object)) {
    PyObject *key, *item;
    Py_ssize_t position = 0;
    while (!s.ended() && PyDict_Next(object, &position, &key, &item)) {
      PyjitValue held = value(item);
      s.add(PyjitSetOp{.holder = made,
                       .selector = PyjitSelectorItem,
                       .key = s.objects.constant(key),
                       .value = held});
    }
  } else {
    for (PyObject *item : elementsOf(object)) {
      PyjitValue held = value(item);
      s.add(PyjitAppendOp{.holder = made, .value = held});
    }
  }
  open.erase(object);
  return made;
}

//===----------------------------------------------------------------------===//
// Questions about objects
//===----------------------------------------------------------------------===//

/// A function as MAKE_FUNCTION leaves it: nothing was set on it, and its
/// variables are those of frames of the call.
bool EscapeWalk::isPlainFunction(PyObject *object) {
  auto *function = reinterpret_cast<PyFunctionObject *>(object);
  auto *code = reinterpret_cast<PyCodeObject *>(function->func_code);
  Node *node = s.objects.find(function->func_code);
  if (!node || !node->pinned || function->func_name != code->co_name ||
      function->func_qualname != code->co_qualname ||
      (function->func_dict && PyDict_GET_SIZE(function->func_dict)) ||
      (function->func_typeparams &&
       PyTuple_GET_SIZE(function->func_typeparams)))
    return false;
  auto *fresh = reinterpret_cast<PyFunctionObject *>(
      PyFunction_New(function->func_code, function->func_globals));
  bool same = fresh && fresh->func_doc == function->func_doc &&
              fresh->func_module == function->func_module &&
              fresh->func_builtins == function->func_builtins;
  Py_XDECREF(fresh);
  PyErr_Clear();
  PyObject *closure = function->func_closure;
  for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); ++i) {
    PyObject *cell = PyTuple_GET_ITEM(closure, i);
    same &= (s.reads.isOwnCell(cell) || s.objects.isExternal(cell)) &&
            PyCell_GET(cell);
  }
  return same;
}

/// A variable that the call has set once and not reset.
bool EscapeWalk::staysSet(PyObject *token) const {
  PyObject *variable = pyjitTokenVariable(token);
  return !pyjitTokenUsed(token) && s.escape.tokenOf(variable) == token &&
         s.effects.context.depth(variable) == 1;
}

/// Whether the `__dict__` of an instance that the call made is somebody else's,
/// too: another instance's, a dict that leaves by itself, or one from before
/// the call.
bool EscapeWalk::sharesDict(PyObject *dict) const {
  Node *node = s.objects.find(dict);
  return (node && node->external) || done.count(dict) || open.count(dict) ||
         instanceDicts.count(dict);
}

/// Whether `object` can be reached from its own elements, through other
/// objects that the call made.
bool EscapeWalk::holdsItself(PyObject *object) {
  std::set<PyObject *> seen;
  std::vector<PyObject *> work{object};
  while (!work.empty() && seen.size() < 100000) {
    PyObject *holder = work.back();
    work.pop_back();
    auto visit = [&](PyObject *held) {
      Node *node = s.objects.find(held);
      if (node && !node->external && seen.insert(held).second)
        work.push_back(held);
    };
    if (PyList_Check(holder) || PyTuple_Check(holder))
      for (PyObject *element : elementsOf(holder))
        visit(element);
    PyObject *attributes =
        isPlainInstance(holder) ? pyjitInstanceDict(holder) : nullptr;
    for (PyObject *dict :
         {PyDict_Check(holder) ? holder : nullptr, attributes}) {
      PyObject *key, *item;
      Py_ssize_t position = 0;
      while (dict && PyDict_Next(dict, &position, &key, &item))
        visit(item);
    }
  }
  return seen.count(object);
}
