//===- Run.cpp - A monitored run: recordings one after the other ----------===//

#include "Run.h"
#include "Continuation.h"
#include "ObjectKinds.h"
#include "Tensors.h"

#include <utility>

using namespace pyjit::capture;

Run *Run::current = nullptr;

//===----------------------------------------------------------------------===//
// Monitoring
//===----------------------------------------------------------------------===//

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

static PyMethodDef callbacks[] = {
    {"pyjit_start", asMethod<&Run::onStart>(), METH_FASTCALL, nullptr},
    {"pyjit_instruction", asMethod<&Run::onInstruction>(), METH_FASTCALL,
     nullptr}};

namespace {

constexpr int kTool = 5; // sys.monitoring.OPTIMIZER_ID
/// PY_START and INSTRUCTION, in the order of `callbacks`.
constexpr int kEvents[] = {1 << 0, 1 << 6};

/// Monitoring is on for the life of this object, and off afterwards whatever
/// happens in between. Other tools keep their events.
class Monitoring {
public:
  Monitoring() {
    PyObject *sys = PyImport_ImportModule("sys");
    monitoring = sys ? PyObject_GetAttrString(sys, "monitoring") : nullptr;
    Py_XDECREF(sys);
    if (!monitoring || !call("use_tool_id", "is", kTool, "pyjit")) {
      PyErr_Clear();
      return;
    }
    inUse = true;
    active = true;
    for (int i = 0; i < 2; ++i) {
      PyObject *callback = PyCFunction_New(&callbacks[i], nullptr);
      active &= callback &&
                call("register_callback", "iiO", kTool, kEvents[i], callback);
      Py_XDECREF(callback);
    }
    active = active && call("set_events", "ii", kTool, kEvents[0] | kEvents[1]);
    PyErr_Clear();
  }
  ~Monitoring() {
    // The user's exception, if any, survives.
    PyObject *error = PyErr_GetRaisedException();
    if (inUse) {
      call("set_events", "ii", kTool, 0);
      for (int event : kEvents)
        call("register_callback", "iiO", kTool, event, Py_None);
      call("free_tool_id", "i", kTool);
    }
    Py_XDECREF(monitoring);
    PyErr_Clear();
    PyErr_SetRaisedException(error);
  }
  bool isActive() const { return active; }

private:
  template <typename... Args>
  bool call(const char *method, const char *format, Args... args) {
    PyObject *result = PyObject_CallMethod(monitoring, method, format, args...);
    Py_XDECREF(result);
    return result != nullptr;
  }
  PyObject *monitoring = nullptr;
  bool inUse = false, active = false;
};

} // namespace

//===----------------------------------------------------------------------===//
// A run
//===----------------------------------------------------------------------===//

Run::Run(const std::string &name, bool surveying)
    : name(name), surveying(surveying), learned(PyList_New(0)) {}

Run::~Run() {
  Py_XDECREF(learned);
  Py_XDECREF(key);
  Py_XDECREF(handled);
  for (PyObject *object : kept)
    Py_DECREF(object);
}

