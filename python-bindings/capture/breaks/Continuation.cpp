//===- Continuation.cpp - Running the rest of a function ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "breaks/Continuation.h"

#include <structmember.h>

#include <unordered_map>
#include <vector>

namespace pyjit::capture {
namespace {

struct Continuation {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *function;
  PyObject *origin;     ///< the original function
  PyObject *originCode; ///< its code at the graph break
  int offset;           ///< in the original code
  int shift;
};

PyTypeObject *continuationType = nullptr; // set once, at module initialisation

/// Codes of continuations that exist, for the recorder. Read and written with
/// the interpreter's lock held.
std::unordered_map<PyCodeObject *, Continuation *> &registry() {
  static auto *map = new std::unordered_map<PyCodeObject *, Continuation *>;
  return *map;
}

/// States that prologues are about to take. A stack: a signal handler may run
/// such a function between the call and its prologue.
std::vector<PyObject *> &pending() {
  static thread_local std::vector<PyObject *> states;
  return states;
}

Continuation *self_of(PyObject *object) {
  return reinterpret_cast<Continuation *>(object);
}

PyCodeObject *codeOf(Continuation *self) {
  return reinterpret_cast<PyCodeObject *>(PyFunction_GET_CODE(self->function));
}

PyObject *vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf,
                     PyObject *) {
  Py_ssize_t n = PyVectorcall_NARGS(nargsf);
  PyObject *state = PyTuple_New(n);
  if (!state)
    return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i)
    PyTuple_SET_ITEM(state, i, Py_NewRef(args[i]));
  PyObject *result = callWithState(self_of(callable)->function, state);
  Py_DECREF(state);
  return result;
}

PyObject *create(PyTypeObject *type, PyObject *args, PyObject *) {
  PyObject *function, *origin, *code;
  int offset, shift;
  if (!PyArg_ParseTuple(args, "O!O!O!ii:Continuation", &PyFunction_Type,
                        &function, &PyFunction_Type, &origin, &PyCode_Type,
                        &code, &offset, &shift))
    return nullptr;
  auto *self = reinterpret_cast<Continuation *>(type->tp_alloc(type, 0));
  if (!self)
    return nullptr;
  self->vectorcall = vectorcall;
  self->function = Py_NewRef(function);
  self->origin = Py_NewRef(origin);
  self->originCode = Py_NewRef(code);
  self->offset = offset;
  self->shift = shift;
  registry()[codeOf(self)] = self;
  return reinterpret_cast<PyObject *>(self);
}

int traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self_of(object)->function);
  Py_VISIT(self_of(object)->origin);
  return 0;
}

void destroy(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  Continuation *self = self_of(object);
  registry().erase(codeOf(self));
  Py_CLEAR(self->function);
  Py_CLEAR(self->origin);
  Py_CLEAR(self->originCode);
  type->tp_free(object);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Continuation, vectorcall),
     READONLY, nullptr},
    {"function", T_OBJECT, offsetof(Continuation, function), READONLY,
     "What runs."},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void *>(create)},
    {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void *>(traverse)},
    {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
    {Py_tp_members, members},
    {0, nullptr}};

PyType_Spec spec = {"pyjit._C.Continuation", sizeof(Continuation), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                        Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE,
                    slots};

PyObject *take(PyObject *, PyObject *) {
  if (pending().empty()) {
    PyErr_SetString(PyExc_SystemError, "pyjit: no state to go on from");
    return nullptr;
  }
  PyObject *state = pending().back();
  pending().pop_back();
  return state;
}

PyMethodDef methods[] = {
    {"_take", take, METH_NOARGS, "The state that a prologue puts in place."},
    {nullptr, nullptr, 0, nullptr}};

} // namespace

bool addContinuationType(PyObject *module) {
  continuationType = reinterpret_cast<PyTypeObject *>(
      PyType_FromModuleAndSpec(module, &spec, nullptr));
  return continuationType &&
         PyModule_AddObjectRef(
             module, "Continuation",
             reinterpret_cast<PyObject *>(continuationType)) == 0 &&
         PyModule_AddFunctions(module, methods) == 0;
}

bool isContinuation(PyObject *object) {
  return continuationType && Py_IS_TYPE(object, continuationType);
}

PyObject *callWithState(PyObject *function, PyObject *state) {
  auto &states = pending();
  size_t height = states.size();
  states.push_back(Py_NewRef(state));
  PyObject *result = PyObject_CallNoArgs(function);
  // Not taken if the call failed before its prologue was through.
  while (states.size() > height) {
    Py_DECREF(states.back());
    states.pop_back();
  }
  return result;
}

Origin originOf(PyCodeObject *code, PyObject *function) {
  auto found = registry().find(code);
  if (found == registry().end())
    return {function, code, 0};
  Continuation *c = found->second;
  return {c->origin, reinterpret_cast<PyCodeObject *>(c->originCode), c->shift};
}

Entry entryOf(PyObject *continuation) {
  Continuation *c = self_of(continuation);
  return {codeOf(c), c->offset + c->shift};
}

} // namespace pyjit::capture
