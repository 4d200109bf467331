//===- Recorder.h - One monitored run of a Python call ----------*- C++ -*-===//
#ifndef PYJIT_CAPTURE_RECORDER_H
#define PYJIT_CAPTURE_RECORDER_H

#include <Python.h>

#include <string>

namespace pyjit::capture {

struct CaptureResult {
  /// New reference: what the call returned. Null, with a Python exception set,
  /// if the user's code raised.
  PyObject *result = nullptr;
  /// refgraph text of one `refgraph.trace`; empty if the capture ended early.
  std::string trace;
  /// New reference: the list of live objects that the text names by index.
  PyObject *objects = nullptr;
  /// Why the capture ended: construct, file and line. Empty on success.
  std::string reason;
};

/// Calls `callable` once, as `PyObject_Vectorcall` would, and records what the
/// call does. `arg(i)` in the text is `args[i]`, keyword values included.
/// Whatever the recorder does not model ends the capture, never the call.
CaptureResult capture(PyObject *callable, PyObject *const *args, size_t nargs,
                      PyObject *kwnames, const std::string &name);

/// Whether this thread is inside a monitored run.
bool isCapturing();

/// As `capture`, for the recorder's own development: goes on after something
/// that is not modelled and returns every reason, one a line, and no trace.
CaptureResult survey(PyObject *callable, PyObject *const *args, size_t nargs,
                     PyObject *kwnames);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_RECORDER_H
