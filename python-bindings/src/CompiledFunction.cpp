//===- CompiledFunction.cpp - The callable that pyjit.compile returns -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Written against CPython's C API directly: this is the path that answers a
// call in microseconds.
//
//===----------------------------------------------------------------------===//

#include "CompiledFunction.h"

#include "DynamoPause.h"
#include "EagerParts.h"
#include "Reference.h"
#include "Resumption.h"
#include "Specialization.h"
#include "SpecializationObject.h"
#include "TorchState.h"

#include "capture/Recorder.h"

#include <c10/core/GradMode.h>

#include <structmember.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>
#include <vector>

namespace pyjit::python {
namespace {

struct CompiledFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *target;
  PyObject *miss;
  /// The `ModuleCalls` that modules in eager parts of calls go through, or
  /// null.
  PyObject *modules;
  PyObject *dict;
  PyObject *weakrefs;
  uint64_t hits, misses, eagerCalls;
  /// Calls of one signature that eager answers before any specialization is
  /// asked.
  struct Unasked {
    uint64_t signature, calls;
  } unasked[4];
  uint64_t anyUnasked; ///< all of them
  /// Calls in these modes that eager answers where no specialization did,
  /// before the engine is asked; the modes that the latest such call began in.
  uint64_t quiet, quietModes, missModes;
  /// The specialization that is compared with eager, or null; who answers the
  /// next of the calls compared; the signature that they have (0: the next
  /// call's).
  PyObject *compared;
  uint64_t comparedSignature;
  uint32_t patience; ///< calls until the comparison ends without a result
  bool eagerNext;
  /// When the call in front of this one began (a steady clock's nanoseconds),
  /// if it was timed and a backward may have followed it; else 0.
  int64_t timedBefore;
  /// Strong; by `rankOf`, then most recently hit first.
  std::vector<PyObject *> *specializations;
};

CompiledFunction *self_of(PyObject *object) {
  return reinterpret_cast<CompiledFunction *>(object);
}

/// Specializations of a lower rank are asked first whatever is hit, since those
/// of a higher one may answer the same calls: with a graph break, where the
/// launch of another may not answer (0), or for all sizes, without what only
/// known sizes allow, where another (1) is made for the call's.
int rankOf(PyObject *holder) {
  const Specialization &specialization = specializationOf(holder);
  if (specialization.executor().mayNotAnswer())
    return 0;
  return specialization.numSymbols() == 0 ? 1 : 2;
}

/// Where a specialization that was hit, or is new, belongs.
size_t placeOf(PyObject *holder,
               const std::vector<PyObject *> &specializations) {
  int rank = rankOf(holder);
  return std::find_if(specializations.begin(), specializations.end(),
                      [&](PyObject *other) { return rankOf(other) >= rank; }) -
         specializations.begin();
}

Py_ssize_t countArguments(size_t nargsf, PyObject *kwnames) {
  return PyVectorcall_NARGS(nargsf) + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
}

/// What answers modules in calls that eager answers in a specialization's
/// place: nothing where it takes the call as one graph, for such calls are
/// there to be compared with it.
PyObject *modulesBeside(CompiledFunction *self,
                        const Specialization *specialization) {
  bool whole = specialization && !specialization->resumption;
  return whole ? nullptr : self->modules;
}

PyObject *callEager(CompiledFunction *self, PyObject *const *args,
                    size_t nargsf, PyObject *kwnames,
                    const Specialization *accepts = nullptr) {
  ++self->eagerCalls;
  EagerPart part(modulesBeside(self, accepts), self->target);
  return PyObject_Vectorcall(self->target, args, nargsf, kwnames);
}

/// Calls a method of the engine, whose errors are none of the call's.
void tellEngine(CompiledFunction *self, const char *method,
                PyObject *specialization, PyObject *detail = nullptr,
                PyObject *further = nullptr) {
  PyObject *raised = PyErr_GetRaisedException();
  PyObject *engine =
      PyObject_GetAttrString(reinterpret_cast<PyObject *>(self), "engine");
  PyObject *name = engine ? PyUnicode_FromString(method) : nullptr;
  PyObject *done =
      name ? PyObject_CallMethodObjArgs(engine, name, specialization, detail,
                                        further, nullptr)
           : nullptr;
  if (!done)
    PyErr_WriteUnraisable(engine);
  Py_XDECREF(done);
  Py_XDECREF(name);
  Py_XDECREF(engine);
  PyErr_SetRaisedException(raised);
}

/// Counts a call that no specialization is asked to answer.
bool isUnasked(CompiledFunction *self, uint64_t signature) {
  for (auto &unasked : self->unasked)
    if (unasked.calls && unasked.signature == signature) {
      --unasked.calls;
      --self->anyUnasked;
      return true;
    }
  return false;
}

/// How often engines were asked for calls that no specialization answers.
thread_local uint64_t timesAsked = 0;

PyObject *callMiss(CompiledFunction *self, PyObject *const *args, size_t nargsf,
                   PyObject *kwnames) {
  ++self->misses;
  self->missModes = modesNow();
  if (self->quiet) {
    if (self->quietModes == self->missModes) {
      --self->quiet;
      return callEager(self, args, nargsf, kwnames);
    }
    self->quiet = 0;
  }
  ++timesAsked;
  Py_ssize_t positional = PyVectorcall_NARGS(nargsf);
  PyObject *tuple = PyTuple_New(positional);
  PyObject *kwargs = PyDict_New();
  PyObject *result = nullptr;
  bool ok = tuple && kwargs;
  for (Py_ssize_t i = 0; ok && i < positional; ++i)
    PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; ok && kwnames && i < PyTuple_GET_SIZE(kwnames); ++i)
    ok = PyDict_SetItem(kwargs, PyTuple_GET_ITEM(kwnames, i),
                        args[positional + i]) == 0;
  if (ok)
    result = PyObject_CallFunctionObjArgs(self->miss, tuple, kwargs, nullptr);
  Py_XDECREF(tuple);
  Py_XDECREF(kwargs);
  return result;
}

