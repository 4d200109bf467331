//===- Run.h - A monitored run: recordings one after the other --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A Recording records one segment of a call without a gap. A Run owns the
// recordings of one monitored call: where one ends at something that is not
// modelled, it decides whether the recording can break there, waits until the
// interpreter has carried the instruction out, and starts the next recording.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_RUN_H
#define PYJIT_CAPTURE_RUN_H

#include "Recorder.h"
#include "Recording.h"

#include <chrono>

namespace pyjit::capture {

class SysMonitoring;

/// The line of the program that an instruction belongs to.
SourceLine sourceLineOf(PyCodeObject *code, int offset);

class Run {
public:
  Run(const CaptureRequest &request, bool surveying);
  ~Run();
  Run(const Run &) = delete;

  /// Graph breaks are made; see `captureWithGraphBreaks`.
  void allowGraphBreaks();
  PyObject *execute(PyObject *callable, PyObject *const *args, size_t nargs,
                    PyObject *kwnames);
  void onStart(PyCodeObject *code, int offset) {
    onEvent(code, offset, /*starts=*/true);
  }
  void onInstruction(PyCodeObject *code, int offset) {
    onEvent(code, offset, /*starts=*/false);
  }
  /// A handler threw: the call goes on without being recorded.
  void failed(const std::string &what);
  static Run *current;

  const CaptureRequest &request;
  bool surveying;
  Reason reason;
  std::vector<Segment> segments;
  std::vector<SegmentedResult::Lesson> learned;
  std::vector<Site> passed;
  PyThreadState *thread = nullptr;
  double eagerSeconds = 0; ///< since the events have ended
  /// The recording of the whole call, when no graph break was needed.
  std::unique_ptr<Recording> whole;

private:
  /// A frame whose next step is awaited.
  struct Waiting {
    PyjitFrame *frame; ///< null: any frame of `code`
    PyCodeObject *code;
    int offset; ///< of the instruction of the graph break
    std::vector<int> exits;
    /// Of the one that runs meanwhile; see ShadowFrame::condition.
    int running = -1;
  };

  /// Has the recording end at instructions that are known.
  void breakAt(Recording &recording) {
    recording.breaks.graphBreakPoints = &known;
    recording.breaks.passCounts = &passes;
    recording.decisions.atBranch = [this](PyCodeObject *code, int offset,
                                          PyObject *condition, int truth) {
      return goesOneWay(code, offset, condition, truth);
    };
    recording.decisions.atTruth = [this](PyCodeObject *code, int offset,
                                         PyObject *condition) {
      return goesOneWay(code, offset, condition, /*truth=*/-1) ||
             goesByTruth(code, offset, condition);
    };
    recording.decisions.atSize = [this] { return goesBySize(); };
    recording.decisions.atLoop = [this](PyCodeObject *code, int offset) {
      return isTooLong(code, offset);
    };
  }
  /// Looks at what became of the recording.
  void after();
  void add(Recording &recording, PyObject *graphBreak);
  static void noteSites(Segment &segment, const Recording &recording);

  // LongLoops.cpp.
  bool isTooLong(PyCodeObject *code, int offset);
  bool canBreakBefore(Recording &recording);

  // RunBreaks.cpp.
  static std::vector<FrameState> framesAtGraphBreak(Recording &recording);
  void breakGraph(std::unique_ptr<Recording> recording);
  void refuseSegments(const Reason &why);
  void await(Recording &recording, const std::vector<FrameState> &states);
  void learn(const FrameState &state, const Reason &why);
  void pass(Recording &recording);
  void noteFunctions(const Recording &recording);
  static void forget(std::vector<Segment> &recorded);
  void addOuterFrames(Reason &reason) const;
  void learnAllocation(Recording &recording,
                       const std::vector<FrameState> &states);
  bool learnAtEnd(Recording &recording);
  void learnNumbers(Recording &recording);
  bool learnLoop(const Recording &recording);
  void learnOneWay(size_t from = 0, const Reason &why = oneWay());

