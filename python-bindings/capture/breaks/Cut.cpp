//===- Cut.cpp - The state at a cut, and starting from such a state -------===//

#include "Session.h"
#include "breaks/Continuation.h"
#include "interpreter/OpcodeTable.h"
#include "objects/ObjectKinds.h"
#include "tensors/Tensors.h"

#include <opcode.h>

#include <algorithm>

using namespace pyjit::capture;

/// CO_FAST_CELL of CPython's internal headers.
static constexpr int kCellLocal = 0x40;

/// An unused local goes on living while its frame does, which a weak reference
/// shows.
bool Session::isCarried(bool live, PyObject *local) {
  if (live || !local || isTensor(local))
    return live && local;
  return PyType_SUPPORTS_WEAKREFS(Py_TYPE(local)) &&
         *PyObject_GET_WEAKREFS_LISTPTR(local);
}

bool Session::frameState(size_t i, FramePhase phase, FrameState &state) {
  ShadowFrame &shadow = frames[i];
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
  Node *node = find(origin.function);
  if (!node || !node->external || !node->pinned)
    return false;
  CodeInfo &facts = info(code);
  const Instruction &in = facts.at(shadow.offset);
  if (!in.start || in.depth < 0)
    return false;
  if (phase == FramePhase::Calling && (!isCall(in.op) || !frames[i + 1].direct))
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
  const char *kinds = PyBytes_AS_STRING(code->co_localspluskinds);
  int count = code->co_nlocalsplus - code->co_nfreevars;
  auto select = [&](int offset, std::vector<int> &slots) {
    const std::vector<bool> &live = facts.liveAt(offset);
    for (int slot = 0; slot < count; ++slot) {
      if (!isCarried(live[slot], locals[slot]))
        continue;
      if ((kinds[slot] & kCellLocal) && !PyCell_Check(locals[slot]))
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

void Session::beginAt(PyjitFrame *frame, PyCodeObject *code, int offset,
                      PyObject *function,
                      const std::vector<PyObject **> &places,
                      const std::vector<PyObject *> &names,
                      const std::set<int> &unseenPlaces) {
  thread = PyThreadState_Get();
  resumed = true;
  frames.push_back({});
  ShadowFrame shadow;
  shadow.frame = frame;
  shadow.code = code;
  shadow.offset = offset;
  frames.push_back(shadow);
  writer.add(PyjitStateOp{.values = tensors->stateAtStart()});
  Node *node = pin(function);
  ssa(node);
  this->function(node);
  for (size_t i = 0; i < places.size(); ++i) {
    if (!unseenPlaces.count(int(i)) &&
        Py_IS_TYPE(*places[i], &PyRangeIter_Type) &&
        scalars.isLifted(AccessPath::argument(int(i)).then(
            AccessPath::Step::Field, "left"))) {
      scalars.followRange(*places[i], Py_ssize_t(i), names[i]);
      continue;
    }
    if (!unseenPlaces.count(int(i))) {
      readIndex(nullptr, Select::Arg, Py_ssize_t(i), *places[i], names[i]);
      if (PyObject *taken = scalars.takeArgument(*places[i]);
          taken != *places[i]) {
        PyObject *old = *places[i];
        *places[i] = Py_NewRef(taken);
        Py_DECREF(old);
      }
      // A variable that nested functions share.
      if (Node *cell = PyCell_Check(*places[i]) ? find(*places[i]) : nullptr)
        cellHomes.insert({*places[i], CellHome{cell, 0, names[i]}});
      continue;
    }
    // Told apart by its address, which numbers and strings share freely.
    if (isValue(*places[i])) {
      PyObject *copy = pyjitUniqueCopy(*places[i]);
      if (!copy) {
        PyErr_Clear();
        readIndex(nullptr, Select::Arg, Py_ssize_t(i), *places[i], names[i]);
        continue;
      }
      PyObject *old = *places[i];
      *places[i] = copy;
      Py_DECREF(old);
    }
    passUnseen(i, *places[i], names[i]);
  }
}

/// Argument `i`, on which the record does not depend.
void Session::passUnseen(size_t i, PyObject *object, PyObject *name) {
  keep(object);
  std::string label = name ? utf8(name) : "";
  PyjitValue value = add(PyjitGetOp{.holder = external,
                                    .selector = PyjitSelectorArg,
                                    .key = writer.integer(int64_t(i)),
                                    .label = view(label),
                                    .resultType = irType(object)});
  if (Node *node = find(object); node && node->external)
    return addSame(value, ssa(node));
  auto [first, isNew] = unseen.insert({object, value});
  if (!isNew)
    addSame(value, first->second);
}

bool Session::onlyMoves(int op) {
  NumberUse use = infoOf(op).numbers;
  return use == NumberUse::Moves || use == NumberUse::MovesReturned;
}

PyObject *Session::looksAtUnseen(const Instruction &in, PyObject **stack) {
  if (onlyMoves(in.op))
    return nullptr;
  int pops = 3, pushes;
  if (!CodeInfo::stackUse(in, pops, pushes))
    pops = 3;
  for (int i = 1; i <= pops && i <= in.depth; ++i)
    if (PyObject *object = stack[in.depth - i]; object && unseen.count(object))
      return object;
  return nullptr;
}
