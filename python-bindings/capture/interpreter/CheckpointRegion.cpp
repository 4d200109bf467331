//===- CheckpointRegion.cpp - Functions under checkpoint() ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "interpreter/CheckpointRegion.h"

#include "Recording.h"
#include "builtins/Natives.h"
#include "tensors/Backward.h"
#include "tensors/Tensors.h"

#include <ATen/SequenceNumber.h>

#include <algorithm>
#include <utility>

using namespace pyjit::capture;

static PyObject *checkpointFunction() {
  static PyObject *function = findObject("torch.utils.checkpoint:checkpoint");
  return function;
}

bool CheckpointRegion::isCheckpoint(PyObject *function) {
  return function == checkpointFunction();
}

/// The call without checkpoint's own arguments. False: they ask for more than
/// the function's result.
static bool plainCall(const Call &call, bool again, Call &plain) {
  if (call.positional() == 0)
    return false;
  plain.callable = call.args[0];
  plain.args.assign(call.args.begin() + 1,
                    call.args.begin() + call.positional());
  bool told = false;
  std::vector<PyObject *> names;
  for (size_t i = call.positional(); i < call.args.size(); ++i) {
    PyObject *name = PyTuple_GET_ITEM(call.kwnames, i - call.positional());
    auto is = [&](const char *text) {
      return PyUnicode_CompareWithASCIIString(name, text) == 0;
    };
    if (is("use_reentrant")) {
      told = call.args[i] == Py_False || (call.args[i] == Py_True && !again);
      if (!told)
        return false;
    } else if (is("preserve_rng_state")) {
      if (call.args[i] != Py_True)
        return false;
    } else if (is("context_fn") || is("determinism_check") || is("debug") ||
               is("early_stop")) {
      return false;
    } else {
      names.push_back(name);
      plain.args.push_back(call.args[i]);
    }
  }
  if (!names.empty()) {
    plain.kwnames = PyTuple_New(Py_ssize_t(names.size()));
    for (size_t i = 0; i < names.size(); ++i)
      PyTuple_SET_ITEM(plain.kwnames, i, Py_NewRef(names[i]));
  }
  return told;
}

ResultKind CheckpointRegion::call(const Call &call) {
  bool gradMode = s.tensors->gradMode();
  Call plain;
  bool plainly = plainCall(call, gradMode, plain);
  if (plain.kwnames) {
    s.objects.keep(plain.kwnames);
    Py_DECREF(plain.kwnames);
  }
  if (isPart && gradMode) {
    s.endWhole(ReasonKind::Checkpoint,
               "a call of checkpoint, in a part of a call that runs in eager");
    return ResultKind::Known;
  }
  // Where hooks on saved tensors are forbidden, eager raises.
  if (outer || !plainly || savesThroughHooks() || s.transforms.isActive() ||
      (gradMode && !guardHooks(s))) {
    s.end(ReasonKind::Checkpoint, "a call of checkpoint");
    return ResultKind::Known;
  }
  ResultKind kind = s.calls.call(plain);
  // A break within it is one around the whole call: it is not entered by the
  // call's own instruction.
  callee = std::exchange(s.now.callee, nullptr);
  if (s.dead)
    return kind;
  if (!callee || kind != ResultKind::Known) {
    s.end(ReasonKind::Checkpoint, "a call of checkpoint");
    return kind;
  }
  if (gradMode) {
    run = {};
    if (!run.objects.take(s, plain)) {
      s.end(ReasonKind::Checkpoint,
            "a function under checkpoint that may use an iterator, or another "
            "object whose state nobody sees");
      return kind;
    }
  }
  outer = s.tracker.top()->frame;
  inner = nullptr;
  again = gradMode;
  s.tensors->suspend(true);
  return kind;
}

/// Code of checkpoint's own module, such as its hooks on saved tensors, and
/// what that calls.
bool CheckpointRegion::isAround(PyjitFrame *frame) const {
  static PyObject *file = [] {
    PyObject *module = PyImport_ImportModule("torch.utils.checkpoint");
    PyObject *name =
        module ? PyObject_GetAttrString(module, "__file__") : nullptr;
    PyErr_Clear();
    return name;
  }();
  return file &&
         PyUnicode_Compare(pyjitFrameCode(frame)->co_filename, file) == 0;
}