void Run::allowCuts(PyObject *points, PyObject *cutPlanner) {
  planner = cutPlanner;
  PyObject *at, *why;
  Py_ssize_t position = 0;
  while (PyDict_Next(points, &position, &at, &why))
    if (PyTuple_Check(at) && PyTuple_GET_SIZE(at) == 2 && PyUnicode_Check(why))
      known[{reinterpret_cast<PyCodeObject *>(PyTuple_GET_ITEM(at, 0)),
             int(PyLong_AsLong(PyTuple_GET_ITEM(at, 1)))}] =
          PyUnicode_AsUTF8(why);
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
    Monitoring monitoring;
    if (!monitoring.isActive()) {
      reason = "sys.monitoring's optimizer slot is in use by another tool";
      return eager();
    }
    if (isContinuation(callable)) {
      Entry entry = entryOf(callable);
      waiting.push_back({nullptr, entry.code, -1, {entry.offset}});
    } else {
      session = std::make_unique<Session>(name, surveying, lifted);
      session->cutPoints = planner ? &known : nullptr;
      if (!session->begin(callable, given, nargs, kwnames)) {
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
    } else if (!session->resumed) {
      session->finishCall(result);
      learnNumbers(*session);
      if (session->ended())
        reason = session->reason;
      else
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
  if (session.heads.forked && !(session.heads.complete && cut)) {
    Py_XDECREF(cut);
    Py_CLEAR(key);
    return;
  }
  Segment segment;
  segment.key = key;
  key = nullptr;
  segment.trace = session.writer.finish(session.name);
  segment.objects = Py_NewRef(session.objects);
  segment.nargs = session.argumentCount;
  segment.cut = cut;
  segment.gradMode = session.gradModeLeft;
  segment.mayLoop = session.heads.early;
  for (auto [code, offset] : session.sites)
    segment.numbers.push_back(
        {Py_NewRef(reinterpret_cast<PyObject *>(code)), offset});
  if (!session.heads.forked) {
    segments.push_back(std::move(segment));
    return;
  }
  Segment &place = segments[session.heads.plain];
  segment.fallback.push_back(std::move(place));
  place = std::move(segment);
  const ShadowFrame &frame = session.frames[1];
  Origin origin = originOf(frame.code, pyjitFrameFunction(frame.frame));
  loops.insert({origin.code, session.heads.start - origin.shift});
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
    if (!wanted.frame || offset == wanted.offset)
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
  } else if (session->finished) {
    session->tensors->stop();
    Session::current = nullptr;
    add(*session, nullptr);
    session.reset();
  }
}

//===----------------------------------------------------------------------===//
// Cuts
//===----------------------------------------------------------------------===//

static PyObject *boolTuple(const std::vector<bool> &values) {
  PyObject *tuple = PyTuple_New(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    PyTuple_SET_ITEM(tuple, i, PyBool_FromLong(values[i]));
  return tuple;
}

static PyObject *intTuple(const std::vector<int> &values) {
  PyObject *tuple = PyTuple_New(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    PyTuple_SET_ITEM(tuple, i, PyLong_FromLong(values[i]));
  return tuple;
}

static PyObject *keyOf(PyObject *function, PyCodeObject *code, int offset,
                       const std::vector<bool> &stack,
                       const std::vector<int> &slots) {
  return Py_BuildValue("(OOiNN)", function, code, offset, boolTuple(stack),
                       intTuple(slots));
}

PyObject *pyjit::capture::describe(const FrameState &state) {
  PyObject *exits = PyTuple_New(state.exits.size());
  for (size_t i = 0; i < state.exits.size(); ++i) {
    const Exit &exit = state.exits[i];
    std::vector<bool> stack(exit.depth, true);
    for (int j = 0; j < exit.kept; ++j)
      stack[j] = state.stack[j];
    if (exit.null)
      stack[exit.kept] = false;
    PyTuple_SET_ITEM(exits, i,
                     keyOf(state.function, state.code, exit.offset, stack,
                           state.exitSlots[i]));
  }
  return Py_BuildValue("(OOiNNN)", state.function, state.code, state.offset,
                       boolTuple(state.stack), intTuple(state.slots), exits);
}

void Run::learn(const FrameState &state, const std::string &why) {
  if (!known.insert({{state.code, state.offset}, why}).second)
    return;
  PyObject *entry =
      Py_BuildValue("(Ois)", state.code, state.offset, why.c_str());
  if (entry)
    PyList_Append(learned, entry);
  Py_XDECREF(entry);
}

/// An object that cannot be carried over the cut: next time, cut in front of
/// the instruction that makes it, and it is only passed on.
void Run::learnBirth(Session &session, const std::vector<FrameState> &states) {
  auto birth = session.births.find(session.refused);
  if (!session.refused || birth == session.births.end())
    return;
  for (size_t i = states.size(); i-- > 0;) {
    const ShadowFrame &shadow = session.frames[states[i].frame];
    if (i >= birth->second.size() || birth->second[i].frame != shadow.frame ||
        birth->second[i].code != shadow.code)
      continue;
    FrameState state = states[i];
    state.offset = birth->second[i].offset - state.shift;
    if (session.info(shadow.code).exits(birth->second[i].offset).empty())
      continue;
    return learn(state, session.reason);
  }
}

/// Where a number of a tensor's data was used in a way that a record cannot
/// repeat, the tensor has to be asked by Python itself.
void Run::learnNumbers(Session &session) {
  for (int site : session.lostSites) {
    auto [code, offset] = session.sites[site];
    FrameState state;
    state.code = code;
    state.offset = offset;
    learn(state, "a tensor's data as a Python number");
  }
}

void Run::cut(std::unique_ptr<Session> session) {
  std::string why = session->reason;
  if (!session->lostSites.empty()) {
    learnNumbers(*session);
    if (reason.empty())
      reason = why;
    stopped = true;
    return;
  }
  // An exception may have left some of the frames meanwhile.
  std::set<PyjitFrame *> running;
  for (PyjitFrame *f = pyjitCurrentFrame(); f; f = pyjitPreviousFrame(f))
    running.insert(f);
  size_t innermost = session->frames.size() - 1;
  std::vector<FrameState> states;
  bool before = session->endedBefore;
  if (!session->noCut &&
      (session->resumed || (innermost >= 1 && session->frames[1].direct))) {
    for (size_t i = 1; i <= innermost; ++i) {
      if (!running.count(session->frames[i].frame))
        break;
      FrameState state;
      auto is = [&](FramePhase phase) {
        state = {};
        return session->frameState(i, phase, state);
      };
      bool last = i == innermost;
      bool inner = last ? is(before ? FramePhase::Before : FramePhase::During)
                        : is(FramePhase::Calling);
      // The cut may be around all that this frame's instruction does.
      if (!inner && (last || !is(FramePhase::During)))
        break;
      states.push_back(std::move(state));
      if (!inner)
        break;
    }
  }
  if (states.empty()) {
    if (reason.empty())
      reason = why;
    stopped = true;
    return;
  }
  bool done = false;
  if (before && states.back().frame == innermost) {
    done = session->leaveCut(states);
    if (done) {
      PyObject *frames = PyTuple_New(states.size());
      for (size_t i = 0; i < states.size(); ++i)
        PyTuple_SET_ITEM(frames, i, describe(states[i]));
      add(*session, Py_BuildValue("(sN)", why.c_str(), frames));
    } else {
      learnNumbers(*session);
      learnBirth(*session, states);
      // Both name the same place.
      size_t place = why.rfind(" at ");
      if (place != std::string::npos &&
          why.size() - place <= session->reason.size() &&
          !session->reason.compare(session->reason.size() -
                                       (why.size() - place),
                                   std::string::npos, why, place))
        why.resize(place);
      why += "; " + session->reason;
    }
  } else {
    learn(states.back(), why);
  }
  if (!done && reason.empty())
    reason = why;
  for (const auto &entry : session->unseen)
    if (opaque.insert(entry.first).second)
      kept.push_back(Py_NewRef(entry.first));
  for (const FrameState &state : states) {
    const ShadowFrame &shadow = session->frames[state.frame];
    Waiting wanted{shadow.frame, shadow.code, shadow.offset, {}};
    std::vector<int> &exits = sites[{state.code, state.offset}];
    exits.clear();
    for (const Exit &exit : state.exits) {
      exits.push_back(exit.offset);
      wanted.exits.push_back(exit.offset + state.shift);
    }
    waiting.push_back(std::move(wanted));
  }
}

/// Lets a part of the frame that is recorded already pass by.
void Run::skip(PyjitFrame *frame, PyCodeObject *code, int offset) {
  skipped = {frame, code, offset, {}};
  PyObject *function = pyjitFrameFunction(frame);
  skippedShift = originOf(code, function).shift;
}

/// The next instruction of a frame that is skipped: whether it is where a cut
/// of an earlier part went on.
bool Run::leavesSkipped(PyCodeObject *code, int offset) {
  int last = std::exchange(skipped.offset, offset);
  auto site = sites.find({originOf(code, nullptr).code, last - skippedShift});
  if (site == sites.end())
    return false;
  for (int exit : site->second)
    if (exit + skippedShift == offset)
      return true;
  return false;
}

/// Records from here on, in front of the instruction at `offset`.
void Run::start(PyjitFrame *frame, PyCodeObject *code, int offset) {
  auto stop = [&](const std::string &why) {
    stopped = true;
    if (reason.empty())
      reason = why;
  };
  PyObject *handledNow = PyErr_GetHandledException();
  Py_XDECREF(handledNow);
  PyObject *function = pyjitFrameFunction(frame);
  if (handledNow != handled)
    return stop("a cut while an exception is being handled");
  std::string state = TensorRecorder::unsupportedState();
  if (!state.empty())
    return stop(state);
  if (!function || !PyFunction_Check(function) || ++count > 1000)
    return stop("so many cuts in one call");
  auto next = std::make_unique<Session>(
      name + "_resume" + std::to_string(count), false);
  CodeInfo &facts = next->info(code);
  const Instruction &in = facts.at(offset);
  if (!in.start || in.depth < 0)
    return stop("bytecode of unknown stack height");
  std::vector<bool> stackMask;
  std::vector<int> slots;
  std::vector<PyObject **> places;
  std::vector<PyObject *> names;
  PyObject **stack = pyjitFrameStack(frame);
  for (int i = 0; i < in.depth; ++i) {
    stackMask.push_back(stack[i] != nullptr);
    if (stack[i]) {
      places.push_back(&stack[i]);
      names.push_back(nullptr);
    }
  }
  PyObject **locals = pyjitFrameLocals(frame);
  const std::vector<bool> &live = facts.liveAt(offset);
  for (int i = 0; i < code->co_nlocalsplus - code->co_nfreevars; ++i) {
    if (!Session::isCarried(live[i], locals[i]))
      continue;
    slots.push_back(i);
    places.push_back(&locals[i]);
    names.push_back(PyTuple_GET_ITEM(code->co_localsplusnames, i));
  }

  Origin origin = originOf(code, function);
  Py_XSETREF(key, keyOf(origin.function, origin.code, offset - origin.shift,
                        stackMask, slots));
  std::string kinds;
  PyObject *values = PyTuple_New(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    PyObject *object = *places[i];
    PyTuple_SET_ITEM(values, i, Py_NewRef(object));
    bool result = i + 1 == size_t(in.depth); // of the instruction cut at
    kinds += opaque.count(object)       ? 'u'
             : isValue(object)          ? (result ? 'r' : 'v')
             : isNativeIterator(object) ? 'i'
             : !next->isTensor(object) && next->shouldPin(object) ? 'p'
                                                                  : 'o';
  }
  PyObject *plan =
      isInLoop(*next, code, offset)
          ? (Py_DECREF(values), Py_NewRef(Py_False))
          : PyObject_CallFunction(planner, "OsN", key, kinds.c_str(), values);
  if (plan == Py_False) {
    // Recorded already: wait for what that record must have come to.
    Py_DECREF(plan);
    return skip(frame, code, offset);
  }
  PyObject *unseenPlaces, *liftedPlaces;
  if (!plan || !PyTuple_Check(plan) ||
      !PyArg_ParseTuple(plan, "O!O!", &PyTuple_Type, &unseenPlaces,
                        &PyTuple_Type, &liftedPlaces)) {
    Py_XDECREF(plan);
    return stop("so many continuations");
  }
  std::set<int> unseen;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(unseenPlaces); ++i)
    unseen.insert(int(PyLong_AsLong(PyTuple_GET_ITEM(unseenPlaces, i))));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(liftedPlaces); ++i)
    if (const char *place = PyUnicode_AsUTF8(PyTuple_GET_ITEM(liftedPlaces, i)))
      next->scalars.lift(place);
  Py_DECREF(plan);

  session = std::move(next);
  session->cutPoints = &known;
  session->argumentCount = Py_ssize_t(places.size());
  if (!unseen.erase(-1)) // a loop that was tried in vain
    expectLoop(*session, frame, code, offset);
  Session::current = session.get();
  session->beginAt(frame, code, offset, origin.function, places, names, unseen);
  session->tensors->start();
  if (!session->ended())
    session->onInstruction(code, offset);
  after();
}

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
  else if (result && run.segments.size() == 1)
    out.trace = run.segments[0].trace;
  out.objects = run.segments.empty() ? PyList_New(0) : run.segments[0].objects;
  for (size_t i = 1; i < run.segments.size(); ++i)
    Py_DECREF(run.segments[i].objects);
  return out;
}

