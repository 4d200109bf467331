//===- Escape.h - The result and the writes, at the end ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_OBJECTS_ESCAPE_H
#define PYJIT_CAPTURE_OBJECTS_ESCAPE_H

#include "interpreter/Frames.h"

#include <vector>

namespace pyjit::capture {

class EscapeWalk;
class Recording;

/// The end of a trace: what the call did to objects that existed before it, in
/// the order in which Python did it or as a final state, and what it returns.
class Escape {
public:
  explicit Escape(Recording &recording) : s(recording) {}

  void leave(PyObject *result);
  /// Ends the trace with the values of the frames instead of a result.
  bool leaveAtGraphBreak(const std::vector<FrameState> &states);

  /// What the call's `set` of a context variable answered.
  PyObject *tokenOf(PyObject *variable) const;

private:
  void separateWritten();
  bool leaveCells(EscapeWalk &walk);
  void leaveWrites(EscapeWalk &walk);
  void leaveAttributes(EscapeWalk &walk);
  void leaveStorages(EscapeWalk &walk);
  void leaveReplaced(EscapeWalk &walk);
  template <typename Result> void leaveWith(const Result &result);

  Recording &s;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OBJECTS_ESCAPE_H
