//===- Recorder.h - One monitored run of a Python call ----------*- C++ -*-===//
#ifndef PYJIT_CAPTURE_RECORDER_H
#define PYJIT_CAPTURE_RECORDER_H

#include <Python.h>

#include "TraceWriter.h"

#include <set>
#include <string>
#include <vector>

namespace pyjit::capture {

/// What a record needs to know of Torch's thread state besides its guards.
struct Footing {
  uint64_t included = 0, excluded = 0; ///< dispatch keys where it begins
  /// Whether what it hands out is of inference mode, where that is not the
  /// mode that it begins in; else -1.
  int inference = -1;
};

/// A part of a call that was recorded: up to a cut, or from a cut to the next
/// or to the end of a function.
struct Segment {
  /// Null for a part that begins with the call. Otherwise a new reference to
  /// the continuation's key: (function, code, offset, stack, slots), where
  /// `stack` says of each value on the operand stack whether it is one or a
  /// NULL and `slots` lists the locals that are arguments.
  PyObject *key = nullptr;
  TraceHandle trace;
  PyObject *objects = nullptr; ///< new reference: what it names by index
  Py_ssize_t nargs = 0;
  /// Null for a part that ends with its function. Otherwise a new reference to
  /// (reason, frames); the trace returns a tuple with one tuple of values for
  /// each frame, outermost first. A frame is a key with the offset of its
  /// present instruction, plus a tuple of keys: where it may go on.
  PyObject *cut = nullptr;
  int gradMode = -1; ///< grad mode that the part leaves behind, if it set it
  Footing footing;
  /// Where the part goes on through decisions on data: the same part up to the
  /// first of them, in case that no loop can be made of it. At most one.
  std::vector<Segment> fallback;
  /// An iteration of a loop that ended too early to be recorded as one.
  bool mayLoop = false;
  /// Instructions (code, offset) whose numbers of tensors' data the record
  /// computes; borrowed from `objects`' owners.
  std::vector<std::pair<PyObject *, int>> numbers;
};

struct CaptureResult {
  /// New reference: what the call returned. Null, with a Python exception set,
  /// if the user's code raised.
  PyObject *result = nullptr;
  TraceHandle trace; ///< null if the capture ended early
  /// New reference: the list of live objects that the trace names by index.
  PyObject *objects = nullptr;
  Footing footing;
  /// Why the capture ended: construct, file and line. Empty on success.
  std::string reason;
};

/// Calls `callable` once, as `PyObject_Vectorcall` would, and records what the
/// call does. `arg(i)` in the trace is `args[i]`, keyword values included.
/// Whatever the recorder does not model ends the capture, never the call.
/// `lifted` names places (Scalars.h) whose number may differ between calls.
CaptureResult capture(PyjitContext *context, PyObject *callable,
                      PyObject *const *args, size_t nargs, PyObject *kwnames,
                      const std::string &name,
                      std::set<std::string> lifted = {});

struct CutResult {
  PyObject *result = nullptr; ///< as above
  std::vector<Segment> segments;
  /// (code, offset, reason): instructions in front of which the next capture
  /// should cut, because only hindsight showed that it is needed.
  PyObject *learned = nullptr; ///< new reference: list
  /// Why the call's first part is not among the segments.
  std::string reason;
};

/// As `capture`, but what is not modelled cuts the recording in parts.
/// `points`: dict from (code, offset) to reason, cuts that are known to be
/// needed. `planner(key, kinds, values)` is asked before a continuation is
/// recorded: returns the numbers of the arguments that its record must not
/// depend on (-1 among them: no loop is expected), False where it is recorded
/// already, or None where nothing shall be recorded. `unseen`: arguments of the
/// call itself that its records only pass on.
CutResult captureWithCuts(PyjitContext *context, PyObject *callable,
                          PyObject *const *args, size_t nargs,
                          PyObject *kwnames, const std::string &name,
                          PyObject *points, PyObject *planner,
                          std::set<std::string> lifted = {},
                          std::set<int> unseen = {});

/// Whether this thread is inside a monitored run.
bool isCapturing();

/// As `capture`, for the recorder's own development: goes on after something
/// that is not modelled and returns every reason, one a line, and no trace.
CaptureResult survey(PyObject *callable, PyObject *const *args, size_t nargs,
                     PyObject *kwnames);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_RECORDER_H
