//===- GraphBreaks.h - What a graph break needs to know ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_BREAKS_GRAPHBREAKS_H
#define PYJIT_CAPTURE_BREAKS_GRAPHBREAKS_H

#include "CPython.h"
#include "breaks/Reason.h"
#include "interpreter/Code.h"
#include "interpreter/Frames.h"

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pyjit::capture {

class Recording;

/// Why a recording ends in front of a jump on a tensor's data.
inline constexpr char kBranchOnData[] = "a branch on a tensor's data";
/// In place of a reason to break the graph: the jump is recorded through, as
/// one that calls take one way.
inline Reason oneWay() {
  return {ReasonKind::OneWay, "a branch that calls take one way"};
}
/// Likewise, where a graph break would do, but for what it would hand on.
inline Reason fewWays() {
  return {ReasonKind::FewWays, "a branch that calls take few ways"};
}
/// Where an iteration of a loop ends that is not recorded whole.
inline Reason longLoop() {
  return {ReasonKind::LongLoop, "a loop whose iterations are a graph each"};
}
inline bool goesThrough(const Reason &reason) {
  return reason.kind == ReasonKind::OneWay ||
         reason.kind == ReasonKind::FewWays;
}

/// Where a recording stops, how it ended, and the frames' state there.
class GraphBreaks {
public:
  explicit GraphBreaks(Recording &recording) : s(recording) {}

  /// Describes frame `i`. False if the interpreter cannot be made to go on
  /// from it.
  bool frameState(size_t i, FramePhase phase, FrameState &state);
  /// Whether a frame's local has to be there after a graph break.
  static bool isCarried(bool live, PyObject *local);
  /// Whether the instruction looks at an unseen value.
  PyObject *looksAtUnseen(const Instruction &instruction, PyObject **stack);
  /// The program asks for `what`, which differs where a call is compiled in
  /// segments: no part is compiled.
  void asks(ReasonKind kind, const std::string &what);
  /// ... for the variables of a frame: a continuation's has those it needs.
  void asksForVariables();
  /// Whether an instruction moves references, and looks at nothing.
  static bool onlyMoves(int op);
  /// Objects that a graph break cannot carry can be made after one: where they
  /// were made is a good place for it.
  void noteAllocation(PyObject *object);
  /// Likewise of another object: the present instruction.
  void noteSite(PyObject *object);
  /// The present instruction calls an operator which gradients flow through.
  void noteGradient();
  /// What an instruction fixes in the specialization, though it may differ
  /// between calls.
  enum class Fixes { Number, Outcome, Length, Text, Truth, Size };
  /// The present instruction does so: the recording is right for this value
  /// alone. `of`: the container whose length it is, or the holder of a text.
  void noteFixed(Fixes what, int64_t value, const void *of = nullptr);

  /// Instructions (of original code) in front of which the recording stops.
  const std::map<std::pair<PyCodeObject *, int>, Reason> *graphBreakPoints =
      nullptr;
  /// The functions that earlier segments of the run have made; null where not
  /// all of these were recorded.
  const std::set<PyObject *> *functionsMade = nullptr;
  /// It ended at a backward that goes on to what an earlier segment of the run
  /// has computed.
  bool lacksHistory = false;
  /// Instructions (of original code) of operators which gradients flow through.
  std::set<std::pair<PyCodeObject *, int>> gradientSites;
  /// What instructions (of original code) fixed, in the order in which they
  /// did.
  struct Fixed {
    PyCodeObject *code;
    int offset;
    Fixes what;
    const void *of; ///< compared only
    int64_t value;
  };
  std::vector<Fixed> fixed;
  /// Instructions at which `endOnce` ended recordings, and how often; set where
  /// `graphBreakPoints` is.
  const std::map<std::pair<PyCodeObject *, int>, int> *passCounts = nullptr;
  /// Where objects that cannot leave were made: frames and instructions,
  /// outermost first.
  struct AllocationSite {
    PyjitFrame *frame;
    PyCodeObject *code;
    int offset;
  };
  std::unordered_map<PyObject *, std::vector<AllocationSite>> allocationSites;

  bool resumed = false;  ///< began in the middle of a function
  bool finished = false; ///< ... which has returned
  Py_ssize_t argumentCount = 0;
  bool inHandler = false;
  bool passes = false; ///< ended by `endOnce`
  /// Ended where the program asks for what differs where a call is compiled in
  /// segments: whether two values are one object (those handed on are equal,
  /// and no more), which variables a frame has (those that it still needs),
  /// whether an object is still there (who hands it on holds it), or by which
  /// node of autograd's a tensor was computed (a segment has one for all).
  bool asksSegments = false;
  bool noGraphBreak =
      false; ///< what ended the capture is not one instruction's
  /// The capture ended in front of an instruction, not in the middle of one.
  bool endedBefore = false;
  PyObject *refused = nullptr; ///< the object that could not leave
  bool mayLeaveGradMode = false;
  int gradModeLeft = -1;

private:
  Recording &s;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_BREAKS_GRAPHBREAKS_H
