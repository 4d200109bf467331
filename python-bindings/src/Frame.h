//===- Frame.h - What one call of a specialization works on -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_FRAME_H
#define PYJIT_PYTHON_FRAME_H

#include "Reference.h"

#include "capture/tensors/CastBatch.h"

#include "pyjit-rt/AutogradNode.h"
#include "pyjit-rt/ScalarMath.h"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <string>
#include <vector>

namespace pyjit::python {

/// Tensors that are borrowed from whoever owns them: setting and clearing them
/// counts no references. They are dropped before anything may destroy them.
inline void borrowTensor(at::Tensor &place, c10::TensorImpl *impl) {
  place.unsafeReleaseTensorImpl();
  place = at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(
          impl));
}
inline void drop(at::Tensor &place) { place.unsafeReleaseTensorImpl(); }

/// The scratch of one call. Calls of one specialization on several threads, or
/// within one another, have a frame each; between calls a pool keeps them.
struct Frame {
  /// See include/pyjit-c/Programs.h. Those that the watched guards set stay
  /// valid from call to call while `epoch` is the guards'.
  std::vector<PyObject *> registers;
  uint64_t epoch = 0;
  /// Numbers that the guards compute, and those that are inputs, as tensors.
  std::vector<rt::Number> numbers;
  std::vector<at::Tensor> numberInputs;
  /// Casts of weights that autocast keeps, for the time of the call.
  std::vector<at::Tensor> keptCasts;
  capture::CastBatch castBatch;
  /// Borrowed (see below); those that are not the guards' `freeInputs` stay
  /// from call to call while `boundEpoch` is the guards' epoch.
  std::vector<at::Tensor> inputs;
  uint64_t boundEpoch = 0;
  std::vector<at::Tensor> outputs;
  /// Those that the mock has made and the nodes know.
  std::vector<at::Tensor> views;
  /// Of outputs that require grad; else none.
  rt::BackwardNodes nodes;
  rt::SavedValues saved; ///< for the nodes
  /// Dropped when the call is over: their destructors may run Python code,
  /// which must not happen between a check and what relies on it.
  std::vector<Reference> dropped;
  std::string error;
  std::chrono::nanoseconds launchTime{0}; ///< where it is measured
  /// Somebody asks why a call was not answered, and holds its arguments, too.
  bool asked = false;

  void dropCasts() {
    for (at::Tensor &cast : keptCasts)
      cast.reset();
    castBatch = {};
  }

  Frame() = default;
  Frame(const Frame &) = delete;
  ~Frame() {
    for (at::Tensor &input : inputs)
      drop(input);
  }
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_FRAME_H
