//===- Escape.cpp - The result and the writes, at the end -----------------===//
//
// What leaves the call is described by its final state: one `create` per object
// that the call made, so that shared references stay shared.
//
//===----------------------------------------------------------------------===//

#include "Natives.h"
#include "ObjectKinds.h"
#include "Tensors.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace pyjit::capture;

namespace {

/// Emits values for objects that escape.
class EscapeWalk {
public:
  explicit EscapeWalk(Session &session) : s(session) {}

  /// SSA value and type of `object`.
  std::pair<std::string, std::string> value(PyObject *object) {
    auto done = values.find(object);
    if (done != values.end())
      return done->second;
    auto result = compute(object);
    values[object] = result;
    return result;
  }

  void operands(const std::vector<PyObject *> &elements, std::string &text,
                std::vector<std::string> &types) {
    for (PyObject *element : elements) {
      auto [name, type] = value(element);
      text += (text.empty() ? "" : ", ") + name;
      types.push_back(type);
    }
  }

  /// Whether this token of a context variable was handed out.
  bool hasSet(PyObject *token) const { return tokens.count(token); }

  /// The True or False that the record computes.
  std::pair<std::string, std::string> truth(int shadow) {
    std::string name = fresh(), type = "!refgraph.obj<\"bool\">";
    s.writer.line(name + " = refgraph.create \"number\" [%" +
                      std::to_string(s.tensors->shadowValue(shadow)) + "] : (" +
                      s.tensors->shadowType(shadow) + ") -> " + type,
                  s.location());
    return {name, type};
  }

private:
  Session &s;
  std::map<PyObject *, std::pair<std::string, std::string>> values;
  std::set<PyObject *> tokens;

