//===- Reads.cpp - Reads of external objects ------------------------------===//

#include "Session.h"
#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"
#include "tensors/Tensors.h"

#include <cstring>

using namespace pyjit::capture;

PyjitAttribute Session::constant(PyObject *o) {
  PyjitContext *context = writer.getContext();
  if (o == Py_None)
    return writer.none();
  if (o == Py_Ellipsis)
    return pyjitAttributeEllipsis(context);
  if (PyBool_Check(o))
    return writer.boolean(o == Py_True);
  if (PyLong_CheckExact(o)) {
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow)
      return writer.integer(value);
    PyObject *digits = PyObject_Str(o);
    if (!digits) { // beyond the limit of digits
      PyErr_Clear();
      end("a very large integer");
      return writer.integer(0);
    }
    std::string text = PyUnicode_AsUTF8(digits);
    Py_DECREF(digits);
    return pyjitAttributeBigInt(context, view(text),
                                uint32_t(_PyLong_NumBits(o) + 2));
  }
  if (PyFloat_CheckExact(o))
    return writer.real(PyFloat_AS_DOUBLE(o));
  if (PyComplex_CheckExact(o))
    return pyjitAttributeComplex(context, PyComplex_RealAsDouble(o),
                                 PyComplex_ImagAsDouble(o));
  if (PyUnicode_CheckExact(o))
    return writer.string(utf8(o));
  if (PyBytes_CheckExact(o))
    return pyjitAttributeBytes(
        context, {PyBytes_AS_STRING(o), size_t(PyBytes_GET_SIZE(o))});
  if (PyTuple_CheckExact(o)) {
    std::vector<PyjitAttribute> elements;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      elements.push_back(constant(PyTuple_GET_ITEM(o, i)));
    return writer.list(elements);
  }
  Node *node = find(o);
  if (!node && isProcessConstant(o))
    node = pin(o);
  if (!node || !node->external) {
    end("a key of type " + typeName(o));
    return writer.none();
  }
  return pyjitAttributeObject(context, pin(o)->index);
}

PyjitValue Session::addConstant(PyObject *object) {
  return add(
      PyjitConstantOp{.value = constant(object), .resultType = irType(object)});
}

Selector Session::selectorOf(Select select, PyObject *key) {
  Selector selector;
  selector.kind = PyjitSelector(select);
  switch (select) {
  case Select::Attr:
  case Select::TypeAttr:
  case Select::Slot:
  case Select::Field:
    selector.key = writer.string(utf8(key));
    break;
  case Select::Item:
    selector.key = constant(key);
    break;
  default:
    break;
  }
  return selector;
}

Node *Session::canonical(Node *owner, Select &select) {
  if (owner->dictOf && select == Select::Item) {
    select = Select::Attr;
    owner = owner->dictOf;
  }
  // A module's attributes are the items of its globals.
  if (select == Select::Attr && PyModule_Check(owner->object)) {
    select = Select::Item;
    owner = pin(pyjitModuleDict(owner->object));
  }
  return owner;
}

