//===- Monitor.cpp - Events, frames and the life of a capture -------------===//
//
// One INSTRUCTION callback serves all. It keeps a shadow of the Python frames
// above the captured call: who runs is found by comparing frame pointers, so
// that returns, unwinding, generators and calls made by C code need no events
// of their own. What an instruction produced is looked at on the next event of
// its frame, and only if that event is the instruction's fall-through.
//
//===----------------------------------------------------------------------===//

#include "Session.h"
#include "breaks/Continuation.h"
#include "interpreter/OpcodeTable.h"
#include "tensors/Tensors.h"

#include <opcode.h>

#include <algorithm>
#include <string>

using namespace pyjit::capture;

//===----------------------------------------------------------------------===//
// Frames
//===----------------------------------------------------------------------===//

/// CO_FAST_CELL of CPython's internal headers.
static constexpr int kCellLocal = 0x40;

CodeInfo &Session::info(PyCodeObject *code) {
  auto &slot = codes[code];
  if (!slot) {
    keep(reinterpret_cast<PyObject *>(code));
    slot = std::make_unique<CodeInfo>(code);
  }
  return *slot;
}

PyjitLocation Session::location() {
  // Locations of outer frames change only while they run themselves.
  PyjitLocation caller = nullptr;
  for (ShadowFrame &frame : frames) {
    if (!frame.code)
      continue;
    if (!frame.loc || frame.locOffset != frame.offset) {
      frame.loc = writer.location(frame.code, frame.offset, caller);
      frame.locOffset = frame.offset;
    }
    caller = frame.loc;
  }
  return caller;
}

std::string Session::where() {
  for (auto it = frames.rbegin(); it != frames.rend(); ++it) {
    if (!it->code)
      continue;
    int line = PyCode_Addr2Line(it->code, it->offset);
    const char *file = PyUnicode_AsUTF8(it->code->co_filename);
    PyErr_Clear();
    return " at " + std::string(file ? file : "?") + ":" + std::to_string(line);
  }
  return "";
}

void Session::end(const std::string &what) {
  if (surveying) {
    std::string entry = what + where();
    if (surveyedSet.insert(entry).second)
      surveyed.push_back(entry);
    return;
  }
  if (dead)
    return;
  dead = true;
  endedBefore = inHandler;
  reason = what + where();
}

/// How often.
constexpr int kPasses = 3;

void Session::endOnce(const std::string &what) {
  const ShadowFrame &frame = frames.back();
  if (!cutPoints || !frame.code || dead)
    return end(what);
  Origin origin = originOf(frame.code, nullptr);
  auto times = passCounts->find({origin.code, frame.offset - origin.shift});
  if (times != passCounts->end() && times->second >= kPasses)
    return end(what);
  passes = true;
  end(what);
}

void Session::endWhole(const std::string &what) {
  noCut |= !dead;
  end(what);
}

void Session::frameStart(ShadowFrame &shadow, ShadowFrame *caller) {
  PyObject *function = pyjitFrameFunction(shadow.frame);
  if (!function || !PyFunction_Check(function))
    return end("code that runs outside a function");
  Node *node = require(function);
  if (!node)
    return;
  this->function(node);
  PyCodeObject *code = shadow.code;
  if (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR))
    return end("a coroutine");
  if (pyjitFrameIsGenerator(shadow.frame))
    generators.insert(shadow.frame);
  PyObject **locals = pyjitFrameLocals(shadow.frame);
  int count = code->co_argcount + code->co_kwonlyargcount;
  // A parameter that a nested function uses is in its cell already.
  const char *kinds = PyBytes_AS_STRING(code->co_localspluskinds);
  auto local = [&](int i) {
    PyObject *object = locals[i];
    if (object && PyCell_Check(object) && (kinds[i] & kCellLocal))
      return PyCell_GET(object);
    return object;
  };
  if (count > 0 && caller && caller->context.instantiating) {
    PyObject *self = local(0);
    if (self && Py_TYPE(self) == caller->context.instantiating && !known(self))
      born(self);
  }
  // C code made a tuple for it, of what is known.
  if (!shadow.direct && (callbackOf(shadow.frame) & Tuples))
    for (int i = 0; i < count; ++i)
      if (PyObject *object = local(i); object && PyTuple_CheckExact(object))
        settle(Post::FreshTuples, object);
  // `x[a:b]` makes the slice that `__getitem__` is given.
  for (int i = 0; i < count; ++i)
    if (PyObject *object = local(i); object && PySlice_Check(object))
      if (!known(object))
        born(object);
  if (code->co_flags & CO_VARARGS)
    if (PyObject *args = local(count++))
      if (!known(args))
        born(args);
  if (code->co_flags & CO_VARKEYWORDS)
    if (PyObject *kwargs = local(count))
      if (!known(kwargs))
        born(kwargs);
}

