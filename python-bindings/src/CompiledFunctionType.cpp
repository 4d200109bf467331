//===- CompiledFunctionType.cpp - The callable as a Python type -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the engine, in Python, sets and asks of a compiled function.
//
//===----------------------------------------------------------------------===//

#include "CompiledFunction.h"
#include "CompiledFunctionObject.h"
#include "EagerParts.h"
#include "Specialization.h"
#include "SpecializationObject.h"

#include <structmember.h>

#include <algorithm>

namespace pyjit::python {
namespace {

PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *target, *miss;
  static const char *names[] = {"target", "miss", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:CompiledFunction",
                                   const_cast<char **>(names), &target, &miss))
    return nullptr;
  auto *self = reinterpret_cast<CompiledFunction *>(type->tp_alloc(type, 0));
  if (!self)
    return nullptr;
  self->vectorcall = vectorcall;
  self->target = Py_NewRef(target);
  self->miss = Py_NewRef(miss);
  self->specializations = new std::vector<PyObject *>();
  return reinterpret_cast<PyObject *>(self);
}

void endComparison(CompiledFunction *self) {
  Py_CLEAR(self->compared);
  self->comparedSignature = 0;
  self->timedBefore = 0;
}

void askAlways(CompiledFunction *self) {
  std::fill(std::begin(self->unasked), std::end(self->unasked),
            CompiledFunction::Unasked{});
  self->unaskedCalls = self->anyUnasked = 0;
}

void dropSpecializations(CompiledFunction *self) {
  askAlways(self);
  endComparison(self);
  std::vector<PyObject *> dropped;
  dropped.swap(*self->specializations);
  for (PyObject *specialization : dropped)
    Py_DECREF(specialization);
}

int traverse(PyObject *object, visitproc visit, void *arg) {
  CompiledFunction *self = selfOf(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->target);
  Py_VISIT(self->miss);
  Py_VISIT(self->modules);
  Py_VISIT(self->dict);
  Py_VISIT(self->compared);
  for (PyObject *specialization : *self->specializations)
    Py_VISIT(specialization);
  return 0;
}

int clearReferences(PyObject *object) {
  CompiledFunction *self = selfOf(object);
  Py_CLEAR(self->target);
  Py_CLEAR(self->miss);
  Py_CLEAR(self->modules);
  Py_CLEAR(self->dict);
  dropSpecializations(self); // and `compared`
  return 0;
}

void destroy(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  CompiledFunction *self = selfOf(object);
  if (self->weakrefs)
    PyObject_ClearWeakRefs(object);
  clearReferences(object);
  delete self->specializations;
  type->tp_free(object);
  Py_DECREF(type);
}

/// As a class attribute it binds like a function.
PyObject *bind(PyObject *self, PyObject *instance, PyObject *) {
  if (!instance || instance == Py_None)
    return Py_NewRef(self);
  return PyMethod_New(self, instance);
}

PyObject *represent(PyObject *self) {
  return PyUnicode_FromFormat("<pyjit compiled %R>", selfOf(self)->target);
}

PyObject *addSpecialization(PyObject *self, PyObject *specialization) {
  if (!isSpecialization(specialization)) {
    PyErr_SetString(PyExc_TypeError,
                    "add_specialization takes a Specialization");
    return nullptr;
  }
  auto &specializations = *selfOf(self)->specializations;
  specializations.insert(specializations.begin() +
                             placeOf(specialization, specializations),
                         Py_NewRef(specialization));
  Py_RETURN_NONE;
}

PyObject *clear(PyObject *self, PyObject *) {
  CompiledFunction *function = selfOf(self);
  dropSpecializations(function);
  function->hits = function->misses = function->eagerCalls = 0;
  function->quiet = 0;
  Py_RETURN_NONE;
}

PyObject *dropAll(PyObject *self, PyObject *) {
  dropSpecializations(selfOf(self));
  Py_RETURN_NONE;
}

PyObject *dropOne(PyObject *self, PyObject *specialization) {
  auto &specializations = *selfOf(self)->specializations;
  auto found =
      std::find(specializations.begin(), specializations.end(), specialization);
  if (found != specializations.end()) {
    if (selfOf(self)->compared == specialization)
      endComparison(selfOf(self));
    askAlways(selfOf(self));
    specializations.erase(found);
    Py_DECREF(specialization);
  }
  Py_RETURN_NONE;
}

/// call_eager(args, kwargs)
PyObject *callEagerFromPython(PyObject *object, PyObject *args) {
  PyObject *positional, *keywords;
  if (!PyArg_ParseTuple(args, "O!O!:call_eager", &PyTuple_Type, &positional,
                        &PyDict_Type, &keywords))
    return nullptr;
  CompiledFunction *self = selfOf(object);
  ++self->eagerCalls;
  EagerPart part(self->modules, self->target);
  return PyObject_Call(self->target, positional, keywords);
}

