//===- Monitor.cpp - Events, frames and the life of a capture -------------===//
//
// One INSTRUCTION callback serves all. It keeps a shadow of the Python frames
// above the captured call: who runs is found by comparing frame pointers, so
// that returns, unwinding, generators and calls made by C code need no events
// of their own. What an instruction produced is looked at on the next event of
// its frame, and only if that event is the instruction's fall-through.
//
//===----------------------------------------------------------------------===//

#include "Recorder.h"
#include "Session.h"
#include "Tensors.h"

#include <opcode.h>

using namespace pyjit::capture;

//===----------------------------------------------------------------------===//
// Frames
//===----------------------------------------------------------------------===//

/// CO_FAST_CELL of CPython's internal headers.
static constexpr int kCellLocal = 0x40;

CodeInfo &Session::info(PyCodeObject *code) {
  auto &slot = codes[code];
  if (!slot) {
    keep(reinterpret_cast<PyObject *>(code));
    slot = std::make_unique<CodeInfo>(code);
  }
  return *slot;
}

int Session::location() {
  // Locations of outer frames change only while they run themselves.
  int caller = -1;
  for (ShadowFrame &frame : frames) {
    if (!frame.code)
      continue;
    if (frame.loc < 0 || frame.locOffset != frame.offset) {
      frame.loc = writer.location(frame.code, frame.offset, caller);
      frame.locOffset = frame.offset;
    }
    caller = frame.loc;
  }
  return caller;
}

std::string Session::where() {
  for (auto it = frames.rbegin(); it != frames.rend(); ++it) {
    if (!it->code)
      continue;
    int line = PyCode_Addr2Line(it->code, it->offset);
    const char *file = PyUnicode_AsUTF8(it->code->co_filename);
    PyErr_Clear();
    return " at " + std::string(file ? file : "?") + ":" + std::to_string(line);
  }
  return "";
}

void Session::end(const std::string &what) {
  if (surveying) {
    std::string entry = what + where();
    if (surveyedSet.insert(entry).second)
      surveyed.push_back(entry);
    return;
  }
  if (dead)
    return;
  dead = true;
  reason = what + where();
}

void Session::frameStart(ShadowFrame &shadow, ShadowFrame *caller) {
  PyObject *function = pyjitFrameFunction(shadow.frame);
  if (!function || !PyFunction_Check(function))
    return end("code that runs outside a function");
  Node *node = require(function);
  if (!node)
    return;
  this->function(node);
  PyCodeObject *code = shadow.code;
  if (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR))
    return end("a coroutine");
  if (pyjitFrameIsGenerator(shadow.frame))
    generators.insert(shadow.frame);
  PyObject **locals = pyjitFrameLocals(shadow.frame);
  int count = code->co_argcount + code->co_kwonlyargcount;
  // A parameter that a nested function uses is in its cell already.
  const char *kinds = PyBytes_AS_STRING(code->co_localspluskinds);
  auto local = [&](int i) {
    PyObject *object = locals[i];
    if (object && PyCell_Check(object) && (kinds[i] & kCellLocal))
      return PyCell_GET(object);
    return object;
  };
  if (count > 0 && caller && caller->instantiating) {
    PyObject *self = local(0);
    if (self && Py_TYPE(self) == caller->instantiating && !known(self))
      born(self);
  }
  // `x[a:b]` makes the slice that `__getitem__` is given.
  for (int i = 0; i < count; ++i)
    if (PyObject *object = local(i); object && PySlice_Check(object))
      if (!known(object))
        born(object);
  if (code->co_flags & CO_VARARGS)
    if (PyObject *args = local(count++))
      if (!known(args))
        born(args);
  if (code->co_flags & CO_VARKEYWORDS)
    if (PyObject *kwargs = local(count))
      if (!known(kwargs))
        born(kwargs);
}

bool Session::align(PyjitFrame *frame, PyCodeObject *code, int offset,
                    bool starts) {
  if (!starts) {
    for (size_t i = frames.size(); i-- > 0;) {
      if (frames[i].frame != frame)
        continue;
      frames.resize(i + 1);
      frames[i].offset = offset;
      return true;
    }
  }
  // A new frame, or a generator that goes on: it runs on top of its caller.
  PyjitFrame *below = pyjitPreviousFrame(frame);
  size_t i = frames.size();
  while (i > 0 && frames[i - 1].frame != below)
    --i;
  if (i == 0)
    return false;
  frames.resize(i);
  ShadowFrame shadow;
  shadow.frame = frame;
  shadow.code = code;
  shadow.offset = offset;
  frames.push_back(shadow);
  if (starts)
    frameStart(frames.back(), &frames[frames.size() - 2]);
  else if (!generators.count(frame))
    end("a generator from before the call goes on");
  return true;
}

void Session::onStart(PyCodeObject *code, int offset) {
  PyjitFrame *frame = pyjitCurrentFrame();
  if (!frame || pyjitFrameCode(frame) != code)
    return end("an unexpected frame");
  if (tensors->suspended())
    return;
  if (!align(frame, code, offset, /*starts=*/true))
    end("a frame that was not called by the captured code");
}