bool Session::align(PyjitFrame *frame, PyCodeObject *code, int offset,
                    bool starts) {
  if (!starts) {
    for (size_t i = frames.size(); i-- > 0;) {
      if (frames[i].frame != frame)
        continue;
      frames.resize(i + 1);
      frames[i].offset = offset;
      return true;
    }
  }
  // A new frame, or a generator that goes on: it runs on top of its caller.
  PyjitFrame *below = pyjitPreviousFrame(frame);
  size_t i = frames.size();
  while (i > 0 && frames[i - 1].frame != below)
    --i;
  if (i == 0)
    return false;
  frames.resize(i);
  ShadowFrame shadow;
  shadow.frame = frame;
  shadow.code = code;
  shadow.offset = offset;
  frames.push_back(shadow);
  ShadowFrame &caller = frames[frames.size() - 2];
  frames.back().direct = caller.context.callee &&
                         caller.context.callee == pyjitFrameFunction(frame);
  if (starts)
    frameStart(frames.back(), &caller);
  else if (!generators.count(frame))
    end("a generator from before the call goes on");
  return true;
}

void Session::onStart(PyCodeObject *code, int offset) {
  PyjitFrame *frame = pyjitCurrentFrame();
  if (!frame || pyjitFrameCode(frame) != code)
    return end("an unexpected frame");
  if (tensors->suspended())
    return;
  if (!align(frame, code, offset, /*starts=*/true))
    end("a frame that was not called by the captured code");
}

