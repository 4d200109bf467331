//===- GraphBreaks.cpp - The state of frames at a graph break -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Recording.h"
#include "breaks/Continuation.h"
#include "interpreter/LocalKinds.h"
#include "interpreter/OpcodeTable.h"
#include "objects/ObjectKinds.h"
#include "tensors/Tensors.h"

#include <opcode.h>

#include <algorithm>

using namespace pyjit::capture;

/// An unused local goes on living while its frame does, which a weak reference
/// shows.
bool GraphBreaks::isCarried(bool live, PyObject *local) {
  if (live || !local || ObjectTable::isTensor(local))
    return live && local;
  return PyType_SUPPORTS_WEAKREFS(Py_TYPE(local)) &&
         *PyObject_GET_WEAKREFS_LISTPTR(local);
}

bool GraphBreaks::frameState(size_t i, FramePhase phase, FrameState &state) {
  ShadowFrame &shadow = s.tracker.frames[i];
  PyjitFrame *frame = shadow.frame;
  PyCodeObject *code = shadow.code;
  if (!code || pyjitFrameIsGenerator(frame) ||
      (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)))
    return false;
  PyObject *function = pyjitFrameFunction(frame);
  if (!function || !PyFunction_Check(function))
    return false;
  Origin origin = originOf(code, function);
  // A function that the call made has cells that no other call shares.
  Node *node = s.objects.find(origin.function);
  if (!node || !node->external || !node->pinned)
    return false;
  CodeInfo &facts = s.tracker.info(code);
  const Instruction &in = facts.at(shadow.offset);
  if (!in.start || in.depth < 0)
    return false;
  if (phase == FramePhase::Calling &&
      (!isCall(in.op) || !s.tracker.frames[i + 1].direct))
    return false;
  state.frame = i;
  state.function = origin.function;
  state.code = origin.code;
  state.shift = origin.shift;
  state.offset = shadow.offset - origin.shift;
  state.exits = facts.exits(shadow.offset);
  if (state.exits.empty())
    return false;

  std::vector<PyObject *> stack(pyjitFrameStack(frame),
                                pyjitFrameStack(frame) + in.depth);
  if (shadow.condition)
    stack.back() = shadow.condition;
  // What the instruction in progress has taken off is gone.
  int kept = in.depth;
  if (phase != FramePhase::Before)
    for (const Exit &exit : state.exits)
      kept = std::min(kept, exit.kept);
  for (int j = 0; j < kept; ++j) {
    // An exception that is being handled is the thread's state, too.
    if (stack[j] && PyExceptionInstance_Check(stack[j]))
      return false;
    state.stack.push_back(stack[j] != nullptr);
    if (stack[j])
      state.values.push_back(stack[j]);
  }
  PyObject **locals = pyjitFrameLocals(frame);
  int count = code->co_nlocalsplus - code->co_nfreevars;
  auto select = [&](int offset, std::vector<int> &slots) {
    const std::vector<bool> &live = facts.liveAt(offset);
    for (int slot = 0; slot < count; ++slot) {
      if (!isCarried(live[slot], locals[slot]))
        continue;
      if (isCellLocal(code, slot) && !PyCell_Check(locals[slot]))
        return false;
      slots.push_back(slot);
    }
    return true;
  };
  if (!select(shadow.offset, state.slots))
    return false;
  for (int slot : state.slots)
    state.values.push_back(locals[slot]);
  for (Exit &exit : state.exits) {
    state.exitSlots.emplace_back();
    if (!select(exit.offset, state.exitSlots.back()))
      return false;
    exit.offset -= origin.shift;
  }
  return true;
}

bool GraphBreaks::onlyMoves(int op) {
  NumberUse use = infoOf(op).numbers;
  return use == NumberUse::Moves || use == NumberUse::MovesReturned;
}

PyObject *GraphBreaks::looksAtUnseen(const Instruction &in, PyObject **stack) {
  if (onlyMoves(in.op))
    return nullptr;
  int pops = 3, pushes;
  if (!CodeInfo::stackUse(in, pops, pushes))
    pops = 3;
  for (int i = 1; i <= pops && i <= in.depth; ++i)
    if (PyObject *object = stack[in.depth - i];
        object && s.objects.unseen.count(object))
      return object;
  return nullptr;
}

void GraphBreaks::asks(ReasonKind kind, const std::string &what) {
  asksSegments |= !s.ended();
  s.endWhole(kind, what);
}

void GraphBreaks::asksForVariables() {
  asks(ReasonKind::PythonFeature, "the local variables of a frame");
}

void GraphBreaks::noteGradient() {
  const ShadowFrame &frame = s.tracker.frames.back();
  if (!frame.code) // what is compiled is an operator itself
    return;
  Origin origin = originOf(frame.code, nullptr);
  s.objects.keep(reinterpret_cast<PyObject *>(origin.code));
  gradientSites.insert({origin.code, frame.offset - origin.shift});
}

void GraphBreaks::noteFixed(Fixes what, int64_t value, const void *of) {
  const ShadowFrame &frame = s.tracker.frames.back();
  if (!frame.code || s.surveying || s.ended())
    return;
  Origin origin = originOf(frame.code, nullptr);
  s.objects.keep(reinterpret_cast<PyObject *>(origin.code));
  int offset = frame.running < 0 ? frame.offset : frame.running;
  fixed.push_back({origin.code, offset - origin.shift, what, of, value});
}

/// Objects that a graph break cannot carry can be made after one: where they
/// were made is a good place for it.
void GraphBreaks::noteAllocation(PyObject *object) {
  if (!object || isValue(object) || allocationSites.count(object))
    return;
  Node *node = s.objects.find(object);
  if (ObjectTable::isTensor(object) && s.tensors->showsData(object))
    node = s.objects.allocated(object);
  else if (ObjectTable::isTensor(object))
    return;
  if (!node || node->external || PyList_Check(object) ||
      PyTuple_Check(object) || PyDict_Check(object) || PyMethod_Check(object))
    return;
  std::vector<AllocationSite> &allocation = allocationSites[object];
  for (size_t i = 1; i < s.tracker.frames.size(); ++i)
    allocation.push_back({s.tracker.frames[i].frame, s.tracker.frames[i].code,
                          i + 1 == s.tracker.frames.size()
                              ? s.tracker.frames[i].pendingOffset
                              : s.tracker.frames[i].offset});
}

void GraphBreaks::noteSite(PyObject *object) {
  auto [known, isNew] = allocationSites.try_emplace(object);
  std::vector<AllocationSite> &site = known->second;
  for (size_t i = 1; isNew && i < s.tracker.frames.size(); ++i)
    site.push_back({s.tracker.frames[i].frame, s.tracker.frames[i].code,
                    s.tracker.frames[i].offset});
}
