//===- HostRecurrence.cpp - Recurrent layers of the CPU, in training ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Eager composes GRU and RNN layers of small operators, step by step, and so is
// their backward. Here the steps forward keep their gates in one tensor; a step
// back is a product and a few operators of one state's size. What is summed
// over all steps (gradients of weights and biases) is one product behind them.
// Formulas: aten/src/ATen/native/RNN.cpp.
//
//===----------------------------------------------------------------------===//

#include "OwnCalls.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gru.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rnn_relu.h>
#include <ATen/ops/rnn_tanh.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold_backward.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

using at::Tensor;

namespace {

using Tensors = std::vector<Tensor>;

/// As cuDNN numbers them.
enum Kind : int64_t { kRelu = 0, kTanh = 1, kGated = 3 };

/// Of one layer in one direction; biases may be undefined.
struct Weights {
  Tensor ofInput, ofState, inputBias, stateBias;
};

void projectTo(Tensor &result, const Tensor &matrix, const Tensor &weight,
               const Tensor &bias) {
  if (bias.defined())
    at::addmm_out(result, bias, matrix, weight.t());
  else
    at::mm_out(result, matrix, weight.t());
}

/// All steps of one layer in one direction. Tensors are steps x batch x size.
class Pass {
public:
  /// `kept`: what the steps keep: the states that they make, and of a GRU in
  /// front of them the gates r, u, n, and the state's part of n.
  Pass(int64_t kind, bool reversed, Weights weights, const Tensor &initial,
       const Tensor &kept)
      : kind(kind), reversed(reversed), weights(std::move(weights)),
        initial(initial), steps(kept.size(0)), batch(kept.size(1)),
        size(initial.size(1)), kept(kept),
        made(kept.narrow(2, kept.size(2) - size, size)) {}

  static int64_t widthOf(int64_t kind, int64_t size) {
    return kind == kGated ? 5 * size : size;
  }

  void forward(const Tensor &input);
  Tensor lastState() const { return made.select(0, reversed ? 0 : steps - 1); }
  /// By the gradients of what each step gives and of the last state: that of
  /// the input. The others are below.
  Tensor backward(const Tensor &input, const Tensor &ofOutput,
                  const Tensor &ofLast);

  const Tensor &output() const { return made; }
  Tensor ofInitial;
  Weights gradients;

private:
  int64_t stepAt(int64_t i) const { return reversed ? steps - 1 - i : i; }
  /// The states in front of the steps.
  Tensor before() const {
    Tensor first = initial.unsqueeze(0);
    return reversed ? at::cat({made.narrow(0, 1, steps - 1), first})
                    : at::cat({first, made.narrow(0, 0, steps - 1)});
  }
  Tensor gate(int64_t which) const {
    return kept.narrow(2, which * size, size);
  }

  void forwardPlainly(const Tensor &ofInput);
  void forwardGated();
  Tensor backPlainly(const Tensor &ofOutput, Tensor ofState);
  std::pair<Tensor, Tensor> backGated(const Tensor &ofOutput, Tensor ofState);
  Tensor finish(const Tensor &input, const Tensor &ofGates,
                const Tensor &ofStateGates);