bool Session::written(Node *owner, Select select, PyObject *key) {
  if (owner->owned && (select == Select::Item))
    return true;
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

bool Session::firstTime(Node *owner, Select select, PyObject *key) {
  if (key && PyUnicode_CheckExact(key)) {
    Py_INCREF(key);
    PyUnicode_InternInPlace(&key);
    kept.push_back(key);
  } else if (key) {
    keep(key);
  }
  return done.insert({owner, int(select), key}).second;
}

/// What an object that is known by its contents is told apart by.
void Session::readParts(PyObject *object, PyjitValue value) {
  bool number = isNumpyNumber(object);
  auto part = [&](const char *name) {
    PyObject *item = number ? PyObject_CallMethod(object, name, nullptr)
                            : PyObject_GetAttrString(object, name);
    PyErr_Clear();
    if (!item || !isValue(item))
      end("an unusual " + typeName(object));
    else
      add(PyjitGetOp{.holder = value,
                     .selector = PyjitSelectorField,
                     .key = writer.string(name),
                     .equals = constant(item),
                     .resultType = irType(item)});
    Py_XDECREF(item);
  };
  if (number)
    return part("item");
  part("type");
  part("index");
}

/// Behind a cut: a function that an earlier part may have made, which is
/// another one in each call.
bool Session::isPassedOn(Node *owner, PyObject *object) {
  if (!resumed || (owner && owner->pinned) || !PyFunction_Check(object))
    return false;
  auto *code = reinterpret_cast<PyCodeObject *>(
      reinterpret_cast<PyFunctionObject *>(object)->func_code);
  return code->co_flags & CO_NESTED;
}

void Session::emitTensorGet(Node *owner, PyjitGetOp get, PyObject *tensor,
                            const AccessPath &path) {
  Node *node = find(tensor);
  if (node && !node->external && tensors->valueOf(tensor) >= 0)
    return end("an external object holds a tensor made by the call");
  get.exactType =
      some(pin(reinterpret_cast<PyObject *>(Py_TYPE(tensor)))->index);
  if (!tensors->describe(tensor, get))
    return;
  get.param = owner && owner->paramDict;
  std::vector<int64_t> lifted = scalars.liftedSizes(path, tensor);
  get.liftSizes = view(lifted);
  PyjitValue value = add(get);
  if (node && node->external)
    return addSame(value, node->value);
  node = born(tensor);
  node->external = node->typeRead = true;
  node->value = value;
  tensors->bindExternal(tensor, value);
}

void Session::emitGet(Node *owner, const Selector &selector, PyObject *result,
                      const AccessPath &path) {
  PyjitGetOp get{.holder = owner ? ssa(owner) : external,
                 .selector = selector.kind,
                 .key = selector.key,
                 .label = selector.label()};
  if (isValue(result)) {
    get.equals = constant(result);
    get.resultType = irType(result);
    add(get);
    return;
  }
  if (isTensor(result))
    return emitTensorGet(owner, get, result, path);
  Node *node = find(result);
  if (node && !node->external)
    return end("an external object holds an object made by the call (" +
               typeName(result) + ")");
  bool pinned = node ? node->pinned
                     : isProcessConstant(result) ||
                           (shouldPin(result) && !isPassedOn(owner, result));
  if (pinned)
    get.identity = some(pin(result)->index);
  else
    get.exactType =
        some(pin(reinterpret_cast<PyObject *>(Py_TYPE(result)))->index);
  get.resultType = irType(result);
  PyjitValue value = add(get);
  if (!pinned && isByValue(result))
    readParts(result, value);
  else if (node && !pinned)
    addSame(value, node->value);
  if (node && !pinned)
    return;
  meet(result, value);
  node = born(result);
  node->external = true;
  if (!pinned) {
    node->typeRead = true;
    node->path = path;
  }
  if (node->value < 0)
    node->value = value;
  if (selector.kind == PyjitSelectorDict)
    node->dictOf = owner;
  if (selector.kind == PyjitSelectorAttr && owner && owner->pinned &&
      PyDict_CheckExact(result) &&
      (selector.key == writer.string("_parameters") ||
       selector.key == writer.string("_buffers")))
    node->paramDict = true;
}

void Session::read(Node *owner, Select select, PyObject *key,
                   PyObject *result) {
  if (dead || !owner || !owner->external)
    return;
  owner = canonical(owner, select);
  if (written(owner, select, key))
    return;
  AccessPath path = scalars.pathTo(owner, select, key, 0);
  Selector selector = selectorOf(select, key);
  if (scalars.read(owner, selector, path, result) ||
      !firstTime(owner, select, key))
    return;
  emitGet(owner, selector, result, path);
}

void Session::readIndex(Node *owner, Select select, Py_ssize_t index,
                        PyObject *result, PyObject *name) {
  if (dead || (owner && !owner->external))
    return;
  if (owner && owner->owned && select == Select::Item)
    return;
  if (owner && owner->appended)
    return ownAppended(owner);
  // The identity of an immutable, pinned tuple fixes the values in it.
  if (owner && owner->pinned && PyTuple_CheckExact(owner->object) &&
      isValue(result))
    return;
  Selector selector;
  selector.kind = PyjitSelector(select);
  selector.key = writer.integer(index);
  if (select != Select::Item) {
    selector.labelled = true;
    selector.name = name ? utf8(name) : "";
  }
  AccessPath path = scalars.pathTo(owner, select, nullptr, index);
  if (scalars.read(owner, selector, path, result) ||
      !doneIndex.insert({owner, int(select), index}).second)
    return;
  emitGet(owner, selector, result, path);
}

void Session::absent(Node *owner, Select select, PyObject *key) {
  if (dead || !owner || !owner->external)
    return;
  owner = canonical(owner, select);
  if (written(owner, select, key) || !firstTime(owner, select, key))
    return;
  PyjitValue holder = ssa(owner);
  Selector selector = selectorOf(select, key);
  add(PyjitAbsentOp{.holder = holder,
                    .selector = selector.kind,
                    .key = selector.key,
                    .label = selector.label()});
}

void Session::length(Node *owner, Py_ssize_t n) {
  if (dead || !owner || !owner->external || owner->owned)
    return;
  if (owner->appended)
    return ownAppended(owner);
  if (owner->writtenItems && PyDict_GET_SIZE(owner->writtenItems))
    return end("length of an external dict after a write to it");
  // A dict's length stands for its keys where those are read anyway.
  if (!doneIndex.insert({owner, -1, 0}).second)
    return;
  PyjitValue holder = ssa(owner);
  add(PyjitLengthOp{.holder = holder, .length = n});
}

void Session::keys(Node *owner, PyObject *keyList) {
  if (dead || !owner || !owner->external || owner->owned)
    return;
  if ((owner->writtenItems && PyDict_GET_SIZE(owner->writtenItems)) ||
      (owner->dictOf && owner->dictOf->writtenAttrs &&
       PyDict_GET_SIZE(owner->dictOf->writtenAttrs)))
    return end("keys of an external dict after a write to it");
  if (!doneIndex.insert({owner, -2, 0}).second)
    return;
  // Keys of an external dict are external: known by identity.
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keyList); ++i) {
    PyObject *key = PyList_GET_ITEM(keyList, i);
    if (isTensor(key))
      return end("a tensor as a key");
    if (!known(key))
      pin(key);
  }
  std::vector<PyjitAttribute> keys;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keyList); ++i)
    keys.push_back(constant(PyList_GET_ITEM(keyList, i)));
  PyjitValue holder = ssa(owner);
  add(PyjitKeysOp{.holder = holder, .keys = writer.list(keys)});
}

