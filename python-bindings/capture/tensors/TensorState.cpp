//===- TensorState.cpp - Torch's state, at a call's start and later -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/TensorImpl.h"

#include <ATen/Context.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/forward_grad.h>

using namespace pyjit::capture;

State State::now() {
  State s;
  auto &context = at::globalContext();
  s.gradMode = c10::GradMode::is_enabled();
  s.inferenceMode = c10::InferenceMode::is_enabled();
  s.autocastCpu = at::autocast::is_autocast_enabled(at::kCPU);
  s.autocastCuda = at::autocast::is_autocast_enabled(at::kCUDA);
  s.autocastCache = at::autocast::is_autocast_cache_enabled();
  at::autocast::increment_nesting();
  s.autocastNesting = at::autocast::decrement_nesting();
  s.deterministic = context.deterministicAlgorithms();
  s.deterministicWarnOnly = context.deterministicAlgorithmsWarnOnly();
  s.cudnn = context.userEnabledCuDNN();
  s.mkldnn = context.userEnabledMkldnn();
  s.attention = {context.userEnabledFlashSDP(),
                 context.userEnabledMemEfficientSDP(),
                 context.userEnabledMathSDP(), context.userEnabledCuDNNSDP(),
                 context.userEnabledOverrideableSDP()};
  s.defaultDtype = c10::typeMetaToScalarType(at::get_default_dtype());
  s.autocastCpuDtype = at::autocast::get_autocast_dtype(at::kCPU);
  s.autocastCudaDtype = at::autocast::get_autocast_dtype(at::kCUDA);
  const auto &hooks = at::SavedTensorDefaultHooks::get_tls_state();
  s.savesTensorsPlainly = hooks.stack.empty() && !hooks.disabled_error_message;
  s.forwardGrad = c10::AutogradState::get_tls_state().get_fw_grad_mode();
  auto keys = c10::impl::tls_local_dispatch_key_set();
  s.includedKeys = keys.included_.raw_repr();
  s.excludedKeys = keys.excluded_.raw_repr();
  s.modes = FunctionModes::now();
  return s;
}

PyjitAttribute TensorRecorder::stateAtStart() {
  const State &s = impl->state;
  TraceWriter &writer = impl->recording.writer;
  std::vector<PyjitString> names;
  std::vector<PyjitAttribute> values;
  auto flag = [&](const char *name, bool value) {
    names.push_back(view(name));
    values.push_back(writer.boolean(value));
  };
  flag("grad_mode", s.gradMode);
  flag("inference_mode", s.inferenceMode);
  flag("autocast_cpu", s.autocastCpu);
  flag("autocast_cuda", s.autocastCuda);
  flag("autocast_cache", s.autocastCache);
  flag("deterministic", s.deterministic);
  flag("deterministic_warn_only", s.deterministicWarnOnly);
  flag("cudnn_enabled", s.cudnn);
  flag("mkldnn_enabled", s.mkldnn);
  flag("torch_function_mode", s.modes.kind != FunctionModes::None);
  flag("dispatch_mode", false);
  auto dtype = [&](const char *name, at::ScalarType type) {
    PyjitAttribute known =
        pyjitAttributeElement(writer.getContext(), elementOf(type));
    if (!known)
      return;
    names.push_back(view(name));
    values.push_back(known);
  };
  dtype("default_dtype", s.defaultDtype);
  dtype("autocast_cpu_dtype", s.autocastCpuDtype);
  dtype("autocast_cuda_dtype", s.autocastCudaDtype);
  if (s.modes.kind == FunctionModes::Device) {
    names.push_back(view("default_device"));
    values.push_back(writer.string(s.modes.text()));
  }
  return pyjitAttributeDictionary(writer.getContext(), names.data(),
                                  values.data(), names.size());
}

void TensorRecorder::guardAttentionKernels() {
  const State::Attention &allowed = impl->state.attention;
  Recording &s = impl->recording;
  const std::pair<const char *, bool> flags[] = {
      {"sdp_flash", allowed.flash},
      {"sdp_mem_efficient", allowed.efficient},
      {"sdp_math", allowed.math},
      {"sdp_cudnn", allowed.cudnn},
      {"sdp_overrideable", allowed.overrideable}};
  if (!std::exchange(impl->earlier.attentionGuarded, true))
    for (const auto &[name, on] : flags)
      s.add(PyjitStateOp{.values = s.writer.state(name, on)});
}

std::string TensorRecorder::stateChange(int *gradMode) {
  const State &a = impl->state, b = State::now();
  if (a.gradMode != b.gradMode) {
    if (!gradMode)
      return "grad mode changed by the call";
    *gradMode = b.gradMode;
  }
  if (a.inferenceMode != b.inferenceMode || a.autocastCpu != b.autocastCpu ||
      a.autocastCuda != b.autocastCuda || a.autocastCache != b.autocastCache ||
      a.autocastNesting != b.autocastNesting ||
      a.deterministic != b.deterministic || a.cudnn != b.cudnn ||
      a.deterministicWarnOnly != b.deterministicWarnOnly ||
      a.mkldnn != b.mkldnn || a.defaultDtype != b.defaultDtype ||
      a.forwardGrad != b.forwardGrad || a.attention != b.attention ||
      a.savesTensorsPlainly != b.savesTensorsPlainly)
    return "Torch's global state changed by the call";
  return "";
}

std::string TensorRecorder::unsupportedState() {
  if (FunctionModes::now().kind == FunctionModes::Other)
    return "a __torch_function__ mode is active";
  if (c10::impl::TorchDispatchModeTLS::any_modes_set())
    return "a __torch_dispatch__ mode is active";
  if (c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Tracer))
    return "torch.jit.trace is running";
  if (c10::impl::tls_is_dispatch_key_included(
          c10::DispatchKey::FuncTorchDynamicLayerFrontMode))
    return "a functorch transform is running";
  if (torch::autograd::ForwardADLevel::try_get_by_idx(0))
    return "forward-mode differentiation is running";
  return "";
}

DispatchState TensorRecorder::dispatchState() const {
  const State &state = impl->state;
  bool other =
      impl->leavingMode >= 0 && impl->leavingMode != int(state.inferenceMode);
  return {state.includedKeys, state.excludedKeys,
          other ? impl->leavingMode : -1};
}
