//===- RecurrentCalls.cpp - Gradients of cuDNN's recurrent layers ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cuDNN's backward reads what its forward pass in training left in memory whose
// size is the library's own business. A program's values have known sizes: the
// forward pass is run again instead.
//
//===----------------------------------------------------------------------===//

#include "OwnCalls.h"

#include <ATen/ops/_cudnn_rnn.h>
#include <ATen/ops/_cudnn_rnn_backward.h>
#include <torch/library.h>

#include <array>
#include <vector>

namespace {

/// Returns gradients of the input, the states and the weights, in that order.
std::vector<at::Tensor>
recurrenceBackward(at::TensorList gradients, const at::Tensor &input,
                   at::TensorList hx, at::TensorList params, int64_t mode,
                   bool hasBiases, int64_t numLayers, bool bidirectional,
                   bool batchFirst) {
  constexpr bool kTrain = true;
  constexpr double kDropout = 0;
  std::optional<at::Tensor> none;
  bool hasCell = hx.size() == 2;
  at::Tensor hidden = hx[0].contiguous();
  std::optional<at::Tensor> cell = none, ofCell = none;
  if (hasCell) {
    cell = hx[1].contiguous();
    ofCell = gradients[2];
  }
  int64_t size = (hasCell ? hx[1] : hx[0]).size(2);
  int64_t projected = hx[0].size(2) == size ? 0 : hx[0].size(2);
  int64_t perLayer = (hasBiases ? 4 : 2) + (projected ? 1 : 0);
  auto [output, hy, cy, reserve, weights] = at::_cudnn_rnn(
      input, params, perLayer, none, hidden, cell, mode, size, projected,
      numLayers, batchFirst, kDropout, kTrain, bidirectional, {}, none);
  auto [ofInput, ofHidden, ofState, ofParams] = at::_cudnn_rnn_backward(
      input, params, perLayer, weights, hidden, cell, output, gradients[0],
      gradients[1], ofCell, mode, size, projected, numLayers, batchFirst,
      kDropout, kTrain, bidirectional, {}, none, reserve,
      std::array<bool, 4>{true, true, hasCell, true});
  std::vector<at::Tensor> all{ofInput, ofHidden};
  if (hasCell)
    all.push_back(ofState);
  all.insert(all.end(), ofParams.begin(), ofParams.end());
  return all;
}

} // namespace

void pyjit::rt::defineRecurrentCalls(torch::Library &library) {
  library.def("recurrence_backward(Tensor[] gradients, Tensor input, "
              "Tensor[] hx, Tensor[] params, int mode, bool has_biases, "
              "int num_layers, bool bidirectional, bool batch_first) "
              "-> Tensor[]",
              &recurrenceBackward);
}
