//===- CheckpointRegion.h - Functions under checkpoint() --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `torch.utils.checkpoint.checkpoint(f, *args, use_reentrant=False)` computes
// `f(*args)`, and once more in the backward pass, so that nothing in between
// has to be saved. What a compiled program saves and what it computes again is
// the compiler's own choice: `f` is recorded as if it had been called directly,
// and the Python code around it is passed over. The second call shows in what
// `f` writes: then the whole call is a graph break, as is whatever else cannot
// be recorded of `f`.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_INTERPRETER_CHECKPOINTREGION_H
#define PYJIT_CAPTURE_INTERPRETER_CHECKPOINTREGION_H

#include "CPython.h"
#include "builtins/Calls.h"

#include <unordered_map>
#include <vector>

namespace pyjit::capture {

class Recording;

class CheckpointRegion {
public:
  explicit CheckpointRegion(Recording &recording) : s(recording) {}

  static bool isCheckpoint(PyObject *function);
  /// The running instruction calls `checkpoint`.
  ResultKind call(const Call &call);
  /// Whether an event of this frame is one of the code around the function.
  bool passesOver(PyjitFrame *frame, bool starts);
  /// The frame that called it, as the recording has it.
  PyjitFrame *callerOf(PyjitFrame *frame) const;
  /// Whether the function runs, and will run again in the backward pass.
  bool repeats() const { return inner && again; }

private:
  bool begin(PyjitFrame *frame, PyObject *function);
  void finish();
  void leave();
  bool isAround(PyjitFrame *frame) const;
  std::vector<size_t> effectsSoFar() const;

  Recording &s;
  PyjitFrame *outer = nullptr; ///< whose instruction calls `checkpoint`
  PyObject *callee = nullptr;  ///< the Python function to wait for
  PyjitFrame *inner = nullptr; ///< its frame
  bool again = false;
  std::vector<size_t> effects;
  /// Containers that the call made before, and how much they held.
  std::unordered_map<PyObject *, Py_ssize_t> containers;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_INTERPRETER_CHECKPOINTREGION_H