PyObject *stayQuiet(PyObject *self, PyObject *calls) {
  unsigned long long number = PyLong_AsUnsignedLongLong(calls);
  if (PyErr_Occurred())
    return nullptr;
  selfOf(self)->quiet = number;
  // What follows a graph break may begin in one mode and end in another.
  selfOf(self)->quietModes = selfOf(self)->missModes;
  Py_RETURN_NONE;
}

/// Room for another signature, or the one that it has.
bool letPast(CompiledFunction *self, uint64_t signature, uint64_t calls) {
  for (auto &unasked : self->unasked)
    if (!unasked.calls || unasked.signature == signature) {
      self->anyUnasked += calls - unasked.calls;
      unasked = {signature, calls};
      return true;
    }
  return false;
}

bool isLetPast(const CompiledFunction *self, uint64_t signature) {
  return std::any_of(std::begin(self->unasked), std::end(self->unasked),
                     [&](const CompiledFunction::Unasked &unasked) {
                       return unasked.signature == signature;
                     });
}

/// let_past(calls, *values) -> bool
PyObject *letPastNext(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  if (nargs < 1)
    return PyErr_Format(PyExc_TypeError, "let_past takes a number of calls");
  unsigned long long calls = PyLong_AsUnsignedLongLong(args[0]);
  if (PyErr_Occurred())
    return nullptr;
  uint64_t signature =
      signatureOf(args + 1, nargs - 1, selfOf(self)->missModes);
  bool known = isLetPast(selfOf(self), signature);
  letPast(selfOf(self), signature, calls);
  return PyBool_FromLong(known);
}

PyObject *letAllPast(PyObject *object, PyObject *calls) {
  unsigned long long number = PyLong_AsUnsignedLongLong(calls);
  if (PyErr_Occurred())
    return nullptr;
  CompiledFunction *self = selfOf(object);
  self->anyUnasked += number - self->unaskedCalls;
  self->unaskedCalls = number;
  self->unaskedModes = self->missModes;
  Py_RETURN_NONE;
}

/// leave_to_eager(specialization, unasked) -> bool
PyObject *leaveToEager(PyObject *object, PyObject *args) {
  CompiledFunction *self = selfOf(object);
  PyObject *specialization;
  unsigned long long calls;
  if (!PyArg_ParseTuple(args, "OK:leave_to_eager", &specialization, &calls))
    return nullptr;
  uint64_t signature = self->comparedSignature;
  if (specialization != self->compared || !signature) {
    PyErr_SetString(PyExc_ValueError,
                    "leave_to_eager: a specialization that is not "
                    "compared with eager");
    return nullptr;
  }
  specializationOf(specialization).leaveToEager(signature);
  // Where calls of several sizes were compared, guards say whose a call is.
  uint64_t exact = self->comparedExact;
  return PyBool_FromLong(calls && exact && letPast(self, exact, calls));
}

PyObject *compareNext(PyObject *object, PyObject *args) {
  CompiledFunction *self = selfOf(object);
  PyObject *specialization = Py_None;
  int eager = 0;
  if (!PyArg_ParseTuple(args, "|Op:compare", &specialization, &eager))
    return nullptr;
  if (specialization == Py_None) {
    endComparison(self);
    Py_RETURN_NONE;
  }
  if (!isSpecialization(specialization)) {
    PyErr_SetString(PyExc_TypeError, "compare takes a Specialization");
    return nullptr;
  }
  if (specialization != self->compared) {
    endComparison(self);
    self->compared = Py_NewRef(specialization);
    constexpr uint32_t kPatience = 256;
    self->patience = kPatience;
  }
  self->eagerNext = eager;
  Py_RETURN_NONE;
}

PyObject *getCompared(PyObject *self, void *) {
  PyObject *specialization = selfOf(self)->compared;
  return Py_NewRef(specialization ? specialization : Py_None);
}

PyObject *getSpecializations(PyObject *self, void *) {
  auto &specializations = *selfOf(self)->specializations;
  PyObject *list = PyList_New(specializations.size());
  for (size_t i = 0; list && i < specializations.size(); ++i)
    PyList_SET_ITEM(list, i, Py_NewRef(specializations[i]));
  return list;
}

PyObject *getModules(PyObject *self, void *) {
  PyObject *modules = selfOf(self)->modules;
  return Py_NewRef(modules ? modules : Py_None);
}

int setModules(PyObject *self, PyObject *value, void *) {
  bool none = !value || value == Py_None;
  if (!none && !isModuleCalls(value)) {
    PyErr_SetString(PyExc_TypeError, "modules is a ModuleCalls or None");
    return -1;
  }
  Py_XSETREF(selfOf(self)->modules, none ? nullptr : Py_NewRef(value));
  return 0;
}

