//===- TensorOpRecording.h - One operator call, recorded --------*- C++ -*-===//
#ifndef PYJIT_CAPTURE_TENSOROPRECORDING_H
#define PYJIT_CAPTURE_TENSOROPRECORDING_H

#include "pyjit-c/Operators.h"
#include "tensors/TensorImpl.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace pyjit::capture {

/// One operator call between its start and its end.
struct TensorRecorder::Impl::Operation : at::ObserverContext {
  explicit Operation(c10::OperatorHandle handle) : handle(handle) {}
  c10::OperatorHandle handle;
  std::string name; ///< with overload
  PyjitOperatorFacts facts = {};
  std::vector<c10::IValue> inputs;
  bool composite = false; ///< its parts are recorded
  bool autocast = false;  ///< its casts, and its call with them, are recorded
  bool castKept = false;  ///< the cast of a weight, which autocast keeps
  bool hasNoLine = false; ///< such a cast that is an external value
  bool detaches = false;  ///< it takes the gradient of its operand away
  bool strangeHistory = false; ///< of an operand; see hasStrangeHistory
  /// A batch norm, which writes running statistics out of autograd's sight.
  bool updatesStatistics = false;
};

/// The tensors of an argument or a result, those in lists included.
void collectTensors(const c10::IValue &value, std::vector<at::Tensor> &out);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSOROPRECORDING_H
