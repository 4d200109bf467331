//===- RunBreaks.cpp - Where a run breaks ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A recording has ended at something that is not modelled. Its specialization
// ends with the state of the frames at that place, if the interpreter can be
// made to go on from there; what stands in the way is learned, for the next run
// to break elsewhere. In both cases the run waits for the frames to go on.
//
//===----------------------------------------------------------------------===//

#include "breaks/CaptureTypes.h"
#include "breaks/Continuation.h"
#include "breaks/Run.h"
#include "tensors/Tensors.h"

#include <algorithm>

using namespace pyjit::capture;

/// So many truths of data as values one instruction gives in a recording.
static constexpr int kMostTruths = 64;

//===----------------------------------------------------------------------===//
// What the next run should do better
//===----------------------------------------------------------------------===//

void Run::learn(const FrameState &state, const Reason &why) {
  if (known.insert({{state.code, state.offset}, why}).second)
    learned.push_back({Py_NewRef(reinterpret_cast<PyObject *>(state.code)),
                       state.offset, why});
}

/// An object that cannot be carried over the graph break: next time, break in
/// front of the instruction that makes it, and it is only passed on.
void Run::learnAllocation(Recording &recording,
                          const std::vector<FrameState> &states) {
  auto allocation =
      recording.breaks.allocationSites.find(recording.breaks.refused);
  if (!recording.breaks.refused ||
      allocation == recording.breaks.allocationSites.end())
    return;
  for (size_t i = states.size(); i-- > 0;) {
    const ShadowFrame &shadow = recording.tracker.frames[states[i].frame];
    if (i >= allocation->second.size() ||
        allocation->second[i].frame != shadow.frame ||
        allocation->second[i].code != shadow.code)
      continue;
    FrameState state = states[i];
    state.offset = allocation->second[i].offset - state.shift;
    if (recording.tracker.info(shadow.code)
            .exits(allocation->second[i].offset)
            .empty())
      continue;
    return learn(state, recording.reason);
  }
}

/// What the call returns shows that it was partly in inference mode, or is the
/// `.data` of an input: next time, a segment ends where that was made.
bool Run::learnAtEnd(Recording &recording) {
  PyObject *refused = recording.breaks.refused;
  auto allocation = recording.breaks.allocationSites.find(refused);
  if (!planner || !refused ||
      (refused != recording.calls.firstInferenceMode &&
       !recording.objects.isTensor(refused)) ||
      allocation == recording.breaks.allocationSites.end() ||
      allocation->second.empty())
    return false;
  const GraphBreaks::AllocationSite &at = allocation->second.front();
  Origin origin = originOf(at.code, nullptr);
  if (recording.tracker.info(at.code).exits(at.offset).empty())
    return false;
  FrameState state;
  state.code = origin.code;
  state.offset = at.offset - origin.shift;
  learn(state, recording.reason);
  return true;
}

/// No part of the call is compiled.
void Run::forget(std::vector<Segment> &recorded) {
  for (Segment &segment : recorded) {
    forget(segment.fallback);
    for (PyObject *held : {segment.key, segment.objects, segment.graphBreak})
      Py_XDECREF(held);
    for (const auto &sites : {segment.numbers, segment.gradients})
      for (const auto &site : sites)
        Py_DECREF(site.first);
    for (const Segment::Fixed &fixed : segment.fixed)
      Py_DECREF(fixed.code);
  }
  recorded.clear();
}

/// What was so in this call is not likely to be so again.
void Run::pass(Recording &recording) {
  const ShadowFrame &frame = recording.tracker.frames.back();
  Origin origin = originOf(frame.code, nullptr);
  passed.emplace_back(Py_NewRef(reinterpret_cast<PyObject *>(origin.code)),
                      frame.offset - origin.shift);
  if (reason.empty())
    reason = recording.reason;
  stopped = true;
}

/// Where a data-dependent scalar was used in a way that a specialization cannot
/// repeat, the tensor has to be asked by Python itself.
void Run::learnNumbers(Recording &recording) {
  for (int site : recording.dataNumbers.lostSites) {
    auto [code, offset] = recording.dataNumbers.sites[site];
    FrameState state;
    state.code = code;
    state.offset = offset;
    learn(state,
          {ReasonKind::DataInPython, "a tensor's data as a Python number"});
  }
}