  /// A function as MAKE_FUNCTION leaves it: nothing was set on it, and its
  /// variables are those of frames of the call.
  bool isPlainFunction(PyObject *object) {
    auto *function = reinterpret_cast<PyFunctionObject *>(object);
    auto *code = reinterpret_cast<PyCodeObject *>(function->func_code);
    Node *node = s.find(function->func_code);
    if (!node || !node->pinned || function->func_name != code->co_name ||
        function->func_qualname != code->co_qualname ||
        (function->func_dict && PyDict_GET_SIZE(function->func_dict)) ||
        (function->func_typeparams &&
         PyTuple_GET_SIZE(function->func_typeparams)))
      return false;
    PyObject *fresh =
        PyFunction_New(function->func_code, function->func_globals);
    bool same = fresh &&
                reinterpret_cast<PyFunctionObject *>(fresh)->func_doc ==
                    function->func_doc &&
                reinterpret_cast<PyFunctionObject *>(fresh)->func_module ==
                    function->func_module &&
                reinterpret_cast<PyFunctionObject *>(fresh)->func_builtins ==
                    function->func_builtins;
    Py_XDECREF(fresh);
    PyErr_Clear();
    PyObject *closure = function->func_closure;
    for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); ++i) {
      PyObject *cell = PyTuple_GET_ITEM(closure, i);
      same &= (s.isOwnCell(cell) || s.isExternal(cell)) && PyCell_GET(cell);
    }
    return same;
  }

  /// A variable that the call has set once and not reset.
  bool staysSet(PyObject *token) const {
    PyObject *variable = pyjitTokenVariable(token);
    return !pyjitTokenUsed(token) && s.tokenOf(variable) == token &&
           std::count(s.contextVariables.begin(), s.contextVariables.end(),
                      variable) == 1;
  }
  std::set<PyObject *> open;

  std::string fresh() { return "%" + std::to_string(s.writer.fresh()); }

  std::pair<std::string, std::string> refuse(PyObject *object,
                                             const char *why) {
    if (!s.ended())
      s.refused = object;
    s.end("the result holds a " + typeName(object) + why);
    return {"%0", "!refgraph.obj<\"?\">"};
  }

  std::pair<std::string, std::string> compute(PyObject *object) {
    if (auto found = s.unseen.find(object); found != s.unseen.end())
      return {"%" + std::to_string(found->second), s.typeText(object)};
    if (int number = s.scalars.valueOf(object); number >= 0)
      return {"%" + std::to_string(number), s.typeText(object)};
    if (isValue(object)) {
      std::string name = fresh(), type = s.typeText(object);
      s.writer.line(name + " = refgraph.constant " + s.keyText(object),
                    s.location());
      return {name, type};
    }
    if (s.isTensor(object)) {
      int value = s.tensors->valueOf(object);
      if (value < 0)
        return refuse(object, " of unknown origin");
      if (s.tensors->isUninitialized(object))
        return refuse(object, " whose memory no recorded operator has filled");
      if (s.tensors->isData(object))
        return refuse(object, " that is the .data of another one");
      if (!s.tensors->leaves(object)) {
        auto refused =
            refuse(object, " of inference mode beside one that is not");
        s.refused = s.firstInferenceMode;
        return refused;
      }
      return {"%" + std::to_string(value), s.typeText(object)};
    }
    Node *node = s.find(object);
    if (!node && isProcessConstant(object))
      node = s.pin(object);
    if (!node && PyCell_Check(object) && s.isOwnCell(object))
      return create(object);
    if (!node)
      return refuse(object, " of unknown origin");
    if (!node->external &&
        (!std::strcmp(Py_TYPE(object)->tp_name, "torch.device") ||
         isNumpyNumber(object)))
      return immutable(object);
    if (node->external) {
      int value = s.ssa(node);
      return {"%" + std::to_string(value), node->type};
    }
    return create(object);
  }

  /// Compared by content and never changed: this very object does.
  std::pair<std::string, std::string> immutable(PyObject *object) {
    int index = int(PyList_GET_SIZE(s.objects));
    PyList_Append(s.objects, object);
    std::string name = fresh(), type = s.typeText(object);
    s.writer.line(name + " = refgraph.object " + std::to_string(index) + " " +
                      quoted(typeName(object)) + " : " + type,
                  s.location());
    return {name, type};
  }

  std::vector<PyObject *> elementsOf(PyObject *object) {
    std::vector<PyObject *> out;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      out.push_back(PySequence_Fast_GET_ITEM(object, i));
    return out;
  }

  std::string entries(PyObject *dict, std::vector<std::string> &types) {
    std::string text;
    PyObject *keys = keysInOrder(dict);
    for (PyObject *key : elementsOf(keys)) {
      PyObject *item = PyDict_GetItemWithError(dict, key);
      if (!item || s.ended())
        break;
      auto [name, type] = value(item);
      text += (text.empty() ? "" : ", ") + s.keyText(key) + " = " + name;
      types.push_back(type);
    }
    s.keep(keys);
    Py_DECREF(keys);
    return "{" + text + "}";
  }

  std::pair<std::string, std::string> create(PyObject *object) {
    if ((PyList_CheckExact(object) || PyDict_CheckExact(object)) &&
        holdsItself(object))
      return createCyclic(object);
    if (!open.insert(object).second)
      return refuse(object, " that contains itself");
    if (s.markedModules.count(object))
      return refuse(object, " that Dynamo has noted");
    std::string kind, body;
    std::vector<std::string> types;
    PyTypeObject *type = Py_TYPE(object);
    auto list = [&](const std::vector<PyObject *> &elements) {
      std::string text;
      operands(elements, text, types);
      body += " [" + text + "]";
    };
    if (type == &PyTuple_Type || type == &PyList_Type) {
      kind = type == &PyTuple_Type ? "tuple" : "list";
      list(elementsOf(object));
    } else if (!std::strcmp(type->tp_name, "torch.Size")) {
      kind = "size";
      list(elementsOf(object));
    } else if (type == &PyDict_Type) {
      kind = "dict";
      body += " items " + entries(object, types);
    } else if (type == &PySet_Type || type == &PyFrozenSet_Type) {
      kind = type == &PySet_Type ? "set" : "frozenset";
      PyObject *elements = PySequence_List(object);
      list(elementsOf(elements));
      s.keep(elements);
      Py_DECREF(elements);
    } else if (type == &PySlice_Type) {
      kind = "slice";
      auto *slice = reinterpret_cast<PySliceObject *>(object);
      list({slice->start, slice->stop, slice->step});
    } else if (type == &PyCell_Type && PyCell_GET(object)) {
      kind = "cell";
      list({PyCell_GET(object)});
    } else if (type == &PyContextToken_Type && staysSet(object)) {
      kind = "token";
      PyObject *variable = pyjitTokenVariable(object), *set = nullptr;
      if (PyContextVar_Get(variable, nullptr, &set) < 0 || !set)
        return refuse(object, " of a variable that is not set");
      s.keep(set);
      Py_DECREF(set);
      list({variable, set});
      tokens.insert(object);
    } else if (type == &PyFunction_Type && isPlainFunction(object)) {
      kind = "function";
      auto *function = reinterpret_cast<PyFunctionObject *>(object);
      s.pin(function->func_globals);
      auto orNone = [](PyObject *part) { return part ? part : Py_None; };
      // Made by the instruction that made the function.
      if (PyObject *closure = function->func_closure)
        if (!s.find(closure))
          s.born(closure);
      list({function->func_code, function->func_globals,
            orNone(function->func_defaults), orNone(function->func_kwdefaults),
            orNone(function->func_annotations),
            orNone(function->func_closure)});
    } else if (type == &PyMethod_Type) {
      kind = "method";
      list({PyMethod_GET_FUNCTION(object), PyMethod_GET_SELF(object)});
    } else if (isInstance(object) || isStructSequence(object)) {
      kind = "instance";
      int index = s.pin(reinterpret_cast<PyObject *>(type))->index;
      body += " type(" + std::to_string(index) + ")";
      if (PyTuple_Check(object) || PyList_Check(object))
        list(elementsOf(object));
      if (PyDict_Check(object))
        body += " items " + entries(object, types);
      if (PyObject *dict = pyjitInstanceDict(object))
        if (PyDict_GET_SIZE(dict))
          body += " attrs " + entries(dict, types);
    } else {
      return refuse(object, " made by the call");
    }
    std::vector<std::array<std::string, 3>> slots;
    if (kind == "instance")
      for (auto &[slot, held] : slotsOf(object)) {
        auto [name, heldType] = value(held);
        slots.push_back({slot, name, heldType});
      }
    open.erase(object);
    std::string operandTypes;
    for (const std::string &entry : types)
      operandTypes += (operandTypes.empty() ? "" : ", ") + entry;
    std::string name = fresh(), resultType = s.typeText(object);
    s.writer.line(name + " = refgraph.create " + quoted(kind) + body + " : (" +
                      operandTypes + ") -> " + resultType,
                  s.location());
    for (auto &[slot, held, heldType] : slots)
      s.writer.line("refgraph.set " + name + " slot(" + quoted(slot) +
                        ") = " + held + " : " + resultType + ", " + heldType,
                    s.location());
    return {name, resultType};
  }

  /// Whether `object` can be reached from its own elements, through other
  /// objects that the call made.
  bool holdsItself(PyObject *object) {
    std::set<PyObject *> seen;
    std::vector<PyObject *> work{object};
    while (!work.empty() && seen.size() < 100000) {
      PyObject *holder = work.back();
      work.pop_back();
      auto visit = [&](PyObject *held) {
        Node *node = s.find(held);
        if (node && !node->external && seen.insert(held).second)
          work.push_back(held);
      };
      if (PyList_Check(holder) || PyTuple_Check(holder))
        for (PyObject *element : elementsOf(holder))
          visit(element);
      PyObject *attributes =
          isInstance(holder) ? pyjitInstanceDict(holder) : nullptr;
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

  /// Made empty, so that its elements can hold it, and filled.
  std::pair<std::string, std::string> createCyclic(PyObject *object) {
    std::string name = fresh(), type = s.typeText(object);
    bool dict = PyDict_Check(object);
    s.writer.line(name + " = refgraph.create " +
                      (dict ? "\"dict\" items {}" : "\"list\" []") +
                      " : () -> " + type,
                  s.location());
    values[object] = {name, type};
    if (dict) {
      PyObject *key, *item;
      Py_ssize_t position = 0;
      while (!s.ended() && PyDict_Next(object, &position, &key, &item)) {
        auto [element, elementType] = value(item);
        s.writer.line("refgraph.set " + name + " item(" + s.keyText(key) +
                          ") = " + element + " : " + type + ", " + elementType,
                      s.location());
      }
    } else {
      for (PyObject *item : elementsOf(object)) {
        auto [element, elementType] = value(item);
        s.writer.line("refgraph.append " + name + ", " + element + " : " +
                          type + ", " + elementType,
                      s.location());
      }
    }
    return values[object];
  }

  /// A tuple with named fields from C, such as torch.return_types.max.
  bool isStructSequence(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    return type->tp_base == &PyTuple_Type && type->tp_dict &&
           PyDict_GetItemString(type->tp_dict, "n_sequence_fields") &&
           PyDict_GetItemString(type->tp_dict, "n_unnamed_fields");
  }

  /// The number of `__slots__` that a class of Python's adds.
  static Py_ssize_t ownSlots(PyTypeObject *type) {
    if (!PyDict_GetItemString(type->tp_dict, "__slots__"))
      return 0;
    PyMemberDef *members = membersOf(type);
    for (Py_ssize_t i = 0; i < Py_SIZE(type); ++i)
      if (members[i].type != Py_T_OBJECT_EX)
        return 0;
    return Py_SIZE(type);
  }

  /// They lie behind the class.
  static PyMemberDef *membersOf(PyTypeObject *type) {
    return reinterpret_cast<PyMemberDef *>(reinterpret_cast<char *>(type) +
                                           Py_TYPE(type)->tp_basicsize);
  }

  std::vector<std::pair<std::string, PyObject *>> slotsOf(PyObject *object) {
    std::vector<std::pair<std::string, PyObject *>> out;
    for (PyTypeObject *base = Py_TYPE(object);
         base && PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE);
         base = base->tp_base) {
      PyMemberDef *members = membersOf(base);
      for (Py_ssize_t i = 0, n = ownSlots(base); i < n; ++i) {
        PyObject *held = *reinterpret_cast<PyObject **>(
            reinterpret_cast<char *>(object) + members[i].offset);
        PyObject *name = PyUnicode_FromString(members[i].name);
        PyObject *descr = pyjitTypeLookup(Py_TYPE(object), name);
        Py_XDECREF(name);
        bool plain = descr && Py_TYPE(descr) == &PyMemberDescr_Type &&
                     reinterpret_cast<PyMemberDescrObject *>(descr)->d_member ==
                         &members[i];
        if (held && !plain)
          refuse(object, " with a slot that is hidden");
        else if (held)
          out.push_back({members[i].name, held});
      }
    }
    PyErr_Clear();
    return out;
  }

  /// A class instance whose whole state is its `__dict__` and, for subclasses
  /// of dict, list and tuple, its elements.
  bool isInstance(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == &PyODict_Type ||
        !std::strcmp(type->tp_name, "types.SimpleNamespace"))
      return true;
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ||
        PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) ||
        PyType_Check(object) || PyExceptionInstance_Check(object))
      return false;
    PyTypeObject *base = type;
    while (base && PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE)) {
      if (base->tp_finalize || base->tp_del)
        return false;
      // What C code keeps in the object (pybind11's classes are heap types,
      // too) would be missing. A class of Python's has at most the places of
      // its dict and of its slots.
      Py_ssize_t dictPlace = base->tp_base->tp_itemsize ? sizeof(void *) : 0;
      Py_ssize_t slots = ownSlots(base) * Py_ssize_t(sizeof(void *));
      if (base->tp_basicsize > base->tp_base->tp_basicsize + dictPlace + slots)
        return false;
      base = base->tp_base;
    }
    return base == &PyBaseObject_Type || base == &PyDict_Type ||
           base == &PyODict_Type || base == &PyTuple_Type ||
           base == &PyList_Type;
  }
};

