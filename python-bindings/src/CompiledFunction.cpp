//===- CompiledFunction.cpp - Who answers a call --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Written against CPython's C API directly: this is the path that answers a
// call in microseconds.
//
//===----------------------------------------------------------------------===//

#include "CompiledFunction.h"

#include "CompiledFunctionObject.h"
#include "DynamoPause.h"
#include "EagerParts.h"
#include "Reference.h"
#include "Resumption.h"
#include "Specialization.h"
#include "SpecializationObject.h"
#include "TorchState.h"

#include "capture/Recorder.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace pyjit::python {
namespace {

/// Specializations of a lower rank are asked first whatever is hit, since those
/// of a higher one may answer the same calls: with a graph break, where the
/// launch of another may not answer (0), or for all sizes, without what only
/// known sizes allow, where another (1) is made for the call's.
int rankOf(PyObject *holder) {
  const Specialization &specialization = specializationOf(holder);
  if (specialization.programs().first->mayNotAnswer())
    return 0;
  return specialization.numSymbols() == 0 ? 1 : 2;
}

} // namespace

size_t placeOf(PyObject *holder,
               const std::vector<PyObject *> &specializations) {
  int rank = rankOf(holder);
  return std::find_if(specializations.begin(), specializations.end(),
                      [&](PyObject *other) { return rankOf(other) >= rank; }) -
         specializations.begin();
}

namespace {

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
bool isUnasked(CompiledFunction *self, PyObject *const *args,
               Py_ssize_t nargs) {
  uint64_t modes = modesNow();
  if (self->unaskedCalls && self->unaskedModes == modes) {
    --self->unaskedCalls;
    --self->anyUnasked;
    return true;
  }
  uint64_t signature = signatureOf(args, nargs, modes);
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
  CompiledFunction *self = selfOf(callable);
  // A monitored run looks through compiled functions: it captures the whole.
  if (capture::isCapturing())
    return PyObject_Vectorcall(self->target, args, nargsf, kwnames);
  Py_ssize_t nargs = countArguments(nargsf, kwnames);
  if (self->anyUnasked && isUnasked(self, args, nargs))
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
  EagerPart part(selfOf(callable)->modules);
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
  uint64_t modes = modesNow();
  uint64_t signature = signatureOf(args, nargs, modes, Sizes::Octaves);
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
  uint64_t exact = signatureOf(args, nargs, modes);
  if (self->comparedSignature && self->comparedExact != exact)
    exact = 0;
  self->comparedSignature = signature;
  self->comparedExact = exact;
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
  CompiledFunction *self = selfOf(callable);
  return self->compared ? compare(self, args, nargsf, kwnames)
                        : answerWhole(callable, args, nargsf, kwnames);
}

} // namespace

PyObject *vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf,
                     PyObject *kwnames) {
  if (!areFramesReplaced())
    return answerOrCompare(callable, args, nargsf, kwnames);
  DynamoPause pause;
  return answerOrCompare(callable, args, nargsf, kwnames);
}

uint64_t timesEnginesWereAsked() { return timesAsked; }

} // namespace pyjit::python
