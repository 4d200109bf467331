//===- KeptCasts.h - Weights' casts in a region around the call -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a region of autocast lies around the call, the casts that autocast
// keeps of weights are no results of the call: earlier code of the region may
// have made them, later code finds them. They are external values, which the
// guards read from autocast's cache.
//
// Such a cast is known by where it stands: autocast calls an operator again,
// with a cast in a weight's place. The cast as an operator has no line.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_TENSORS_KEPTCASTS_H
#define PYJIT_CAPTURE_TENSORS_KEPTCASTS_H

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <utility>
#include <vector>

namespace pyjit::capture {

class Recording;

class KeptCasts {
public:
  explicit KeptCasts(Recording &recording) : s(recording) {}

  /// An operator has begun that autocast calls again, and has returned.
  void enter(const c10::OperatorHandle &op,
             const std::vector<c10::IValue> &inputs);
  void leave();
  bool isInside() const { return !running.empty(); }
  /// What begins casts an operand of such an operator.
  bool isCasting() const { return isInside() && running.back().casting; }
  /// Inside of such an operator: grad mode of its caller. The casts of weights
  /// turn it on.
  bool gradModeAround() const { return running.back().gradMode; }

  /// An operator within it begins: whether it is a cast that autocast keeps.
  bool isKept(const c10::OperatorHandle &op,
              const std::vector<c10::IValue> &inputs) const;
  /// Likewise: the operator itself may begin, with casts that are kept.
  void bindOperands(const c10::OperatorHandle &op,
                    const std::vector<c10::IValue> &inputs);

  /// Whether casts may outlive the call, or be older than it.
  bool outlast() const;
  /// Whether the tensor shows the memory of such a cast.
  bool isMemoryOf(const at::TensorBase &tensor) const;

private:
  void bind(const at::Tensor &weight, const at::Tensor &cast);
  const char *whyNotBound(const at::Tensor &weight,
                          const at::Tensor &cast) const;

  struct Running {
    c10::OperatorHandle op;
    bool gradMode;
    std::vector<at::Tensor> operands;
    bool casting = true; ///< the operator itself has not begun
    size_t bound = 0;    ///< number of casts that were bound before
  };
  Recording &s;
  std::vector<Running> running;
  std::vector<std::pair<at::Tensor, at::Tensor>> casts; ///< weights and casts
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSORS_KEPTCASTS_H
