//===- ExternalReads.cpp - Reads of external objects ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Recording.h"
#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"
#include "objects/SetContents.h"
#include "tensors/Tensors.h"

#include <cstring>

using namespace pyjit::capture;

/// Guards look for a key that is equal.
static void checkKey(Recording &s, PyObject *key) {
  if (holdsNan(key))
    s.end(ReasonKind::UnusualObject, "a nan as a key");
}

Selector ExternalReads::selectorOf(Select select, PyObject *key) {
  Selector selector;
  selector.kind = PyjitSelector(select);
  switch (select) {
  case Select::Attr:
  case Select::TypeAttr:
  case Select::Slot:
  case Select::Field:
    selector.key = s.writer.string(utf8(key));
    break;
  case Select::Item:
    checkKey(s, key);
    selector.key = s.objects.constant(key);
    break;
  default:
    break;
  }
  return selector;
}

Node *ExternalReads::canonical(Node *owner, Select &select) {
  if (owner->dictOf && select == Select::Item) {
    select = Select::Attr;
    owner = owner->dictOf;
  }
  // `self.__dict__ = self` of a dict with attributes.
  if (select == Select::Attr && PyDict_Check(owner->object) &&
      pyjitInstanceDict(owner->object) == owner->object)
    select = Select::Item;
  // A module's attributes are the items of its globals.
  if (select == Select::Attr && PyModule_Check(owner->object)) {
    select = Select::Item;
    owner = s.objects.pin(pyjitModuleDict(owner->object));
  }
  return owner;
}

/// Attributes are known by the object that has them. Where two objects share a
/// `__dict__`, or its entries were read as a dict's before it was known to be
/// one, a write to the one would not be seen in the other.
bool ExternalReads::ownsDict(Node *owner, PyObject *dict) {
  if (!dict || !owner || !owner->external || dict == owner->object ||
      PyModule_Check(owner->object))
    return true;
  Node *first = instanceDicts.insert({dict, owner}).first->second,
       *node = s.objects.find(dict);
  if (first == owner && (!node || !node->external || node->dictOf == owner))
    return true;
  s.end(ReasonKind::EarlierObject,
        "an attribute of a " + typeName(owner->object) +
            " whose __dict__ somebody else holds, too");
  return false;
}

bool ExternalReads::written(Node *owner, Select select, PyObject *key) {
  if (owner->owned && (select == Select::Item))
    return true;
  if (select == Select::Grad)
    return owner->gradientWritten;
  if (select == Select::Data)
    return owner->dataWritten;
  PyObject *keys = select == Select::Attr   ? owner->writtenAttrs
                   : select == Select::Item ? owner->writtenItems
                   : select == Select::Slot ? owner->writtenSlots
                                            : nullptr;
  if (!keys || !key)
    return false;
  int has = PyDict_Contains(keys, key);
  PyErr_Clear();
  return has > 0;
}

bool ExternalReads::lengthIsRead(Node *owner) const {
  return doneIndex.count({owner, kLength, 0});
}

bool ExternalReads::firstApart(Node *left, Node *right) {
  return doneIndex.insert({left, kApart, Py_ssize_t(right->object)}).second;
}

/// Equal texts are one; kept, as every key is.
PyObject *ExternalReads::internKey(PyObject *key) {
  if (key && PyUnicode_CheckExact(key)) {
    Py_INCREF(key);
    PyUnicode_InternInPlace(&key);
    s.objects.keep(key);
    Py_DECREF(key);
  } else if (key) {
    s.objects.keep(key);
  }
  return key;
}

bool ExternalReads::firstTime(Node *owner, Select select, PyObject *key) {
  return done.insert({owner, int(select), internKey(key)}).second;
}

/// What an object that is known by its contents is told apart by.
void ExternalReads::readParts(PyObject *object, PyjitValue value) {
  bool number = isNumpyNumber(object);
  auto part = [&](const char *name) {
    PyObject *item = number ? PyObject_CallMethod(object, name, nullptr)
                            : PyObject_GetAttrString(object, name);
    PyErr_Clear();
    if (!item || !isValue(item))
      s.end(ReasonKind::UnusualObject, "an unusual " + typeName(object));
    else
      s.add(PyjitGetOp{.holder = value,
                       .selector = PyjitSelectorField,
                       .key = s.writer.string(name),
                       .equals = s.objects.constant(item),
                       .resultType = s.objects.irType(item)});
    Py_XDECREF(item);
  };
  if (number)
    return part("item");
  if (PyRange_Check(object)) {
    part("start");
    part("stop");
    return part("step");
  }
  part("type");
  part("index");
}

