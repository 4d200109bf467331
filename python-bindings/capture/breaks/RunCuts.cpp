//===- RunCuts.cpp - Where a run is cut -----------------------------------===//
//
// A session has ended at something that is not modelled. Its record ends with
// the state of the frames at that place, if the interpreter can be made to go
// on from there; what stands in the way is learned, for the next run to cut
// elsewhere. In both cases the run waits for the frames to go on.
//
//===----------------------------------------------------------------------===//

#include "breaks/CaptureTypes.h"
#include "breaks/Continuation.h"
#include "breaks/Run.h"
#include "tensors/Tensors.h"

using namespace pyjit::capture;

//===----------------------------------------------------------------------===//
// What the next run should do better
//===----------------------------------------------------------------------===//

void Run::learn(const FrameState &state, const std::string &why) {
  if (known.insert({{state.code, state.offset}, why}).second)
    learned.push_back({Py_NewRef(reinterpret_cast<PyObject *>(state.code)),
                       state.offset, why});
}

/// An object that cannot be carried over the cut: next time, cut in front of
/// the instruction that makes it, and it is only passed on.
void Run::learnBirth(Session &session, const std::vector<FrameState> &states) {
  auto birth = session.breaks.births.find(session.breaks.refused);
  if (!session.breaks.refused || birth == session.breaks.births.end())
    return;
  for (size_t i = states.size(); i-- > 0;) {
    const ShadowFrame &shadow = session.tracker.frames[states[i].frame];
    if (i >= birth->second.size() || birth->second[i].frame != shadow.frame ||
        birth->second[i].code != shadow.code)
      continue;
    FrameState state = states[i];
    state.offset = birth->second[i].offset - state.shift;
    if (session.tracker.info(shadow.code)
            .exits(birth->second[i].offset)
            .empty())
      continue;
    return learn(state, session.reason);
  }
}

/// What the call returns shows that it was partly in inference mode, or is the
/// `.data` of an input: next time, a part ends where that was made.
bool Run::learnAtEnd(Session &session) {
  PyObject *refused = session.breaks.refused;
  auto birth = session.breaks.births.find(refused);
  if (!planner || !refused ||
      (refused != session.calls.firstInferenceMode &&
       !session.objects.isTensor(refused)) ||
      birth == session.breaks.births.end() || birth->second.empty())
    return false;
  const GraphBreaks::Birth &at = birth->second.front();
  Origin origin = originOf(at.code, nullptr);
  if (session.tracker.info(at.code).exits(at.offset).empty())
    return false;
  FrameState state;
  state.code = origin.code;
  state.offset = at.offset - origin.shift;
  learn(state, session.reason);
  return true;
}

/// What was so in this call is not likely to be so again.
void Run::pass(Session &session) {
  const ShadowFrame &frame = session.tracker.frames.back();
  Origin origin = originOf(frame.code, nullptr);
  passed.emplace_back(Py_NewRef(reinterpret_cast<PyObject *>(origin.code)),
                      frame.offset - origin.shift);
  if (reason.empty())
    reason = session.reason;
  stopped = true;
}

/// Where a number of a tensor's data was used in a way that a record cannot
/// repeat, the tensor has to be asked by Python itself.
void Run::learnNumbers(Session &session) {
  for (int site : session.dataNumbers.lostSites) {
    auto [code, offset] = session.dataNumbers.sites[site];
    FrameState state;
    state.code = code;
    state.offset = offset;
    learn(state, "a tensor's data as a Python number");
  }
}

//===----------------------------------------------------------------------===//
// Cuts
//===----------------------------------------------------------------------===//

/// The frames that a cut takes apart, outermost first; empty if the interpreter
/// cannot be made to go on from here.
static std::vector<FrameState> framesAtCut(Session &session) {
  std::vector<FrameState> states;
  size_t innermost = session.tracker.frames.size() - 1;
  bool direct = session.breaks.resumed ||
                (innermost >= 1 && session.tracker.frames[1].direct);
  if (session.breaks.noCut || !direct)
    return states;
  // An exception may have left some of the frames meanwhile.
  std::set<PyjitFrame *> running;
  for (PyjitFrame *f = pyjitCurrentFrame(); f; f = pyjitPreviousFrame(f))
    running.insert(f);
  for (size_t i = 1; i <= innermost; ++i) {
    if (!running.count(session.tracker.frames[i].frame))
      break;
    FrameState state;
    auto is = [&](FramePhase phase) {
      state = {};
      return session.breaks.frameState(i, phase, state);
    };
    bool last = i == innermost;
    bool inner = last ? is(session.breaks.endedBefore ? FramePhase::Before
                                                      : FramePhase::During)
                      : is(FramePhase::Calling);
    // The cut may be around all that this frame's instruction does.
    if (!inner && (last || !is(FramePhase::During)))
      break;
    states.push_back(std::move(state));
    if (!inner)
      break;
  }
  return states;
}

/// `why` and `more`, which may both end with the same " at FILE:LINE".
static std::string joinReasons(std::string why, const std::string &more) {
  size_t place = why.rfind(" at ");
  if (place != std::string::npos) {
    size_t length = why.size() - place;
    if (length <= more.size() &&
        !more.compare(more.size() - length, std::string::npos, why, place))
      why.resize(place);
  }
  return why + "; " + more;
}

void Run::cut(std::unique_ptr<Session> session) {
  if (session->breaks.passes)
    return pass(*session);
  std::string why = session->reason;
  auto noteReason = [&] {
    if (reason.empty())
      reason = why;
  };
  bool lost = !session->dataNumbers.lostSites.empty();
  std::vector<FrameState> states;
  if (lost)
    learnNumbers(*session);
  else
    states = framesAtCut(*session);
  if (states.empty()) {
    noteReason();
    stopped = true;
    return;
  }
  size_t innermost = session->tracker.frames.size() - 1;
  if (!session->breaks.endedBefore || states.back().frame != innermost) {
    learn(states.back(), why);
    noteReason();
  } else if (session->escape.leaveCut(states)) {
    add(*session, makeGraphBreak(why, states));
  } else {
    learnNumbers(*session);
    learnBirth(*session, states);
    why = joinReasons(why, session->reason);
    noteReason();
  }
  await(*session, states);
}

/// Waits for the frames to go on behind the cut.
void Run::await(Session &session, const std::vector<FrameState> &states) {
  for (const auto &entry : session.objects.unseen)
    if (opaque.insert(entry.first).second)
      kept.push_back(Py_NewRef(entry.first));
  followed.clear();
  for (PyObject *number : session.scalars.followed()) {
    followed.insert(number);
    kept.push_back(Py_NewRef(number));
  }
  followsSizes |= session.sizes.followed;
  for (const FrameState &state : states) {
    const ShadowFrame &shadow = session.tracker.frames[state.frame];
    Waiting wanted{
        shadow.frame, shadow.code, shadow.offset, {}, shadow.running};
    std::vector<int> &exits = sites[{state.code, state.offset}];
    exits.clear();
    for (const Exit &exit : state.exits) {
      exits.push_back(exit.offset);
      wanted.exits.push_back(exit.offset + state.shift);
    }
    waiting.push_back(std::move(wanted));
  }
}