void Session::onInstruction(PyCodeObject *code, int offset) {
  PyjitFrame *frame = pyjitCurrentFrame();
  if (!frame || pyjitFrameCode(frame) != code)
    return end("an unexpected frame");
  CodeInfo &codeInfo = info(code);
  if (!codeInfo.valid)
    return end("bytecode that cannot be read");
  const Instruction &instruction = codeInfo.at(offset);
  if (!align(frame, code, offset, /*starts=*/false))
    return end("a frame that was not called by the captured code");
  if (dead)
    return;
  if (instruction.depth < 0 || !instruction.start)
    return end("bytecode of unknown stack height");
  PyObject **stack = pyjitFrameStack(frame);
  ShadowFrame *shadow = top();
  if (tensors->suspended()) {
    // The native function that built a tensor has returned or raised.
    if (!(shadow->pending && shadow->post == Post::Constant))
      return; // Python code called by it
    tensors->suspend(false);
  }
  if (shadow->pending) {
    shadow->pending = false;
    shadow->instantiating = nullptr;
    shadow->truthOfYields = false;
    if (offset == shadow->pendingNext && instruction.depth > 0) {
      settle(shadow->post, stack[instruction.depth - 1]);
      if (shadow->freshAt && instruction.depth >= shadow->freshAt)
        settle(Post::Fresh, stack[instruction.depth - shadow->freshAt]);
    }
    if (dead)
      return;
  }
  if (instruction.op == EXTENDED_ARG)
    return;
  instantiating = nullptr;
  truthOfYields = storingNumber = false;
  freshAt = 0;
  Post post = handleOpcode(*this, frame, code, instruction);
  if (dead)
    return;
  shadow = top();
  shadow->pending = true;
  shadow->pendingNext = instruction.next;
  shadow->post = post;
  shadow->instantiating = instantiating;
  shadow->truthOfYields = truthOfYields;
  shadow->freshAt = freshAt;
  if (post == Post::Constant)
    tensors->suspend(true);
}

//===----------------------------------------------------------------------===//
// Monitoring
//===----------------------------------------------------------------------===//

template <void (Session::*handle)(PyCodeObject *, int)>
static PyObject *onEvent(PyObject *, PyObject *const *args, Py_ssize_t nargs) {
  Session *session = Session::current;
  if (session && !session->ended() && nargs == 2 &&
      PyThreadState_Get() == session->thread) {
    // Handlers only look; whatever error a look-up leaves is not the user's.
    (session->*handle)(reinterpret_cast<PyCodeObject *>(args[0]),
                       int(PyLong_AsLong(args[1])));
    if (PyErr_Occurred())
      PyErr_Clear();
  }
  Py_RETURN_NONE;
}

template <void (Session::*handle)(PyCodeObject *, int)>
static PyCFunction asMethod() {
  return reinterpret_cast<PyCFunction>(
      reinterpret_cast<void (*)()>(onEvent<handle>));
}

static PyMethodDef callbacks[] = {
    {"pyjit_start", asMethod<&Session::onStart>(), METH_FASTCALL, nullptr},
    {"pyjit_instruction", asMethod<&Session::onInstruction>(), METH_FASTCALL,
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

PyObject *Session::run(PyObject *callable, PyObject *const *args, size_t nargs,
                       PyObject *kwnames) {
  auto eager = [&] {
    return PyObject_Vectorcall(callable, args, nargs, kwnames);
  };
  if (current) {
    reason = "a capture is running already";
    return eager();
  }
  thread = PyThreadState_Get();
  reason = TensorRecorder::unsupportedState();
  if (!reason.empty())
    return eager();

  PyObject *result = nullptr;
  {
    Monitoring monitoring;
    if (!monitoring.isActive()) {
      reason = "sys.monitoring's optimizer slot is in use by another tool";
      return eager();
    }
    ShadowFrame base;
    base.frame = pyjitCurrentFrame();
    frames.push_back(base);
    writer.header("%" + std::to_string(external) + " = refgraph.external");
    writer.header(tensors->stateText());
    ssa(pin(callable));
    Call call;
    call.callable = callable;
    call.args.assign(args,
                     args + nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
    call.kwnames = kwnames;
    for (size_t i = 0; i < call.args.size(); ++i) {
      PyObject *name = nullptr;
      if (i >= nargs)
        name = PyTuple_GET_ITEM(kwnames, i - nargs);
      readIndex(nullptr, Select::Arg, Py_ssize_t(i), call.args[i], name);
    }
    frames[0].post = this->call(call);
    frames[0].instantiating = instantiating;
    if (frames[0].post == Post::Constant)
      end("a tensor made of Python data");
    if (dead) {
      result = eager();
    } else {
      current = this;
      tensors->start();
      result = eager();
      tensors->stop();
      current = nullptr;
    }
  }
  // Everything below looks at objects only; the call is over.
  PyObject *error = PyErr_GetRaisedException();
  frames.resize(1);
  if (result && !dead) {
    settle(frames[0].post, result);
    leave(result);
  }
  PyErr_Clear();
  PyErr_SetRaisedException(error);
  return result;
}

static CaptureResult finish(Session &session, PyObject *result) {
  CaptureResult out;
  out.result = result;
  out.reason = session.reason;
  if (session.surveying)
    for (const std::string &entry : session.surveyed)
      out.reason += entry + "\n";
  else if (result && !session.ended() && out.reason.empty())
    out.trace = session.writer.finish(session.name);
  out.objects = Py_NewRef(session.objects);
  return out;
}

bool pyjit::capture::isCapturing() {
  Session *session = Session::current;
  return session && !session->ended() &&
         session->thread == _PyThreadState_UncheckedGet();
}

CaptureResult pyjit::capture::capture(PyObject *callable, PyObject *const *args,
                                      size_t nargs, PyObject *kwnames,
                                      const std::string &name) {
  nargs = PyVectorcall_NARGS(nargs);
  Session session(name, /*surveying=*/false);
  PyObject *result = session.run(callable, args, nargs, kwnames);
  return finish(session, result);
}

CaptureResult pyjit::capture::survey(PyObject *callable, PyObject *const *args,
                                     size_t nargs, PyObject *kwnames) {
  Session session("survey", /*surveying=*/true);
  PyObject *result =
      session.run(callable, args, PyVectorcall_NARGS(nargs), kwnames);
  return finish(session, result);
}
