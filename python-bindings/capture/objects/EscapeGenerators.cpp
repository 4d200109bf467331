//===- EscapeGenerators.cpp - Generators that a graph break hands on ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A generator that waits at a `yield` is what its frame holds, and where it
// stands: `with contextlib...` around a graph break, `for x in walk():`. The
// specialization makes another one of code that begins with a prologue, as
// continuations do (pyjit/_continuation.py), and brings it to the same `yield`.
//
//===----------------------------------------------------------------------===//

#include "CPython.h"
#include "Recording.h"
#include "breaks/CaptureTypes.h"
#include "breaks/Continuation.h"
#include "builtins/Natives.h"
#include "objects/EscapeWalk.h"

#include <opcode.h>

using namespace pyjit::capture;

/// The `yield` at which a frame waits; -1: none.
static int yieldOf(const CodeInfo &facts, int last) {
  // CPython 3.13 stands behind it.
  if (last >= 2 && facts.at(last).op == RESUME)
    last -= 2;
  const Instruction &in = facts.at(last);
  return in.start && in.op == YIELD_VALUE && in.depth > 0 ? last : -1;
}

/// A function that, given what the frame holds, makes a generator which waits
/// there; null with an error.
static PyObject *makeFactory(PyObject *function, PyCodeObject *code, int offset,
                             const std::vector<bool> &stack,
                             const std::vector<int> &slots) {
  static PyObject *suspended = findObject("pyjit._continuation:suspended");
  PyObject *key = makeKey(function, code, offset, stack, slots);
  PyObject *factory =
      suspended && key ? PyObject_CallOneArg(suspended, key) : nullptr;
  Py_XDECREF(key);
  return factory;
}

const char *EscapeWalk::describeGenerator(PyObject *object, Creation &made) {
  static constexpr const char *kRefused = " made by the call";
  int last;
  PyjitFrame *frame = pyjitSuspendedFrame(object, &last);
  // What the call returns is the program's own.
  if (!frame || s.reason.empty())
    return kRefused;
  PyCodeObject *code = pyjitFrameCode(frame);
  PyObject *function = pyjitFrameFunction(frame);
  Node *node = s.objects.find(function);
  CodeInfo &facts = s.tracker.info(code);
  int offset = facts.valid ? yieldOf(facts, last) : -1;
  if (!node || !node->external || !node->pinned || offset < 0 ||
      originOf(code, function).code != code)
    return kRefused;

  std::vector<PyObject *> values;
  std::vector<bool> stack;
  PyObject **operands = pyjitFrameStack(frame);
  for (int i = 0; i < facts.at(offset).depth - 1; ++i) {
    // An exception that is being handled is the thread's state, too.
    if (operands[i] && PyExceptionInstance_Check(operands[i]))
      return kRefused;
    stack.push_back(operands[i] != nullptr);
    if (operands[i])
      values.push_back(operands[i]);
  }
  stack.push_back(true); // what is yielded once more, to nobody
  values.push_back(Py_None);
  std::vector<int> slots;
  PyObject **locals = pyjitFrameLocals(frame);
  const std::vector<bool> &live = facts.liveAt(offset);
  for (int slot = 0; slot < code->co_nlocalsplus - code->co_nfreevars; ++slot)
    if (GraphBreaks::isCarried(live[slot], locals[slot])) {
      slots.push_back(slot);
      values.push_back(locals[slot]);
    }

  PyObject *factory = makeFactory(function, code, offset, stack, slots);
  if (!factory) {
    PyErr_Clear();
    return kRefused;
  }
  s.objects.pin(factory);
  values.insert(values.begin(), factory);
  Py_DECREF(factory); // the table keeps it
  describeList(made, "generator", values);
  return nullptr;
}
