//===- Escape.cpp - The result and the writes, at the end -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The end of a trace: what the call did to objects that existed before it, in
// the order in which Python did it or as a final state, and what it returns.
//
//===----------------------------------------------------------------------===//

#include "builtins/Natives.h"
#include "numbers/HostScalars.h"
#include "objects/EscapeWalk.h"
#include "objects/ObjectLayout.h"
#include "tensors/ReplacedData.h"
#include "tensors/Tensors.h"

#include <algorithm>

using namespace pyjit::capture;

//===----------------------------------------------------------------------===//
// Writes
//===----------------------------------------------------------------------===//

/// The `__dict__` of an argument, read; null if that ended the recording.
static Node *readDict(Recording &s, Node *owner) {
  PyObject *dict = pyjitInstanceDict(owner->object);
  s.reads.read(owner, Select::Dict, nullptr, dict);
  return s.dead ? nullptr : s.objects.find(dict);
}

/// A dict among the arguments may be the `__dict__` of another argument in
/// another call, whose attributes are its entries then; and two arguments may
/// have one `__dict__`.
static void separateDicts(Recording &s, const std::set<Node *> &written) {
  std::vector<Node *> dicts, owners;
  for (auto &entry : s.objects.nodes) {
    Node *node = entry.second.get();
    if (!node->external || node->pinned || node->value < 0)
      continue;
    if (PyDict_CheckExact(node->object) && node->inArgument && !node->dictOf)
      dicts.push_back(node);
    else if (node->ofArgument && !PyDict_Check(node->object) &&
             isPlainInstance(node->object) && pyjitInstanceDict(node->object))
      owners.push_back(node);
  }
  auto separate = [&](Node *owner, Node *other, Node *otherDict) {
    if (s.dead || (!written.count(other) && !written.count(owner)))
      return;
    Node *own = readDict(s, owner);
    Node *dict = own && !otherDict ? readDict(s, other) : otherDict;
    if (!own || !dict || own == dict)
      return;
    PyjitValue a = s.objects.ssa(own), b = s.objects.ssa(dict);
    s.add(PyjitDistinctOp{.lhs = a, .rhs = b});
  };
  for (size_t i = 0; i < owners.size(); ++i) {
    for (Node *dict : dicts)
      separate(owners[i], dict, dict);
    for (size_t j = 0; j < i; ++j)
      separate(owners[i], owners[j], nullptr);
  }
}

/// A write reaches every path to its object: objects that were met as two stay
/// two.
void Escape::separateWritten() {
  std::set<Node *> written(s.effects.replaced.begin(),
                           s.effects.replaced.end());
  for (const Write &write : s.effects.writes)
    written.insert(write.owner);
  separateDicts(s, written);
  for (Node *node : written) {
    for (auto &entry : s.objects.nodes) {
      Node *other = entry.second.get();
      if (other == node || !other->external ||
          (other->pinned && node->pinned) ||
          Py_TYPE(other->object) != Py_TYPE(node->object) || other->value < 0 ||
          ObjectTable::isTensor(other->object) ||
          (written.count(other) && other < node))
        continue;
      PyjitValue a = s.objects.ssa(node), b = s.objects.ssa(other);
      s.add(PyjitDistinctOp{.lhs = a, .rhs = b});
    }
  }
}

PyObject *Escape::tokenOf(PyObject *variable) const {
  for (const auto &allocation : s.breaks.allocationSites) {
    if (Py_TYPE(allocation.first) != &PyContextToken_Type ||
        pyjitTokenUsed(allocation.first))
      continue;
    PyObject *of = PyObject_GetAttrString(allocation.first, "var");
    Py_XDECREF(of);
    if (of == variable)
      return allocation.first;
  }
  PyErr_Clear();
  return nullptr;
}

/// Variables of frames below, which the call has written.
bool Escape::leaveCells(EscapeWalk &walk) {
  for (PyObject *cell : s.effects.cells) {
    const ExternalReads::CellHome &home = s.reads.cellHomes.find(cell)->second;
    PyObject *held = PyCell_GET(cell);
    if (s.dead)
      return false;
    PyjitValue holder = s.objects.ssa(home.function);
    if (!held) {
      s.add(PyjitDeleteOp{.holder = holder,
                          .selector = PyjitSelectorCell,
                          .key = s.writer.integer(home.index)});
      continue;
    }
    PyjitValue value = walk.value(held);
    std::string label = utf8(home.name);
    s.add(PyjitSetOp{.holder = holder,
                     .selector = PyjitSelectorCell,
                     .key = s.writer.integer(home.index),
                     .label = view(label),
                     .value = value});
  }
  return true;
}

