//===- NativesBackward.cpp - Autograd's engine, called by Python ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "builtins/Natives.h"
#include "tensors/Backward.h"
#include "tensors/Tensors.h"

using namespace pyjit::capture;

namespace {

/// The arguments of `_EngineBase.run_backward`, by position or name.
PyObject *engineArgument(const Call &c, size_t position, const char *name) {
  if (PyObject *value = c.keyword(name))
    return value;
  return position < c.positional() ? c.args[position] : nullptr;
}

bool isTrue(PyObject *value) { return value == Py_True; }

bool holdsWrapper(PyObject *tuple) {
  for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); ++i)
    if (PyObject *item = PyTuple_GET_ITEM(tuple, i);
        ObjectTable::isTensor(item) && isTransformed(item))
      return true;
  return false;
}

bool goesThroughWrappers(const EngineCall &call) {
  return holdsWrapper(call.roots) || holdsWrapper(call.gradients) ||
         holdsWrapper(call.inputs);
}

/// A graph of wrappers, which the call has made: what the engine computes it
/// computes by operators, which are recorded.
void beginTransformed(Recording &s, const EngineCall &call) {
  bool all = call.inputs && !call.accumulates;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(call.roots); ++i)
    all &= ObjectTable::isTensor(PyTuple_GET_ITEM(call.roots, i)) &&
           isTransformed(PyTuple_GET_ITEM(call.roots, i));
  if (!all)
    s.end(ReasonKind::Backward, "backward: under a transform");
  s.transforms.runsEngine = true;
}

/// `backward()` and `torch.autograd.grad` both end here.
ResultKind runBackward(Recording &s, const Call &c) {
  EngineCall call;
  call.roots = engineArgument(c, 1, "tensors");
  call.gradients = engineArgument(c, 2, "grad_tensors");
  call.keepsGraph = isTrue(engineArgument(c, 3, "keep_graph"));
  call.createsGraph = isTrue(engineArgument(c, 4, "create_graph"));
  call.inputs = engineArgument(c, 5, "inputs");
  call.accumulates = isTrue(engineArgument(c, 7, "accumulate_grad"));
  if (call.inputs && PyTuple_Check(call.inputs) &&
      !PyTuple_GET_SIZE(call.inputs))
    call.inputs = nullptr;
  auto isTuple = [](PyObject *o) { return o && PyTuple_Check(o); };
  if (!isTuple(call.roots) || !isTuple(call.gradients) ||
      (call.inputs && !isTuple(call.inputs)))
    s.end(ReasonKind::Backward, "backward: arguments of unusual types");
  else if (s.transforms.isActive() || goesThroughWrappers(call))
    beginTransformed(s, call);
  else
    s.tensors->beginBackward(call);
  s.now.runsEngine = !s.dead;
  return ResultKind::FreshDeep;
}

} // namespace

void pyjit::capture::addBackward(NativeTable &t) {
  t.add("torch.autograd:Variable._execution_engine.run_backward", runBackward);
}