bool CheckpointRegion::begin(PyjitFrame *frame, PyObject *function) {
  if (function != callee)
    return false;
  inner = frame;
  callee = nullptr;
  s.tensors->suspend(false);
  s.tensors->setCheckpointed(again);
  effects = effectsSoFar();
  run.firstNode = at::sequence_number::peek();
  run.contextChanges = s.effects.context.size();
  return true;
}

std::vector<size_t> CheckpointRegion::effectsSoFar() const {
  const EffectLog &log = s.effects;
  return {log.changes.size(), log.gradientChanges, log.writes.size()};
}

bool CheckpointRegion::leavesAllAsItWas() const {
  // What is set and taken back is nobody's to see.
  return effects == effectsSoFar() && run.objects.areUnchanged() &&
         s.effects.context.isBalancedSince(run.contextChanges);
}

/// The function has returned, or raised.
void CheckpointRegion::finish() {
  inner = nullptr;
  s.tensors->setCheckpointed(false);
  s.tensors->suspend(true);
  if (!again)
    return;
  if (!leavesAllAsItWas())
    s.end(ReasonKind::Checkpoint,
          "a function under checkpoint writes what was there before, and the "
          "backward pass calls it again");
  run.endNode = at::sequence_number::peek();
  run.changes = s.effects.changes.size();
  run.contextChanges = s.effects.context.size();
  runs.push_back(std::exchange(run, {}));
}

void CheckpointRegion::noteWrite(const void *storage) {
  for (Run &earlier : runs)
    earlier.isWritten |= earlier.read.count(storage) != 0;
}

const char *CheckpointRegion::whyChanged(const Run &earlier) const {
  if (earlier.isWritten)
    return "a tensor was written since";
  const std::vector<const Node *> &changes = s.effects.changes;
  bool isSeen = std::any_of(
      changes.begin() + std::ptrdiff_t(earlier.changes), changes.end(),
      [&](const Node *node) { return !node || earlier.met.count(node); });
  if (isSeen || !earlier.objects.areUnchanged())
    return "an object was written since";
  if (earlier.readsContext &&
      earlier.contextChanges != s.effects.context.size())
    return "a context variable was set since";
  return nullptr;
}

const char *CheckpointRegion::whyNotAgain(uint64_t node) const {
  for (const Run &earlier : runs)
    if (node >= earlier.firstNode && node < earlier.endNode)
      if (const char *why = whyChanged(earlier))
        return why;
  return nullptr;
}

const char *CheckpointRegion::whyNotLater() const {
  for (const Run &earlier : runs)
    if (earlier.firstNode != earlier.endNode)
      if (const char *why = whyChanged(earlier))
        return why;
  return nullptr;
}

void CheckpointRegion::leave() {
  outer = inner = nullptr;
  callee = nullptr;
  s.tensors->suspend(false);
}

PyjitFrame *CheckpointRegion::callerOf(PyjitFrame *frame) const {
  return inner == frame ? outer : pyjitPreviousFrame(frame);
}

/// Within a run of autograd's engine: what it computes again is not recorded.
bool CheckpointRegion::runsAgain(PyjitFrame *frame) const {
  for (PyjitFrame *f = frame; f && f != s.tracker.top()->frame;
       f = pyjitPreviousFrame(f))
    if (isAround(f))
      return true;
  return false;
}

bool CheckpointRegion::passesOver(PyjitFrame *frame, bool starts) {
  if (!outer)
    return runsEngine(s) && runsAgain(frame);
  if (!inner && callee && starts && begin(frame, pyjitFrameFunction(frame)))
    return false;
  bool around = false;
  for (PyjitFrame *f = frame; f; f = pyjitPreviousFrame(f)) {
    if (inner && f == inner)
      return around;
    if (f == outer) {
      if (inner)
        finish();
      if (f != frame)
        return true;
      leave();
      return false;
    }
    around |= isAround(f);
  }
  // An exception has left the caller, too.
  if (inner)
    finish();
  leave();
  return false;
}
