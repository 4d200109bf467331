//===- RunResume.cpp - Where a run goes on recording ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A frame has come to an exit of a graph break: the next recording begins
// there, in the middle of a function, with the frame's operands and live locals
// as its arguments. The extension's planner says whether that segment is
// recorded already, and which of the arguments the specialization must not look
// at.
//
//===----------------------------------------------------------------------===//

#include "breaks/CaptureTypes.h"
#include "breaks/Continuation.h"
#include "breaks/Run.h"
#include "objects/Iterators.h"
#include "objects/ObjectKinds.h"
#include "tensors/Tensors.h"

#include <algorithm>
#include <utility>

using namespace pyjit::capture;

/// So many segments of one call are recorded; a loop with a graph break in it
/// may go round for ever.
static constexpr size_t kMaxSessions = 1000;

/// Lets a segment of the frame that is recorded already pass by.
void Run::skip(PyjitFrame *frame, PyCodeObject *code, int offset) {
  skipped = {frame, code, offset, {}};
  behindBranch = recordedAll = false;
  PyObject *function = pyjitFrameFunction(frame);
  skippedShift = originOf(code, function).shift;
}

/// The next instruction of a frame that is skipped: whether it is where a graph
/// break of an earlier segment went on.
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

namespace {

/// What a frame hands to the specialization that begins in its middle.
struct FrameValues {
  std::vector<bool> stack; ///< whether an operand is there
  std::vector<int> slots;  ///< of the locals
  std::vector<PyObject **> places;
  std::vector<PyObject *> names; ///< null: an operand
};

} // namespace

static FrameValues collectValues(CodeInfo &facts, PyjitFrame *frame,
                                 PyCodeObject *code, int offset) {
  FrameValues values;
  PyObject **stack = pyjitFrameStack(frame);
  for (int i = 0; i < facts.at(offset).depth; ++i) {
    values.stack.push_back(stack[i] != nullptr);
    if (stack[i]) {
      values.places.push_back(&stack[i]);
      values.names.push_back(nullptr);
    }
  }
  PyObject **locals = pyjitFrameLocals(frame);
  const std::vector<bool> &live = facts.liveAt(offset);
  for (int i = 0; i < code->co_nlocalsplus - code->co_nfreevars; ++i) {
    if (!GraphBreaks::isCarried(live[i], locals[i]))
      continue;
    values.slots.push_back(i);
    values.places.push_back(&locals[i]);
    values.names.push_back(PyTuple_GET_ITEM(code->co_localsplusnames, i));
  }
  return values;
}

/// An exception that a frame of the call handles is the thread's state: what
/// goes on in frames of its own would not find it.
bool Run::handlesException() const {
  PyObject *now = PyErr_GetHandledException();
  Py_XDECREF(now);
  return now != handled;
}

/// Why no recording can begin in this frame, or empty.
Reason Run::whyNoStart(PyjitFrame *frame) {
  if (handlesException())
    return {ReasonKind::Exception,
            "a graph break while an exception is being handled"};
  std::string state = TensorRecorder::unsupportedState();
  if (!state.empty())
    return {ReasonKind::TorchState, state};
  PyObject *function = pyjitFrameFunction(frame);
  if (!function || !PyFunction_Check(function) || ++count > kMaxSessions)
    return {ReasonKind::TooManyBreaks, "so many graph breaks in one call"};
  return {};
}

/// Whether the weak reference is a key of one of Dynamo's tables by identity:
/// once a process has called `torch.compile`, each new module is noted in one
/// (`torch._dynamo.mutation_guard`). No program reads those.
static bool isDynamosNote(PyWeakReference *reference) {
  static PyObject *module = PyUnicode_InternFromString("torch._dynamo.utils");
  PyObject *callback = reference->wr_callback;
  if (!callback || !PyFunction_Check(callback))
    return false;
  PyObject *name = PyFunction_GetModule(callback); // borrowed
  return name && PyUnicode_Check(name) && PyUnicode_Compare(name, module) == 0;
}

/// Whether somebody would see the object die.
static bool isWatched(PyObject *object) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)))
    return false;
  auto *reference = reinterpret_cast<PyWeakReference *>(
      *PyObject_GET_WEAKREFS_LISTPTR(object));
  while (reference && isDynamosNote(reference))
    reference = reference->wr_next;
  return reference;
}

/// Whether one of the objects has weak references, and no holder but the frame:
/// the call may drop it, which a recording that holds it would hide.
static bool mayDieSeen(const std::vector<PyObject **> &places) {
  return std::any_of(places.begin(), places.end(), [&](PyObject **place) {
    PyObject *object = *place;
    return isWatched(object) &&
           Py_REFCNT(object) == std::count_if(places.begin(), places.end(),
                                              [&](PyObject **other) {
                                                return *other == object;
                                              });
  });
}

/// An iterator that has one place among what the frame hands over.
static bool isOwnIterator(const std::vector<PyObject **> &places, size_t i) {
  return isNativeIterator(*places[i]) &&
         std::count_if(places.begin(), places.end(), [&](PyObject **place) {
           return *place == *places[i];
         }) == 1;
}

