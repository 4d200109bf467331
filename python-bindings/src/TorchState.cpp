//===- TorchState.cpp - PyTorch's thread and process state ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "TorchState.h"

#include "capture/interpreter/DefaultDevice.h"
#include "capture/tensors/TensorObject.h"

#include <ATen/Context.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cmath>

namespace pyjit::python {

/// -1 without CUDA.
static c10::DeviceIndex currentCudaDevice() {
  if (!c10::impl::hasDeviceGuardImpl(c10::kCUDA))
    return -1;
  return c10::impl::getDeviceGuardImpl(c10::kCUDA)->getDevice().index();
}

static capture::FunctionModes expectedModes(const PyjitState &state) {
  return {capture::FunctionModes::Device, state.defaultDevice,
          state.defaultDeviceIndex};
}

bool stateMatches(const PyjitState &state) {
  at::Context &context = at::globalContext();
  uint32_t value = 0;
  auto set = [&](uint32_t bit, bool on) { value |= on ? bit : 0; };
  set(PYJIT_STATE_GRAD_MODE, c10::GradMode::is_enabled());
  set(PYJIT_STATE_INFERENCE_MODE, c10::InferenceMode::is_enabled());
  set(PYJIT_STATE_AUTOCAST_CPU, at::autocast::is_autocast_enabled(at::kCPU));
  set(PYJIT_STATE_AUTOCAST_CUDA, at::autocast::is_autocast_enabled(at::kCUDA));
  set(PYJIT_STATE_AUTOCAST_CACHE, at::autocast::is_autocast_cache_enabled());
  set(PYJIT_STATE_DETERMINISTIC, context.deterministicAlgorithms());
  set(PYJIT_STATE_DETERMINISTIC_WARN_ONLY,
      context.deterministicAlgorithmsWarnOnly());
  set(PYJIT_STATE_CUDNN_ENABLED, context.userEnabledCuDNN());
  set(PYJIT_STATE_MKLDNN_ENABLED, context.userEnabledMkldnn());
  if (state.known & PYJIT_STATE_TORCH_FUNCTION_MODE) {
    auto modes = capture::FunctionModes::now();
    if (state.defaultDevice >= 0 && modes != expectedModes(state))
      return false;
    set(PYJIT_STATE_TORCH_FUNCTION_MODE, modes.kind != modes.None);
  }
  set(PYJIT_STATE_DISPATCH_MODE,
      c10::impl::TorchDispatchModeTLS::any_modes_set());
  if (state.known & PYJIT_STATE_HANDLES_EXCEPTION) {
    PyObject *handled = PyErr_GetHandledException();
    set(PYJIT_STATE_HANDLES_EXCEPTION, handled);
    Py_XDECREF(handled);
  }
  if (state.known & PYJIT_STATE_AUTOCAST_NESTED) {
    at::autocast::increment_nesting();
    set(PYJIT_STATE_AUTOCAST_NESTED, at::autocast::decrement_nesting() > 0);
  }
  if (state.known & PYJIT_STATE_SAVED_TENSOR_HOOKS) {
    const auto &hooks = at::SavedTensorDefaultHooks::get_tls_state();
    set(PYJIT_STATE_SAVED_TENSOR_HOOKS,
        !hooks.stack.empty() || hooks.disabled_error_message);
  }
  if (state.known >= PYJIT_STATE_SDP_FLASH) {
    set(PYJIT_STATE_SDP_FLASH, context.userEnabledFlashSDP());
    set(PYJIT_STATE_SDP_MEM_EFFICIENT, context.userEnabledMemEfficientSDP());
    set(PYJIT_STATE_SDP_MATH, context.userEnabledMathSDP());
    set(PYJIT_STATE_SDP_CUDNN, context.userEnabledCuDNNSDP());
    set(PYJIT_STATE_SDP_OVERRIDEABLE, context.userEnabledOverrideableSDP());
  }
  if ((value ^ state.value) & state.known)
    return false;
  auto same = [](int8_t recorded, c10::ScalarType now) {
    return recorded < 0 || c10::ScalarType(recorded) == now;
  };
  if (state.cudaDevice >= 0 && currentCudaDevice() != state.cudaDevice)
    return false;
  return same(state.defaultDtype, c10::get_default_dtype_as_scalartype()) &&
         same(state.autocastCpuDtype,
              at::autocast::get_autocast_dtype(at::kCPU)) &&
         same(state.autocastCudaDtype,
              at::autocast::get_autocast_dtype(at::kCUDA));
}

DispatchState DispatchState::current() {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  // Levels are numbered from 0, and belong to the process.
  bool level = torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr;
  return {keys.included_.raw_repr(), keys.excluded_.raw_repr(), level};
}

static uint64_t mix(uint64_t seed, uint64_t value) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15; // the golden ratio's bits
  seed = (seed ^ value) * kOdd;
  return seed ^ seed >> 32;
}

uint64_t modesNow() {
  DispatchState keys = DispatchState::current();
  uint64_t modes = mix(c10::GradMode::is_enabled() ? 1 : 2, keys.included);
  auto functions = capture::FunctionModes::now();
  modes = mix(modes, uint64_t(functions.kind) << 16 |
                         uint64_t(uint8_t(functions.device)) << 8 |
                         uint8_t(functions.index));
  return mix(mix(modes, keys.excluded), keys.forwardMode);
}

uint64_t signatureOf(PyObject *const *args, Py_ssize_t nargs, uint64_t modes,
                     Sizes sizes) {
  uint64_t signature = mix(modes, nargs);
  for (Py_ssize_t i = 0; i < nargs; ++i) {
    if (!capture::isTensorObject(args[i])) {
      // Numbers may be inputs of one specialization; text, flags and the like
      // are not.
      bool itself = PyUnicode_CheckExact(args[i]) || PyBool_Check(args[i]) ||
                    PyFunction_Check(args[i]);
      const void *seen = itself ? args[i] : (PyObject *)Py_TYPE(args[i]);
      signature = mix(signature, reinterpret_cast<uintptr_t>(seen));
      continue;
    }
    const at::Tensor &tensor = THPVariable_Unpack(args[i]);
    signature = mix(signature, uint64_t(tensor.scalar_type()));
    signature = mix(signature, tensor.requires_grad());
    // A subclass may compute its sizes in Python; nested tensors have none.
    if (tensor.key_set().has(c10::DispatchKey::Python) || tensor.is_nested() ||
        tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides())
      continue;
    for (int64_t size : tensor.sizes()) {
      if (sizes == Sizes::Octaves && size >= 4)
        size = 4 + std::ilogb(double(size));
      signature = mix(signature, size);
    }
  }
  return signature | 1;
}

} // namespace pyjit::python
