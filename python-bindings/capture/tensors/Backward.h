//===- Backward.h - A run of autograd's engine within the call --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `loss.backward()` and `torch.autograd.grad` become one operator of the trace,
// `pyjit::backward`: its operands are the tensors that gradients start from,
// their gradients, and the tensors whose gradients are its results. What the
// engine does meanwhile is not recorded; what comes of it (`.grad`) is.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_TENSORS_BACKWARD_H
#define PYJIT_CAPTURE_TENSORS_BACKWARD_H

#include "objects/Node.h"
#include "tensors/TensorImpl.h"

#include <torch/csrc/autograd/function.h>

#include <unordered_set>
#include <vector>

namespace pyjit::capture {

/// The arguments of `run_backward` that are modelled.
struct EngineCall {
  PyObject *roots = nullptr;     ///< a tuple of tensors
  PyObject *gradients = nullptr; ///< likewise, one for each
  PyObject *inputs = nullptr;    ///< likewise; null: all leaves
  bool keepsGraph = false, createsGraph = false, accumulates = false;
};

class EngineRun {
public:
  explicit EngineRun(TensorRecorder::Impl &impl)
      : impl(impl), recording(impl.recording) {}

  /// Before the engine runs. False: it is not modelled, and the recording has
  /// ended.
  bool begin(const EngineCall &call);
  /// The engine has returned `result`.
  void end(PyObject *result);

private:
  /// A tensor that the engine computes a gradient of.
  struct Target {
    at::Tensor tensor;
    Node *node = nullptr; ///< of a leaf whose `.grad` it changes
    at::Tensor before;    ///< its `.grad`
    int64_t version = 0;  ///< of `before`
    at::Tensor gradient;  ///< what came of it; undefined: none
  };

  bool refuse(const std::string &why);
  bool refuseCall(const std::string &why);
  bool refuseCheckpoint(const std::string &why);
  bool take(PyObject *tensors, std::vector<at::Tensor> &out);
  bool walk();
  bool visit(const std::shared_ptr<torch::autograd::Node> &node);
  bool addTarget(const at::Tensor &tensor);
  bool addLeaf(Target &target);
  PyjitValue append(const std::vector<Target *> &reached);
  PyjitType gradientType(const Target &target);
  void bindGradient(Target &target, PyjitValue value);
  void accumulate(Target &target, PyjitValue value);

  TensorRecorder::Impl &impl;
  Recording &recording;
  bool keepsGraph = false, createsGraph = false, accumulates = false;
  bool isWhole = false; ///< through all of the graph
  std::vector<at::Tensor> roots, gradients;
  std::vector<Target> targets;
  std::vector<std::shared_ptr<torch::autograd::Node>> graph;
  /// Leaves that the graph ends at, in the order in which it was walked.
  std::vector<at::Tensor> leaves;
  std::unordered_set<torch::autograd::Node *> foreign;
};

/// Whether autograd's engine runs within the call.
bool runsEngine(const Recording &recording);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSORS_BACKWARD_H
