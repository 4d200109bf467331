//===- Escape.cpp - The result and the writes, at the end -----------------===//
//
// The end of a trace: what the call did to objects that existed before it, in
// the order in which Python did it or as a final state, and what it returns.
//
//===----------------------------------------------------------------------===//

#include "objects/EscapeWalk.h"
#include "tensors/Tensors.h"

#include <algorithm>

using namespace pyjit::capture;

//===----------------------------------------------------------------------===//
// Writes
//===----------------------------------------------------------------------===//

/// A write reaches every path to its object: objects that were met as two stay
/// two.
void Session::separateWritten() {
  std::set<Node *> written(effects.replaced.begin(), effects.replaced.end());
  for (const Write &write : effects.writes)
    written.insert(write.owner);
  for (Node *node : written) {
    for (auto &entry : nodes) {
      Node *other = entry.second.get();
      if (other == node || !other->external ||
          (other->pinned && node->pinned) ||
          Py_TYPE(other->object) != Py_TYPE(node->object) || other->value < 0 ||
          isTensor(other->object) || (written.count(other) && other < node))
        continue;
      PyjitValue a = ssa(node), b = ssa(other);
      add(PyjitDistinctOp{.lhs = a, .rhs = b});
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

/// Variables of frames below, which the call has written.
bool Session::leaveCells(EscapeWalk &walk) {
  for (PyObject *cell : effects.cells) {
    const CellHome &home = cellHomes.find(cell)->second;
    PyObject *held = PyCell_GET(cell);
    if (dead || !held) {
      end("a closure variable that the call leaves empty");
      return false;
    }
    PyjitValue value = walk.value(held), holder = ssa(home.function);
    std::string label = utf8(home.name);
    add(PyjitSetOp{.holder = holder,
                   .selector = PyjitSelectorCell,
                   .key = writer.integer(home.index),
                   .label = view(label),
                   .value = value});
  }
  return true;
}

/// What the written place holds at the end; borrowed, null if nothing.
static PyObject *finalValue(Session &s, const Write &write) {
  PyObject *object = write.owner->object;
  if (write.select == Select::Slot) {
    auto *descr = reinterpret_cast<PyMemberDescrObject *>(
        pyjitTypeLookup(Py_TYPE(object), write.key));
    PyObject *held =
        PyMember_GetOne(reinterpret_cast<char *>(object), descr->d_member);
    PyErr_Clear();
    if (held)
      s.keep(held);
    Py_XDECREF(held);
    return held;
  }
  PyObject *dict =
      write.select == Select::Attr ? pyjitInstanceDict(object) : object;
  return dict ? PyDict_GetItemWithError(dict, write.key) : nullptr;
}

/// Attributes, slots and items, in the order in which Python wrote them.
void Session::leaveWrites(EscapeWalk &walk) {
  for (const Write &write : effects.writes) {
    if (dead)
      return;
    if (write.appended) {
      PyjitValue value = walk.value(write.appended), list = ssa(write.owner);
      add(PyjitAppendOp{.holder = list, .value = value});
      continue;
    }
    if (write.owner->owned && write.select == Select::Item)
      continue;
    PyObject *held =
        effects.isReinserted(write) ? nullptr : finalValue(*this, write);
    PyjitValue holder = ssa(write.owner);
    PyjitSelector selector = PyjitSelector(write.select);
    PyjitAttribute key = constant(write.key);
    if (!held) {
      add(PyjitDeleteOp{.holder = holder, .selector = selector, .key = key});
      continue;
    }
    PyjitValue value = walk.value(held);
    add(PyjitSetOp{
        .holder = holder, .selector = selector, .key = key, .value = value});
  }
}

/// Containers whose contents are written as a whole.
void Session::leaveReplaced(EscapeWalk &walk) {
  for (Node *node : effects.replaced) {
    if (dead)
      return;
    PyjitValue holder = ssa(node);
    PyObject *object = node->object;
    std::vector<PyjitValue> contents;
    PyjitAttribute keys = nullptr;
    if (PyDict_Check(object)) {
      contents = walk.entries(object, keys);
    } else {
      PyObject *list = PySequence_List(object);
      std::vector<PyObject *> elements;
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
        elements.push_back(PyList_GET_ITEM(list, i));
      contents = walk.values(elements);
      keep(list);
      Py_DECREF(list);
    }
    add(PyjitReplaceOp{
        .holder = holder, .keys = keys, .values = view(contents)});
  }
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

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
  for (Node *token : effects.contextResets) {
    PyjitValue holder = ssa(token);
    add(PyjitDeleteOp{.holder = holder,
                      .selector = PyjitSelectorSlot,
                      .key = writer.string("value")});
  }
  if (!leaveCells(walk))
    return;
  leaveWrites(walk);
  leaveReplaced(walk);
  if (dead)
    return;
  PyjitValue left = result(walk);
  // Handing out its token is what sets a context variable.
  for (PyObject *variable : effects.contextVariables)
    if (PyObject *token = tokenOf(variable); !dead && !walk.hasSet(token)) {
      refused = token;
      return end("a context variable that stays set");
    }
  if (!dead)
    tensors->writeCounters();
  if (!dead)
    add(PyjitLeaveOp{.value = left});
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
  effects.forgetInstruction();
  mayLeaveGradMode = true;
  leaveWith([&](EscapeWalk &walk) {
    std::vector<PyjitValue> frames;
    for (const FrameState &state : states) {
      std::vector<PyjitValue> values;
      // The branch's condition: on top of the operand stack, which stands in
      // front of the locals.
      size_t condition =
          &state == &states.back() && truthLeft >= 0
              ? std::count(state.stack.begin(), state.stack.end(), true) - 1
              : state.values.size();
      for (size_t i = 0; i < state.values.size(); ++i)
        values.push_back(i == condition ? walk.truth(truthLeft)
                                        : walk.value(state.values[i]));
      frames.push_back(walk.tuple(values));
    }
    return walk.tuple(frames);
  });
  return !dead;
}