/// A function within another one, which may be another one in each call: an
/// argument (`opt.step(closure)`), or, behind a graph break, what an earlier
/// segment may have made.
bool ExternalReads::isPassedOn(Node *owner, PyObject *object) {
  if ((owner && owner->pinned) || !PyFunction_Check(object))
    return false;
  auto *code = reinterpret_cast<PyCodeObject *>(
      reinterpret_cast<PyFunctionObject *>(object)->func_code);
  if (!(code->co_flags & CO_NESTED))
    return false;
  if (!s.breaks.resumed)
    return !owner || owner->ofArgument;
  // What is found from a constant on, and no segment of this run has made, was
  // there before.
  const std::set<PyObject *> *made = s.breaks.functionsMade;
  return !owner || owner->ofArgument || !made || made->count(object);
}

void ExternalReads::emitTensorGet(Node *owner, PyjitGetOp get, PyObject *tensor,
                                  const AccessPath &path) {
  Node *node = s.objects.find(tensor);
  if (node && !node->external && s.tensors->valueOf(tensor) >= 0)
    return s.end(ReasonKind::EarlierObject,
                 "an external object holds a tensor made by the call");
  get.exactType =
      some(s.objects.pin(reinterpret_cast<PyObject *>(Py_TYPE(tensor)))->index);
  if (!s.tensors->describe(tensor, get))
    return;
  get.param |= owner && owner->paramDict;
  Scalars::LiftedDims lifted = s.scalars.liftedDims(path, tensor);
  get.liftSizes = view(lifted.sizes);
  get.liftStrides = view(lifted.strides);
  PyjitValue value = s.add(get);
  if (node && node->external && node->value >= 0)
    return s.addSame(value, node->value);
  // Known by identity alone so far: an element of a set.
  if (node && node->external)
    s.addSame(s.objects.ssa(node), value);
  else
    node = s.objects.allocated(tensor);
  node->external = node->typeRead = true;
  node->value = value;
  node->path = path;
  s.tensors->bindExternal(tensor, value);
}

/// Which nans are one object: no comparison tells, but `in` and the `==` of
/// lists do.
void ExternalReads::noteNan(PyObject *nan, PyjitValue value) {
  constexpr size_t kMost = 16;
  if (PyjitValue first = nanValue(nan); first >= 0)
    return s.addSame(value, first);
  if (nans.size() == kMost)
    return s.end(ReasonKind::TooMuch, "many nans from before the call");
  for (auto &[known, first] : nans)
    s.add(PyjitDistinctOp{.lhs = first, .rhs = value});
  s.objects.keep(nan);
  nans.emplace_back(nan, value);
}

PyjitValue ExternalReads::nanValue(PyObject *nan) const {
  for (auto &[known, value] : nans)
    if (known == nan)
      return value;
  return -1;
}

void ExternalReads::emitGet(Node *owner, const Selector &selector,
                            PyObject *result, const AccessPath &path) {
  PyjitGetOp get{.holder = owner ? s.objects.ssa(owner) : s.objects.external,
                 .selector = selector.kind,
                 .key = selector.key,
                 .label = selector.label()};
  if (isValue(result)) {
    get.equals = s.objects.constant(result);
    get.resultType = s.objects.irType(result);
    PyjitValue value = s.add(get);
    if (isNan(result))
      noteNan(result, value);
    if (PyUnicode_CheckExact(result) && owner)
      s.breaks.noteFixed(GraphBreaks::Fixes::Text, PyObject_Hash(result),
                         owner->inArgument ? nullptr : owner->object);
    return;
  }
  if (ObjectTable::isTensor(result))
    return emitTensorGet(owner, get, result, path);
  Node *node = s.objects.find(result);
  // CPython shares equal constants among the functions of a module: what one
  // of them has stored is what another one loads.
  if (node && !node->external && node->ofCode)
    node = s.objects.pin(result);
  if (node && !node->external)
    return s.end(ReasonKind::EarlierObject,
                 "an external object holds an object made by the call (" +
                     typeName(result) + ")");
  bool pinned =
      node ? node->pinned
           : isProcessConstant(result) ||
                 (s.objects.shouldPin(result) && !isPassedOn(owner, result));
  if (pinned)
    get.identity = some(s.objects.pin(result)->index);
  else
    get.exactType = some(
        s.objects.pin(reinterpret_cast<PyObject *>(Py_TYPE(result)))->index);
  get.resultType = s.objects.irType(result);
  PyjitValue value = s.add(get);
  if (!pinned && isByValue(result))
    readParts(result, value);
  else if (node && !pinned)
    s.addSame(value, node->value);
  if (node && !pinned) {
    // A graph break may hand on what the program finds by a name, too.
    if (!s.scalars.isLifted(node->path, /*orWithin=*/true) &&
        s.scalars.isLifted(path, /*orWithin=*/true))
      node->path = path;
    return;
  }
  s.objects.meet(result, value);
  node = s.objects.allocated(result);
  node->external = true;
  if (!pinned) {
    node->typeRead = true;
    node->path = path;
    node->inArgument =
        owner ? owner->inArgument && selector.kind == PyjitSelectorItem
              : selector.kind == PyjitSelectorArg;
    node->ofArgument =
        owner ? owner->ofArgument : selector.kind == PyjitSelectorArg;
  }
  if (node->value < 0)
    node->value = value;
  if (selector.kind == PyjitSelectorDict)
    node->dictOf = owner;
  else if (auto known = instanceDicts.find(result);
           known != instanceDicts.end()) {
    // Its entries are that object's attributes: the same dict in each call.
    node->dictOf = known->second;
    read(known->second, Select::Dict, nullptr, result);
  }
  if (selector.kind == PyjitSelectorAttr && owner && owner->pinned &&
      PyDict_CheckExact(result) &&
      (selector.key == s.writer.string("_parameters") ||
       selector.key == s.writer.string("_buffers")))
    node->paramDict = true;
}

