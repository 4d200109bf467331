//===- Monitor.cpp - Events, and what happens around an instruction -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One INSTRUCTION callback serves all; which frame it is about, FrameTracker
// finds. What an instruction produced is looked at on the next event of its
// frame, and only if that event is the instruction's fall-through.
//
//===----------------------------------------------------------------------===//

#include "Recording.h"
#include "breaks/Continuation.h"
#include "interpreter/OpcodeTable.h"
#include "numbers/HostScalars.h"
#include "tensors/Tensors.h"

#include <opcode.h>

#include <algorithm>
#include <string>

using namespace pyjit::capture;

void Recording::onStart(PyCodeObject *code, int offset) {
  PyjitFrame *frame = pyjitCurrentFrame();
  if (!frame || pyjitFrameCode(frame) != code)
    return end(ReasonKind::CalledFromNative, "an unexpected frame");
  if (checkpoint.passesOver(frame, /*starts=*/true) || tensors->suspended() ||
      transforms.passesOver(frame))
    return;
  if (!tracker.align(frame, code, offset, /*starts=*/true))
    end(ReasonKind::CalledFromNative,
        "a frame that was not called by the captured code");
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// The frame's instruction before this one is over: what it made is on the
/// stack, unless it raised. False if the recording does not go on.
bool Recording::finishInstruction(const Instruction &next, int offset,
                                  PyObject **stack) {
  ShadowFrame &shadow = *tracker.top();
  shadow.pending = false;
  bool completed = offset == shadow.pendingNext;
  PyObject **result = next.depth > 0 ? &stack[next.depth - 1] : nullptr;
  if (PYJIT_NULL_ABOVE && result && !*result)
    result = next.depth > 1 ? result - 1 : nullptr;
  if (calls.scripting == shadow.frame)
    calls.finishScript(completed && result ? *result : nullptr);
  shadow.context.instantiating = nullptr;
  shadow.context.truthOfYields = shadow.context.hashing = false;
  shadow.context.asksObject = false;
  shadow.context.sumsYields = shadow.context.looksAtYields = false;
  shadow.context.movesYields = false;
  if (shadow.context.tensorOf && !completed)
    scalars.specialize(shadow.context.tensorOf);
  if (shadow.context.runsEngine)
    tensors->endBackward(completed && result ? *result : nullptr);
  if (completed && result) {
    if (shadow.context.tensorOf)
      tensors->bindNumber(*result, shadow.context.tensorOf);
    objects.setResult(shadow.resultKind, *result);
    for (int i = 1; i < shadow.context.results && i < next.depth; ++i)
      objects.setResult(shadow.resultKind, *(result - i));
    if (shadow.context.dataOf)
      tensors->bindData(*result, shadow.context.dataOf);
    breaks.noteAllocation(*result);
    int freshAt = shadow.context.freshAt;
    if (freshAt && next.depth >= freshAt)
      objects.setResult(ResultKind::Fresh, stack[next.depth - freshAt]);
  }
  if (dead) { // because of the instruction that is over
    shadow.offset = shadow.pendingOffset;
    return false;
  }
  scalars.after(shadow.frame, result, completed);
  return !dead;
}

/// Whether the instruction before this one, in this frame or in one that the
/// exception has left, raised because of tensors: of what they hold, which no
/// guard sees, or of sizes that guards leave open.
bool Recording::raisedByTensors(const Instruction &next) const {
  return next.op == PUSH_EXC_INFO && (now.operatorBegan || now.sizesDecide);
}

/// Whether a tensor is among the operands, as far as they are on the stack.
static bool takesTensor(const Instruction &instruction, PyObject **stack) {
  int count = 0, pushes;
  if (instruction.op == BINARY_SUBSCR || instruction.op == STORE_SUBSCR)
    count = 2;
  else if (takesArguments(instruction.op))
    CodeInfo::stackUse(instruction, count, pushes);
  for (int i = 1; i <= std::min(count, instruction.depth); ++i)
    if (PyObject *object = stack[instruction.depth - i];
        object && ObjectTable::isTensor(object))
      return true;
  return false;
}

/// Forgets what handlers have said of the instruction before.
void Recording::beginInstruction(PyjitFrame *frame, int offset) {
  // Only the very next instruction branches on it, or one that asks for the
  // truth in between.
  if (decisions.truthAhead.proxy >= 0 &&
      (decisions.truthAhead.frame != frame ||
       (decisions.truthAhead.offset != offset &&
        !asksTruth(tracker.info(tracker.top()->code).at(offset)))))
    decisions.truthAhead = {};
  tracker.top()->condition = nullptr;
  tracker.top()->running = offset;
  ++writer.amount.instructions;
  if (calls.scripting == frame)
    calls.scripting = nullptr;
  now = {};
  tracker.top()->context.callee = nullptr;
  effects.beginInstruction();
  breaks.inHandler = true;
}

/// Whether an instruction reads the variables of a frame.
static bool readsVariables(PyCodeObject *code, const Instruction &in,
                           PyObject *object) {
  return PyFrame_Check(object) && in.op == LOAD_ATTR &&
         !PyUnicode_CompareWithASCIIString(
             PyTuple_GET_ITEM(code->co_names, in.arg >> 1), "f_locals");
}

/// Ends the recording in front of an instruction that an earlier run found to
/// be a good place for it, or that looks at what may not be looked at.
void Recording::checkGraphBreaks(PyCodeObject *code, int offset,
                                 const Instruction &instruction,
                                 PyObject **stack) {
  if (breaks.graphBreakPoints && !breaks.graphBreakPoints->empty()) {
    Origin origin = originOf(code, nullptr);
    auto point =
        breaks.graphBreakPoints->find({origin.code, offset - origin.shift});
    if (point != breaks.graphBreakPoints->end() &&
        !goesThrough(point->second)) {
      // What the jump asks lies on top of the stack: True or False, of data.
      decisions.truthLeft = decisions.truthAhead.proxy;
      end(point->second.kind, point->second.text);
      if (!point->second.stack.empty()) // else this is the first to know it
        reason = point->second;
    }
  }
  if (!dead && instruction.op == JUMP_BACKWARD && decisions.atLoop &&
      decisions.atLoop(code, offset)) {
    Reason why = longLoop();
    end(why.kind, why.text);
  }
  if (objects.unseen.empty() || dead)
    return;
  PyObject *object = breaks.looksAtUnseen(instruction, stack);
  if (!object)
    return;
  if (readsVariables(code, instruction, object))
    return breaks.asksForVariables();
  end(ReasonKind::ChangingValue,
      "a value that may be another in each call (" + typeName(object) + ")");
}

/// The function that a continuation began in the middle of returns.
void Recording::leaveResumed(PyjitFrame *frame, PyCodeObject *code,
                             const Instruction &instruction, PyObject **stack) {
  PyObject *result = instruction.op == RETURN_VALUE
                         ? stack[instruction.depth - 1]
                         : PyTuple_GET_ITEM(code->co_consts, instruction.arg);
  handleOpcode(*this, frame, code, instruction);
  breaks.mayLeaveGradMode = true;
  escape.leave(result);
  breaks.finished = !dead;
  breaks.endedBefore = false;
}

/// A conditional jump: `atBranch` may want to record on through it.
void Recording::branch(PyCodeObject *code, int offset, PyObject *condition) {
  int truth = decisions.truthAhead.proxy;
  decisions.truthAhead = {};
  if (condition && ObjectTable::isTensor(condition) &&
      tensors->host().answers(condition)) {
    attributes.special(condition, "__bool__");
    now.deciding = true;
    return;
  }
  if (condition && ObjectTable::isTensor(condition) &&
      isTransformed(condition) && !tensors->isConstant(condition))
    return end(ReasonKind::BranchOnData, kBranchOnData);
  now.deciding =
      decisions.atBranch && decisions.atBranch(code, offset, condition, truth);
  if (truth >= 0 && !now.deciding && !dead) {
    decisions.truthLeft = truth;
    end(ReasonKind::BranchOnData, kBranchOnData);
  }
}

/// An instruction may ask for the truth of what it computes, or of its operand,
/// for the jump behind it, which then sees True or False. Of a tensor that
/// truth is data: the recorder computes the tensor itself and stands in front
/// of the jump, as if that asked.
void Recording::askAhead(PyjitFrame *frame, PyCodeObject *code,
                         const Instruction &in, int jump) {
  PyObject **operands = pyjitFrameStack(frame) + in.depth;
  PyObject *condition = operands[-1];
  if (in.op == COMPARE_OP) {
    PyObject *a = operands[-2], *b = operands[-1];
    if (!ObjectTable::isTensor(a) && !ObjectTable::isTensor(b))
      return;
    handleOpcode(*this, frame, code, in);
    if (dead)
      return;
    condition = PyObject_RichCompare(a, b, comparisonOf(in.arg));
    if (!condition) // and so will the interpreter find
      return PyErr_Clear();
    objects.keep(condition);
    Py_DECREF(condition);
  }
  if (!ObjectTable::isTensor(condition))
    return;
  ShadowFrame &shadow = *tracker.top();
  shadow.offset = jump;
  shadow.condition = condition;
}

/// What to do with the result when the instruction has run.
void Recording::expectResult(ResultKind resultKind,
                             const Instruction &instruction, int offset) {
  ShadowFrame &shadow = *tracker.top();
  shadow.context = now;
  shadow.pendingOffset = offset;
  shadow.pending = true;
  shadow.pendingNext = instruction.next;
  shadow.resultKind = resultKind;
  shadow.op = instruction.op;
  if (resultKind == ResultKind::Constant)
    tensors->suspend(true);
}

/// What the instruction does, or the jump in front of which it already stands.
ResultKind Recording::carryOut(PyjitFrame *frame, PyCodeObject *code,
                               const Instruction &instruction, int offset) {
  if (dead)
    return ResultKind::Known;
  PyObject *condition = tracker.top()->condition;
  int at = condition ? tracker.top()->offset : offset;
  const Instruction &in = condition ? tracker.info(code).at(at) : instruction;
  PyObject **stack = pyjitFrameStack(frame);
  if (condition)
    checkGraphBreaks(code, at, in, stack);
  if (!dead && isJumpIf(in.op))
    branch(code, at, condition ? condition : stack[in.depth - 1]);
  ResultKind resultKind = dead || now.deciding
                              ? ResultKind::Known
                              : handleOpcode(*this, frame, code, in, condition);
  // The interpreter computes it once more.
  now.deciding |= condition && instruction.op == COMPARE_OP;
  return resultKind;
}

void Recording::onInstruction(PyCodeObject *code, int offset) {
  PyjitFrame *frame = pyjitCurrentFrame();
  if (!frame || pyjitFrameCode(frame) != code)
    return end(ReasonKind::CalledFromNative, "an unexpected frame");
  if (checkpoint.passesOver(frame, /*starts=*/false) || dead ||
      transforms.passesOver(frame))
    return;
  // Python code that a native function calls which is modelled as a whole.
  if (tensors->suspended() && !tracker.isFollowed(frame))
    return;
  CodeInfo &codeInfo = tracker.info(code);
  if (!codeInfo.valid)
    return end(ReasonKind::Internal, "bytecode that cannot be read");
  const Instruction &instruction = codeInfo.at(offset);
  if (!tracker.align(frame, code, offset, /*starts=*/false))
    return end(ReasonKind::CalledFromNative,
               "a frame that was not called by the captured code");
  if (dead)
    return;
  if (instruction.depth < 0 || !instruction.start)
    return end(ReasonKind::Internal, "bytecode of unknown stack height");
  PyObject **stack = pyjitFrameStack(frame);
  if (tensors->suspended()) {
    // The native function that built a tensor has returned or raised.
    if (!(tracker.top()->pending &&
          tracker.top()->resultKind == ResultKind::Constant))
      return; // Python code called by it
    tensors->suspend(false);
  }
  if (raisedByTensors(instruction) && tracker.top()->pending) {
    tracker.top()->offset = tracker.top()->pendingOffset;
    return end(ReasonKind::Exception,
               "an exception that an operator on tensors raises");
  }
  if (tracker.top()->pending && !finishInstruction(instruction, offset, stack))
    return;
  if (instruction.op == EXTENDED_ARG)
    return;

  beginInstruction(frame, offset);
  now.sizesDecide = sizes.followed && takesTensor(instruction, stack);
  checkGraphBreaks(code, offset, instruction, stack);
  if (!dead)
    scalars.before(frame, code, instruction);
  if (!dead && breaks.resumed && tracker.frames.size() == 2 &&
      (instruction.op == RETURN_VALUE || instruction.op == RETURN_CONST))
    return leaveResumed(frame, code, instruction, stack);
  if (!dead && asksTruth(instruction))
    if (int jump = codeInfo.jumpBehind(offset); jump >= 0)
      askAhead(frame, code, instruction, jump);
  ResultKind resultKind = carryOut(frame, code, instruction, offset);
  breaks.inHandler = false;
  if (!dead)
    expectResult(resultKind, instruction, offset);
}