void moveToFront(CompiledFunction *self, size_t i, PyObject *holder) {
  std::vector<PyObject *> &specializations = *self->specializations;
  if (i == 0 || i >= specializations.size() || specializations[i] != holder)
    return;
  size_t first = placeOf(holder, specializations);
  std::rotate(specializations.begin() + first, specializations.begin() + i,
              specializations.begin() + i + 1);
}

/// See `Answer`: everything but what follows a graph break.
PyObject *answer(PyObject *callable, PyObject *const *args, size_t nargsf,
                 PyObject *kwnames, PyObject **resumption) {
  CompiledFunction *self = self_of(callable);
  // A monitored run looks through compiled functions: it captures the whole.
  if (capture::isCapturing())
    return PyObject_Vectorcall(self->target, args, nargsf, kwnames);
  Py_ssize_t nargs = countArguments(nargsf, kwnames);
  if (self->anyUnasked && isUnasked(self, signatureOf(args, nargs, modesNow())))
    return callEager(self, args, nargsf, kwnames);
  // By index: a guard may run no Python code, but a hit's mock may, and that
  // code may clear the specializations.
  for (size_t i = 0; i < self->specializations->size(); ++i) {
    PyObject *holder = Py_NewRef((*self->specializations)[i]);
    PyObject *result = nullptr;
    Specialization &specialization = specializationOf(holder);
    Specialization::Outcome outcome =
        specialization.call(args, nargs, kwnames, &result);
    switch (outcome) {
    case Specialization::Outcome::Miss:
      break;
    case Specialization::Outcome::Hit:
      ++self->hits;
      ++specialization.hits;
      *resumption = Py_XNewRef(specialization.resumption);
      moveToFront(self, i, holder);
      break;
    case Specialization::Outcome::Error:
      result = callEager(self, args, nargsf, kwnames);
      if (result && specialization.noteMistake())
        tellEngine(self, "_raised", holder);
      break;
    case Specialization::Outcome::Eager:
      result = callEager(self, args, nargsf, kwnames, &specialization);
      break;
    case Specialization::Outcome::Raise:
      break;
    }
    if (outcome != Specialization::Outcome::Miss && specialization.untilLook &&
        --specialization.untilLook == 0)
      tellEngine(self, "_look", holder);
    Py_DECREF(holder);
    if (outcome != Specialization::Outcome::Miss)
      return result;
  }
  return callMiss(self, args, nargsf, kwnames);
}

