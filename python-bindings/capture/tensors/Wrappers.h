//===- Wrappers.h - What a transform wraps a tensor in ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A transform of torch.func (vmap, grad, jvp) gives the function that it
// transforms wrappers of tensors. What operators do to a wrapper they do, by
// way of the transform's rules, to the plain tensor beneath: that one has the
// value in the trace.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_TENSORS_WRAPPERS_H
#define PYJIT_CAPTURE_TENSORS_WRAPPERS_H

#include <ATen/core/Tensor.h>

namespace pyjit::capture {

/// Whether it is the wrapper of a transform, be the transform over or not.
inline bool isWrapper(const at::TensorBase &tensor) {
  c10::DispatchKeySet keys = tensor.unsafeGetTensorImpl()->key_set();
  return keys.has_any(
      c10::DispatchKeySet({c10::DispatchKey::FuncTorchGradWrapper,
                           c10::DispatchKey::FuncTorchBatched,
                           c10::DispatchKey::BatchedNestedTensor}));
}

/// The tensor beneath all wrappers; it lives while they do.
const at::TensorBase &plainTensor(const at::TensorBase &tensor);

/// Whether the outermost wrapper is that of `grad` or `jvp`.
inline bool isDifferentiated(const at::TensorBase &tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has(
      c10::DispatchKey::FuncTorchGradWrapper);
}

/// Whether a transform runs on this thread, and is not about to hand an
/// operator on to plain tensors.
bool isTransforming();

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSORS_WRAPPERS_H