/// Asks the planner about the segment that begins with these values; see
/// `CaptureRequest`.
PyObject *Run::askPlanner(Recording &next,
                          const std::vector<PyObject **> &places,
                          size_t depth) {
  std::string kinds;
  PyObject *values = PyTuple_New(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    PyObject *object = *places[i];
    bool own = isOwnIterator(places, i);
    // Who calls a continuation holds its arguments, too.
    bool alone = Py_REFCNT(object) == 1 || arguments.count(object);
    PyTuple_SET_ITEM(values, i, Py_NewRef(object));
    bool result = i + 1 == depth; // of the instruction of the graph break
    // No specialization can look at a nested or a sparse tensor.
    bool foreign =
        next.objects.isTensor(object) && !TensorRecorder::hasStrides(object);
    using Kind = ArgumentKind;
    kinds +=
        char(opaque.count(object) || foreign ? Kind::Opaque
             : followed.count(object)        ? Kind::Lifted
             : isValue(object) ? (result ? Kind::Result : Kind::Value)
             : own && Py_IS_TYPE(object, &PyRangeIter_Type) ? Kind::Range
             : own && alone && handsOutKnown(next, object)  ? Kind::Walk
             : isNativeIterator(object)                     ? Kind::Iterator
             : !next.objects.isTensor(object) && next.objects.shouldPin(object)
                 ? Kind::Pinned
                 : Kind::Object);
  }
  PyObject *bytes =
      PyBytes_FromStringAndSize(kinds.data(), Py_ssize_t(kinds.size()));
  return PyObject_CallFunction(planner, "ONNO", key, bytes, values,
                               behindBranch ? Py_True : Py_False);
}

/// What the segment before followed is followed on: sizes, and numbers in
/// tuples (those that stand alone are the planner's).
std::vector<PyObject *> Run::follow(Recording &next,
                                    const std::vector<PyObject **> &places,
                                    const std::set<int> &unseen) {
  std::vector<PyObject *> tuples;
  if (followsSizes)
    next.sizes.followed = true;
  for (size_t i = 0; i < places.size(); ++i) {
    PyObject *object = *places[i];
    if (unseen.count(int(i)) || !PyTuple_Check(object))
      continue;
    tuples.push_back(object);
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(object); ++j)
      if (followed.count(PyTuple_GET_ITEM(object, j))) {
        next.scalars.lift(AccessPath::argument(int(i)).then(
            AccessPath::Step::Item, int64_t(j)));
        next.scalars.own(PyTuple_GET_ITEM(object, j));
      }
  }
  return tuples;
}

/// A tuple that is handed to native code has been looked into by then.
void Run::readFollowed(Recording &next,
                       const std::vector<PyObject *> &objects) {
  for (PyObject *object : objects) {
    Node *node = next.objects.find(object);
    if (!node || !node->external || node->pinned)
      continue;
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(object); ++j)
      if (followed.count(PyTuple_GET_ITEM(object, j)))
        next.reads.readIndex(node, Select::Item, j,
                             PyTuple_GET_ITEM(object, j));
  }
}

/// Records from here on, in front of the instruction at `offset`.
void Run::start(PyjitFrame *frame, PyCodeObject *code, int offset) {
  auto stop = [&](const Reason &why) {
    stopped = true;
    if (reason.empty())
      reason = why;
  };
  Reason why = whyNoStart(frame);
  if (!why.empty())
    return stop(why);
  auto next = std::make_unique<Recording>(
      request.context, request.name + "_resume" + std::to_string(count), false);
  if (request.isPart)
    next->checkpoint.bePart();
  CodeInfo &facts = next->tracker.info(code);
  const Instruction &in = facts.at(offset);
  if (!in.start || in.depth < 0)
    return stop({ReasonKind::Internal, "bytecode of unknown stack height"});
  FrameValues values = collectValues(facts, frame, code, offset);
  if (mayDieSeen(values.places))
    return refuseSegments(
        {ReasonKind::ObjectIdentity, "a weak reference to what the call made"});
  Origin origin = originOf(code, pyjitFrameFunction(frame));
  Py_XSETREF(key, makeKey(origin.function, origin.code, offset - origin.shift,
                          values.stack, values.slots));

  Plan plan;
  if (isInLoop(*next, code, offset)) {
    plan.action = PlanAction::Recorded;
  } else {
    PyObject *answer = askPlanner(*next, values.places, in.depth);
    bool planned = answer && toPlan(answer, plan);
    Py_XDECREF(answer);
    if (!planned) {
      PyObject *error = PyErr_GetRaisedException();
      PyObject *text = error ? PyObject_Repr(error) : nullptr;
      stop(
          {ReasonKind::Internal,
           "pyjit could not plan what follows a graph break: " +
               std::string(text ? PyUnicode_AsUTF8(text) : "no reason given")});
      Py_XDECREF(text);
      Py_XDECREF(error);
      return;
    }
  }
  switch (plan.action) {
  case PlanAction::Record:
    break;
  case PlanAction::Recorded:
    return skip(frame, code, offset);
  case PlanAction::Stop:
    return stop({ReasonKind::TooManyBreaks, "so many continuations"});
  }
  for (const AccessPath &path : plan.lifted)
    next->scalars.lift(path);
  if (plan.followSizes)
    next->sizes.followed = true;
  std::vector<PyObject *> tuples = follow(*next, values.places, plan.unseen);

  recording = std::move(next);
  recording->run.device = &device;
  recording->run.copies = &copies;
  breakAt(*recording);
  if (recordedAll)
    recording->breaks.functionsMade = &functionsMade;
  recording->breaks.argumentCount = Py_ssize_t(values.places.size());
  if (plan.expectsLoop)
    expectLoop(*recording, frame, code, offset);
  Recording::current = recording.get();
  recording->beginAt(frame, code, offset, origin.function, values.places,
                     values.names, plan.unseen);
  recording->tensors->start();
  readFollowed(*recording, tuples);
  if (!recording->ended())
    recording->onInstruction(code, offset);
  after();
}
