//===- TensorOpRecording.h - One operator call, recorded --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_TENSOROPRECORDING_H
#define PYJIT_CAPTURE_TENSOROPRECORDING_H

#include "pyjit-c/Operators.h"
#include "tensors/TensorImpl.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace pyjit::capture {

/// One operator call between its start and its end.
struct TensorRecorder::Impl::Operation : at::ObserverContext {
  explicit Operation(c10::OperatorHandle handle) : handle(handle) {}
  c10::OperatorHandle handle;
  std::string name; ///< with overload
  PyjitOperatorFacts facts = {};
  std::vector<c10::IValue> inputs;
  /// Of one tensor's part of an operator on lists: the lifted number that each
  /// input is, or null.
  std::optional<std::vector<PyObject *>> lifted;
  /// Of an operator that the recorder composes: the value of each number that
  /// the trace computes, or -1; empty elsewhere.
  std::vector<PyjitValue> computed;
  /// What the numbers that it multiplies in place were; empty elsewhere.
  std::vector<double> before;
  bool overLists = false;   ///< it is recorded tensor by tensor
  bool composite = false;   ///< its parts are recorded
  bool transformed = false; ///< likewise, as a transform's rules have it
  bool autocast = false;    ///< its casts, and its call with them, are recorded
  bool castKept = false;    ///< the cast of a weight, which autocast keeps
  bool hasNoLine = false;   ///< such a cast that is an external value
  /// `item()` of a tensor that a native function was given.
  bool takesNumber = false;
  bool detaches = false;       ///< it takes the gradient of its operand away
  bool strangeHistory = false; ///< of an operand; see hasStrangeHistory
  /// A batch norm, which writes running statistics out of autograd's sight.
  bool updatesStatistics = false;
  /// Of the operator that was called, which `handle` need not be.
  size_t numResults = 0;
};

/// Records an operator that has returned, or raised: then it has no outputs.
void recordOperator(TensorRecorder::Impl &impl,
                    TensorRecorder::Impl::Operation &operation,
                    const std::vector<c10::IValue> &outputs);

/// Whether it is an operator on lists of tensors.
bool isOverLists(const std::string &name);
/// Records it tensor by tensor (Foreach.cpp).
void recordOverLists(TensorRecorder::Impl &impl,
                     TensorRecorder::Impl::Operation &operation,
                     const std::vector<c10::IValue> &outputs);

/// The tensors of an argument or a result, those in lists included.
void collectTensors(const c10::IValue &value, std::vector<at::Tensor> &out);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSOROPRECORDING_H
