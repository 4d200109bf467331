//===- Reads.cpp - Reads of external objects, as text -------------------===//

#include "Natives.h"
#include "ObjectKinds.h"
#include "Session.h"
#include "Tensors.h"

#include <cstring>

using namespace pyjit::capture;

std::string Session::keyText(PyObject *o) {
  if (o == Py_None)
    return "none";
  if (o == Py_Ellipsis)
    return "ellipsis";
  if (PyBool_Check(o))
    return o == Py_True ? "true" : "false";
  if (PyLong_CheckExact(o)) {
    int overflow = 0;
    PyLong_AsLongLongAndOverflow(o, &overflow);
    PyObject *text = PyObject_Str(o);
    if (!text) { // beyond the limit of digits
      PyErr_Clear();
      end("a very large integer");
      return "0";
    }
    std::string out = PyUnicode_AsUTF8(text);
    Py_DECREF(text);
    if (overflow)
      out += " : i" + std::to_string(_PyLong_NumBits(o) + 2);
    return out;
  }
  if (PyFloat_CheckExact(o))
    return floatText(PyFloat_AS_DOUBLE(o)) + " : f64";
  if (PyComplex_CheckExact(o))
    return "complex(" + floatText(PyComplex_RealAsDouble(o)) + " : f64, " +
           floatText(PyComplex_ImagAsDouble(o)) + " : f64)";
  if (PyUnicode_CheckExact(o))
    return quotedString(o);
  if (PyBytes_CheckExact(o))
    return "bytes(" +
           quoted(std::string(PyBytes_AS_STRING(o), PyBytes_GET_SIZE(o))) + ")";
  if (PyTuple_CheckExact(o)) {
    std::string out = "(";
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      out += (i ? ", " : "") + keyText(PyTuple_GET_ITEM(o, i));
    return out + ")";
  }
  Node *node = find(o);
  if (!node && isProcessConstant(o))
    node = pin(o);
  if (!node || !node->external) {
    end("a key of type " + typeName(o));
    return "none";
  }
  return "object " + std::to_string(pin(o)->index);
}