std::string selector(Session &s, Select select, PyObject *key) {
  return select == Select::Attr ? "attr(" + s.keyText(key) + ")"
                                : "item(" + s.keyText(key) + ")";
}

} // namespace

/// A write reaches every path to its object: objects that were met as two stay
/// two.
void Session::separateWritten() {
  std::set<Node *> written(replacedNodes.begin(), replacedNodes.end());
  for (const Write &write : writes)
    written.insert(write.owner);
  for (Node *node : written) {
    for (auto &entry : nodes) {
      Node *other = entry.second.get();
      if (other == node || !other->external ||
          (other->pinned && node->pinned) ||
          Py_TYPE(other->object) != Py_TYPE(node->object) || other->value < 0 ||
          isTensor(other->object) || (written.count(other) && other < node))
        continue;
      int a = ssa(node), b = ssa(other);
      writer.line("refgraph.distinct %" + std::to_string(a) + ", %" +
                      std::to_string(b) + " : " + node->type + ", " +
                      other->type,
                  location());
    }
  }
}

/// What the call's `set` of a context variable answered.
PyObject *Session::tokenOf(PyObject *variable) const {
  for (const auto &birth : births) {
    if (Py_TYPE(birth.first) != &PyContextToken_Type ||
        pyjitTokenUsed(birth.first))
      continue;
    PyObject *of = PyObject_GetAttrString(birth.first, "var");
    Py_XDECREF(of);
    if (of == variable)
      return birth.first;
  }
  PyErr_Clear();
  return nullptr;
}

