//===- Run.cpp - A monitored run: recordings one after the other ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The life of a run: the events of the interpreter, who of the recordings and
// waiting frames they are for, and what the recordings come to. Where a run
// breaks is in RunBreaks.cpp, where it goes on in RunResume.cpp, loops on data
// are in Decisions.cpp.
//
//===----------------------------------------------------------------------===//

#include "breaks/Run.h"
#include "breaks/CaptureTypes.h"
#include "breaks/Continuation.h"
#include "interpreter/SysMonitoring.h"
#include "tensors/Tensors.h"

using namespace pyjit::capture;

Run *Run::current = nullptr;

template <void (Run::*handle)(PyCodeObject *, int)>
static PyObject *onEvent(PyObject *, PyObject *const *args, Py_ssize_t nargs) {
  Run *run = Run::current;
  if (run && nargs == 2 && PyThreadState_Get() == run->thread) {
    // Handlers only look; whatever error a look-up leaves is not the user's.
    // One of Torch's must not leave the interpreter's callback, either.
    try {
      (run->*handle)(reinterpret_cast<PyCodeObject *>(args[0]),
                     int(PyLong_AsLong(args[1])));
    } catch (const std::exception &error) {
      run->failed(error.what());
    }
    if (PyErr_Occurred())
      PyErr_Clear();
  }
  Py_RETURN_NONE;
}

template <void (Run::*handle)(PyCodeObject *, int)>
static PyCFunction asMethod() {
  return reinterpret_cast<PyCFunction>(
      reinterpret_cast<void (*)()>(onEvent<handle>));
}

static PyMethodDef startMethod = {"pyjit_start", asMethod<&Run::onStart>(),
                                  METH_FASTCALL, nullptr};
static PyMethodDef instructionMethod = {"pyjit_instruction",
                                        asMethod<&Run::onInstruction>(),
                                        METH_FASTCALL, nullptr};

Run::Run(const CaptureRequest &request, bool surveying)
    : request(request), surveying(surveying) {}

Run::~Run() {
  for (const SegmentedResult::Lesson &lesson : learned)
    Py_DECREF(lesson.code);
  for (const Site &site : passed)
    Py_DECREF(site.first);
  Py_XDECREF(key);
  Py_XDECREF(handled);
  for (PyObject *object : kept)
    Py_DECREF(object);
}

/// A key (code, offset) of one of the planner's dicts.
static std::pair<PyCodeObject *, int> siteOf(PyObject *at) {
  return {reinterpret_cast<PyCodeObject *>(PyTuple_GET_ITEM(at, 0)),
          int(PyLong_AsLong(PyTuple_GET_ITEM(at, 1)))};
}

void Run::allowGraphBreaks() {
  planner = request.planner;
  PyObject *at, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(request.points, &position, &at, &value))
    known[siteOf(at)] = toReason(value);
  position = 0;
  while (PyDict_Next(request.passed, &position, &at, &value))
    passes[siteOf(at)] = int(PyLong_AsLong(value));
}

