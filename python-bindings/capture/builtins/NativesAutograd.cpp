//===- NativesAutograd.cpp - Functions with a derivative of the user's ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// torch.autograd.Function.apply makes the context object and runs `forward`
// (and `setup_context`), which are Python functions. Where gradients flow,
// eager keeps the context for a `backward` that the engine will call: the whole
// call is a graph break then, in front of what `apply` does in Python.
//
//===----------------------------------------------------------------------===//

#include "builtins/Natives.h"
#include "tensors/Tensors.h"

#include <algorithm>

using namespace pyjit::capture;

/// Eager asks the arguments themselves, not what they hold.
static bool anyRequiresGrad(Recording &s, const Call &c) {
  return s.tensors->gradMode() &&
         std::any_of(c.args.begin(), c.args.end(), [&](PyObject *arg) {
           return s.objects.isTensor(arg) && s.tensors->requiresGrad(arg);
         });
}

bool pyjit::capture::appliesDerivative(Recording &s, const Call &call) {
  static PyObject *method = findObject("torch.autograd:Function.apply");
  return method && PyMethod_Check(method) &&
         call.callable == PyMethod_GET_FUNCTION(method) &&
         anyRequiresGrad(s, call);
}

/// The function that a static method of the class is, known from now on.
static PyObject *staticFunction(Recording &s, PyTypeObject *cls,
                                const char *name) {
  PyObject *found = s.attributes.typeLookup(cls, name);
  PyObject *function = found ? pyjitInnerCallable(found) : nullptr;
  if (!function || !PyFunction_Check(function))
    return nullptr;
  if (!s.objects.find(function))
    s.objects.pin(function);
  return function;
}

static ResultKind functionApply(Recording &s, const Call &c) {
  PyObject *self = PyCFunction_Check(c.callable)
                       ? PyCFunction_GET_SELF(c.callable)
                       : nullptr;
  static PyTypeObject *base =
      reinterpret_cast<PyTypeObject *>(findObject("torch.autograd:Function"));
  if (!base || !self || !PyType_Check(self))
    return s.calls.unknownNative(c);
  auto *cls = reinterpret_cast<PyTypeObject *>(self);
  for (PyObject *arg : c.args)
    s.scalars.specializeDeep(arg);
  if (anyRequiresGrad(s, c))
    s.end(ReasonKind::AutogradFunction, "an autograd function with a gradient");
  PyObject *forward = staticFunction(s, cls, "forward");
  PyObject *setup = staticFunction(s, cls, "setup_context");
  PyObject *context = s.attributes.typeLookup(cls, "_backward_cls");
  if (!forward || !setup || !context || !PyType_Check(context))
    return s.calls.unknownNative(c);
  static PyObject *setupName = PyUnicode_InternFromString("setup_context");
  // It is given the arguments as a tuple.
  if (pyjitTypeLookup(cls, setupName) != pyjitTypeLookup(base, setupName))
    s.calls.callsBack(setup, Calls::Tuples);
  s.now.instantiating = reinterpret_cast<PyTypeObject *>(context);
  return ResultKind::FreshDeep;
}

void pyjit::capture::addAutograd(NativeTable &t) {
  t.add("torch._C:_FunctionBase.apply", functionApply);
}
