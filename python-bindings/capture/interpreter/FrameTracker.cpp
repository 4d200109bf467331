//===- FrameTracker.cpp - The frames above the captured call --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Recording.h"
#include "breaks/Run.h"
#include "interpreter/LocalKinds.h"
#include "tensors/Tensors.h"

#include <algorithm>

using namespace pyjit::capture;

CodeInfo &FrameTracker::info(PyCodeObject *code) {
  auto &slot = codes[code];
  if (!slot) {
    s.objects.keep(reinterpret_cast<PyObject *>(code));
    slot = std::make_unique<CodeInfo>(code);
  }
  return *slot;
}

PyjitLocation FrameTracker::location() {
  // Locations of outer frames change only while they run themselves.
  PyjitLocation caller = nullptr;
  for (ShadowFrame &frame : frames) {
    if (!frame.code)
      continue;
    if (!frame.loc || frame.locOffset != frame.offset) {
      frame.loc = s.writer.location(frame.code, frame.offset, caller);
      frame.locOffset = frame.offset;
    }
    caller = frame.loc;
  }
  return caller;
}

std::string FrameTracker::where() {
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

std::vector<SourceLine> FrameTracker::stack() {
  std::vector<SourceLine> stack;
  for (const ShadowFrame &frame : frames)
    if (frame.code)
      stack.push_back(sourceLineOf(frame.code, frame.offset));
  return stack;
}

PyObject *FrameTracker::parameterOf(const ShadowFrame &frame, int index) {
  PyObject *object = pyjitFrameLocals(frame.frame)[index];
  bool inCell =
      object && PyCell_Check(object) && isCellLocal(frame.code, index);
  return inCell ? PyCell_GET(object) : object;
}

void FrameTracker::frameStart(ShadowFrame &shadow, ShadowFrame *caller) {
  PyObject *function = pyjitFrameFunction(shadow.frame);
  if (!function || !PyFunction_Check(function))
    return s.end(ReasonKind::CalledFromNative,
                 "code that runs outside a function");
  Node *node = s.objects.require(function);
  if (!node)
    return;
  s.reads.function(node);
  PyCodeObject *code = shadow.code;
  if (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR))
    return s.end(ReasonKind::Coroutine, "a coroutine");
  if (pyjitFrameIsGenerator(shadow.frame))
    generators.insert(shadow.frame);
  int count = code->co_argcount + code->co_kwonlyargcount;
  auto local = [&](int i) { return parameterOf(shadow, i); };
  if (count > 0 && caller && caller->context.instantiating) {
    PyObject *self = local(0);
    if (self && Py_TYPE(self) == caller->context.instantiating &&
        !s.objects.known(self))
      s.objects.allocated(self);
  }
  if (!shadow.direct && code->co_argcount == 2)
    if (PyObject *left = local(0), *right = local(1); left && right)
      s.operators.askedBy(function, left, right);
  // C code made a tuple for it, of what is known.
  if (!shadow.direct && (s.calls.callbackOf(shadow.frame) & Calls::Tuples))
    for (int i = 0; i < count; ++i)
      if (PyObject *object = local(i); object && PyTuple_CheckExact(object))
        s.objects.setResult(ResultKind::FreshTuples, object);
  // `x[a:b]` makes the slice that `__getitem__` is given.
  for (int i = 0; i < count; ++i)
    if (PyObject *object = local(i); object && PySlice_Check(object))
      if (!s.objects.known(object))
        s.objects.allocated(object);
  if (code->co_flags & CO_VARARGS)
    if (PyObject *args = local(count++))
      if (!s.objects.known(args))
        s.objects.allocated(args);
  if (code->co_flags & CO_VARKEYWORDS)
    if (PyObject *kwargs = local(count))
      if (!s.objects.known(kwargs))
        s.objects.allocated(kwargs);
}

bool FrameTracker::align(PyjitFrame *frame, PyCodeObject *code, int offset,
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
  PyjitFrame *below = s.checkpoint.callerOf(frame);
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
    s.end(ReasonKind::EarlierObject,
          "a generator from before the call goes on");
  return true;
}

bool FrameTracker::isFollowed(PyjitFrame *frame) const {
  return std::any_of(frames.begin(), frames.end(),
                     [&](const ShadowFrame &f) { return f.frame == frame; });
}