/// An object that is known by identity may still change its class.
void Session::typeOf(PyObject *object) {
  Node *node = find(object);
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

/// Everything that entering a Python function reads from it.
void Session::function(Node *node) {
  if (!node->external || node->functionRead)
    return;
  node->functionRead = true;
  auto *f = reinterpret_cast<PyFunctionObject *>(node->object);
  read(node, Select::Code, nullptr, f->func_code);
  PyObject *defaults = f->func_defaults ? f->func_defaults : Py_None;
  if (!node->pinned) { // its identity says nothing
    pin(f->func_globals);
    read(node, Select::Globals, nullptr, f->func_globals);
  } else if (defaults != Py_None && !find(defaults)) {
    pin(defaults);
  }
  read(node, Select::Defaults, nullptr, defaults);
  if (Node *n = find(defaults); n && !n->pinned)
    length(n, PyTuple_GET_SIZE(defaults));
  if (Node *n = find(defaults))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(defaults); ++i)
      readIndex(n, Select::Item, i, PyTuple_GET_ITEM(defaults, i));
  PyObject *kwdefaults = f->func_kwdefaults ? f->func_kwdefaults : Py_None;
  read(node, Select::KwDefaults, nullptr, kwdefaults);
  if (kwdefaults != Py_None)
    readAll(kwdefaults);
  PyObject *closure = f->func_closure;
  auto *code = reinterpret_cast<PyCodeObject *>(f->func_code);
  if (!closure)
    return;
  int first = code->co_nlocalsplus - code->co_nfreevars;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
    PyObject *cell = PyTuple_GET_ITEM(closure, i);
    keep(cell);
    cellHomes.insert({cell, CellHome{node, int(i),
                                     PyTuple_GET_ITEM(code->co_localsplusnames,
                                                      first + i)}});
  }
}

void Session::readCell(PyObject *cell) {
  auto home = cellHomes.find(cell);
  if (home == cellHomes.end() || writtenCells.count(cell))
    return; // made by the call
  PyObject *contents = PyCell_GET(cell);
  if (!contents)
    return end("an empty closure cell");
  readIndex(home->second.function, Select::Cell, home->second.index, contents,
            home->second.name);
}

void Session::writeCell(PyObject *cell) {
  if (!cellHomes.count(cell) || !writtenCells.insert(cell).second)
    return;
  effects.cells.push_back(cell);
}