bool Session::isReinserted(const Write &write) const {
  if (!reinserted.count(write.owner))
    return false;
  for (const Write *later = &write + 1; later != writes.data() + writes.size();
       ++later)
    if (later->owner == write.owner && later->select == write.select &&
        later->key &&
        PyObject_RichCompareBool(later->key, write.key, Py_EQ) == 1)
      return true;
  return false;
}

template <typename Result> void Session::leaveWith(const Result &result) {
  std::string change =
      tensors->stateChange(mayLeaveGradMode ? &gradModeLeft : nullptr);
  // Next time a cut is made in front of it.
  if (!change.empty() && !inferenceModes.empty() && !refused)
    refused = inferenceModes.front();
  if (change.empty())
    change = tensors->finalConflict();
  if (!change.empty())
    return end(change);
  separateWritten();
  EscapeWalk walk(*this);
  for (Node *token : contextResets)
    writer.line("refgraph.delete %" + std::to_string(ssa(token)) +
                    " slot(\"value\") : " + token->type,
                location());
  for (PyObject *cell : cellWrites) {
    const CellHome &home = cellHomes.find(cell)->second;
    PyObject *value = PyCell_GET(cell);
    if (dead || !value)
      return end("a closure variable that the call leaves empty");
    auto [name, type] = walk.value(value);
    writer.line("refgraph.set %" + std::to_string(ssa(home.function)) +
                    " cell(" + std::to_string(home.index) + ", " +
                    quotedString(home.name) + ") = " + name + " : " +
                    home.function->type + ", " + type,
                location());
  }
  for (const Write &write : writes) {
    if (dead)
      return;
    if (write.appended) {
      auto [name, type] = walk.value(write.appended);
      writer.line("refgraph.append %" + std::to_string(ssa(write.owner)) +
                      ", " + name + " : " + write.owner->type + ", " + type,
                  location());
      continue;
    }
    PyObject *dict = write.select == Select::Attr
                         ? pyjitInstanceDict(write.owner->object)
                         : write.owner->object;
    PyObject *value = dict && !isReinserted(write)
                          ? PyDict_GetItemWithError(dict, write.key)
                          : nullptr;
    if (write.owner->owned)
      continue;
    int holder = ssa(write.owner);
    std::string head = "%" + std::to_string(holder) + " " +
                       selector(*this, write.select, write.key);
    if (!value) {
      writer.line("refgraph.delete " + head + " : " + write.owner->type,
                  location());
      continue;
    }
    auto [name, type] = walk.value(value);
    writer.line("refgraph.set " + head + " = " + name + " : " +
                    write.owner->type + ", " + type,
                location());
  }
  for (Node *node : replacedNodes) {
    if (dead)
      return;
    int holder = ssa(node);
    PyObject *object = node->object;
    std::string text;
    std::vector<std::string> types;
    bool dict = PyDict_Check(object);
    if (dict) {
      PyObject *key, *item;
      Py_ssize_t position = 0;
      while (!dead && PyDict_Next(object, &position, &key, &item)) {
        auto [name, type] = walk.value(item);
        text += (text.empty() ? "" : ", ") + keyText(key) + " = " + name;
        types.push_back(type);
      }
    } else {
      PyObject *list = PySequence_List(object);
      std::vector<PyObject *> elements;
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
        elements.push_back(PyList_GET_ITEM(list, i));
      walk.operands(elements, text, types);
      keep(list);
      Py_DECREF(list);
    }
    std::string operandTypes;
    for (const std::string &entry : types)
      operandTypes += (operandTypes.empty() ? "" : ", ") + entry;
    writer.line("refgraph.replace %" + std::to_string(holder) +
                    (dict ? " items {" + text + "}" : " [" + text + "]") +
                    " : " + node->type + ", (" + operandTypes + ")",
                location());
  }
  if (dead)
    return;
  auto [name, type] = result(walk);
  // To hand out its token is what sets a variable.
  for (PyObject *variable : contextVariables)
    if (PyObject *token = tokenOf(variable); !dead && !walk.hasSet(token)) {
      refused = token;
      return end("a context variable that stays set");
    }
  if (!dead)
    writer.line("refgraph.leave " + name + " : " + type, location());
}