  int64_t kind;
  bool reversed;
  Weights weights;
  Tensor initial;
  int64_t steps, batch, size;
  Tensor kept, made;
};

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

void Pass::forward(const Tensor &input) {
  Tensor rows = input.reshape({steps * batch, input.size(2)});
  int64_t width = weights.ofInput.size(0);
  if (kind == kGated) {
    Tensor gates = kept.view({steps * batch, kept.size(2)}).narrow(1, 0, width);
    projectTo(gates, rows, weights.ofInput, weights.inputBias);
    return forwardGated();
  }
  Tensor ofInput = at::empty({steps * batch, width}, kept.options());
  projectTo(ofInput, rows, weights.ofInput, weights.inputBias);
  forwardPlainly(ofInput.view({steps, batch, width}));
}

/// h' = tanh(i + h), or relu.
void Pass::forwardPlainly(const Tensor &ofInput) {
  Tensors inputs = ofInput.unbind(0), states = made.unbind(0);
  Tensor prior = initial;
  for (int64_t i = 0; i < steps; ++i) {
    Tensor &next = states[stepAt(i)];
    projectTo(next, prior, weights.ofState, weights.stateBias);
    next.add_(inputs[stepAt(i)]);
    if (kind == kTanh)
      next.tanh_();
    else
      next.relu_();
    prior = next;
  }
}

/// h' = n + u (h - n), n = tanh(i_n + r h_n).
void Pass::forwardGated() {
  Tensors both = kept.narrow(2, 0, 2 * size).unbind(0), // r and u
      resets = gate(0).unbind(0), updates = gate(1).unbind(0),
          fresh = gate(2).unbind(0), hidden = gate(3).unbind(0),
          states = made.unbind(0);
  Tensor gates = at::empty({batch, 3 * size}, kept.options());
  Tensor ofBoth = gates.narrow(1, 0, 2 * size),
         ofFresh = gates.narrow(1, 2 * size, size), prior = initial;
  for (int64_t i = 0; i < steps; ++i) {
    int64_t t = stepAt(i);
    projectTo(gates, prior, weights.ofState, weights.stateBias);
    both[t].add_(ofBoth).sigmoid_();
    hidden[t].copy_(ofFresh);
    fresh[t].addcmul_(resets[t], ofFresh).tanh_();
    at::lerp_out(states[t], fresh[t], prior, updates[t]);
    prior = states[t];
  }
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

Tensor Pass::backward(const Tensor &input, const Tensor &ofOutput,
                      const Tensor &ofLast) {
  if (kind != kGated) {
    Tensor ofGates = backPlainly(ofOutput, ofLast);
    return finish(input, ofGates, ofGates);
  }
  auto [ofGates, ofStateGates] = backGated(ofOutput, ofLast);
  return finish(input, ofGates, ofStateGates);
}

Tensor Pass::backPlainly(const Tensor &ofOutput, Tensor ofState) {
  Tensor ofGates = at::empty({steps, batch, size}, kept.options());
  Tensors of = ofGates.unbind(0), states = made.unbind(0),
          outputs = ofOutput.unbind(0);
  for (int64_t i = steps; i-- > 0;) {
    int64_t t = stepAt(i);
    ofState = at::add(ofState, outputs[t]);
    if (kind == kTanh)
      at::tanh_backward_out(of[t], ofState, states[t]);
    else
      at::threshold_backward_out(of[t], ofState, states[t], 0);
    ofState = at::mm(of[t], weights.ofState);
  }
  ofInitial = ofState;
  return ofGates;
}

/// Each gate's gradient is the state's times something that is known before.
std::pair<Tensor, Tensor> Pass::backGated(const Tensor &ofOutput,
                                          Tensor ofState) {
  Tensor reset = gate(0), update = gate(1), fresh = gate(2), hidden = gate(3);
  Tensor byFresh = (1 - update) * (1 - fresh * fresh);
  Tensor byUpdate = (before() - fresh) * update * (1 - update);
  Tensor byReset = byFresh * hidden * reset * (1 - reset);
  Tensor factors = at::stack({byReset, byUpdate, byFresh * reset}, 2);
  // The state's own gradients at all steps, and those of its gates.
  Tensor ofStates = at::empty({steps, batch, size}, kept.options());
  Tensor ofStateGates = at::empty_like(factors);
  Tensors total = ofStates.unbind(0), gates = ofStateGates.unbind(0),
          rows = ofStateGates.view({steps, batch, 3 * size}).unbind(0),
          factor = factors.unbind(0), updates = update.unbind(0),
          outputs = ofOutput.unbind(0);
  for (int64_t i = steps; i-- > 0;) {
    int64_t t = stepAt(i);
    at::add_out(total[t], ofState, outputs[t]);
    at::mul_out(gates[t], total[t].unsqueeze(1), factor[t]);
    ofState =
        at::addmm(at::mul(total[t], updates[t]), rows[t], weights.ofState);
  }
  ofInitial = ofState;
  Tensor ofGates = ofStateGates.clone();
  Tensor ofFresh = ofGates.select(2, 2);
  at::mul_out(ofFresh, ofStates, byFresh);
  return {ofGates, ofStateGates};
}

/// What is summed over all steps.
Tensor Pass::finish(const Tensor &input, const Tensor &ofGates,
                    const Tensor &ofStateGates) {
  int64_t rows = steps * batch;
  Tensor forInput = ofGates.view({rows, -1}),
         forState = ofStateGates.view({rows, -1});
  gradients.ofInput =
      at::mm(forInput.t(), input.reshape({rows, input.size(2)}));
  gradients.ofState = at::mm(forState.t(), before().view({rows, size}));
  if (weights.inputBias.defined()) {
    gradients.inputBias = forInput.sum(0);
    gradients.stateBias = forState.sum(0);
  }
  return at::mm(forInput, weights.ofInput).view(input.sizes());
}

//===----------------------------------------------------------------------===//
// All layers
//===----------------------------------------------------------------------===//

class Layers {
public:
  /// `kept`: one part for each pass.
  Layers(const Tensor &state, at::TensorList params, const Tensor &kept,
         int64_t kind, bool hasBiases, bool bidirectional, bool batchFirst)
      : hasBiases(hasBiases), batchFirst(batchFirst),
        directions(bidirectional ? 2 : 1) {
    int64_t each = hasBiases ? 4 : 2;
    for (int64_t i = 0; i < kept.size(0); ++i) {
      const Tensor *own = params.data() + i * each;
      Weights weights{own[0], own[1], {}, {}};
      if (hasBiases) {
        weights.inputBias = own[2];
        weights.stateBias = own[3];
      }
      passes.emplace_back(kind, i % directions == 1, std::move(weights),
                          state.select(0, i), kept.select(0, i));
    }
  }

  void forward(const Tensor &input) {
    for (size_t first = 0; first < passes.size(); first += directions) {
      Tensor given = inputOf(first, input);
      for (int64_t d = 0; d < directions; ++d)
        passes[first + d].forward(given);
    }
  }
  Tensor output() const {
    return inOrder(outputOf(passes.size() - directions));
  }
  Tensor lastStates() const {
    Tensors last;
    for (const Pass &pass : passes)
      last.push_back(pass.lastState());
    return at::stack(last);
  }

  /// Gradients of the input, the states and the weights.
  Tensors backward(const Tensor &input, const Tensor &ofOutput,
                   const Tensor &ofLast) {
    Tensor of = inOrder(ofOutput);
    for (size_t first = passes.size(); first > 0;) {
      first -= size_t(directions);
      Tensors parts = of.chunk(directions, 2);
      Tensor given = inputOf(first, input), sum;
      for (int64_t d = 0; d < directions; ++d) {
        Tensor one = passes[first + d].backward(
            given, parts[d], ofLast.select(0, int64_t(first) + d));
        sum = sum.defined() ? sum.add_(one) : one;
      }
      of = sum;
    }
    Tensors initial, all{inOrder(of).contiguous()};
    for (const Pass &pass : passes)
      initial.push_back(pass.ofInitial);
    all.push_back(at::stack(initial));
    for (const Pass &pass : passes) {
      const Weights &own = pass.gradients;
      all.insert(all.end(), {own.ofInput, own.ofState});
      if (hasBiases)
        all.insert(all.end(), {own.inputBias, own.stateBias});
    }
    return all;
  }

private:
  /// Steps first, and back again.
  Tensor inOrder(const Tensor &tensor) const {
    return batchFirst ? tensor.transpose(0, 1) : tensor;
  }
  /// Of the layer whose first pass it is, in memory of its own.
  Tensor outputOf(size_t first) const {
    const Tensor &made = passes[first].output();
    return directions == 1 ? made.clone(at::MemoryFormat::Contiguous)
                           : at::cat({made, passes[first + 1].output()}, 2);
  }
  Tensor inputOf(size_t first, const Tensor &input) const {
    return first == 0 ? inOrder(input).contiguous()
                      : outputOf(first - size_t(directions));
  }

  bool hasBiases, batchFirst;
  int64_t directions;
  std::vector<Pass> passes;
};

std::tuple<Tensor, Tensor, Tensor>
recurrence(const Tensor &input, const Tensor &state, at::TensorList params,
           int64_t mode, bool hasBiases, int64_t, bool bidirectional,
           bool batchFirst) {
  at::AutoDispatchBelowADInplaceOrView noGradients;
  int64_t batch = state.size(1), steps = input.size(batchFirst ? 1 : 0);
  Tensor kept = at::empty(
      {state.size(0), steps, batch, Pass::widthOf(mode, state.size(2))},
      input.options());
  Layers layers(state, params, kept, mode, hasBiases, bidirectional,
                batchFirst);
  layers.forward(input);
  return {layers.output(), layers.lastStates(), kept};
}

Tensors recurrenceBackward(at::TensorList gradients, const Tensor &input,
                           const Tensor &state, at::TensorList params,
                           const Tensor &kept, int64_t mode, bool hasBiases,
                           int64_t, bool bidirectional, bool batchFirst) {
  at::AutoDispatchBelowADInplaceOrView noGradients;
  Layers layers(state, params, kept, mode, hasBiases, bidirectional,
                batchFirst);
  return layers.backward(input, gradients[0], gradients[1]);
}

/// By eager's own derivatives of what the layer is composed of: gradients of
/// `gradients`, the input, the states and the weights.
Tensors recurrenceDoubleBackward(at::TensorList second,
                                 at::TensorList gradients, const Tensor &input,
                                 const Tensor &state, at::TensorList params,
                                 int64_t mode, bool hasBiases,
                                 int64_t numLayers, bool bidirectional,
                                 bool batchFirst) {
  // Programs run below autograd.
  c10::impl::ForceDispatchKeyGuard plainly(c10::default_included_set,
                                           c10::default_excluded_set);
  c10::AutoGradMode differentiably(true);
  Tensors leaves = gradients.vec();
  size_t given = leaves.size();
  leaves.insert(leaves.end(), {input, state});
  leaves.insert(leaves.end(), params.begin(), params.end());
  for (Tensor &leaf : leaves)
    leaf = leaf.detach().requires_grad_();
  Tensors own(leaves.begin(), leaves.begin() + given),
      inputs(leaves.begin() + given, leaves.end()),
      weights(inputs.begin() + 2, inputs.end());
  auto compose = [&](auto layer) -> Tensors {
    auto [output, last] =
        layer(inputs[0], inputs[1], weights, hasBiases, numLayers,
              /*dropout=*/0.0, /*train=*/true, bidirectional, batchFirst);
    return {output, last};
  };
  auto call = [&](auto... arguments) {
    return mode == kRelu   ? at::rnn_relu(arguments...)
           : mode == kTanh ? at::rnn_tanh(arguments...)
                           : at::gru(arguments...);
  };
  Tensors first =
      torch::autograd::grad(compose(call), inputs, own, /*retain_graph=*/true,
                            /*create_graph=*/true);
  Tensors all = torch::autograd::grad(first, leaves, second.vec(),
                                      /*retain_graph=*/false,
                                      /*create_graph=*/false,
                                      /*allow_unused=*/true);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = all[i].defined() ? all[i].contiguous() : at::zeros_like(leaves[i]);
  return all;
}

} // namespace

void pyjit::rt::defineHostRecurrence(torch::Library &library) {
  library.def("host_recurrence(Tensor input, Tensor hx, Tensor[] params, "
              "int mode, bool has_biases, int num_layers, bool bidirectional, "
              "bool batch_first) -> (Tensor, Tensor, Tensor)",
              &recurrence);
  library.def("host_recurrence_backward(Tensor[] gradients, Tensor input, "
              "Tensor hx, Tensor[] params, Tensor kept, int mode, "
              "bool has_biases, int num_layers, bool bidirectional, "
              "bool batch_first) -> Tensor[]",
              &recurrenceBackward);
  library.def("host_recurrence_double_backward(Tensor[] second, "
              "Tensor[] gradients, Tensor input, Tensor hx, Tensor[] params, "
              "int mode, bool has_biases, int num_layers, bool bidirectional, "
              "bool batch_first) -> Tensor[]",
              &recurrenceDoubleBackward);
}
