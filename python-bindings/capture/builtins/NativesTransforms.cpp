//===- NativesTransforms.cpp - What transforms of torch.func call ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// functorch's interpreters and wrappers, as Torch's own Python code uses them.
// What these functions answer follows from the program, and from tensors'
// metadata, which the guards check.
//
//===----------------------------------------------------------------------===//

#include "builtins/Natives.h"
#include "tensors/Tensors.h"

using namespace pyjit::capture;

namespace {

ResultKind enterTransform(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    s.scalars.specializeDeep(arg);
  if (s.checkpoint.repeats() || !s.transforms.enter())
    return s.calls.unknownNative(c);
  return ResultKind::Fresh;
}

ResultKind leaveTransform(Recording &s, const Call &c) {
  if (!s.transforms.isActive())
    return s.calls.unknownNative(c);
  s.transforms.leave();
  return ResultKind::Fresh;
}

/// Puts a tensor into a wrapper, takes it out, or asks about it.
ResultKind wrapper(Recording &s, const Call &c) {
  for (PyObject *arg : c.args) {
    s.scalars.specializeDeep(arg);
    s.calls.tensorArgument(arg);
  }
  return ResultKind::FreshDeep;
}

/// State of the thread that transforms set, and set back before they return.
ResultKind transformState(Recording &s, const Call &c) {
  if (!s.transforms.isActive())
    return s.calls.unknownNative(c);
  for (PyObject *arg : c.args)
    if (!isValue(arg))
      s.end(ReasonKind::UnusualObject,
            "a transform's state of type " + typeName(arg));
  return ResultKind::Fresh;
}

/// Transforms forbid hooks on saved tensors, and raise where there are some.
ResultKind savedTensorHooks(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    if (!isValue(arg))
      return s.calls.unknownNative(c);
  return guardHooks(s) ? ResultKind::Fresh : s.calls.unknownNative(c);
}

/// Whether forward-mode differentiation may be used: it may, around the call.
ResultKind forwardGrad(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    if (!isValue(arg))
      return s.calls.unknownNative(c);
  return mightGoForward(s) ? ResultKind::Fresh : s.calls.unknownNative(c);
}

/// `torch._dynamo.compiled_autograd._disable()` switches off who compiles
/// backward passes, and on again: that nobody does is what the module says.
ResultKind setAutogradCompiler(Recording &s, const Call &c) {
  static PyObject *module = findObject("torch._dynamo.compiled_autograd:");
  static PyObject *flag =
      PyUnicode_InternFromString("compiled_autograd_enabled");
  PyObject *names = module ? pyjitModuleDict(module) : nullptr;
  if (!names || c.args.size() != 2 || c.args[0] != Py_None ||
      PyDict_GetItemWithError(names, flag) != Py_False)
    return s.calls.unknownNative(c);
  s.objects.pin(names);
  s.containers.dictItem(names, flag);
  return ResultKind::Fresh;
}

} // namespace

static void load(Recording &s, const char *path) {
  s.tensors->suspend(true);
  PyObject *function = findObject(path);
  Py_XDECREF(function ? PyObject_CallNoArgs(function) : nullptr);
  PyErr_Clear();
  Py_XDECREF(function);
  s.tensors->suspend(false);
}

void pyjit::capture::prepareTransforms(Recording &s, PyObject *function) {
  auto *code = reinterpret_cast<PyCodeObject *>(
      reinterpret_cast<PyFunctionObject *>(function)->func_code);
  auto is = [&](const char *name) {
    return PyUnicode_CompareWithASCIIString(code->co_name, name) == 0;
  };
  if (is("vmap_impl"))
    load(s, "torch._functorch.predispatch:lazy_load_decompositions");
  if (is("_jvp_with_argnums"))
    load(s, "torch.autograd.forward_ad:_maybe_load_decompositions");
}

void pyjit::capture::addTransforms(NativeTable &t) {
  auto add = [&](std::initializer_list<const char *> names,
                 NativeHandler handler) {
    for (const char *name : names)
      t.add(("torch._C._functorch:" + std::string(name)).c_str(), handler);
  };
  add({"_vmap_increment_nesting", "_grad_increment_nesting",
       "_jvp_increment_nesting"},
      enterTransform);
  add({"_vmap_decrement_nesting", "_grad_decrement_nesting",
       "_jvp_decrement_nesting"},
      leaveTransform);
  add({"_add_batch_dim", "_remove_batch_dim", "_unwrap_batched",
       "_wrap_for_grad", "_unwrap_for_grad", "get_unwrapped", "unwrap_if_dead",
       "is_batchedtensor", "is_gradtrackingtensor",
       "is_functorch_wrapped_tensor", "maybe_get_level", "maybe_get_bdim"},
      wrapper);
  add({"maybe_current_level", "get_inplace_requires_grad_allowed",
       "set_inplace_requires_grad_allowed",
       "get_single_level_autograd_function_allowed",
       "set_single_level_autograd_function_allowed"},
      transformState);
  for (const char *name : {"_enter_dual_level", "_exit_dual_level"})
    t.add(("torch._C:" + std::string(name)).c_str(), transformState);
  for (const char *name : {"_is_fwd_grad_enabled", "_set_fwd_grad_enabled"})
    t.add(("torch._C:" + std::string(name)).c_str(), forwardGrad);
  t.add("torch._C:_dynamo.compiled_autograd.set_autograd_compiler",
        setAutogradCompiler);
  for (const char *name :
       {"_saved_tensors_hooks_get_disabled_error_message",
        "_saved_tensors_hooks_disable", "_saved_tensors_hooks_enable"})
    t.add(("torch._C._autograd:" + std::string(name)).c_str(),
          savedTensorHooks);
}