PyObject *answerWhole(PyObject *callable, PyObject *const *args, size_t nargsf,
                      PyObject *kwnames) {
  PyObject *resumption = nullptr;
  PyObject *result = answer(callable, args, nargsf, kwnames, &resumption);
  if (!resumption)
    return result;
  EagerPart part(self_of(callable)->modules);
  return goOn(resumption, result, answer);
}

/// Whether a call is being timed on this thread: what it calls is not.
thread_local bool timing = false;

/// A call that is timed, if it is one of the specialization's that is compared:
/// it is answered as any other, by the specialization and what follows it or by
/// eager.
PyObject *compare(CompiledFunction *self, PyObject *const *args, size_t nargsf,
                  PyObject *kwnames) {
  using namespace std::chrono;
  PyObject *callable = reinterpret_cast<PyObject *>(self);
  Py_ssize_t nargs = countArguments(nargsf, kwnames);
  uint64_t signature = signatureOf(args, nargs, modesNow());
  Reference holder = Reference::borrow(self->compared);
  Specialization &specialization = specializationOf(holder.get());
  int64_t before = std::exchange(self->timedBefore, 0);
  if (self->patience-- == 0) {
    tellEngine(self, "_compared", holder.get(), Py_None);
    return answerWhole(callable, args, nargsf, kwnames);
  }
  bool fits = !self->comparedSignature || self->comparedSignature == signature;
  if (timing || capture::isCapturing() || !fits ||
      !specialization.accepts(args, nargs, kwnames) || !specialization.settle())
    return answerWhole(callable, args, nargsf, kwnames);
  self->comparedSignature = signature;
  bool eager = self->eagerNext;
  uint64_t hits = specialization.hits, asked = timesAsked;
  bool mayGoBack = at::GradMode::is_enabled();
  timing = true;
  auto start = steady_clock::now();
  PyObject *result =
      eager ? callEager(self, args, nargsf, kwnames, &specialization)
            : answerWhole(callable, args, nargsf, kwnames);
  bool settled = specialization.settle();
  duration<double> taken = steady_clock::now() - start;
  timing = false;
  // Not one that raised, or that another specialization answered.
  bool counts = result && settled && (eager || specialization.hits == hits + 1);
  if (counts && self->compared == holder.get()) {
    nanoseconds began = start.time_since_epoch();
    self->timedBefore = mayGoBack ? began.count() : 0;
    Reference seconds = Reference::steal(PyFloat_FromDouble(taken.count()));
    duration<double> step = began - nanoseconds(before);
    Reference between = before
                            ? Reference::steal(PyFloat_FromDouble(step.count()))
                            : Reference::borrow(Py_None);
    if (seconds && between)
      tellEngine(self, asked == timesAsked ? "_compared" : "_recorded",
                 holder.get(), seconds.get(), between.get());
    else
      PyErr_Clear();
  }
  return result;
}

PyObject *answerOrCompare(PyObject *callable, PyObject *const *args,
                          size_t nargsf, PyObject *kwnames) {
  CompiledFunction *self = self_of(callable);
  return self->compared ? compare(self, args, nargsf, kwnames)
                        : answerWhole(callable, args, nargsf, kwnames);
}

PyObject *vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf,
                     PyObject *kwnames) {
  if (!areFramesReplaced())
    return answerOrCompare(callable, args, nargsf, kwnames);
  DynamoPause pause;
  return answerOrCompare(callable, args, nargsf, kwnames);
}

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
  self->anyUnasked = 0;
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
  CompiledFunction *self = self_of(object);
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
  CompiledFunction *self = self_of(object);
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
  CompiledFunction *self = self_of(object);
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
  return PyUnicode_FromFormat("<pyjit compiled %R>", self_of(self)->target);
}