PyObject *Run::execute(PyObject *callable, PyObject *const *args, size_t nargs,
                       PyObject *kwnames) {
  // Lifted numbers are given as objects of their own.
  std::vector<PyObject *> given(
      args, args + nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
  auto eager = [&] {
    return PyObject_Vectorcall(callable, given.data(), nargs, kwnames);
  };
  if (current) {
    reason = {ReasonKind::Monitoring, "a capture is running already"};
    return eager();
  }
  reason = {ReasonKind::TorchState, TensorRecorder::unsupportedState()};
  if (!reason.empty())
    return eager();
  thread = PyThreadState_Get();
  handled = PyErr_GetHandledException();

  PyObject *result = nullptr;
  {
    SysMonitoring monitoring(&startMethod, &instructionMethod);
    if (!monitoring.isActive()) {
      reason = {ReasonKind::Monitoring,
                "sys.monitoring's optimizer slot is in use by another tool"};
      return eager();
    }
    if (isContinuation(callable)) {
      Entry entry = entryOf(callable);
      waiting.push_back({nullptr, entry.code, -1, {entry.offset}});
      arguments.insert(given.begin(), given.end());
      recordedAll = false;
    } else {
      recording = std::make_unique<Recording>(request.context, request.name,
                                              surveying, request.lifted);
      if (request.followSizes)
        recording->sizes.followed = true;
      if (request.isPart)
        recording->checkpoint.bePart();
      recording->run.device = &device;
      recording->run.copies = &copies;
      if (planner)
        breakAt(*recording);
      if (!recording->begin(callable, given, nargs, kwnames, request.unseen)) {
        reason = recording->reason;
        recording.reset();
        stopped = true;
      } else {
        Recording::current = recording.get();
        recording->tensors->start();
      }
    }
    current = this;
    events = &monitoring;
    device.settle(isRecording());
    result = eager();
    if (!events)
      eagerSeconds =
          std::chrono::duration<double>(Clock::now() - eventsEnded).count();
    events = nullptr;
    device.end();
    current = nullptr;
    Recording::current = nullptr;
    TensorRecorder::stop();
  }
  // Everything below looks at objects only; the call is over.
  PyObject *error = PyErr_GetRaisedException();
  if (recording && result) {
    if (recording->ended()) {
      // In the middle of the last instruction.
      if (planner)
        breakGraph(std::move(recording));
      else
        reason = recording->reason;
    } else if (!recording->breaks.resumed) {
      recording->finishCall(result);
      learnNumbers(*recording);
      if (recording->ended() && !learnAtEnd(*recording))
        reason = recording->reason;
      else if (!recording->ended())
        add(*recording, nullptr);
      whole = std::move(recording);
    }
  }
  PyErr_Clear();
  PyErr_SetRaisedException(error);
  return result;
}

void Run::noteSites(Segment &segment, const Recording &recording) {
  auto note = [](const auto &sites, auto &into) {
    for (auto [code, offset] : sites)
      into.push_back({Py_NewRef(reinterpret_cast<PyObject *>(code)), offset});
  };
  note(recording.dataNumbers.sites, segment.numbers);
  note(recording.breaks.gradientSites, segment.gradients);
  for (const GraphBreaks::Fixed &fixed : recording.breaks.fixed)
    segment.fixed.push_back(
        {Py_NewRef(reinterpret_cast<PyObject *>(fixed.code)), fixed.offset,
         int(fixed.what), reinterpret_cast<uintptr_t>(fixed.of), fixed.value});
}

/// Of dicts that an argument led to there may be another one in each call.
static bool makesState(const Recording &recording) {
  const auto &nodes = recording.objects.nodes;
  return std::any_of(nodes.begin(), nodes.end(), [](const auto &entry) {
    const Node &node = *entry.second;
    return node.external && node.addedItems && !node.inArgument &&
           !node.ofArgument;
  });
}

void Run::add(Recording &recording, PyObject *graphBreak) {
  // Ended somewhere else than at a head: what was kept at the first one does.
  if (recording.decisions.heads.forked &&
      !(recording.decisions.heads.complete && graphBreak)) {
    segments[recording.decisions.heads.plain].mayLoop |=
        recording.decisions.heads.ranOut;
    Py_XDECREF(graphBreak);
    Py_CLEAR(key);
    return;
  }
  Segment segment;
  segment.key = key;
  key = nullptr;
  if (recording.sizes.followed)
    recording.writer.setFollowsSizes();
  segment.trace = recording.writer.take();
  segment.objects = Py_NewRef(recording.objects.list);
  segment.nargs = recording.breaks.argumentCount;
  segment.graphBreak = graphBreak;
  segment.gradMode = recording.breaks.gradModeLeft;
  segment.dispatchState = recording.tensors->dispatchState();
  segment.mayLoop = recording.decisions.heads.early;
  segment.makesState = makesState(recording);
  noteSites(segment, recording);
  if (!recording.decisions.heads.forked) {
    segments.push_back(std::move(segment));
    return;
  }
  Segment &place = segments[recording.decisions.heads.plain];
  segment.fallback.push_back(std::move(place));
  place = std::move(segment);
  const ShadowFrame &frame = recording.tracker.frames[1];
  Origin origin = originOf(frame.code, pyjitFrameFunction(frame.frame));
  loops.insert({origin.code, recording.decisions.heads.start - origin.shift});
}

/// A recording that ended within the instruction before looks at the frames as
/// they were; all else finds the stack of modes as it is in eager.
void Run::onEvent(PyCodeObject *code, int offset, bool starts) {
  if (recording && recording->ended())
    after();
  device.onEvent(pyjitCurrentFrame(), offset, starts);
  device.settle(isRecording());
  if (starts)
    handleStart(code, offset);
  else
    handleInstruction(code, offset);
  if (!starts)
    copies.before(pyjitCurrentFrame(), code, offset);
  device.settle(isRecording());
  endEvents();
}

/// What is not recorded runs at its own speed, once nothing more will be, or
/// where so much has gone by that is recorded already (the further iterations
/// of a loop) that what follows is better left to a call which comes there
/// through compiled code. Comparisons of copied numbers need the events.
void Run::endEvents() {
  static constexpr size_t kMostPassedOver = 200'000;
  passedOver = recording ? 0 : passedOver + 1;
  if (!events || !copies.empty() || (!stopped && passedOver < kMostPassedOver))
    return;
  stopped = true;
  events->end();
  events = nullptr;
  eventsEnded = Clock::now();
}

/// Nothing comes of what is being recorded, and nothing more will be.
void Run::abandon() {
  TensorRecorder::stop();
  Recording::current = nullptr;
  recording.reset();
  stopped = true;
}

void Run::failed(const std::string &what) {
  abandon();
  // Torch's errors show a C++ stack below.
  if (reason.empty())
    reason = {ReasonKind::Internal,
              "an error of pyjit's own while it recorded: " +
                  what.substr(0, what.find('\n'))};
  endEvents();
}

void Run::handleStart(PyCodeObject *code, int offset) {
  if (!recording)
    return;
  recording->onStart(code, offset);
  after();
}

void Run::handleInstruction(PyCodeObject *code, int offset) {
  if (stopped)
    return;
  PyjitFrame *frame = pyjitCurrentFrame();
  if (recording) {
    // An exception left the frames that are recorded.
    for (const Waiting &outer : waiting)
      if (outer.frame == frame) {
        abandon();
        return;
      }
    recording->onInstruction(code, offset);
    after();
    if (recording || stopped)
      return;
  }
  if (skipped.frame) {
    if (frame == skipped.frame && code == skipped.code) {
      if (leavesSkipped(code, offset)) {
        skipped.frame = nullptr;
        start(frame, code, offset);
      }
      return;
    }
    bool left = false;
    for (const Waiting &outer : waiting)
      left |= outer.frame == frame;
    if (!left)
      return;
    skipped.frame = nullptr;
  }
  for (size_t i = waiting.size(); i-- > 0;) {
    Waiting &wanted = waiting[i];
    if (wanted.frame ? wanted.frame != frame : wanted.code != code)
      continue;
    for (int exit : wanted.exits)
      if (exit == offset && wanted.code == code) {
        waiting.resize(i);
        return start(frame, code, offset);
      }
    // The prologue of a continuation, or the instruction itself.
    if (!wanted.frame || offset == wanted.offset || offset == wanted.running)
      return;
    stopped = true; // an exception handler, or another call
    return;
  }
}

void Run::after() {
  if (recording->ended()) {
    TensorRecorder::stop();
    Recording::current = nullptr;
    if (planner && !surveying) {
      breakGraph(std::move(recording));
    } else {
      if (reason.empty())
        reason = recording->reason;
      recording.reset();
      stopped = true;
    }
  } else if (recording->breaks.finished) {
    TensorRecorder::stop();
    Recording::current = nullptr;
    noteFunctions(*recording);
    add(*recording, nullptr);
    recording.reset();
  }
}

//===----------------------------------------------------------------------===//
// For the extension (Recorder.h)
//===----------------------------------------------------------------------===//

bool pyjit::capture::isCapturing() {
  Recording *recording = Recording::current;
  return recording && !recording->ended() &&
         recording->thread == _PyThreadState_UncheckedGet();
}

bool pyjit::capture::mayMonitor() {
  Run *run = Run::current;
  return !(run && run->thread == _PyThreadState_UncheckedGet()) &&
         TensorRecorder::unsupportedState().empty();
}

static CaptureResult finish(Run &run, PyObject *result) {
  CaptureResult out;
  out.result = result;
  out.reason = run.reason;
  if (run.surveying && run.whole)
    for (const std::string &entry : run.whole->surveyed)
      out.surveyed += entry + "\n";
  if (run.segments.empty()) {
    out.objects = PyList_New(0);
    return out;
  }
  Segment &first = run.segments[0];
  if (!run.surveying && result && run.segments.size() == 1)
    out.trace = std::move(first.trace);
  out.objects = first.objects;
  out.nargs = first.nargs;
  out.dispatchState = first.dispatchState;
  for (size_t i = 1; i < run.segments.size(); ++i)
    Py_DECREF(run.segments[i].objects);
  return out;
}

CaptureResult pyjit::capture::capture(const CaptureRequest &request,
                                      PyObject *callable, PyObject *const *args,
                                      size_t nargs, PyObject *kwnames) {
  Run run(request, /*surveying=*/false);
  PyObject *result =
      run.execute(callable, args, PyVectorcall_NARGS(nargs), kwnames);
  return finish(run, result);
}

CaptureResult pyjit::capture::survey(PyObject *callable, PyObject *const *args,
                                     size_t nargs, PyObject *kwnames) {
  CaptureRequest request;
  request.context = pyjitContextCreate();
  request.name = "survey";
  Run run(request, /*surveying=*/true);
  PyObject *result =
      run.execute(callable, args, PyVectorcall_NARGS(nargs), kwnames);
  pyjitContextDestroy(request.context); // its traces keep what they need
  return finish(run, result);
}

SegmentedResult pyjit::capture::captureWithGraphBreaks(
    const CaptureRequest &request, PyObject *callable, PyObject *const *args,
    size_t nargs, PyObject *kwnames) {
  Run run(request, /*surveying=*/false);
  run.allowGraphBreaks();
  SegmentedResult out;
  out.result = run.execute(callable, args, PyVectorcall_NARGS(nargs), kwnames);
  out.segments = std::move(run.segments);
  out.learned = std::move(run.learned);
  out.passed = std::move(run.passed);
  out.reason = run.reason;
  out.eagerSeconds = run.eagerSeconds;
  run.learned.clear();
  run.passed.clear();
  return out;
}
