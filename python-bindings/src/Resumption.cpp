//===- Resumption.cpp - Going on after a compiled segment -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The frames at a graph break run as they would in eager: each in the call of
// the one below, so that exceptions, tracebacks and whoever looks at the stack
// see what they should. Only the innermost instruction is the interpreter's;
// what follows it in each frame is again a compiled function, called from here,
// so that a loop with a graph break in it needs no deeper C stack.
//
//===----------------------------------------------------------------------===//

#include "Resumption.h"

#include "Reference.h"

#include "capture/breaks/Continuation.h"

#include <structmember.h>

#include <vector>

namespace pyjit::python {
namespace {

struct Resumption {
  PyObject_HEAD PyObject *frames; ///< tuple of (step, tuple of exits)
};

PyTypeObject *resumptionType = nullptr; // set once, at module initialisation

PyObject *framesOf(PyObject *resumption) {
  return reinterpret_cast<Resumption *>(resumption)->frames;
}

PyObject *goOnFrom(PyObject *resumption, PyObject *state, Py_ssize_t level,
                   Answer answer);

/// What stands for the frames above the one that runs: (graph break, state,
/// level).
PyObject *callInner(PyObject *self, PyObject *) {
  auto answer = reinterpret_cast<Answer>(
      PyCapsule_GetPointer(PyTuple_GET_ITEM(self, 3), nullptr));
  return goOnFrom(Py_NewRef(PyTuple_GET_ITEM(self, 0)),
                  Py_NewRef(PyTuple_GET_ITEM(self, 1)),
                  PyLong_AsSsize_t(PyTuple_GET_ITEM(self, 2)), answer);
}

PyMethodDef innerDefinition = {"pyjit_inner_frame", callInner, METH_NOARGS,
                               nullptr};

PyObject *runFrame(PyObject *resumption, PyObject *state, Py_ssize_t level,
                   Answer answer) {
  PyObject *frames = framesOf(resumption);
  PyObject *frame = PyTuple_GET_ITEM(frames, level);
  // The frame's alone from here on: what follows may ask how many hold a value.
  Reference values = Reference::steal(PyTuple_GET_ITEM(state, level));
  PyTuple_SET_ITEM(state, level, Py_NewRef(Py_None));
  PyObject *step = PyTuple_GET_ITEM(frame, 0);
  if (level + 1 == PyTuple_GET_SIZE(frames))
    return capture::callWithState(step, values.get());
  Reference capsule = Reference::steal(
      PyCapsule_New(reinterpret_cast<void *>(answer), nullptr, nullptr));
  Reference self = Reference::steal(
      Py_BuildValue("(OOnO)", resumption, state, level + 1, capsule.get()));
  Reference inner = Reference::steal(
      self ? PyCFunction_New(&innerDefinition, self.get()) : nullptr);
  Reference last =
      Reference::steal(inner ? PyTuple_Pack(1, inner.get()) : nullptr);
  Reference all = Reference::steal(
      last ? PySequence_Concat(values.get(), last.get()) : nullptr);
  return all ? capture::callWithState(step, all.get()) : nullptr;
}

/// The compiled function that a frame's result asks to go on with, or null.
PyObject *exitOf(PyObject *resumption, Py_ssize_t level, PyObject *result) {
  if (!PyTuple_CheckExact(result) || PyTuple_GET_SIZE(result) == 0)
    return nullptr;
  PyObject *marker = PyTuple_GET_ITEM(result, PyTuple_GET_SIZE(result) - 1);
  PyObject *exits =
      PyTuple_GET_ITEM(PyTuple_GET_ITEM(framesOf(resumption), level), 1);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(exits); ++i)
    if (PyTuple_GET_ITEM(PyTuple_GET_ITEM(exits, i), 0) == marker)
      return PyTuple_GET_ITEM(PyTuple_GET_ITEM(exits, i), 1);
  return nullptr;
}

/// A call that goes round so often may be worth another look.
constexpr int kRounds = 6;

void noteRounds(PyObject *compiled) {
  Reference engine =
      Reference::steal(PyObject_GetAttrString(compiled, "engine"));
  Reference done = Reference::steal(
      engine ? PyObject_CallMethod(engine.get(), "_goes_round", nullptr)
             : nullptr);
  if (!done)
    PyErr_Clear();
}

PyObject *goOnFrom(PyObject *resumption, PyObject *state, Py_ssize_t level,
                   Answer answer) {
  PyObject *previous = nullptr; // compared only
  int rounds = 0;
  while (true) {
    PyObject *result = runFrame(resumption, state, level, answer);
    Py_DECREF(state);
    PyObject *next = result ? exitOf(resumption, level, result) : nullptr;
    Py_XINCREF(next);
    Py_DECREF(resumption);
    if (!next)
      return result;
    // The operand stack may hold NULLs, which the continuation knows of.
    std::vector<PyObject *> args;
    for (Py_ssize_t i = 0; i + 1 < PyTuple_GET_SIZE(result); ++i)
      if (PyObject *value = PyTuple_GET_ITEM(result, i))
        args.push_back(value);
    rounds = next == previous ? rounds + 1 : 0;
    previous = next;
    if (rounds == kRounds)
      noteRounds(next);
    resumption = nullptr;
    state = answer(next, args.data(), args.size(), nullptr, &resumption);
    Py_DECREF(result);
    Py_DECREF(next);
    if (!resumption)
      return state;
    level = 0;
  }
}

PyObject *create(PyTypeObject *type, PyObject *args, PyObject *) {
  PyObject *frames;
  if (!PyArg_ParseTuple(args, "O!:Resumption", &PyTuple_Type, &frames))
    return nullptr;
  auto *self = reinterpret_cast<Resumption *>(type->tp_alloc(type, 0));
  if (self)
    self->frames = Py_NewRef(frames);
  return reinterpret_cast<PyObject *>(self);
}

int traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(framesOf(object));
  return 0;
}

void destroy(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  Py_CLEAR(reinterpret_cast<Resumption *>(object)->frames);
  type->tp_free(object);
  Py_DECREF(type);
}

PyMemberDef members[] = {{"frames", T_OBJECT, offsetof(Resumption, frames),
                          READONLY, "Steps and exits, outermost first."},
                         {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void *>(create)},
                       {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
                       {Py_tp_traverse, reinterpret_cast<void *>(traverse)},
                       {Py_tp_members, members},
                       {0, nullptr}};

PyType_Spec spec = {
    "pyjit._C.Resumption", sizeof(Resumption), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, slots};

} // namespace

bool addResumptionType(PyObject *module) {
  resumptionType = reinterpret_cast<PyTypeObject *>(
      PyType_FromModuleAndSpec(module, &spec, nullptr));
  return resumptionType &&
         PyModule_AddObjectRef(module, "Resumption",
                               reinterpret_cast<PyObject *>(resumptionType)) ==
             0;
}

bool isResumption(PyObject *object) {
  return Py_IS_TYPE(object, resumptionType);
}

PyObject *goOn(PyObject *resumption, PyObject *state, Answer answer) {
  return goOnFrom(resumption, state, 0, answer);
}

} // namespace pyjit::python