/// What the written place holds at the end; borrowed, null if nothing.
static PyObject *finalValue(Recording &s, const Write &write) {
  PyObject *object = write.owner->object;
  if (write.select == Select::Grad)
    return gradOf(s, object);
  if (write.select == Select::Slot) {
    auto *descr = reinterpret_cast<PyMemberDescrObject *>(
        pyjitTypeLookup(Py_TYPE(object), write.key));
    PyObject *held =
        PyMember_GetOne(reinterpret_cast<char *>(object), descr->d_member);
    PyErr_Clear();
    if (held)
      s.objects.keep(held);
    Py_XDECREF(held);
    return held;
  }
  if (PyAnySet_Check(object))
    return PySet_Contains(object, write.key) == 1 ? write.key : nullptr;
  PyObject *dict =
      write.select == Select::Attr ? pyjitInstanceDict(object) : object;
  return dict ? PyDict_GetItemWithError(dict, write.key) : nullptr;
}

/// Attributes, slots and items, in the order in which Python wrote them.
void Escape::leaveWrites(EscapeWalk &walk) {
  for (const Write &write : s.effects.writes) {
    if (s.dead)
      return;
    if (write.appended) {
      // It is among the contents of what is written as a whole. It stays in the
      // log, for the instruction that made it so may yet be forgotten.
      if (write.owner->owned)
        continue;
      PyjitValue value = walk.value(write.appended),
                 list = s.objects.ssa(write.owner);
      s.add(PyjitAppendOp{.holder = list, .value = value});
      continue;
    }
    if ((write.owner->owned && write.select == Select::Item) ||
        write.select == Select::Storage)
      continue;
    PyjitValue holder = s.objects.ssa(write.owner);
    PyjitSelector selector = PyjitSelector(write.select);
    if (write.select == Select::Data) {
      s.add(PyjitSetOp{.holder = holder,
                       .selector = selector,
                       .value = s.tensors->host().valueOf(write.owner)});
      continue;
    }
    PyObject *held =
        s.effects.isReinserted(write) ? nullptr : finalValue(s, write);
    PyjitAttribute key = write.key ? s.objects.constant(write.key) : nullptr;
    if (!held) {
      s.add(PyjitDeleteOp{.holder = holder, .selector = selector, .key = key});
      continue;
    }
    PyjitValue value = walk.value(held);
    if (PyAnySet_Check(write.owner->object))
      s.add(PyjitAppendOp{.holder = holder, .value = value});
    else
      s.add(PyjitSetOp{
          .holder = holder, .selector = selector, .key = key, .value = value});
  }
}

/// Python attributes of tensors that the call has made: of those that leave it,
/// be it as such an attribute.
void Escape::leaveAttributes(EscapeWalk &walk) {
  std::vector<PyObject *> open = s.effects.withAttributes;
  for (size_t left = 0; left != open.size() && !s.dead;) {
    left = open.size();
    std::vector<PyObject *> later;
    for (PyObject *tensor : open) {
      if (!walk.hasLeft(tensor)) {
        later.push_back(tensor);
        continue;
      }
      PyObject *dict = pyjitInstanceDict(tensor), *name, *held;
      Py_ssize_t position = 0;
      while (dict && PyDict_Next(dict, &position, &name, &held)) {
        PyjitValue holder = walk.value(tensor), value = walk.value(held);
        s.add(PyjitSetOp{.holder = holder,
                         .selector = PyjitSelectorAttr,
                         .key = s.objects.constant(name),
                         .value = value});
      }
    }
    open = std::move(later);
  }
}