void ExternalReads::read(Node *owner, Select select, PyObject *key,
                         PyObject *result) {
  if (s.dead || !owner || !owner->external)
    return;
  owner = canonical(owner, select);
  if (written(owner, select, key))
    return;
  // Nobody can go on with it, and no later call meets the same one: a context
  // manager's that a graph break hands on is made anew each time.
  if (PyGen_CheckExact(result))
    return s.end(ReasonKind::EarlierObject, "a generator from before the call");
  AccessPath path = s.scalars.pathTo(owner, select, key, 0);
  Selector selector = selectorOf(select, key);
  if (s.dead) // no key that a guard could look for
    return;
  if (s.scalars.read(owner, selector, path, result) ||
      !firstTime(owner, select, key))
    return;
  emitGet(owner, selector, result, path);
}

void ExternalReads::readIndex(Node *owner, Select select, Py_ssize_t index,
                              PyObject *result, PyObject *name) {
  if (s.dead || (owner && !owner->external))
    return;
  if (owner && owner->owned && select == Select::Item)
    return;
  if (owner && owner->appended)
    return s.containers.ownAppended(owner);
  // The identity of an immutable, pinned tuple fixes the values in it.
  if (owner && owner->pinned && PyTuple_CheckExact(owner->object) &&
      isValue(result) && !isNan(result))
    return;
  Selector selector;
  selector.kind = PyjitSelector(select);
  selector.key = s.writer.integer(index);
  if (select != Select::Item) {
    selector.labelled = true;
    selector.name = name ? utf8(name) : "";
  }
  AccessPath path = s.scalars.pathTo(owner, select, nullptr, index);
  if (s.scalars.read(owner, selector, path, result) ||
      !doneIndex.insert({owner, int(select), index}).second)
    return;
  emitGet(owner, selector, result, path);
}

void ExternalReads::absent(Node *owner, Select select, PyObject *key) {
  if (s.dead || !owner || !owner->external)
    return;
  owner = canonical(owner, select);
  if (written(owner, select, key) || !firstTime(owner, select, key))
    return;
  PyjitValue holder = s.objects.ssa(owner);
  Selector selector = selectorOf(select, key);
  if (s.dead)
    return;
  s.add(PyjitAbsentOp{.holder = holder,
                      .selector = selector.kind,
                      .key = selector.key,
                      .label = selector.label()});
}

void ExternalReads::holds(Node *owner, PyObject *key) {
  if (s.dead || !owner || !owner->external || written(owner, Select::Item, key))
    return;
  PyObject *known = internKey(key);
  if (done.count({owner, int(Select::Item), known}) ||
      !done.insert({owner, kHolds, known}).second)
    return;
  checkKey(s, key);
  PyjitAttribute constant = s.objects.constant(key);
  PyjitValue holder = s.objects.ssa(owner);
  if (!s.dead)
    s.add(PyjitHoldsOp{.holder = holder, .key = constant});
}

