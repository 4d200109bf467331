//===- FrameTracker.h - The frames above the captured call ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Who runs is found by comparing frame pointers, so that returns, unwinding,
// generators and calls made by C code need no events of their own.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_INTERPRETER_FRAMETRACKER_H
#define PYJIT_CAPTURE_INTERPRETER_FRAMETRACKER_H

#include "CPython.h"
#include "TraceWriter.h"
#include "breaks/Reason.h"
#include "interpreter/Code.h"
#include "interpreter/Frames.h"

#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace pyjit::capture {

class Recording;

class FrameTracker {
public:
  explicit FrameTracker(Recording &recording) : s(recording) {}

  /// Finds the frame that an event is about, or puts it on top of its caller.
  /// False: it does not belong to the captured call.
  bool align(PyjitFrame *frame, PyCodeObject *code, int offset, bool starts);
  bool isFollowed(PyjitFrame *frame) const;
  ShadowFrame *top() { return frames.empty() ? nullptr : &frames.back(); }
  CodeInfo &info(PyCodeObject *code);
  /// What a parameter of the frame is, borrowed; one that a nested function
  /// uses is in its cell already.
  static PyObject *parameterOf(const ShadowFrame &frame, int index);
  /// " at file:line" of the innermost frame.
  std::string where();
  /// Likewise, all of the frames.
  std::vector<SourceLine> stack();
  PyjitLocation location();

  std::vector<ShadowFrame> frames; ///< outermost first

private:
  void frameStart(ShadowFrame &shadow, ShadowFrame *caller);

  Recording &s;
  std::unordered_map<PyCodeObject *, std::unique_ptr<CodeInfo>> codes;
  std::set<PyjitFrame *> generators;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_INTERPRETER_FRAMETRACKER_H