  // RunResume.cpp.
  void start(PyjitFrame *frame, PyCodeObject *code, int offset);
  bool handlesException() const;
  Reason whyNoStart(PyjitFrame *frame);
  std::vector<PyObject *> follow(Recording &next,
                                 const std::vector<PyObject **> &places,
                                 const std::set<int> &unseen);
  void readFollowed(Recording &next, const std::vector<PyObject *> &objects);
  PyObject *askPlanner(Recording &next, const std::vector<PyObject **> &places,
                       size_t depth);
  void skip(PyjitFrame *frame, PyCodeObject *code, int offset);
  bool leavesSkipped(PyCodeObject *code, int offset);

  // Decisions.cpp.
  void expectLoop(Recording &next, PyjitFrame *frame, PyCodeObject *code,
                  int offset);
  bool isInLoop(Recording &next, PyCodeObject *code, int offset);
  bool addPlain(Recording &recording, const FrameState &state, int truth);
  bool isHead(int offset, int truth, int outcome, bool wanted,
              std::string &text, std::vector<PyObject *> &found);
  bool goesOneWay(PyCodeObject *code, int offset, PyObject *condition,
                  int truth);
  bool goesByTruth(PyCodeObject *code, int offset, PyObject *condition);
  bool goesBySize();
  bool goesOn(PyCodeObject *code, int offset, PyObject *condition, int truth);

  // One event (Run.cpp).
  void endEvents();
  void onEvent(PyCodeObject *code, int offset, bool starts);
  void abandon();
  void handleStart(PyCodeObject *code, int offset);
  void handleInstruction(PyCodeObject *code, int offset);
  bool isRecording() const { return recording && !recording->ended(); }

  DefaultDevice device;
  NumberCopies copies;
  PyObject *planner = nullptr; ///< borrowed; null: no graph breaks
  /// Instructions (of original code) to break in front of, and why.
  std::map<std::pair<PyCodeObject *, int>, Reason> known;
  /// Instructions at which something was so in other calls, and how often.
  std::map<std::pair<PyCodeObject *, int>, int> passes;
  std::unique_ptr<Recording> recording;
  PyObject *key = nullptr;      ///< of the recording's continuation
  std::vector<Waiting> waiting; ///< outermost first
  /// The frame that runs through a segment that was recorded before.
  Waiting skipped{};
  int skippedShift = 0;
  /// Instructions (of original code) of graph breaks in this run, and where
  /// they lead.
  std::map<std::pair<PyCodeObject *, int>, std::vector<int>> sites;
  /// Jumps on data (of original code) that segments of this run end at.
  std::vector<std::pair<PyCodeObject *, int>> branches;
  PyObject *handled = nullptr; ///< the exception handled around the call
  /// Of a run that begins at a continuation: what it is given.
  std::set<PyObject *> arguments;
  std::set<PyObject *> opaque; ///< passed through segments of this run unseen
  /// Numbers that segments before followed, up to the latest that looked at
  /// them.
  std::set<PyObject *> followed;
  bool followsSizes = false; ///< a segment did
  /// A segment that ended at a branch on data was recorded in this run, and so
  /// was all that has followed it.
  bool behindBranch = false;
  /// Functions that segments of this run have made, and whether all segments
  /// since the call's beginning were recorded.
  std::set<PyObject *> functionsMade;
  bool recordedAll = true;
  std::vector<PyObject *> kept;
  bool stopped = false;
  using Clock = std::chrono::steady_clock;
  SysMonitoring *events = nullptr; ///< null: none come any more
  Clock::time_point eventsEnded;
  /// Instructions that went by since something was recorded.
  size_t passedOver = 0;
  /// Where the iterations of loops begin that were recorded as such (of
  /// original code).
  std::set<std::pair<PyCodeObject *, int>> loops;
  size_t count = 0;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_RUN_H