/// Whether the keys that the dict had before the call are there yet, in front
/// of those that the call has added.
bool ExternalReads::onlyGrew(Node *owner) const {
  PyObject *key, *isSet;
  Py_ssize_t position = 0;
  while (owner->writtenItems &&
         PyDict_Next(owner->writtenItems, &position, &key, &isSet))
    if (isSet != Py_True)
      return false;
  return !s.effects.reinserted.count(owner);
}

/// A list that is given is another one in each call.
void ExternalReads::noteLength(Node *owner, Py_ssize_t n) {
  s.breaks.noteFixed(GraphBreaks::Fixes::Length, n,
                     owner->inArgument ? nullptr : owner->object);
}

void ExternalReads::length(Node *owner, Py_ssize_t n) {
  if (s.dead || !owner || !owner->external || owner->owned)
    return;
  if (owner->appended)
    return s.containers.ownAppended(owner);
  if (!onlyGrew(owner))
    return s.end(ReasonKind::EarlierObject,
                 "length of an external dict after a write to it");
  if (owner->addedItems)
    n -= PyList_GET_SIZE(owner->addedItems);
  // A dict's length stands for its keys where those are read anyway.
  if (!doneIndex.insert({owner, kLength, 0}).second)
    return;
  PyjitValue holder = s.objects.ssa(owner);
  s.add(PyjitLengthOp{.holder = holder, .length = n});
  noteLength(owner, n);
}

void ExternalReads::keys(Node *owner, PyObject *keyList) {
  if (s.dead || !owner || !owner->external || owner->owned)
    return;
  if (owner->writtenItems && PyAnySet_Check(owner->object)) {
    // Where everything lay before says where it lies now.
    if (!doneIndex.count({owner, kTable, 0}))
      s.end(ReasonKind::EarlierObject,
            "walking a set from before the call after a change of it");
    return;
  }
  if (!onlyGrew(owner) || (owner->dictOf && owner->dictOf->writtenAttrs &&
                           PyDict_GET_SIZE(owner->dictOf->writtenAttrs)))
    return s.end(ReasonKind::EarlierObject,
                 "keys of an external dict after a write to it");
  if (!doneIndex.insert({owner, kKeys, 0}).second)
    return;
  Py_ssize_t count =
      PyList_GET_SIZE(keyList) -
      (owner->addedItems ? PyList_GET_SIZE(owner->addedItems) : 0);
  // Keys of an external dict are external: known by identity.
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *key = PyList_GET_ITEM(keyList, i);
    if (ObjectTable::isTensor(key))
      return s.end(ReasonKind::DataInPython, "a tensor as a key");
    checkKey(s, key);
    if (!s.objects.known(key))
      s.objects.pin(key);
  }
  std::vector<PyjitAttribute> keys;
  for (Py_ssize_t i = 0; i < count; ++i)
    keys.push_back(s.objects.constant(PyList_GET_ITEM(keyList, i)));
  PyjitValue holder = s.objects.ssa(owner);
  s.add(PyjitKeysOp{.holder = holder, .keys = s.writer.list(keys)});
  noteLength(owner, count);
}

void ExternalReads::table(Node *owner) {
  if (s.dead || !owner || !owner->external || owner->owned ||
      !doneIndex.insert({owner, kTable, 0}).second)
    return;
  std::vector<char> table = tableOf(owner->object);
  std::vector<int64_t> places(table.begin(), table.end());
  PyjitValue holder = s.objects.ssa(owner);
  s.add(PyjitTableOp{.holder = holder, .places = view(places)});
}

/// An object that is known by identity may still change its class.
void ExternalReads::typeOf(PyObject *object) {
  Node *node = s.objects.find(object);
  if (!node || !node->external || node->typeRead)
    return;
  node->typeRead = true;
  PyTypeObject *type = Py_TYPE(object);
  // Of the objects of builtin types only a module may be given another class.
  if (!PyModule_Check(object) &&
      (!isHeapType(type) || PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)))
    return;
  read(node, Select::Type, nullptr, reinterpret_cast<PyObject *>(type));
}

/// The frame of a call begins with its defaults: numbers among them come from
/// no instruction that could be given one of the recording's own, and so the
/// call fixes them.
void ExternalReads::fixDefault(PyObject *value) {
  if (isNumber(value))
    s.breaks.noteFixed(GraphBreaks::Fixes::Number, PyObject_Hash(value));
}

