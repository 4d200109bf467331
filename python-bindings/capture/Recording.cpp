// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- Recording.cpp - The life of a recording
//------------------------------===//

#include "Recording.h"

#include "breaks/Continuation.h"
#include "objects/Iterators.h"
#include "tensors/Tensors.h"

using namespace pyjit::capture;

Recording *Recording::current = nullptr;

Recording::Recording(PyjitContext *context, const std::string &name,
                     bool surveying, AccessPaths lifted)
    : name(name), surveying(surveying), writer(context, name), tracker(*this),
      checkpoint(*this), transforms(*this), copies(*this), objects(*this),
      reads(*this), attributes(*this), containers(*this), operators(*this),
      calls(*this), escape(*this), breaks(*this), decisions(*this),
      dataNumbers(*this), sizes(*this),
      tensors(std::make_unique<TensorRecorder>(*this)),
      scalars(*this, std::move(lifted)) {}

Recording::~Recording() { tensors.reset(); }

//===----------------------------------------------------------------------===//
// Begin and end
//===----------------------------------------------------------------------===//

bool Recording::begin(PyObject *callable, std::vector<PyObject *> &args,
                      size_t nargs, PyObject *kwnames,
                      const std::set<int> &unseenArguments) {
  thread = PyThreadState_Get();
  ShadowFrame base;
  base.frame = pyjitCurrentFrame();
  tracker.frames.push_back(base);
  writer.add(PyjitStateOp{.values = tensors->stateAtStart()});
  objects.ssa(objects.pin(callable));
  Call call;
  call.callable = callable;
  call.kwnames = kwnames;
  breaks.argumentCount = Py_ssize_t(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    PyObject *name = nullptr;
    if (i >= nargs)
      name = PyTuple_GET_ITEM(kwnames, i - nargs);
    if (unseenArguments.count(int(i))) {
      objects.passUnseen(i, args[i], name);
      continue;
    }
    reads.readIndex(nullptr, Select::Arg, Py_ssize_t(i), args[i], name);
    args[i] = scalars.takeArgument(args[i]);
  }
  call.args = args;
  now = {};
  tracker.frames[0].resultKind = calls.call(call);
  tracker.frames[0].context = now;
  if (tracker.frames[0].resultKind == ResultKind::Constant)
    end(ReasonKind::TensorFromData, "a tensor made of Python data");
  return !dead;
}

void Recording::beginAt(PyjitFrame *frame, PyCodeObject *code, int offset,
                        PyObject *function,
                        const std::vector<PyObject **> &places,
                        const std::vector<PyObject *> &names,
                        const std::set<int> &unseenPlaces) {
  thread = PyThreadState_Get();
  breaks.resumed = true;
  tracker.frames.push_back({});
  ShadowFrame shadow;
  shadow.frame = frame;
  shadow.code = code;
  shadow.offset = offset;
  tracker.frames.push_back(shadow);
  writer.add(PyjitStateOp{.values = tensors->stateAtStart()});
  Node *node = objects.pin(function);
  objects.ssa(node);
  reads.function(node);
  for (size_t i = 0; i < places.size(); ++i) {
    if (!unseenPlaces.count(int(i)) &&
        Py_IS_TYPE(*places[i], &PyRangeIter_Type) &&
        scalars.isLifted(AccessPath::argument(int(i)).then(
            AccessPath::Step::Field, "left"))) {
      scalars.followRange(*places[i], Py_ssize_t(i), names[i]);
      continue;
    }
    if (!unseenPlaces.count(int(i)) && handsOutKnown(*this, *places[i])) {
      takeOver(*this, *places[i], Py_ssize_t(i), names[i]);
      continue;
    }
    if (!unseenPlaces.count(int(i))) {
      reads.readIndex(nullptr, Select::Arg, Py_ssize_t(i), *places[i],
                      names[i]);
      if (PyObject *taken = scalars.takeArgument(*places[i]);
          taken != *places[i]) {
        PyObject *old = *places[i];
        *places[i] = Py_NewRef(taken);
        Py_DECREF(old);
      }
      // A variable that nested functions share.
      if (Node *cell =
              PyCell_Check(*places[i]) ? objects.find(*places[i]) : nullptr)
        reads.cellHomes.insert(
            {*places[i], ExternalReads::CellHome{cell, 0, names[i]}});
      continue;
    }
    // Told apart by its address, which numbers and strings share freely.
    if (isValue(*places[i])) {
      PyObject *copy = pyjitUniqueCopy(*places[i]);
      if (!copy) {
        PyErr_Clear();
        reads.readIndex(nullptr, Select::Arg, Py_ssize_t(i), *places[i],
                        names[i]);
        continue;
      }
      run.copies->add(copy, *places[i]);
      PyObject *old = *places[i];
      *places[i] = copy;
      Py_DECREF(old);
    }
    objects.passUnseen(i, *places[i], names[i]);
  }
}

void Recording::finishCall(PyObject *result) {
  tracker.frames.resize(1);
  objects.setResult(tracker.frames[0].resultKind, result);
  escape.leave(result);
}

void Recording::end(ReasonKind kind, const std::string &what) {
  if (surveying) {
    std::string entry = what + tracker.where();
    if (surveyedSet.insert(entry).second)
      surveyed.push_back(entry);
    return;
  }
  if (dead)
    return;
  dead = true;
  breaks.endedBefore = breaks.inHandler;
  reason = {kind, what + tracker.where(), tracker.stack()};
}

/// An end that may be so in a first call only is one for good after so many.
static constexpr int kPasses = 3;

void Recording::endOnce(ReasonKind kind, const std::string &what) {
  const ShadowFrame &frame = tracker.frames.back();
  if (!breaks.graphBreakPoints || !frame.code || dead)
    return end(kind, what);
  Origin origin = originOf(frame.code, nullptr);
  auto times =
      breaks.passCounts->find({origin.code, frame.offset - origin.shift});
  if (times != breaks.passCounts->end() && times->second >= kPasses)
    return end(kind, what);
  breaks.passes = true;
  end(kind, what);
}

void Recording::endWhole(ReasonKind kind, const std::string &what) {
  breaks.noGraphBreak |= !dead;
  end(kind, what);
}