/// Objects that a cut cannot carry can be made after one: where they were made
/// is a good place for it.
void Session::noteBirth(PyObject *object) {
  if (!object || isValue(object) || births.count(object))
    return;
  Node *node = find(object);
  if (isTensor(object) && tensors->isData(object))
    node = born(object);
  else if (isTensor(object))
    return;
  if (!node || node->external || PyList_Check(object) ||
      PyTuple_Check(object) || PyDict_Check(object) || PyMethod_Check(object))
    return;
  std::vector<Birth> &birth = births[object];
  for (size_t i = 1; i < frames.size(); ++i)
    birth.push_back(
        {frames[i].frame, frames[i].code,
         i + 1 == frames.size() ? frames[i].pendingOffset : frames[i].offset});
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

bool Session::isFollowed(PyjitFrame *frame) const {
  return std::any_of(frames.begin(), frames.end(),
                     [&](const ShadowFrame &f) { return f.frame == frame; });
}

/// The frame's instruction before this one is over: what it made is on the
/// stack, unless it raised. False if the recording does not go on.
bool Session::finishInstruction(const Instruction &next, int offset,
                                PyObject **stack) {
  ShadowFrame &shadow = *top();
  shadow.pending = false;
  bool completed = offset == shadow.pendingNext;
  PyObject **result = next.depth > 0 ? &stack[next.depth - 1] : nullptr;
  if (PYJIT_NULL_ABOVE && result && !*result)
    result = next.depth > 1 ? result - 1 : nullptr;
  if (scripting == shadow.frame)
    finishScript(completed && result ? *result : nullptr);
  shadow.context.instantiating = nullptr;
  shadow.context.truthOfYields = shadow.context.hashing = false;
  if (completed && result) {
    settle(shadow.post, *result);
    if (shadow.context.dataOf)
      tensors->bindData(*result, shadow.context.dataOf);
    noteBirth(*result);
    int freshAt = shadow.context.freshAt;
    if (freshAt && next.depth >= freshAt)
      settle(Post::Fresh, stack[next.depth - freshAt]);
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
bool Session::raisedByTensors(const Instruction &next) const {
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
        object && Session::isTensor(object))
      return true;
  return false;
}

/// Forgets what handlers have said of the instruction before.
void Session::beginInstruction(PyjitFrame *frame, int offset) {
  // Only the very next instruction branches on it, or one that asks for the
  // truth in between.
  if (truthAhead.shadow >= 0 &&
      (truthAhead.frame != frame || (truthAhead.offset != offset &&
                                     !asksTruth(info(top()->code).at(offset)))))
    truthAhead = {};
  top()->condition = nullptr;
  top()->running = offset;
  if (scripting == frame)
    scripting = nullptr;
  now = {};
  top()->context.callee = nullptr;
  effects.beginInstruction();
  inHandler = true;
}

/// Ends the recording in front of an instruction that an earlier run found to
/// be a good place for it, or that looks at what may not be looked at.
void Session::checkCuts(PyCodeObject *code, int offset,
                        const Instruction &instruction, PyObject **stack) {
  if (cutPoints && !cutPoints->empty()) {
    Origin origin = originOf(code, nullptr);
    auto point = cutPoints->find({origin.code, offset - origin.shift});
    if (point != cutPoints->end()) {
      end(point->second);
      reason = point->second;
    }
  }
  if (!unseen.empty() && !dead)
    if (PyObject *object = looksAtUnseen(instruction, stack))
      end("a value that may be another in each call (" + typeName(object) +
          ")");
}

/// The function that a continuation began in the middle of returns.
void Session::leaveResumed(PyjitFrame *frame, PyCodeObject *code,
                           const Instruction &instruction, PyObject **stack) {
  PyObject *result = instruction.op == RETURN_VALUE
                         ? stack[instruction.depth - 1]
                         : PyTuple_GET_ITEM(code->co_consts, instruction.arg);
  handleOpcode(*this, frame, code, instruction);
  mayLeaveGradMode = true;
  leave(result);
  finished = !dead;
  endedBefore = false;
}

/// A conditional jump: `atBranch` may want to record on through it.
void Session::branch(PyCodeObject *code, int offset, PyObject *condition) {
  int truth = truthAhead.shadow;
  truthAhead = {};
  now.deciding = atBranch && atBranch(code, offset, condition, truth);
  if (truth >= 0 && !now.deciding && !dead) {
    truthLeft = truth;
    end("a branch on a tensor's data");
  }
}

/// An instruction may ask for the truth of what it computes, or of its operand,
/// for the jump behind it, which then sees True or False. Of a tensor that
/// truth is data: the recorder computes the tensor itself and stands in front
/// of the jump, as if that asked.
void Session::askAhead(PyjitFrame *frame, PyCodeObject *code,
                       const Instruction &in, int jump) {
  PyObject **operands = pyjitFrameStack(frame) + in.depth;
  PyObject *condition = operands[-1];
  if (in.op == COMPARE_OP) {
    PyObject *a = operands[-2], *b = operands[-1];
    if (!isTensor(a) && !isTensor(b))
      return;
    handleOpcode(*this, frame, code, in);
    if (dead)
      return;
    condition = PyObject_RichCompare(a, b, comparisonOf(in.arg));
    if (!condition) // and so will the interpreter find
      return PyErr_Clear();
    keep(condition);
    Py_DECREF(condition);
  }
  if (!isTensor(condition))
    return;
  ShadowFrame &shadow = *top();
  shadow.offset = jump;
  shadow.condition = condition;
}

/// What to do with the result when the instruction has run.
void Session::expectResult(Post post, const Instruction &instruction,
                           int offset) {
  ShadowFrame &shadow = *top();
  shadow.context = now;
  shadow.pendingOffset = offset;
  shadow.pending = true;
  shadow.pendingNext = instruction.next;
  shadow.post = post;
  shadow.op = instruction.op;
  if (post == Post::Constant)
    tensors->suspend(true);
}

/// What the instruction does, or the jump in front of which it already stands.
Post Session::carryOut(PyjitFrame *frame, PyCodeObject *code,
                       const Instruction &instruction, int offset) {
  if (dead)
    return Post::Known;
  PyObject *condition = top()->condition;
  int at = condition ? top()->offset : offset;
  const Instruction &in = condition ? info(code).at(at) : instruction;
  PyObject **stack = pyjitFrameStack(frame);
  if (condition)
    checkCuts(code, at, in, stack);
  if (!dead && isJumpIf(in.op))
    branch(code, at, condition ? condition : stack[in.depth - 1]);
  Post post = dead || now.deciding
                  ? Post::Known
                  : handleOpcode(*this, frame, code, in, condition);
  // The interpreter computes it once more.
  now.deciding |= condition && instruction.op == COMPARE_OP;
  return post;
}

void Session::onInstruction(PyCodeObject *code, int offset) {
  PyjitFrame *frame = pyjitCurrentFrame();
  if (!frame || pyjitFrameCode(frame) != code)
    return end("an unexpected frame");
  // Python code that a native function calls which is modelled as a whole.
  if (tensors->suspended() && !isFollowed(frame))
    return;
  CodeInfo &codeInfo = info(code);
  if (!codeInfo.valid)
    return end("bytecode that cannot be read");
  const Instruction &instruction = codeInfo.at(offset);
  if (!align(frame, code, offset, /*starts=*/false))
    return end("a frame that was not called by the captured code");
  if (dead)
    return;
  if (instruction.depth < 0 || !instruction.start)
    return end("bytecode of unknown stack height");
  PyObject **stack = pyjitFrameStack(frame);
  if (tensors->suspended()) {
    // The native function that built a tensor has returned or raised.
    if (!(top()->pending && top()->post == Post::Constant))
      return; // Python code called by it
    tensors->suspend(false);
  }
  if (raisedByTensors(instruction) && top()->pending) {
    top()->offset = top()->pendingOffset;
    return end("an exception that an operator on tensors raises");
  }
  if (top()->pending && !finishInstruction(instruction, offset, stack))
    return;
  if (instruction.op == EXTENDED_ARG)
    return;

  beginInstruction(frame, offset);
  now.sizesDecide = scalars.liftsSizes() && takesTensor(instruction, stack);
  checkCuts(code, offset, instruction, stack);
  if (!dead)
    scalars.before(frame, code, instruction);
  if (!dead && resumed && frames.size() == 2 &&
      (instruction.op == RETURN_VALUE || instruction.op == RETURN_CONST))
    return leaveResumed(frame, code, instruction, stack);
  if (!dead && asksTruth(instruction))
    if (int jump = codeInfo.jumpBehind(offset); jump >= 0)
      askAhead(frame, code, instruction, jump);
  Post post = carryOut(frame, code, instruction, offset);
  inHandler = false;
  if (!dead)
    expectResult(post, instruction, offset);
}

//===----------------------------------------------------------------------===//
// Begin and end of a call
//===----------------------------------------------------------------------===//

bool Session::begin(PyObject *callable, std::vector<PyObject *> &args,
                    size_t nargs, PyObject *kwnames,
                    const std::set<int> &unseenArguments) {
  thread = PyThreadState_Get();
  ShadowFrame base;
  base.frame = pyjitCurrentFrame();
  frames.push_back(base);
  writer.add(PyjitStateOp{.values = tensors->stateAtStart()});
  ssa(pin(callable));
  Call call;
  call.callable = callable;
  call.kwnames = kwnames;
  argumentCount = Py_ssize_t(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    PyObject *name = nullptr;
    if (i >= nargs)
      name = PyTuple_GET_ITEM(kwnames, i - nargs);
    if (unseenArguments.count(int(i))) {
      passUnseen(i, args[i], name);
      continue;
    }
    readIndex(nullptr, Select::Arg, Py_ssize_t(i), args[i], name);
    args[i] = scalars.takeArgument(args[i]);
  }
  call.args = args;
  now = {};
  frames[0].post = this->call(call);
  frames[0].context = now;
  if (frames[0].post == Post::Constant)
    end("a tensor made of Python data");
  return !dead;
}

void Session::finishCall(PyObject *result) {
  frames.resize(1);
  settle(frames[0].post, result);
  leave(result);
}
