//===- CaptureTypes.cpp - What a monitored run tells Python ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "breaks/CaptureTypes.h"

#include "Recording.h"
#include "objects/Iterators.h"

#include <initializer_list>

using namespace pyjit::capture;

namespace {

enum Kind {
  kKey,
  kFrame,
  kReason,
  kGraphBreak,
  kDispatchState,
  kSegment,
  kCapture,
  kPlan,
  kKinds
};

PyStructSequence_Field keyFields[] = {
    {"function", "The function, whose globals and closure it has."},
    {"code", "Original code."},
    {"offset", "Of the instruction, in bytes."},
    {"stack", "Of each operand on the stack, whether it is one or a NULL."},
    {"slots", "The locals that are arguments."},
    {nullptr, nullptr}};
PyStructSequence_Field frameFields[] = {
    {"key", "The instruction that the frame stands in front of, or in."},
    {"exits", "Keys of where it may go on."},
    {nullptr, nullptr}};
PyStructSequence_Field reasonFields[] = {
    {"kind", "A ReasonKind."},
    {"text", "Construct, file and line."},
    {"stack", "(file, line, function) of the recorded frames, outermost "
              "first."},
    {nullptr, nullptr}};
PyStructSequence_Field graphBreakFields[] = {
    {"reason", "A Reason."},
    {"frames", "Outermost first; the trace leaves a tuple of values for each."},
    {nullptr, nullptr}};
PyStructSequence_Field dispatchStateFields[] = {
    {"included", "Dispatch keys where the segment begins."},
    {"excluded", "Likewise."},
    {"inference", "Whether what it hands out is of inference mode, where that "
                  "is not the mode that it begins in; else None."},
    {nullptr, nullptr}};
PyStructSequence_Field segmentFields[] = {
    {"key", "Where the segment begins; None: with the call."},
    {"trace", "What it did."},
    {"objects", "What the trace names by index."},
    {"nargs", "How many arguments the segment has."},
    {"graph_break", "Where it ends; None: with its function."},
    {"grad_mode", "The grad mode that it leaves behind; None: that it found."},
    {"dispatch_state", "Torch's thread state that it belongs to."},
    {"fallback",
     "Where the trace goes on through decisions on data: the segment "
     "up to the first of them, in case that no loop is made of it."},
    {"may_loop", "An iteration of a loop that ended too early to be recorded "
                 "as one."},
    {"makes_state", "It adds entries to dicts from before the call that had "
                    "none: what it was recorded for is so once."},
    {"scalar_sites", "Instructions (code, offset) that gave Python numbers of "
                     "tensors' data, which the trace computes."},
    {"gradient_sites", "Instructions (code, offset) whose operators gradients "
                       "flow through."},
    {"fixed", "(code, offset, kind, container, value): what instructions "
              "fixed, though it may differ between calls, in order."},
    {nullptr, nullptr}};
PyStructSequence_Field captureFields[] = {
    {"result", "What the call returned."},
    {"segments", "The recorded segments."},
    {"learned",
     "(code, offset, reason): where the next run is to end a segment, "
     "because only hindsight showed that it has to."},
    {"passed", "Instructions (code, offset) at which something was so that is "
               "not likely to be so in the next call."},
    {"reason",
     "Why the call's first segment is not among the segments: a Reason, or "
     "None."},
    {"eager_seconds", "How long the call ran as in eager, when nothing more "
                      "was to be recorded."},
    {nullptr, nullptr}};

PyStructSequence_Field planFields[] = {
    {"action", "A PlanAction."},
    {"unseen",
     "Numbers of the arguments that the specialization must not depend on."},
    {"lifted", "Where the numbers and sizes are that are its inputs."},
    {"follow_sizes", "As if one of them were a size."},
    {"expects_loop", "Whether the segment may be an iteration of a loop."},
    {nullptr, nullptr}};

PyStructSequence_Desc descriptions[kKinds] = {
    {"pyjit._C.Key", "The name of a continuation.", keyFields, 5},
    {"pyjit._C.Frame", "A frame at a graph break.", frameFields, 2},
    {"pyjit._C.Reason", "Why a recording ended.", reasonFields, 3},
    {"pyjit._C.GraphBreak", "Where a segment ends.", graphBreakFields, 2},
    {"pyjit._C.DispatchState", "Torch's thread state.", dispatchStateFields, 3},
    {"pyjit._C.Segment", "A segment of a call that was recorded.",
     segmentFields, 11},
    {"pyjit._C.Capture", "One monitored call.", captureFields, 6},
    {"pyjit._C.Plan", "What becomes of a continuation.", planFields, 5}};

/// Made when first asked for: two modules hold this code.
PyTypeObject *typeOf(Kind kind) {
  static PyTypeObject *types[kKinds];
  if (!types[kind])
    types[kind] = PyStructSequence_NewType(&descriptions[kind]);
  return types[kind];
}

/// Takes over the items; null, with a Python error, where one is.
PyObject *make(Kind kind, std::initializer_list<PyObject *> items) {
  PyObject *made = PyStructSequence_New(typeOf(kind));
  Py_ssize_t i = 0;
  bool ok = made;
  for (PyObject *item : items) {
    ok &= item != nullptr;
    if (made)
      PyStructSequence_SetItem(made, i++, item);
    else
      Py_XDECREF(item);
  }
  if (!ok)
    Py_CLEAR(made);
  return made;
}

PyObject *orNone(PyObject *object) {
  return object ? object : Py_NewRef(Py_None);
}

/// A flag that may not be there: -1.
PyObject *toFlag(int flag) {
  return flag < 0 ? Py_NewRef(Py_None) : PyBool_FromLong(flag);
}

template <typename List, typename Item>
PyObject *toTuple(const List &list, Item item) {
  PyObject *tuple = PyTuple_New(Py_ssize_t(list.size()));
  Py_ssize_t i = 0;
  for (const auto &element : list)
    PyTuple_SET_ITEM(tuple, i++, item(element));
  return tuple;
}

PyObject *toPython(const DispatchState &dispatchState) {
  return make(kDispatchState,
              {PyLong_FromUnsignedLongLong(dispatchState.included),
               PyLong_FromUnsignedLongLong(dispatchState.excluded),
               toFlag(dispatchState.inference)});
}

/// Takes over the code objects.
PyObject *toPython(const std::vector<Site> &sites) {
  return toTuple(sites, [](const Site &site) {
    return Py_BuildValue("(Ni)", site.first, site.second);
  });
}

PyObject *toPython(Segment &segment, PyObject *(*wrap)(TraceHandle)) {
  PyObject *fallback = nullptr;
  if (!segment.fallback.empty())
    fallback = toPython(segment.fallback.front(), wrap);
  return make(
      kSegment,
      {orNone(segment.key), wrap(std::move(segment.trace)), segment.objects,
       PyLong_FromSsize_t(segment.nargs), orNone(segment.graphBreak),
       toFlag(segment.gradMode), toPython(segment.dispatchState),
       orNone(fallback), PyBool_FromLong(segment.mayLoop),
       PyBool_FromLong(segment.makesState), toPython(segment.numbers),
       toPython(segment.gradients),
       toTuple(segment.fixed, [](const Segment::Fixed &fixed) {
         return Py_BuildValue("(NiiKL)", fixed.code, fixed.offset, fixed.what,
                              static_cast<unsigned long long>(fixed.of),
                              static_cast<long long>(fixed.value));
       })});
}

constexpr char kReasonNames[] =
#define PYJIT_REASON(KIND, NAME) #NAME " "
#include "breaks/ReasonKinds.def"
#undef PYJIT_REASON
    ;

PyObject *toPython(const Reason &reason) {
  return make(kReason,
              {PyLong_FromLong(long(reason.kind)),
               PyUnicode_FromStringAndSize(reason.text.data(),
                                           Py_ssize_t(reason.text.size())),
               toTuple(reason.stack, [](const SourceLine &line) {
                 return Py_BuildValue("(sis)", line.file.c_str(), line.line,
                                      line.function.c_str());
               })});
}

/// Adds an enum.IntEnum that counts from 0.
bool addEnum(PyObject *module, const char *name, const char *members) {
  PyObject *library = PyImport_ImportModule("enum");
  PyObject *make =
      library ? PyObject_GetAttrString(library, "IntEnum") : nullptr;
  PyObject *arguments = Py_BuildValue("(ss)", name, members);
  PyObject *options =
      Py_BuildValue("{s:s,s:i}", "module", "pyjit._C", "start", 0);
  PyObject *made = make && arguments && options
                       ? PyObject_Call(make, arguments, options)
                       : nullptr;
  bool ok = made && PyModule_AddObjectRef(module, name, made) == 0;
  for (PyObject *object : {library, make, arguments, options, made})
    Py_XDECREF(object);
  return ok;
}

PyObject *positionOf(PyObject *, PyObject *iterator) {
  return iteratorPosition(iterator);
}

PyMethodDef functions[] = {
    {"iterator_position", positionOf, METH_O,
     "Of an iterator over a container: its type's name, where it stands, and "
     "the container's length; of ``enumerate`` and ``zip``: name, position, "
     "and "
     "those of the iterators in it. None for other objects."},
    {nullptr, nullptr, 0, nullptr}};

} // namespace

