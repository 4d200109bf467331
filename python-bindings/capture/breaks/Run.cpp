//===- Run.cpp - A monitored run: recordings one after the other ----------===//
//
// The life of a run: the events of the interpreter, who of the sessions and
// waiting frames they are for, and what the recordings come to. Where a run is
// cut is in RunCuts.cpp, where it goes on in RunResume.cpp, loops on data are
// in Decisions.cpp.
//
//===----------------------------------------------------------------------===//

#include "breaks/Run.h"
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
    (run->*handle)(reinterpret_cast<PyCodeObject *>(args[0]),
                   int(PyLong_AsLong(args[1])));
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
  for (const CutResult::Lesson &lesson : learned)
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

void Run::allowCuts() {
  planner = request.planner;
  PyObject *at, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(request.points, &position, &at, &value))
    known[siteOf(at)] = PyUnicode_AsUTF8(value);
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
    reason = "a capture is running already";
    return eager();
  }
  reason = TensorRecorder::unsupportedState();
  if (!reason.empty())
    return eager();
  thread = PyThreadState_Get();
  handled = PyErr_GetHandledException();

  PyObject *result = nullptr;
  {
    SysMonitoring monitoring(&startMethod, &instructionMethod);
    if (!monitoring.isActive()) {
      reason = "sys.monitoring's optimizer slot is in use by another tool";
      return eager();
    }
    if (isContinuation(callable)) {
      Entry entry = entryOf(callable);
      waiting.push_back({nullptr, entry.code, -1, {entry.offset}});
    } else {
      session = std::make_unique<Session>(request.context, request.name,
                                          surveying, request.lifted);
      if (request.followSizes)
        session->sizes.followed = true;
      if (planner)
        cutAt(*session);
      if (!session->begin(callable, given, nargs, kwnames, request.unseen)) {
        reason = session->reason;
        session.reset();
        stopped = true;
      } else {
        Session::current = session.get();
        session->tensors->start();
      }
    }
    current = this;
    result = eager();
    current = nullptr;
    Session::current = nullptr;
    if (session)
      session->tensors->stop();
  }
  // Everything below looks at objects only; the call is over.
  PyObject *error = PyErr_GetRaisedException();
  if (session && result) {
    if (session->ended()) {
      // In the middle of the last instruction.
      if (planner)
        cut(std::move(session));
      else
        reason = session->reason;
    } else if (!session->breaks.resumed) {
      session->finishCall(result);
      learnNumbers(*session);
      if (session->ended() && !learnAtEnd(*session))
        reason = session->reason;
      else if (!session->ended())
        add(*session, nullptr);
      whole = std::move(session);
    }
  }
  PyErr_Clear();
  PyErr_SetRaisedException(error);
  return result;
}

void Run::add(Session &session, PyObject *cut) {
  // Ended somewhere else than at a head: what was kept at the first one does.
  if (session.decisions.heads.forked &&
      !(session.decisions.heads.complete && cut)) {
    segments[session.decisions.heads.plain].mayLoop |=
        session.decisions.heads.ranOut;
    Py_XDECREF(cut);
    Py_CLEAR(key);
    return;
  }
  Segment segment;
  segment.key = key;
  key = nullptr;
  if (session.sizes.followed)
    session.writer.setFollowsSizes();
  segment.trace = session.writer.take();
  segment.objects = Py_NewRef(session.objects.list);
  segment.nargs = session.breaks.argumentCount;
  segment.cut = cut;
  segment.gradMode = session.breaks.gradModeLeft;
  segment.footing = session.tensors->footing();
  segment.mayLoop = session.decisions.heads.early;
  for (auto [code, offset] : session.dataNumbers.sites)
    segment.numbers.push_back(
        {Py_NewRef(reinterpret_cast<PyObject *>(code)), offset});
  if (!session.decisions.heads.forked) {
    segments.push_back(std::move(segment));
    return;
  }
  Segment &place = segments[session.decisions.heads.plain];
  segment.fallback.push_back(std::move(place));
  place = std::move(segment);
  const ShadowFrame &frame = session.tracker.frames[1];
  Origin origin = originOf(frame.code, pyjitFrameFunction(frame.frame));
  loops.insert({origin.code, session.decisions.heads.start - origin.shift});
}

void Run::onStart(PyCodeObject *code, int offset) {
  if (session && session->ended())
    after();
  if (!session)
    return;
  session->onStart(code, offset);
  after();
}

void Run::onInstruction(PyCodeObject *code, int offset) {
  if (session && session->ended())
    after(); // in the middle of the last instruction
  if (stopped)
    return;
  PyjitFrame *frame = pyjitCurrentFrame();
  if (session) {
    // An exception left the frames that are recorded.
    for (const Waiting &outer : waiting)
      if (outer.frame == frame) {
        session->tensors->stop();
        Session::current = nullptr;
        session.reset();
        stopped = true;
        return;
      }
    session->onInstruction(code, offset);
    after();
    if (session || stopped)
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
  if (session->ended()) {
    session->tensors->stop();
    Session::current = nullptr;
    if (planner && !surveying) {
      cut(std::move(session));
    } else {
      if (reason.empty())
        reason = session->reason;
      session.reset();
      stopped = true;
    }
  } else if (session->breaks.finished) {
    session->tensors->stop();
    Session::current = nullptr;
    add(*session, nullptr);
    session.reset();
  }
}

//===----------------------------------------------------------------------===//
// For the extension (Recorder.h)
//===----------------------------------------------------------------------===//

bool pyjit::capture::isCapturing() {
  Session *session = Session::current;
  return session && !session->ended() &&
         session->thread == _PyThreadState_UncheckedGet();
}

static CaptureResult finish(Run &run, PyObject *result) {
  CaptureResult out;
  out.result = result;
  out.reason = run.reason;
  if (run.surveying && run.whole)
    for (const std::string &entry : run.whole->surveyed)
      out.reason += entry + "\n";
  if (run.segments.empty()) {
    out.objects = PyList_New(0);
    return out;
  }
  Segment &first = run.segments[0];
  if (!run.surveying && result && run.segments.size() == 1)
    out.trace = std::move(first.trace);
  out.objects = first.objects;
  out.nargs = first.nargs;
  out.footing = first.footing;
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

CutResult pyjit::capture::captureWithCuts(const CaptureRequest &request,
                                          PyObject *callable,
                                          PyObject *const *args, size_t nargs,
                                          PyObject *kwnames) {
  Run run(request, /*surveying=*/false);
  run.allowCuts();
  CutResult out;
  out.result = run.execute(callable, args, PyVectorcall_NARGS(nargs), kwnames);
  out.segments = std::move(run.segments);
  out.learned = std::move(run.learned);
  out.passed = std::move(run.passed);
  out.reason = run.reason;
  run.learned.clear();
  run.passed.clear();
  return out;
}
