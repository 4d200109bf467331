//===- TransformRegion.h - Transforms of torch.func -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `vmap(f)(x)` pushes an interpreter of functorch's, calls `f` with wrappers of
// `x`, and pops it: Python code that is recorded as any other is. Below the
// wrappers the dispatcher calls operators on plain tensors, with no interpreter
// left: these are the operators of the trace (TensorOps.cpp). An interpreter is
// state that no continuation could begin in: what ends the recording meanwhile
// is a graph break around the outermost transform's whole call.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_INTERPRETER_TRANSFORMREGION_H
#define PYJIT_CAPTURE_INTERPRETER_TRANSFORMREGION_H

#include "CPython.h"

#include <cstddef>
#include <set>

namespace pyjit::capture {

class Recording;

class TransformRegion {
public:
  explicit TransformRegion(Recording &recording) : s(recording) {}

  /// The running instruction pushes an interpreter. False: what does is not
  /// known to pop it before it returns.
  bool enter();
  /// The running instruction pops the innermost interpreter.
  void leave();
  /// Whether an interpreter is there.
  bool isActive() const { return outermost; }
  /// Whether one was there: wrappers outlive it.
  bool wasEntered() const { return entered; }
  /// The index, among the recording's frames, of the one that calls the
  /// outermost transform; 0: there is none.
  size_t caller() const;

  /// A rule of a transform, written in Python, runs within an operator: its
  /// operators are recorded, and its code is Torch's own. True: nothing more is
  /// to be done about the event.
  bool passesOver(PyjitFrame *frame);
  /// Where sizes are followed: those of the value keep theirs.
  void fixLayout(int value);
  int operatorDepth = 0; ///< operators on wrappers that are running
  /// Autograd's engine goes through a transform's graph.
  bool runsEngine = false;

private:
  Recording &s;
  PyjitFrame *outermost = nullptr; ///< the transform's own
  bool entered = false;
  std::set<int> fixed; ///< values
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_INTERPRETER_TRANSFORMREGION_H