/// Behind all else: what leaves may be a view of what a tensor has shown.
void Escape::leaveStorages(EscapeWalk &walk) {
  std::vector<std::pair<Node *, PyjitValue>> shown;
  for (const Write &write : s.effects.writes)
    if (write.select == Select::Storage)
      shown.emplace_back(write.owner,
                         walk.value(dataSet(s, write.owner->object)));
  for (auto &[tensor, value] : shown)
    if (!s.dead)
      s.add(PyjitSetOp{.holder = s.objects.ssa(tensor),
                       .selector = PyjitSelectorStorage,
                       .value = value});
}

/// Containers whose contents are written as a whole.
void Escape::leaveReplaced(EscapeWalk &walk) {
  for (Node *node : s.effects.replaced) {
    if (s.dead)
      return;
    PyjitValue holder = s.objects.ssa(node);
    PyObject *object = node->object;
    std::vector<PyjitValue> contents;
    PyjitAttribute keys = nullptr;
    if (PyDict_Check(object)) {
      contents = walk.entries(object, keys);
    } else {
      contents = walk.values(elementsIn(object));
    }
    s.add(PyjitReplaceOp{
        .holder = holder, .keys = keys, .values = view(contents)});
  }
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

template <typename Result> void Escape::leaveWith(const Result &result) {
  std::string change = s.tensors->stateChange(
      s.breaks.mayLeaveGradMode ? &s.breaks.gradModeLeft : nullptr);
  // Next time a graph break is made in front of it.
  if (!change.empty() && !s.calls.inferenceModes.empty() && !s.breaks.refused)
    s.breaks.refused = s.calls.inferenceModes.front();
  static PyObject *const region =
      findObject("torch:autocast_increment_nesting");
  if (!change.empty() && !s.breaks.refused)
    s.breaks.refused = region; // of which the site is known, if it began one
  if (!change.empty())
    return s.end(ReasonKind::TorchState, change);
  change = s.tensors->finalConflict();
  if (!change.empty())
    return s.end(ReasonKind::SharedMemory, change);
  if (const char *why =
          s.tensors->gradientFlows() ? s.checkpoint.whyNotLater() : nullptr)
    return s.endWhole(ReasonKind::Checkpoint,
                      "a function under checkpoint, and " + std::string(why));
  separateWritten();
  EscapeWalk walk(s);
  for (Node *token : s.effects.context.usedTokens()) {
    PyjitValue holder = s.objects.ssa(token);
    s.add(PyjitDeleteOp{.holder = holder,
                        .selector = PyjitSelectorSlot,
                        .key = s.writer.string("value")});
  }
  if (!leaveCells(walk))
    return;
  leaveWrites(walk);
  leaveReplaced(walk);
  if (s.dead)
    return;
  PyjitValue left = result(walk);
  leaveAttributes(walk);
  leaveStorages(walk);
  // Handing out its token is what sets a context variable.
  for (PyObject *variable : s.effects.context.stillSet())
    if (PyObject *token = tokenOf(variable); !s.dead && !walk.hasSet(token)) {
      s.breaks.refused = token;
      return s.end(ReasonKind::ContextVariable,
                   "a context variable that stays set");
    }
  if (!s.dead)
    s.tensors->writeCounters();
  if (!s.dead)
    s.add(PyjitLeaveOp{.value = left});
}

void Escape::leave(PyObject *result) {
  s.scalars.finish();
  leaveWith([&](EscapeWalk &walk) { return walk.value(result); });
}

bool Escape::leaveAtGraphBreak(const std::vector<FrameState> &states) {
  s.scalars.finish();
  if (!s.dataNumbers.lostSites.empty())
    return false;
  s.dead = false;
  s.effects.forgetInstruction();
  s.breaks.mayLeaveGradMode = true;
  leaveWith([&](EscapeWalk &walk) {
    std::vector<PyjitValue> frames;
    for (const FrameState &state : states) {
      std::vector<PyjitValue> values;
      // The branch's condition: on top of the operand stack, which stands in
      // front of the locals.
      size_t condition =
          &state == &states.back() && s.decisions.truthLeft >= 0
              ? std::count(state.stack.begin(), state.stack.end(), true) - 1
              : state.values.size();
      for (size_t i = 0; i < state.values.size(); ++i)
        values.push_back(i == condition ? walk.truth(s.decisions.truthLeft)
                                        : walk.value(state.values[i]));
      frames.push_back(walk.tuple(values));
    }
    return walk.tuple(frames);
  });
  return !s.dead;
}
