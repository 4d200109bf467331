//===- AutocastCache.cpp - The casts that autocast keeps ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/AutocastCache.h"

#include <ATen/CachedTensorUtils.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>

using namespace pyjit;
namespace autocast = at::autocast;

bool capture::isCastKept(const at::Tensor &weight) {
  return weight.defined() && weight.scalar_type() == at::kFloat &&
         (weight.is_cpu() || weight.is_cuda()) && weight.requires_grad() &&
         weight.is_leaf() && !weight.is_view() &&
         !at::caching::is_cached_tensor(weight) &&
         !c10::InferenceMode::is_enabled();
}

namespace {
/// Autocast's state inside of one of its operators, in a region of a type.
class WithinOperator {
public:
  WithinOperator(c10::DeviceType device, at::ScalarType type)
      : device(device), type(autocast::get_autocast_dtype(device)),
        enabled(autocast::is_autocast_cache_enabled()),
        below(autocast::get_autocast_dispatch_key_from_device_type(device)) {
    autocast::set_autocast_dtype(device, type);
    autocast::set_autocast_cache_enabled(true);
  }
  ~WithinOperator() {
    autocast::set_autocast_dtype(device, type);
    autocast::set_autocast_cache_enabled(enabled);
  }

private:
  c10::DeviceType device;
  at::ScalarType type;
  bool enabled;
  c10::impl::ExcludeDispatchKeyGuard below;
};
} // namespace

at::Tensor capture::keptCast(const at::Tensor &weight, at::ScalarType type) {
  if (!isCastKept(weight))
    return {};
  try {
    c10::DeviceType device = weight.device().type();
    WithinOperator state(device, type);
    return autocast::cached_cast(type, weight, device);
  } catch (const std::exception &) {
    return {}; // eager says why
  }
}

bool capture::isSeenByPython(const at::TensorBase &cast) {
  return cast.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
}

bool capture::isInsideAutocast() {
  autocast::increment_nesting();
  return autocast::decrement_nesting() > 0;
}
