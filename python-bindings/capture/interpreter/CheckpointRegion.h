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
// Where the backward pass is within the call, the second call may find changed
// what the first one has found: objects from before the call, those that the
// call has made and `f` reaches, context variables, tensors that `f` has read.
// Then the whole call runs in eager; and so does one that leaves such a change
// to a backward pass behind it. (What happens between the call and that pass is
// not seen.)
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_INTERPRETER_CHECKPOINTREGION_H
#define PYJIT_CAPTURE_INTERPRETER_CHECKPOINTREGION_H

#include "CPython.h"
#include "builtins/Calls.h"
#include "interpreter/OwnObjects.h"
#include "objects/Node.h"

#include <cstdint>
#include <unordered_set>
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
  /// The backward pass comes to a node of autograd's with this number: why the
  /// function that has made it may do something else now, or null.
  const char *whyNotAgain(uint64_t node) const;
  /// ... or to any of them, behind the call.
  const char *whyNotLater() const;
  /// What is recorded is a part of a call that runs in eager, of which nobody
  /// sees what it does between the function and its backward pass.
  void bePart() { isPart = true; }

  /// A context variable is read: of those that have a value while the forward
  /// runs, and none in the backward pass, only such a function knows.
  void noteContextRead() {
    if (repeats())
      run.readsContext = true;
  }
  /// An object is looked at, or is known from here on.
  void noteMet(const Node *node) {
    if (!repeats())
      return;
    run.met.insert(node);
    if (node->dictOf)
      run.met.insert(node->dictOf);
  }
  /// Memory is read (by a key for its storage).
  void noteRead(const void *storage) {
    if (repeats())
      run.read.insert(storage);
  }
  /// ... or written.
  void noteWrite(const void *storage);

private:
  /// What a function has done that the backward pass calls again.
  struct Run {
    uint64_t firstNode = 0, endNode = 0; ///< that autograd made in it
    /// When it returned.
    size_t changes = 0, contextChanges = 0;
    bool readsContext = false;
    bool isWritten = false;                ///< memory that it has read, since
    std::unordered_set<const void *> read; ///< storages
    std::unordered_set<const Node *> met;
    OwnObjects objects;
  };
  bool begin(PyjitFrame *frame, PyObject *function);
  void finish();
  void leave();
  bool isAround(PyjitFrame *frame) const;
  bool runsAgain(PyjitFrame *frame) const;
  std::vector<size_t> effectsSoFar() const;
  bool leavesAllAsItWas() const;
  const char *whyChanged(const Run &earlier) const;

  Recording &s;
  PyjitFrame *outer = nullptr; ///< whose instruction calls `checkpoint`
  PyObject *callee = nullptr;  ///< the Python function to wait for
  PyjitFrame *inner = nullptr; ///< its frame
  bool again = false;
  bool isPart = false;
  std::vector<size_t> effects; ///< before it began
  Run run;                     ///< its
  std::vector<Run> runs;       ///< those that have returned
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_INTERPRETER_CHECKPOINTREGION_H
