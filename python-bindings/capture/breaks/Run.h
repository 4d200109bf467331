//===- Run.h - A monitored run: recordings one after the other --*- C++ -*-===//
//
// A Session records one part of a call without a gap. A Run owns the sessions
// of one monitored call: where one ends at something that is not modelled, it
// decides whether the recording can be cut there, waits until the interpreter
// has carried the instruction out, and starts the next session.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_RUN_H
#define PYJIT_CAPTURE_RUN_H

#include "Recorder.h"
#include "Session.h"

namespace pyjit::capture {

class Run {
public:
  Run(const CaptureRequest &request, bool surveying);
  ~Run();
  Run(const Run &) = delete;

  /// Cuts are made; see `captureWithCuts`.
  void allowCuts();
  PyObject *execute(PyObject *callable, PyObject *const *args, size_t nargs,
                    PyObject *kwnames);
  void onStart(PyCodeObject *code, int offset);
  void onInstruction(PyCodeObject *code, int offset);
  static Run *current;

  const CaptureRequest &request;
  bool surveying;
  std::string reason;
  std::vector<Segment> segments;
  std::vector<CutResult::Lesson> learned;
  std::vector<Site> passed;
  PyThreadState *thread = nullptr;
  /// The session of the whole call, when no cut was needed.
  std::unique_ptr<Session> whole;

private:
  /// A frame whose next step is awaited.
  struct Waiting {
    PyjitFrame *frame; ///< null: any frame of `code`
    PyCodeObject *code;
    int offset; ///< of the instruction that is cut at
    std::vector<int> exits;
    /// Of the one that runs meanwhile; see ShadowFrame::condition.
    int running = -1;
  };

  /// Has the session end at instructions that are known.
  void cutAt(Session &session) {
    session.breaks.cutPoints = &known;
    session.breaks.passCounts = &passes;
  }
  /// Looks at what became of the session.
  void after();
  void add(Session &session, PyObject *cut);

  // RunCuts.cpp.
  void cut(std::unique_ptr<Session> session);
  void await(Session &session, const std::vector<FrameState> &states);
  void learn(const FrameState &state, const std::string &why);
  void pass(Session &session);
  void learnBirth(Session &session, const std::vector<FrameState> &states);
  bool learnAtEnd(Session &session);
  void learnNumbers(Session &session);

  // RunResume.cpp.
  void start(PyjitFrame *frame, PyCodeObject *code, int offset);
  std::string whyNoStart(PyjitFrame *frame);
  std::vector<PyObject *> follow(Session &next,
                                 const std::vector<PyObject **> &places,
                                 const std::set<int> &unseen);
  void readFollowed(Session &next, const std::vector<PyObject *> &objects);
  PyObject *askPlanner(Session &next, const std::vector<PyObject **> &places,
                       size_t depth);
  void skip(PyjitFrame *frame, PyCodeObject *code, int offset);
  bool leavesSkipped(PyCodeObject *code, int offset);

  // Decisions.cpp.
  void expectLoop(Session &next, PyjitFrame *frame, PyCodeObject *code,
                  int offset);
  bool isInLoop(Session &next, PyCodeObject *code, int offset);
  bool addPlain(Session &session, const FrameState &state, int truth);
  bool isHead(int offset, int truth, int outcome, bool wanted,
              std::string &text, std::vector<PyObject *> &found);
  bool goesOn(PyCodeObject *code, int offset, PyObject *condition, int truth);

  PyObject *planner = nullptr; ///< borrowed; null: no cuts
  /// Instructions (of original code) to cut in front of, and why.
  std::map<std::pair<PyCodeObject *, int>, std::string> known;
  /// Instructions at which something was so in other calls, and how often.
  std::map<std::pair<PyCodeObject *, int>, int> passes;
  std::unique_ptr<Session> session;
  PyObject *key = nullptr;      ///< of the session's continuation
  std::vector<Waiting> waiting; ///< outermost first
  /// The frame that runs through a part that was recorded before.
  Waiting skipped{};
  int skippedShift = 0;
  /// Instructions (of original code) cut at in this run, and where they lead.
  std::map<std::pair<PyCodeObject *, int>, std::vector<int>> sites;
  PyObject *handled = nullptr; ///< the exception handled around the call
  std::set<PyObject *> opaque; ///< passed through parts of this run unseen
  /// Numbers that the part before followed.
  std::set<PyObject *> followed;
  bool followsSizes = false; ///< a part did
  std::vector<PyObject *> kept;
  bool stopped = false;
  /// Where the iterations of loops begin that were recorded as such (of
  /// original code).
  std::set<std::pair<PyCodeObject *, int>> loops;
  size_t count = 0;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_RUN_H