PyObject *addSpecialization(PyObject *self, PyObject *specialization) {
  if (!isSpecialization(specialization)) {
    PyErr_SetString(PyExc_TypeError,
                    "add_specialization takes a Specialization");
    return nullptr;
  }
  auto &specializations = *self_of(self)->specializations;
  specializations.insert(specializations.begin() +
                             placeOf(specialization, specializations),
                         Py_NewRef(specialization));
  Py_RETURN_NONE;
}

PyObject *clear(PyObject *self, PyObject *) {
  CompiledFunction *function = self_of(self);
  dropSpecializations(function);
  function->hits = function->misses = function->eagerCalls = 0;
  function->quiet = 0;
  Py_RETURN_NONE;
}

PyObject *dropAll(PyObject *self, PyObject *) {
  dropSpecializations(self_of(self));
  Py_RETURN_NONE;
}

PyObject *dropOne(PyObject *self, PyObject *specialization) {
  auto &specializations = *self_of(self)->specializations;
  auto found =
      std::find(specializations.begin(), specializations.end(), specialization);
  if (found != specializations.end()) {
    if (self_of(self)->compared == specialization)
      endComparison(self_of(self));
    askAlways(self_of(self));
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
  CompiledFunction *self = self_of(object);
  ++self->eagerCalls;
  EagerPart part(self->modules, self->target);
  return PyObject_Call(self->target, positional, keywords);
}

PyObject *stayQuiet(PyObject *self, PyObject *calls) {
  unsigned long long number = PyLong_AsUnsignedLongLong(calls);
  if (PyErr_Occurred())
    return nullptr;
  self_of(self)->quiet = number;
  // What follows a graph break may begin in one mode and end in another.
  self_of(self)->quietModes = self_of(self)->missModes;
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

/// let_past(calls, *values)
PyObject *letPastNext(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  if (nargs < 1)
    return PyErr_Format(PyExc_TypeError, "let_past takes a number of calls");
  unsigned long long calls = PyLong_AsUnsignedLongLong(args[0]);
  if (PyErr_Occurred())
    return nullptr;
  letPast(self_of(self),
          signatureOf(args + 1, nargs - 1, self_of(self)->missModes), calls);
  Py_RETURN_NONE;
}

/// leave_to_eager(specialization, unasked) -> bool
PyObject *leaveToEager(PyObject *object, PyObject *args) {
  CompiledFunction *self = self_of(object);
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
  return PyBool_FromLong(calls && letPast(self, signature, calls));
}

PyObject *compareNext(PyObject *object, PyObject *args) {
  CompiledFunction *self = self_of(object);
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
  PyObject *specialization = self_of(self)->compared;
  return Py_NewRef(specialization ? specialization : Py_None);
}

PyObject *getSpecializations(PyObject *self, void *) {
  auto &specializations = *self_of(self)->specializations;
  PyObject *list = PyList_New(specializations.size());
  for (size_t i = 0; list && i < specializations.size(); ++i)
    PyList_SET_ITEM(list, i, Py_NewRef(specializations[i]));
  return list;
}

PyObject *getModules(PyObject *self, void *) {
  PyObject *modules = self_of(self)->modules;
  return Py_NewRef(modules ? modules : Py_None);
}

int setModules(PyObject *self, PyObject *value, void *) {
  bool none = !value || value == Py_None;
  if (!none && !isModuleCalls(value)) {
    PyErr_SetString(PyExc_TypeError, "modules is a ModuleCalls or None");
    return -1;
  }
  Py_XSETREF(self_of(self)->modules, none ? nullptr : Py_NewRef(value));
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
    {"let_past",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(letPastNext)),
     METH_FASTCALL,
     "let_past(calls, *values): so many calls with arguments like these run in "
     "eager before any specialization is asked."},
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
                                                  self_of(self)->target)
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

uint64_t timesEnginesWereAsked() { return timesAsked; }

bool addCompiledFunctionType(PyObject *module) {
  PyObject *type = PyType_FromModuleAndSpec(module, &spec, nullptr);
  if (!type)
    return false;
  bool ok = PyModule_AddObjectRef(module, "CompiledFunction", type) == 0;
  Py_DECREF(type);
  return ok;
}

} // namespace pyjit::python
