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
  else
    s.tensors->beginBackward(call);
  s.now.runsEngine = !s.dead;
  return ResultKind::FreshDeep;
}

} // namespace

void pyjit::capture::addBackward(NativeTable &t) {
  t.add("torch.autograd:Variable._execution_engine.run_backward", runBackward);
}