static std::string selectorText(Session &session, Select select,
                                PyObject *key) {
  switch (select) {
  case Select::Attr:
    return "attr(" + quotedString(key) + ")";
  case Select::TypeAttr:
    return "typeattr(" + quotedString(key) + ")";
  case Select::Slot:
    return "slot(" + quotedString(key) + ")";
  case Select::Field:
    return "field(" + quotedString(key) + ")";
  case Select::Item:
    return "item(" + session.keyText(key) + ")";
  case Select::Dict:
    return "dict";
  case Select::Type:
    return "type";
  case Select::Code:
    return "code";
  case Select::Defaults:
    return "defaults";
  case Select::KwDefaults:
    return "kwdefaults";
  case Select::Globals:
    return "globals";
  default:
    return "";
  }
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
void Session::readParts(PyObject *object, int value, const std::string &type) {
  bool number = isNumpyNumber(object);
  auto part = [&](const char *name) {
    PyObject *item = number ? PyObject_CallMethod(object, name, nullptr)
                            : PyObject_GetAttrString(object, name);
    PyErr_Clear();
    if (!item || !isValue(item))
      end("an unusual " + typeName(object));
    else
      writer.line("%" + std::to_string(writer.fresh()) + " = refgraph.get %" +
                      std::to_string(value) + " field(\"" + name +
                      "\") equals(" + keyText(item) + ") : " + type + " -> " +
                      typeText(item),
                  location());
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

void Session::emitGet(Node *owner, Select select, const std::string &selector,
                      PyObject *result, const std::string &place) {
  int loc = location();
  std::string head = "refgraph.get %" +
                     std::to_string(owner ? ssa(owner) : external) + " " +
                     selector;
  std::string holder = owner ? " : " + owner->type + " -> " : " : ";
  if (isValue(result)) {
    writer.line("%" + std::to_string(writer.fresh()) + " = " + head +
                    " equals(" + keyText(result) + ")" + holder +
                    typeText(result),
                loc);
    return;
  }
  auto same = [&](int a, int b, const std::string &type) {
    writer.line("refgraph.same %" + std::to_string(a) + ", %" +
                    std::to_string(b) + " : " + type + ", " + type,
                loc);
  };
  Node *node = find(result);
  if (isTensor(result)) {
    if (node && !node->external && tensors->valueOf(result) >= 0)
      return end("an external object holds a tensor made by the call");
    int typeIndex = pin(reinterpret_cast<PyObject *>(Py_TYPE(result)))->index;
    std::string type, attributes;
    bool parameter = owner && owner->paramDict;
    if (!tensors->describe(result, parameter, type, attributes))
      return;
    std::string lifted = scalars.liftedSizes(place, result);
    if (!lifted.empty())
      attributes.insert(attributes.size() - 1, ", " + lifted);
    int value = writer.fresh();
    writer.line("%" + std::to_string(value) + " = " + head + " type(" +
                    std::to_string(typeIndex) + ") " + attributes + holder +
                    type,
                loc);
    if (node && node->external) {
      same(value, node->value, type);
      return;
    }
    node = born(result);
    node->external = node->typeRead = true;
    node->value = value;
    node->type = type;
    tensors->bindExternal(result, value);
    return;
  }
  if (node && !node->external)
    return end("an external object holds an object made by the call (" +
               typeName(result) + ")");
  bool pinned = node ? node->pinned
                     : isProcessConstant(result) ||
                           (shouldPin(result) && !isPassedOn(owner, result));
  std::string check;
  if (pinned)
    check = " is(" + std::to_string(pin(result)->index) + ")";
  else
    check = " type(" +
            std::to_string(
                pin(reinterpret_cast<PyObject *>(Py_TYPE(result)))->index) +
            ")";
  std::string type = typeText(result);
  int value = writer.fresh();
  writer.line(
      "%" + std::to_string(value) + " = " + head + check + holder + type, loc);
  if (!pinned && isByValue(result))
    readParts(result, value, type);
  else if (node && !pinned)
    same(value, node->value, type);
  if (node && !pinned)
    return;
  meet(result, value);
  node = born(result);
  node->external = true;
  if (!pinned) {
    node->typeRead = true;
    node->place = place;
  }
  if (node->value < 0) {
    node->value = value;
    node->type = type;
  }
  if (select == Select::Dict)
    node->dictOf = owner;
  if (select == Select::Attr && owner && owner->pinned &&
      PyDict_CheckExact(result) &&
      (selector == "attr(\"_parameters\")" || selector == "attr(\"_buffers\")"))
    node->paramDict = true;
}

void Session::read(Node *owner, Select select, PyObject *key,
                   PyObject *result) {
  if (dead || !owner || !owner->external)
    return;
  owner = canonical(owner, select);
  if (written(owner, select, key))
    return;
  std::string place = scalars.placeOf(owner, select, key, 0);
  if (scalars.read(owner, select, selectorText(*this, select, key), place,
                   result) ||
      !firstTime(owner, select, key))
    return;
  emitGet(owner, select, selectorText(*this, select, key), result, place);
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
  std::string text = std::to_string(index);
  std::string selector =
      select == Select::Item ? "item(" + text + ")"
      : select == Select::Cell
          ? "cell(" + text + ", " + (name ? quotedString(name) : "\"\"") + ")"
          : "arg(" + text + ", " + (name ? quotedString(name) : "\"\"") + ")";
  std::string place = scalars.placeOf(owner, select, nullptr, index);
  if (scalars.read(owner, select, selector, place, result) ||
      !doneIndex.insert({owner, int(select), index}).second)
    return;
  emitGet(owner, select, selector, result, place);
}

void Session::absent(Node *owner, Select select, PyObject *key) {
  if (dead || !owner || !owner->external)
    return;
  owner = canonical(owner, select);
  if (written(owner, select, key) || !firstTime(owner, select, key))
    return;
  int value = ssa(owner);
  writer.line("refgraph.absent %" + std::to_string(value) + " " +
                  selectorText(*this, select, key) + " : " + owner->type,
              location());
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
  int value = ssa(owner);
  writer.line("refgraph.length %" + std::to_string(value) + " is " +
                  std::to_string(n) + " : " + owner->type,
              location());
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
  std::string text;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keyList); ++i)
    text += (i ? ", " : "") + keyText(PyList_GET_ITEM(keyList, i));
  int value = ssa(owner);
  writer.line("refgraph.keys %" + std::to_string(value) + " are [" + text +
                  "] : " + owner->type,
              location());
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
  cellWrites.push_back(cell);
}