bool pyjit::capture::addCaptureTypes(PyObject *module) {
  if (PyModule_AddFunctions(module, functions) < 0 ||
      !addAccessPathType(module) ||
      !addEnum(
          module, "ArgumentKind",
          "OPAQUE PINNED VALUE RESULT LIFTED RANGE WALK ITERATOR OBJECT") ||
      !addEnum(module, "PlanAction", "RECORD RECORDED STOP") ||
      !addEnum(module, "ReasonKind", kReasonNames) ||
      !addEnum(module, "SegmentKind", "PREFIX TRUE FALSE REST") ||
      !addEnum(module, "Fixes", "NUMBER OUTCOME LENGTH TEXT TRUTH SIZE"))
    return false;
  for (int kind = 0; kind < kKinds; ++kind) {
    auto *type = reinterpret_cast<PyObject *>(typeOf(Kind(kind)));
    const char *name = descriptions[kind].name + sizeof("pyjit._C.") - 1;
    if (!type || PyModule_AddObjectRef(module, name, type) < 0)
      return false;
  }
  return true;
}

PyObject *pyjit::capture::makeKey(PyObject *function, PyCodeObject *code,
                                  int offset, const std::vector<bool> &stack,
                                  const std::vector<int> &slots) {
  auto toBool = [](bool value) { return PyBool_FromLong(value); };
  auto toInt = [](int value) { return PyLong_FromLong(value); };
  return make(kKey, {Py_NewRef(function),
                     Py_NewRef(reinterpret_cast<PyObject *>(code)),
                     PyLong_FromLong(offset), toTuple(stack, toBool),
                     toTuple(slots, toInt)});
}