void Session::leave(PyObject *result) {
  scalars.finish();
  leaveWith([&](EscapeWalk &walk) { return walk.value(result); });
}

bool Session::leaveCut(const std::vector<FrameState> &states) {
  scalars.finish();
  if (!lostSites.empty())
    return false;
  dead = false;
  forgetInstruction();
  mayLeaveGradMode = true;
  auto tuple = [&](const std::string &names, const std::string &types) {
    std::string name = "%" + std::to_string(writer.fresh());
    writer.line(name + " = refgraph.create \"tuple\" [" + names + "] : (" +
                    types + ") -> !refgraph.obj<\"tuple\">",
                location());
    return name;
  };
  leaveWith([&](EscapeWalk &walk) {
    std::string outer, outerTypes;
    for (const FrameState &state : states) {
      std::string names, types;
      // On top of the operand stack, in front of the locals.
      size_t top =
          &state == &states.back() && truthLeft >= 0
              ? std::count(state.stack.begin(), state.stack.end(), true) - 1
              : state.values.size();
      for (size_t i = 0; i < state.values.size(); ++i) {
        auto [name, type] =
            i == top ? walk.truth(truthLeft) : walk.value(state.values[i]);
        names += (names.empty() ? "" : ", ") + name;
        types += (types.empty() ? "" : ", ") + type;
      }
      outer += (outer.empty() ? "" : ", ") + tuple(names, types);
      outerTypes += (outerTypes.empty() ? "" : ", ") +
                    std::string("!refgraph.obj<\"tuple\">");
    }
    return std::make_pair(tuple(outer, outerTypes),
                          std::string("!refgraph.obj<\"tuple\">"));
  });
  return !dead;
}