/// Of a tensor's truth that is a value, and that no jump asks for at once
/// (`torch._check(t.item())`). True is one object and cannot be followed: the
/// program checks that it is what it was, for most such calls find it so for
/// ever. Where a recording finds another one, the graph breaks from then on
/// (see _fixed_values.py); so it does where a loop asks in each iteration, for
/// that loop may have any number of them.
bool Run::goesByTruth(PyCodeObject *code, int offset, PyObject *tensor) {
  Recording &s = *recording;
  Origin origin = originOf(code, nullptr);
  std::pair<PyCodeObject *, int> site{origin.code, offset - origin.shift};
  auto &frames = s.tracker.frames;
  bool isGenerator =
      std::any_of(frames.begin() + 1, frames.end(), [](const ShadowFrame &f) {
        return pyjitFrameIsGenerator(f.frame);
      });
  // Where gradients flow, a graph break may be in front of a backward: such
  // truths are branches that go one way (see learnOneWay).
  if (known.count(site) || ranBackward(s) || s.tensors->gradientFlows() ||
      s.decisions.heads.count > 0 || s.checkpoint.repeats() || !planner ||
      surveying || isGenerator || s.tensors->valueOf(tensor) < 0)
    return false;
  int outcome = TensorRecorder::truthOf(tensor);
  if (outcome < 0)
    return false;
  if (!frames.back().truths.insert(offset).second ||
      ++s.decisions.truthsAt[site] > kMostTruths) {
    Reason why{ReasonKind::DataInPython, "a tensor's data read by Python"};
    known.emplace(site, why);
    learned.push_back({Py_NewRef(reinterpret_cast<PyObject *>(site.first)),
                       site.second, why});
    return false;
  }
  s.dataNumbers.noteSite(); // a graph break there, if this cannot be compiled
  s.breaks.noteFixed(GraphBreaks::Fixes::Truth, outcome);
  s.attributes.special(tensor, "__bool__");
  s.decisions.speculate(s.tensors->valueOf(tensor), outcome);
  return !s.ended();
}

/// Of a result whose size depends on data (`x[mask]`): most masks let as many
/// elements through in each call, or another number in each. The program checks
/// that it is what it was; where a recording finds another one, the graph
/// breaks from then on (see _fixed_values.py).
bool Run::goesBySize() {
  Recording &s = *recording;
  const ShadowFrame &frame = s.tracker.frames.back();
  // Where sizes differ between calls, such a number hardly stays.
  if (!frame.code || !planner || surveying || s.decisions.heads.count > 0 ||
      s.checkpoint.repeats() || s.sizes.followed)
    return false;
  Origin origin = originOf(frame.code, nullptr);
  int offset = frame.running < 0 ? frame.offset : frame.running;
  std::pair<PyCodeObject *, int> site{origin.code, offset - origin.shift};
  return !known.count(site) && ++s.decisions.truthsAt[site] <= kMostTruths;
}

//===----------------------------------------------------------------------===//
// Graph breaks
//===----------------------------------------------------------------------===//