/// Calls a function of pyjit._copies.
PyObject *askCopies(const char *function, PyObject *self, PyObject *memo) {
  PyObject *module = PyImport_ImportModule("pyjit._copies");
  PyObject *result = module ? PyObject_CallMethod(module, function,
                                                  memo ? "OO" : "O", self, memo)
                            : nullptr;
  Py_XDECREF(module);
  return result;
}

PyObject *deepCopy(PyObject *self, PyObject *memo) {
  return askCopies("deepcopy", self, memo);
}

PyObject *reduce(PyObject *self, PyObject *) {
  return askCopies("reduce", self, nullptr);
}

PyObject *shallowCopy(PyObject *self, PyObject *) { return Py_NewRef(self); }

PyMethodDef methods[] = {
    {"__copy__", shallowCopy, METH_NOARGS, nullptr},
    {"__deepcopy__", deepCopy, METH_O, nullptr},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"add_specialization", addSpecialization, METH_O,
     "Adds a specialization; it is tried first."},
    {"drop_specialization", dropOne, METH_O, "Forgets a specialization."},
    {"drop_specializations", dropAll, METH_NOARGS,
     "Forgets all specializations."},
    {"clear", clear, METH_NOARGS, "Forgets all specializations and counters."},
    {"call_eager", callEagerFromPython, METH_VARARGS,
     "call_eager(args, kwargs): eager answers a call."},
    {"stay_quiet", stayQuiet, METH_O,
     "stay_quiet(calls): so many calls that no specialization answers run in "
     "eager "
     "before the engine is asked again, unless grad mode and its kin change."},
    {"let_all_past", letAllPast, METH_O,
     "let_all_past(calls): so many calls in the modes of the latest that no "
     "specialization answered run in eager, before any is asked."},
    {"let_past",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(letPastNext)),
     METH_FASTCALL,
     "let_past(calls, *values) -> bool: so many calls with arguments like "
     "these run in eager before any specialization is asked. Whether the "
     "latest that were let past had such arguments."},
    {"compare", compareNext, METH_VARARGS,
     "compare(specialization=None, eager=False): times the next call that the "
     "specialization's "
     "guards accept and tells the engine; eager answers it, or the "
     "specialization. "
     "None: ends that."},
    {"leave_to_eager", leaveToEager, METH_VARARGS,
     "leave_to_eager(specialization, unasked) -> bool: from now on, eager "
     "answers "
     "those "
     "of the specialization's calls that are like the compared ones. True: so "
     "many of "
     "them before any specialization is asked."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledFunction, vectorcall),
     READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CompiledFunction, dict), READONLY,
     nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CompiledFunction, weakrefs),
     READONLY, nullptr},
    {"target", T_OBJECT, offsetof(CompiledFunction, target), READONLY,
     "What is compiled."},
    {"hits", T_ULONGLONG, offsetof(CompiledFunction, hits), READONLY,
     "Calls answered by compiled code."},
    {"misses", T_ULONGLONG, offsetof(CompiledFunction, misses), READONLY,
     "Calls that met no specialization."},
    {"eager_calls", T_ULONGLONG, offsetof(CompiledFunction, eagerCalls), 0,
     "Calls answered by eager PyTorch."},
    {nullptr, 0, 0, 0, nullptr}};

/// For those who do not follow `__wrapped__` (`inspect.getfullargspec`).
PyObject *getSignature(PyObject *self, void *) {
  PyObject *module = PyImport_ImportModule("inspect");
  PyObject *result = module ? PyObject_CallMethod(module, "signature", "O",
                                                  selfOf(self)->target)
                            : nullptr;
  Py_XDECREF(module);
  if (!result && PyErr_ExceptionMatches(PyExc_ValueError))
    PyErr_SetString(PyExc_AttributeError, "__signature__");
  return result;
}

PyGetSetDef getset[] = {
    {"__signature__", getSignature, nullptr, "That of what is compiled.",
     nullptr},
    {"specializations", getSpecializations, nullptr,
     "The specializations, most recently hit first.", nullptr},
    {"compared", getCompared, nullptr,
     "The specialization that is compared with eager, or None.", nullptr},
    {"modules", getModules, setModules,
     "The ModuleCalls that modules in eager parts of calls go through, or "
     "None: they run as in eager.",
     nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr,
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void *>(create)},
    {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void *>(traverse)},
    {Py_tp_clear, reinterpret_cast<void *>(clearReferences)},
    {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void *>(bind)},
    {Py_tp_repr, reinterpret_cast<void *>(represent)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, getset},
    {0, nullptr}};

PyType_Spec spec = {"pyjit._C.CompiledFunction", sizeof(CompiledFunction), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                        Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE,
                    slots};

} // namespace

bool addCompiledFunctionType(PyObject *module) {
  PyObject *type = PyType_FromModuleAndSpec(module, &spec, nullptr);
  if (!type)
    return false;
  bool ok = PyModule_AddObjectRef(module, "CompiledFunction", type) == 0;
  Py_DECREF(type);
  return ok;
}

} // namespace pyjit::python
