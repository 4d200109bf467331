//===- Hooks.h - Who hears of gradients -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hooks stand on tensors, on the nodes that gradients go to, and on the
// accumulators of leaves, some of them in several places. The recorder, the
// guards and autograd's nodes of a compiled call ask the same questions.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_HOOKS_H
#define PYJIT_RT_HOOKS_H

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace pyjit::rt {

/// Whether a hook is called when autograd's engine comes to the node, be it
/// without a gradient.
inline bool isHookedAt(torch::autograd::Node &node) {
  return !node.pre_hooks().empty() || !node.tensor_pre_hooks().empty() ||
         !node.post_hooks().empty() || node.tensor_post_acc_grad_hooks();
}

/// Whether anybody sees a gradient that comes to the node.
inline bool isHooked(torch::autograd::Node &node) {
  return isHookedAt(node) || !node.retains_grad_hooks().empty();
}

/// Whether a hook is called when the engine brings the tensor's gradient, in
/// front of where that goes or behind it, be it without a gradient.
inline bool isHookedAt(const at::TensorBase &tensor) {
  const auto *meta = static_cast<const torch::autograd::AutogradMeta *>(
      tensor.unsafeGetTensorImpl()->autograd_meta());
  if (!meta)
    return false;
  std::shared_ptr<torch::autograd::Node> node =
      meta->grad_fn_ ? meta->grad_fn_ : meta->grad_accumulator_.lock();
  return !meta->hooks_.empty() || meta->post_acc_grad_hooks_ ||
         (node && isHookedAt(*node));
}

} // namespace pyjit::rt

#endif // PYJIT_RT_HOOKS_H
