// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- Recording.h - The state of one recording -------------------*- C++
//-*-===//
//
// One Recording lives for one captured part of a call: it ties the rooms
// together, and says how a recording begins, goes on and ends. What each room
// knows is in README.md.
//
// Handlers run *before* the interpreter carries the instruction out: they look
// at its operands, record what it is about to read, and say what its result
// will be (ResultKind). Nothing here calls into the user's code.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_RECORDING_H
#define PYJIT_CAPTURE_RECORDING_H

#include "CPython.h"
#include "TraceWriter.h"
#include "breaks/Decisions.h"
#include "breaks/GraphBreaks.h"
#include "builtins/Calls.h"
#include "builtins/Containers.h"
#include "builtins/Operators.h"
#include "interpreter/CheckpointRegion.h"
#include "interpreter/CopyRegion.h"
#include "interpreter/DefaultDevice.h"
#include "interpreter/FrameTracker.h"
#include "interpreter/TransformRegion.h"
#include "numbers/DataScalars.h"
#include "numbers/NumberCopies.h"
#include "numbers/Scalars.h"
#include "numbers/SizeOps.h"
#include "objects/Attributes.h"
#include "objects/EffectLog.h"
#include "objects/Escape.h"
#include "objects/ExternalReads.h"
#include "objects/ObjectTable.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace pyjit::capture {

class TensorRecorder;

/// What a run keeps for all of its recordings.
struct OfRun {
  DefaultDevice *device = nullptr;
  NumberCopies *copies = nullptr;
};

class Recording {
public:
  Recording(PyjitContext *context, const std::string &name, bool surveying,
            AccessPaths lifted = {});
  ~Recording();
  Recording(const Recording &) = delete;

  /// Records a call from its start; false if that ended the capture.
  /// Replaces lifted numbers among `args`. `unseen`: as for beginAt.
  bool begin(PyObject *callable, std::vector<PyObject *> &args, size_t nargs,
             PyObject *kwnames, const std::set<int> &unseenArguments);
  /// Begins in the middle of a function, in front of the instruction at
  /// `offset`. `unseen`: numbers of values that the specialization may not
  /// depend on.
  void beginAt(PyjitFrame *frame, PyCodeObject *code, int offset,
               PyObject *function, const std::vector<PyObject **> &places,
               const std::vector<PyObject *> &names,
               const std::set<int> &unseen);
  void onStart(PyCodeObject *code, int offset);
  void onInstruction(PyCodeObject *code, int offset);
  /// Looks at the result of a call recorded from its start.
  void finishCall(PyObject *result);

  /// Ends the capture: `what` is not modelled.
  void end(ReasonKind kind, const std::string &what);
  /// Ends it for what is so in a first call only: the next one is recorded
  /// anew. Where that does not help, it is an end like any other.
  void endOnce(ReasonKind kind, const std::string &what);
  /// Ends it for good: a graph break would not help.
  void endWhole(ReasonKind kind, const std::string &what);
  bool ended() const { return dead; }

  /// Appends an operation at the present location.
  template <typename Op> PyjitValue add(const Op &op) {
    return writer.add(op, tracker.location());
  }
  void addSame(PyjitValue lhs, PyjitValue rhs) {
    add(PyjitSameOp{.lhs = lhs, .rhs = rhs});
  }

  static Recording *current;

  std::string name;
  bool surveying;
  bool dead = false;
  Reason reason;
  std::vector<std::string> surveyed;
  PyThreadState *thread = nullptr;
  TraceWriter writer;
  InstructionContext now; ///< of the instruction in progress
  OfRun run;

  // The rooms.
  FrameTracker tracker;
  CheckpointRegion checkpoint;
  TransformRegion transforms;
  CopyRegion copies;
  ObjectTable objects;
  ExternalReads reads;
  Attributes attributes;
  Containers containers;
  Operators operators;
  Calls calls;
  EffectLog effects;
  Escape escape;
  GraphBreaks breaks;
  Decisions decisions;
  DataScalars dataNumbers;
  SizeOps sizes;
  std::unique_ptr<TensorRecorder> tensors;
  Scalars scalars;

private:
  // One instruction (Monitor.cpp).
  bool raisedByTensors(const Instruction &next) const;
  bool finishInstruction(const Instruction &next, int offset, PyObject **stack);
  void beginInstruction(PyjitFrame *frame, int offset);
  void checkGraphBreaks(PyCodeObject *code, int offset,
                        const Instruction &instruction, PyObject **stack);
  void leaveResumed(PyjitFrame *frame, PyCodeObject *code,
                    const Instruction &instruction, PyObject **stack);
  void branch(PyCodeObject *code, int offset, PyObject *condition);
  void askAhead(PyjitFrame *frame, PyCodeObject *code, const Instruction &in,
                int jump);
  ResultKind carryOut(PyjitFrame *frame, PyCodeObject *code,
                      const Instruction &instruction, int offset);
  void expectResult(ResultKind resultKind, const Instruction &instruction,
                    int offset);

  std::set<std::string> surveyedSet;
};

/// Handles one instruction; returns what its result is. condition: as in
/// ShadowFrame.
ResultKind handleOpcode(Recording &recording, PyjitFrame *frame,
                        PyCodeObject *code, const Instruction &instruction,
                        PyObject *condition = nullptr);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_RECORDING_H
