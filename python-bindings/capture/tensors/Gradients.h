//===- Gradients.h - Autograd, of tensors and operators ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In grad mode, a trace says where gradients flow as eager's autograd saw it.
// What the compiler would have to see otherwise than eager is refused.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_GRADIENTS_H
#define PYJIT_CAPTURE_GRADIENTS_H

#include "tensors/TensorImpl.h"
#include "tensors/TensorOpArguments.h"

namespace pyjit::capture {

/// What autograd knows of a tensor.
enum class Gradient {
  None,     ///< it does not require grad
  Leaf,     ///< it does, and gradients end there: a leaf, or a view that was
            ///< made in no_grad mode
  Computed, ///< it has a `grad_fn`
};
Gradient gradientOf(const at::TensorBase &tensor);

/// Whether it is a leaf that the call made, and no view of another tensor.
bool isOwnLeaf(const TensorInfo &info, const at::TensorBase &tensor);
/// Whether all leaves that a tensor's gradient comes to are such.
bool leadsToOwnLeavesAlone(TensorRecorder::Impl &impl,
                           const at::Tensor &tensor);

/// Gradients end at a leaf that the call made. What it was computed from has
/// none, and what was computed from it before it became a leaf passes none on:
/// from now on the leaf is a value of its own.
void beginHistory(TensorRecorder::Impl &impl, const at::Tensor &leaf);

/// The tensor that autograd counts a view as part of.
const c10::TensorImpl *baseOf(const at::TensorBase &tensor);

/// What an operator that has just run means for gradients.
class OperatorGradient {
public:
  /// `fresh`: results; `mutated`: numbers of the operands that were written.
  OperatorGradient(TensorRecorder::Impl &impl,
                   const TensorOpArguments &arguments,
                   const std::vector<at::Tensor> &fresh,
                   const std::vector<size_t> &mutated);

  /// Whether gradients flow through it.
  bool flows() const { return flow; }
  /// Whether they end there: an operand requires grad, and no result does.
  bool ends() const { return !flow && required; }
  /// Whether all of its results were computed from what backwards have freed.
  bool isFreed() const;
  /// Whether an operand or a result is of complex numbers.
  bool isOfComplex() const;
  /// Why a compiled backward would not flow as eager's does, or null.
  const char *whyNotAsEager() const;
  /// Whether it writes memory of a tensor that requires grad, unseen by
  /// autograd. A later operator that gradients flow through would meet that.
  bool writesUnseen() const;
  /// Whether, then, nobody else shows that memory: what is written replaces a
  /// value of the call's own, whose gradient flows on as if nothing had been.
  bool replacesUnseen() const;
  /// Else, the leaf whose memory each of the `mutated` shows, so that it is
  /// known whom later gradients go to; empty if that is not so.
  std::vector<at::Tensor> leavesWritten() const;

private:
  at::Tensor leafOf(const at::Tensor &tensor) const;
  const char *whyNotWritten(const at::Tensor &tensor) const;

  TensorRecorder::Impl &impl;
  const TensorOpArguments &arguments;
  const std::vector<at::Tensor> &fresh;
  const std::vector<size_t> &mutated;
  bool required = false; ///< some operand requires grad
  bool flow = false;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_GRADIENTS_H
