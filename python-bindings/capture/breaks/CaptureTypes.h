//===- CaptureTypes.h - What a monitored run tells Python -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Immutable tuples with named fields, which Python sees as pyjit._C.Key, Frame,
// Reason, GraphBreak, DispatchState, Segment, Capture and Plan (with the
// enumerations ArgumentKind, PlanAction and ReasonKind); pyjit/_C.pyi documents
// them.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_CAPTURETYPES_H
#define PYJIT_CAPTURE_CAPTURETYPES_H

#include "Recorder.h"

namespace pyjit::capture {

struct FrameState;

/// Adds the types to `module`.
bool addCaptureTypes(PyObject *module);

// All return new references, or null with a Python error.

/// The name of a continuation: a place in original code, which operands are
/// there, and which locals go with them.
PyObject *makeKey(PyObject *function, PyCodeObject *code, int offset,
                  const std::vector<bool> &stack,
                  const std::vector<int> &slots);
/// Where a frame is, and the keys of where it may go on.
PyObject *makeFrame(const FrameState &state);
/// Why a segment ends, and its frames, outermost first.
PyObject *makeGraphBreak(const Reason &reason,
                         const std::vector<FrameState> &states);

/// Takes over what they hold.
PyObject *toPython(SegmentedResult &result, PyObject *(*wrap)(TraceHandle));
PyObject *toPython(CaptureResult &result, PyObject *(*wrap)(TraceHandle));

// Of what Python gives. False: a Python error.

bool toDispatchState(PyObject *object, DispatchState &dispatchState);

/// What the planner says of a segment.
struct Plan {
  PlanAction action = PlanAction::Stop;
  std::set<int> unseen;           ///< arguments that it must not depend on
  std::vector<AccessPath> lifted; ///< numbers and sizes that are its inputs
  bool followSizes = false;       ///< as if one of them were a size
  bool expectsLoop = true;        ///< whether it may be an iteration of a loop
};
bool toPlan(PyObject *object, Plan &plan);

/// A Reason.
Reason toReason(PyObject *object);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_CAPTURETYPES_H