PyObject *pyjit::capture::makeFrame(const FrameState &state) {
  PyObject *exits = PyTuple_New(Py_ssize_t(state.exits.size()));
  for (size_t i = 0; i < state.exits.size(); ++i) {
    const Exit &exit = state.exits[i];
    std::vector<bool> stack(exit.depth, true);
    for (int j = 0; j < exit.kept; ++j)
      stack[j] = state.stack[j];
    if (exit.null >= 0)
      stack[exit.null] = false;
    PyTuple_SET_ITEM(exits, Py_ssize_t(i),
                     makeKey(state.function, state.code, exit.offset, stack,
                             state.exitSlots[i]));
  }
  return make(kFrame, {makeKey(state.function, state.code, state.offset,
                               state.stack, state.slots),
                       exits});
}

PyObject *
pyjit::capture::makeGraphBreak(const Reason &reason,
                               const std::vector<FrameState> &states) {
  return make(kGraphBreak, {::toPython(reason), toTuple(states, makeFrame)});
}

PyObject *pyjit::capture::toPython(SegmentedResult &result,
                                   PyObject *(*wrap)(TraceHandle)) {
  auto lesson = [](const SegmentedResult::Lesson &lesson) {
    return Py_BuildValue("(NiN)", lesson.code, lesson.offset,
                         ::toPython(lesson.reason));
  };
  PyObject *segments = PyTuple_New(Py_ssize_t(result.segments.size()));
  for (size_t i = 0; i < result.segments.size(); ++i)
    PyTuple_SET_ITEM(segments, Py_ssize_t(i),
                     ::toPython(result.segments[i], wrap));
  return make(
      kCapture,
      {result.result, segments, toTuple(result.learned, lesson),
       ::toPython(result.passed),
       result.reason.empty() ? Py_NewRef(Py_None) : ::toPython(result.reason),
       PyFloat_FromDouble(result.eagerSeconds)});
}