/// The frames that a graph break takes apart, outermost first; empty if the
/// interpreter cannot be made to go on from here.
std::vector<FrameState> Run::framesAtGraphBreak(Recording &recording) {
  std::vector<FrameState> states;
  size_t innermost = recording.tracker.frames.size() - 1;
  bool direct = recording.breaks.resumed ||
                (innermost >= 1 && recording.tracker.frames[1].direct);
  if (recording.breaks.noGraphBreak || !direct)
    return states;
  // Around a transform, if one runs.
  size_t last = innermost;
  if (recording.transforms.isActive())
    last = recording.transforms.caller();
  // Nor could a later call use the ids that a copy remembers.
  if (int around = recording.copies.caller(); around >= 0)
    last = std::min(last, size_t(around));
  // Nor could a continuation begin where the mode of a default device is off.
  if (int around = recording.run.device->caller(recording); around >= 0)
    last = std::min(last, size_t(around));
  // An exception may have left some of the frames meanwhile.
  std::set<PyjitFrame *> running;
  for (PyjitFrame *f = pyjitCurrentFrame(); f; f = pyjitPreviousFrame(f))
    running.insert(f);
  for (size_t i = 1; i <= last; ++i) {
    if (!running.count(recording.tracker.frames[i].frame))
      break;
    FrameState state;
    auto is = [&](FramePhase phase) {
      state = {};
      return recording.breaks.frameState(i, phase, state);
    };
    bool inner = i == innermost
                     ? is(recording.breaks.endedBefore ? FramePhase::Before
                                                       : FramePhase::During)
                 : i == last ? false
                             : is(FramePhase::Calling);
    // The graph break may be around all that this frame's instruction does.
    if (!inner && (i == innermost || !is(FramePhase::During)))
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

/// Where a frame is, in original code.
static std::pair<PyCodeObject *, int> siteOf(const ShadowFrame &frame) {
  Origin origin = originOf(frame.code, nullptr);
  return {origin.code, frame.offset - origin.shift};
}

/// Whether a generator runs within the instruction of a graph break, which
/// cannot be handed on: `all(g.isfinite().all() for g in gradients)`.
static bool isInGenerator(const Recording &recording, const FrameState &at) {
  const auto &frames = recording.tracker.frames;
  return std::any_of(frames.begin() + at.frame + 1, frames.end(),
                     [](const ShadowFrame &frame) {
                       return pyjitFrameIsGenerator(frame.frame);
                     });
}

/// A generator that the call has made and that runs now, in such an
/// instruction.
static PyObject *runningGenerator(const Recording &recording,
                                  const FrameState &at) {
  const auto &frames = recording.tracker.frames;
  auto runs = [&](PyObject *generator) {
    PyObject *code = reinterpret_cast<PyObject *>(
        PyGen_GetCode(reinterpret_cast<PyGenObject *>(generator)));
    bool found =
        std::any_of(frames.begin() + at.frame + 1, frames.end(),
                    [&](const ShadowFrame &frame) {
                      return reinterpret_cast<PyObject *>(frame.code) == code &&
                             pyjitFrameIsGenerator(frame.frame);
                    });
    Py_DECREF(code);
    return found;
  };
  for (const auto &[object, site] : recording.breaks.allocationSites)
    if (PyGen_CheckExact(object) && runs(object))
      return object;
  return nullptr;
}

/// A backward needs what segments in front of branches have computed: next
/// time, they are one recording. `from`: the first of the branches.
void Run::learnOneWay(size_t from, const Reason &why) {
  for (size_t i = from; i < branches.size(); ++i) {
    const auto &[code, offset] = branches[i];
    if (known.emplace(std::pair(code, offset), why).second)
      learned.push_back(
          {Py_NewRef(reinterpret_cast<PyObject *>(code)), offset, why});
  }
}

/// Where iterations end of a loop that has become too long: the next recording
/// breaks at the first. False: that was known.
bool Run::learnLoop(const Recording &recording) {
  auto site = siteOf(recording.tracker.frames.back());
  if (!known.emplace(site, recording.reason).second)
    return false;
  learned.push_back({Py_NewRef(reinterpret_cast<PyObject *>(site.first)),
                     site.second, recording.reason});
  return true;
}

SourceLine pyjit::capture::sourceLineOf(PyCodeObject *code, int offset) {
  const char *file = PyUnicode_AsUTF8(code->co_filename);
  const char *function = PyUnicode_AsUTF8(code->co_qualname);
  PyErr_Clear();
  return {file ? file : "?", PyCode_Addr2Line(code, offset),
          function ? function : "?"};
}

/// A recording that began behind a graph break knows its own frames alone; the
/// others wait for it.
void Run::addOuterFrames(Reason &reason) const {
  std::vector<SourceLine> outer;
  for (const Waiting &frame : waiting)
    outer.push_back(sourceLineOf(frame.code, frame.offset));
  // An earlier run's, which ended there, too, has them.
  auto same = [](const SourceLine &a, const SourceLine &b) {
    return a.line == b.line && a.file == b.file && a.function == b.function;
  };
  if (outer.empty() ||
      (!reason.stack.empty() && same(reason.stack.front(), outer.front())))
    return;
  reason.stack.insert(reason.stack.begin(), outer.begin(), outer.end());
}

/// The program asks for what differs where a call is compiled in segments.
void Run::refuseSegments(const Reason &why) {
  forget(segments);
  // A later run that broke in front of a call would not see it ask.
  for (const SegmentedResult::Lesson &lesson : learned)
    Py_DECREF(lesson.code);
  learned.clear();
  reason = why;
  stopped = true;
}

void Run::breakGraph(std::unique_ptr<Recording> recording) {
  addOuterFrames(recording->reason);
  if (recording->breaks.asksSegments)
    return refuseSegments(recording->reason);
  behindBranch = false;
  size_t learnedBefore = learned.size();
  if (recording->breaks.lacksHistory)
    learnOneWay();
  // A segment that began under no_grad: the next recording begins in front.
  bool beganTooLate = recording->breaks.lacksHistory &&
                      recording->reason.kind == ReasonKind::GradMode &&
                      learned.size() > learnedBefore;
  if (recording->breaks.passes || beganTooLate)
    return pass(*recording);
  Reason why = recording->reason;
  auto noteReason = [&] {
    if (reason.empty())
      reason = why;
  };
  if (why.kind == ReasonKind::LongLoop && learnLoop(*recording)) {
    noteReason();
    stopped = true;
    return;
  }
  bool lost = !recording->dataNumbers.lostSites.empty();
  std::vector<FrameState> states;
  if (lost)
    learnNumbers(*recording);
  else if (handlesException())
    why.text = joinReasons(why.text, "an exception is being handled there");
  else
    states = framesAtGraphBreak(*recording);
  if (states.empty()) {
    noteReason();
    stopped = true;
    return;
  }
  size_t innermost = recording->tracker.frames.size() - 1;
  bool within =
      !recording->breaks.endedBefore || states.back().frame != innermost;
  bool through = false, mayGoThrough = false;
  if (why.kind == ReasonKind::BranchOnData) {
    auto site = siteOf(recording->tracker.frames.back());
    branches.push_back(site);
    mayGoThrough = !recording->checkpoint.repeats() &&
                   !recording->transforms.isActive() && !known.count(site);
    // The graph break would be around all that the call in between does. (It is
    // where a recording that was to go through could not.)
    int gradMode = -1; // what the call has made of it
    // No graph break leaves a region of autocast that the call has begun. (In
    // front of inference mode one can be made that lets both ways be joined.)
    bool stays = !recording->tensors->stateChange(&gradMode).empty() &&
                 recording->calls.inferenceModes.empty();
    through = mayGoThrough &&
              (stays || (within && (recording->tensors->gradientFlows() ||
                                    gradMode == 0 ||
                                    isInGenerator(*recording, states.back()))));
    if (through)
      learnOneWay(stays ? branches.size() - 1 : 0);
    // What would be recorded behind it begins within the region, and would
    // learn to break the graph where that ends.
    if (through && stays) {
      noteReason();
      stopped = true;
      return;
    }
  }
  if (within) {
    if (!through) {
      learn(states.back(), why);
      // In front of the instruction it could not be handed on either.
      recording->breaks.refused = runningGenerator(*recording, states.back());
      learnAllocation(*recording, states);
    }
    noteReason();
  } else if (recording->escape.leaveAtGraphBreak(states)) {
    add(*recording, makeGraphBreak(why, states));
    behindBranch =
        why.kind == ReasonKind::BranchOnData && states.back().exits.size() == 2;
  } else if (mayGoThrough && recording->calls.inferenceModes.empty()) {
    // What a frame holds cannot be handed on, but the branch may go one way.
    // (In inference mode, see above.)
    why.text = joinReasons(why.text, recording->reason.text);
    noteReason();
    learnOneWay(branches.size() - 1, fewWays());
    // Nor would what is recorded behind it be of use.
    stopped = true;
    return;
  } else {
    learnNumbers(*recording);
    learnAllocation(*recording, states);
    why.text = joinReasons(why.text, recording->reason.text);
    noteReason();
    // What a frame holds can nowhere be carried over: around its call, then.
    if (learned.size() == learnedBefore && states.size() > 1)
      learn(states[states.size() - 2], why);
  }
  await(*recording, states);
}

/// Remembers the functions that the recorded segment has made.
void Run::noteFunctions(const Recording &recording) {
  for (const auto &[object, node] : recording.objects.nodes)
    if (PyFunction_Check(object) && !node->external &&
        functionsMade.insert(object).second)
      kept.push_back(Py_NewRef(object));
}

/// Waits for the frames to go on behind the graph break.
void Run::await(Recording &recording, const std::vector<FrameState> &states) {
  for (const auto &entry : recording.objects.unseen)
    if (opaque.insert(entry.first).second)
      kept.push_back(Py_NewRef(entry.first));
  // What it was given, and has only passed on, is followed on.
  std::erase_if(followed, [&](PyObject *number) {
    return recording.scalars.isTracked(number);
  });
  for (PyObject *number : recording.scalars.followed()) {
    followed.insert(number);
    kept.push_back(Py_NewRef(number));
  }
  followsSizes |= recording.sizes.followed;
  noteFunctions(recording);
  for (const FrameState &state : states) {
    const ShadowFrame &shadow = recording.tracker.frames[state.frame];
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