/// Elements of defaults, which may be new in each call.
void ExternalReads::defaultsOf(PyFunctionObject *f) {
  PyObject *defaults = f->func_defaults;
  Node *n = defaults ? s.objects.find(defaults) : nullptr;
  if (!n)
    return;
  if (!n->pinned)
    length(n, PyTuple_GET_SIZE(defaults));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(defaults); ++i) {
    PyObject *value = PyTuple_GET_ITEM(defaults, i);
    if (n->pinned || !isNumber(value)) {
      readIndex(n, Select::Item, i, value);
      continue;
    }
    fixDefault(value);
    Selector item;
    item.kind = PyjitSelectorItem;
    item.key = s.writer.integer(i);
    if (!s.dead && n->external &&
        doneIndex.insert({n, int(Select::Item), i}).second)
      emitGet(n, item, value, {});
  }
}

/// The dict may be another in each call.
void ExternalReads::keywordDefaults(PyObject *defaults) {
  s.containers.readAll(defaults);
  Node *n = s.objects.find(defaults);
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (n && !n->pinned && PyDict_Next(defaults, &position, &key, &value))
    fixDefault(value);
}

/// Everything that entering a Python function reads from it.
void ExternalReads::function(Node *node) {
  if (node->functionRead)
    return;
  node->functionRead = true;
  auto *f = reinterpret_cast<PyFunctionObject *>(node->object);
  if (!node->external) {
    // Made in this call, but of defaults that a graph break may have handed on.
    if (f->func_defaults && s.objects.isExternal(f->func_defaults))
      defaultsOf(f);
    if (f->func_kwdefaults && s.objects.isExternal(f->func_kwdefaults))
      keywordDefaults(f->func_kwdefaults);
    return;
  }
  read(node, Select::Code, nullptr, f->func_code);
  PyObject *defaults = f->func_defaults ? f->func_defaults : Py_None;
  if (!node->pinned) { // its identity says nothing
    s.objects.pin(f->func_globals);
    read(node, Select::Globals, nullptr, f->func_globals);
  } else if (defaults != Py_None && !s.objects.find(defaults)) {
    s.objects.pin(defaults);
  }
  read(node, Select::Defaults, nullptr, defaults);
  defaultsOf(f);
  PyObject *kwdefaults = f->func_kwdefaults ? f->func_kwdefaults : Py_None;
  read(node, Select::KwDefaults, nullptr, kwdefaults);
  if (kwdefaults != Py_None)
    keywordDefaults(kwdefaults);
  PyObject *closure = f->func_closure;
  auto *code = reinterpret_cast<PyCodeObject *>(f->func_code);
  if (!closure)
    return;
  int first = code->co_nlocalsplus - code->co_nfreevars;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
    PyObject *cell = PyTuple_GET_ITEM(closure, i);
    s.objects.keep(cell);
    cellHomes.insert({cell, CellHome{node, int(i),
                                     PyTuple_GET_ITEM(code->co_localsplusnames,
                                                      first + i)}});
  }
}

void ExternalReads::closure(PyObject *cells, PyCodeObject *code) {
  Node *holder = s.objects.find(cells);
  if (!holder || !holder->external)
    return;
  int first = code->co_nlocalsplus - code->co_nfreevars;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cells); ++i) {
    PyObject *cell = PyTuple_GET_ITEM(cells, i);
    readIndex(holder, Select::Item, i, cell);
    if (Node *node = s.objects.find(cell))
      cellHomes.insert(
          {cell,
           CellHome{node, 0,
                    PyTuple_GET_ITEM(code->co_localsplusnames, first + i)}});
  }
}

void ExternalReads::unhooked(Node *leaf) {
  if (doneIndex.insert({leaf, kUnhooked, 0}).second)
    s.add(PyjitUnhookedOp{.tensor = s.objects.ssa(leaf)});
}

void ExternalReads::readCell(PyObject *cell) {
  auto home = cellHomes.find(cell);
  if (home == cellHomes.end() || writtenCells.count(cell))
    return; // made by the call
  const auto &[function, index, name] = home->second;
  if (PyObject *contents = PyCell_GET(cell))
    return readIndex(function, Select::Cell, index, contents, name);
  if (s.dead || !doneIndex.insert({function, int(Select::Cell), index}).second)
    return;
  std::string label = utf8(name);
  s.add(PyjitAbsentOp{.holder = s.objects.ssa(function),
                      .selector = PyjitSelectorCell,
                      .key = s.writer.integer(index),
                      .label = view(label)});
}

void ExternalReads::writeCell(PyObject *cell) {
  if (!cellHomes.count(cell))
    return;
  s.effects.changes.push_back(nullptr);
  if (!writtenCells.insert(cell).second)
    return;
  s.effects.cells.push_back(cell);
}
