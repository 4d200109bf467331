//===- Recorder.h - One monitored run of a Python call ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_RECORDER_H
#define PYJIT_CAPTURE_RECORDER_H

#include <Python.h>

#include "TraceWriter.h"
#include "breaks/Reason.h"
#include "objects/AccessPath.h"

#include <set>
#include <string>
#include <vector>

namespace pyjit::capture {

/// What a specialization needs to know of Torch's thread state besides its
/// guards.
struct DispatchState {
  uint64_t included = 0, excluded = 0; ///< dispatch keys where it begins
  /// Whether what it hands out is of inference mode, where that is not the
  /// mode that it begins in; else -1.
  int inference = -1;
};

/// A part of a call that was recorded: up to a graph break, or from a graph
/// break to the next or to the end of a function.
struct Segment {
  /// Null for a segment that begins with the call. Otherwise a new reference to
  /// the continuation's Key (CaptureTypes.h).
  PyObject *key = nullptr;
  TraceHandle trace;
  PyObject *objects = nullptr; ///< new reference: what it names by index
  Py_ssize_t nargs = 0;
  /// Null for a segment that ends with its function. Otherwise a new reference
  /// to its GraphBreak; the trace returns a tuple with one tuple of values for
  /// each frame, outermost first.
  PyObject *graphBreak = nullptr;
  int gradMode = -1; ///< grad mode that the segment leaves behind, if it set it
  DispatchState dispatchState;
  /// Where the segment goes on through decisions on data: the same segment up
  /// to the first of them, in case that no loop can be made of it. At most one.
  std::vector<Segment> fallback;
  /// An iteration of a loop that ended too early to be recorded as one.
  bool mayLoop = false;
  /// It adds entries to dicts from before the call that had none (an
  /// optimizer's state): what it was recorded for is so once.
  bool makesState = false;
  /// Instructions (new references) whose data-dependent scalars the
  /// specialization computes.
  std::vector<std::pair<PyObject *, int>> numbers;
  /// Instructions (new references) that called operators which gradients flow
  /// through.
  std::vector<std::pair<PyObject *, int>> gradients;
  /// What instructions fixed, though it may differ between calls: in order.
  struct Fixed {
    PyObject *code; ///< new reference
    int offset;
    int what;     ///< GraphBreaks::Fixes
    uintptr_t of; ///< the container whose length it is, or a text's holder
    int64_t value;
  };
  std::vector<Fixed> fixed;
};

struct CaptureResult {
  /// New reference: what the call returned. Null, with a Python exception set,
  /// if the user's code raised.
  PyObject *result = nullptr;
  TraceHandle trace; ///< null if the capture ended early
  /// New reference: the list of live objects that the trace names by index.
  PyObject *objects = nullptr;
  Py_ssize_t nargs = 0;
  DispatchState dispatchState;
  /// Why the capture ended. Empty on success.
  Reason reason;
  std::string surveyed; ///< of `survey`: every reason, one a line
};

/// An instruction of original code: its code object and offset.
using Site = std::pair<PyObject *, int>;

/// What to record, and how.
struct CaptureRequest {
  PyjitContext *context = nullptr; ///< of the traces; outlives the call
  std::string name;
  /// Where numbers and sizes are that may differ between calls.
  std::set<AccessPath> lifted;
  bool followSizes = false; ///< as if one of them were a size
  /// What is called is a module in a part of a call that runs in eager.
  bool isPart = false;
  /// Arguments of the call itself that its specializations only pass on.
  std::set<int> unseen;

  // Of captureWithGraphBreaks; borrowed.

  /// Dict from (code, offset) to reason: graph breaks that are known to be
  /// needed.
  PyObject *points = nullptr;
  /// Dict from (code, offset) to how often something was so there that was not
  /// likely to be so again (SegmentedResult::passed).
  PyObject *passed = nullptr;
  /// Asked before a continuation is recorded: planner(key, kinds, values,
  /// behind_branch) with a byte of ArgumentKind for each value, and whether the
  /// run has recorded all that came before, back to a branch on data; answers
  /// with a Plan.
  PyObject *planner = nullptr;
};

/// What a planner needs to know of an argument of a continuation.
enum class ArgumentKind : char {
  Opaque,   ///< no specialization can look at it, or none before did
  Pinned,   ///< known by identity
  Value,    ///< an immutable value
  Result,   ///< ... that the instruction of the graph break has just made
  Lifted,   ///< a number that the segment before followed
  Range,    ///< the only iterator of its range
  Walk,     ///< one over a container, whose items a specialization knows
  Iterator, ///< another iterator of native code
  Object    ///< known by what it holds
};

/// What comes of asking it (the field `action` of a Plan).
enum class PlanAction {
  Record,   ///< record it
  Recorded, ///< it has a specialization: wait for what that specialization must
            ///< have come to
  Stop      ///< nothing of the call shall be recorded any more
};

/// Calls `callable` once, as `PyObject_Vectorcall` would, and records what the
/// call does. `arg(i)` in the trace is `args[i]`, keyword values included.
/// Whatever the recorder does not model ends the capture, never the call.
CaptureResult capture(const CaptureRequest &request, PyObject *callable,
                      PyObject *const *args, size_t nargs, PyObject *kwnames);

struct SegmentedResult {
  PyObject *result = nullptr; ///< as above
  std::vector<Segment> segments;
  /// An instruction in front of which the next capture should break, because
  /// only hindsight showed that it is needed.
  struct Lesson {
    PyObject *code; ///< new reference
    int offset;
    Reason reason;
  };
  std::vector<Lesson> learned;
  /// Instructions (new references) at which something was so that is not likely
  /// to be so in the next call.
  std::vector<Site> passed;
  /// Why the call's first segment is not among the segments.
  Reason reason;
  /// How long the call ran as in eager, behind the last of its events.
  double eagerSeconds = 0;
};

/// As `capture`, but what is not modelled breaks the recording into segments.
SegmentedResult captureWithGraphBreaks(const CaptureRequest &request,
                                       PyObject *callable,
                                       PyObject *const *args, size_t nargs,
                                       PyObject *kwnames);

/// Whether this thread is inside a monitored run.
bool isCapturing();

/// Whether a call that begins now on this thread could be a monitored run: it
/// is not inside of one, and Torch is in no state that recordings do not model.
bool mayMonitor();

/// As `capture`, for the recorder's own development: goes on after something
/// that is not modelled and returns every reason, one a line, and no trace.
CaptureResult survey(PyObject *callable, PyObject *const *args, size_t nargs,
                     PyObject *kwnames);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_RECORDER_H