PyObject *pyjit::capture::toPython(CaptureResult &result,
                                   PyObject *(*wrap)(TraceHandle)) {
  SegmentedResult run;
  run.result = result.result;
  run.reason = result.reason;
  if (result.reason.empty() && result.trace) {
    Segment whole;
    whole.trace = std::move(result.trace);
    whole.objects = result.objects;
    whole.dispatchState = result.dispatchState;
    whole.nargs = result.nargs;
    run.segments.push_back(std::move(whole));
  } else {
    Py_XDECREF(result.objects);
  }
  return toPython(run, wrap);
}

bool pyjit::capture::toDispatchState(PyObject *object,
                                     DispatchState &dispatchState) {
  if (!Py_IS_TYPE(object, typeOf(kDispatchState))) {
    PyErr_SetString(PyExc_TypeError, "expected a DispatchState");
    return false;
  }
  dispatchState.included =
      PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(object, 0));
  dispatchState.excluded =
      PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(object, 1));
  PyObject *inference = PyTuple_GET_ITEM(object, 2);
  dispatchState.inference = inference == Py_None ? -1 : inference == Py_True;
  return !PyErr_Occurred();
}

bool pyjit::capture::toPlan(PyObject *object, Plan &plan) {
  PyObject *unseen, *lifted;
  int action, followSizes, expectsLoop;
  if (!Py_IS_TYPE(object, typeOf(kPlan))) {
    PyErr_SetString(PyExc_TypeError, "expected a Plan");
    return false;
  }
  if (!PyArg_ParseTuple(object, "iO!O!pp", &action, &PyTuple_Type, &unseen,
                        &PyTuple_Type, &lifted, &followSizes, &expectsLoop))
    return false;
  plan.action = PlanAction(action);
  plan.followSizes = followSizes;
  plan.expectsLoop = expectsLoop;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(unseen); ++i)
    plan.unseen.insert(int(PyLong_AsLong(PyTuple_GET_ITEM(unseen, i))));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(lifted); ++i)
    if (const AccessPath *path = accessPathOf(PyTuple_GET_ITEM(lifted, i)))
      plan.lifted.push_back(*path);
  return !PyErr_Occurred();
}

Reason pyjit::capture::toReason(PyObject *object) {
  Reason reason{ReasonKind::Internal, "no Reason", {}};
  PyObject *stack;
  int kind;
  const char *text;
  if (!Py_IS_TYPE(object, typeOf(kReason)) ||
      !PyArg_ParseTuple(object, "isO!", &kind, &text, &PyTuple_Type, &stack))
    return reason;
  reason = {ReasonKind(kind), text, {}};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(stack); ++i) {
    const char *file, *function;
    int line;
    if (PyArg_ParseTuple(PyTuple_GET_ITEM(stack, i), "sis", &file, &line,
                         &function))
      reason.stack.push_back({file, line, function});
  }
  return reason;
}