CaptureResult pyjit::capture::capture(PyObject *callable, PyObject *const *args,
                                      size_t nargs, PyObject *kwnames,
                                      const std::string &name, Places lifted) {
  Run run(name, /*surveying=*/false);
  run.lifted = std::move(lifted);
  PyObject *result =
      run.execute(callable, args, PyVectorcall_NARGS(nargs), kwnames);
  return finish(run, result);
}

CaptureResult pyjit::capture::survey(PyObject *callable, PyObject *const *args,
                                     size_t nargs, PyObject *kwnames) {
  Run run("survey", /*surveying=*/true);
  PyObject *result =
      run.execute(callable, args, PyVectorcall_NARGS(nargs), kwnames);
  return finish(run, result);
}

CutResult pyjit::capture::captureWithCuts(PyObject *callable,
                                          PyObject *const *args, size_t nargs,
                                          PyObject *kwnames,
                                          const std::string &name,
                                          PyObject *points, PyObject *planner,
                                          Places lifted) {
  Run run(name, /*surveying=*/false);
  run.lifted = std::move(lifted);
  run.allowCuts(points, planner);
  CutResult out;
  out.result = run.execute(callable, args, PyVectorcall_NARGS(nargs), kwnames);
  out.segments = std::move(run.segments);
  out.learned = Py_NewRef(run.learned);
  out.reason = run.reason;
  return out;
}
