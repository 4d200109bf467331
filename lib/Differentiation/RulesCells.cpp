//===- RulesCells.cpp - Derivatives of recurrent layers on a GPU ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fused cells that eager takes there are written out, forward and backward:
// pointwise calls, which fusion joins with each other and with what stands
// around them. Formulas: aten/src/ATen/native/cuda/RNN.cu. Whole layers are
// cuDNN's.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"

#include "pyjit/Operators/OperatorNames.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;

namespace aten = operators::aten;

namespace {

/// Of one step of a cell. Schema arguments: the input's gates, the hidden
/// state's, that state (or the cell's), and two biases or none: gates of one
/// size beside each other in dimension 1.
class CellRule {
public:
  explicit CellRule(Adjoint &a)
      : a(a), build(a.build), ahead(a.call), forward(ahead, a.call.getLoc()),
        state(a.tensor(2)), size(tssa::getSizes(typeOf(state)).back()) {}

protected:
  /// The gates of argument `index`, with its bias.
  Value biased(unsigned index) {
    Value bias = a.tensor(index + 3);
    return bias ? forward.add(a.tensor(index), bias) : a.tensor(index);
  }
  Value gate(Value gates, int64_t which) {
    return forward.slice(gates, 1, Size(which) * size, size);
  }
  Value sigmoid(Value value) { return forward.apply(aten::sigmoid, value); }
  Value tanh(Value value) { return forward.apply(aten::tanh, value); }

  /// The gradient of what a sigmoid, or a tanh, whose result is `made` takes.
  Value throughSigmoid(Value gradient, Value made) {
    return build.multiply(build.multiply(gradient, made), build.oneMinus(made));
  }
  Value throughTanh(Value gradient, Value made) {
    return build.multiply(gradient, build.oneMinus(build.multiply(made, made)));
  }

  /// Gradients of gates beside each other, for argument `index` and its bias.
  void give(unsigned index, ArrayRef<Value> gates) {
    Value joined = build.concatenate(
        gates, 1, tssa::getRowMajorType(typeOf(a.tensor(index))));
    for (unsigned operand : {index, index + 3})
      if (a.wants(operand))
        a.give(operand, joined);
  }

  Adjoint &a;
  GradientBuilder &build;
  OpBuilder ahead;
  GradientBuilder forward;
  Value state;
  Size size;
};

/// c' = f c + i g, h = o tanh(c'), of gates i, f, g, o.
class LongShortTermMemory : public CellRule {
public:
  using CellRule::CellRule;

  void run() {
    Value gates = forward.add(a.tensor(0), a.tensor(1));
    for (unsigned bias : {3, 4})
      if (a.tensor(bias))
        gates = forward.add(gates, a.tensor(bias));
    Value in = sigmoid(gate(gates, 0)), forget = sigmoid(gate(gates, 1)),
          cell = tanh(gate(gates, 2)), out = sigmoid(gate(gates, 3));
    Value next = forward.add(forward.multiply(forget, state),
                             forward.multiply(in, cell));
    Value shown = tanh(next);
    Value hidden = forward.multiply(out, shown);
    Value ofHidden = a.gradient(0), ofNext = a.gradient(1);
    a.call.getResult(0).replaceAllUsesWith(hidden);
    a.call.getResult(1).replaceAllUsesWith(next);

    Value ofOut;
    if (ofHidden) {
      ofOut = throughSigmoid(build.multiply(ofHidden, shown), out);
      Value through = throughTanh(build.multiply(ofHidden, out), shown);
      ofNext = ofNext ? build.add(ofNext, through) : through;
    } else {
      ofOut = build.zerosBy(ofNext);
    }
    Value ofGates[] = {throughSigmoid(build.multiply(ofNext, cell), in),
                       throughSigmoid(build.multiply(ofNext, state), forget),
                       throughTanh(build.multiply(ofNext, in), cell), ofOut};
    for (unsigned index : {0, 1})
      give(index, ofGates);
    if (a.wants(2))
      a.give(2, build.multiply(ofNext, forget));
    a.call.erase();
  }
};

/// h' = n + u (h - n), n = tanh(i_n + r h_n), of gates r, u, n.
class GatedUnit : public CellRule {
public:
  using CellRule::CellRule;

  void run() {
    Value ofInput = biased(0), ofState = biased(1);
    Value reset = sigmoid(forward.add(gate(ofInput, 0), gate(ofState, 0)));
    Value update = sigmoid(forward.add(gate(ofInput, 1), gate(ofState, 1)));
    Value hidden = gate(ofState, 2);
    Value fresh =
        tanh(forward.add(gate(ofInput, 2), forward.multiply(reset, hidden)));
    Value change = forward.subtract(state, fresh);
    Value next = forward.add(fresh, forward.multiply(update, change));
    a.call.getResult(0).replaceAllUsesWith(next);

    Value gradient = a.gradient();
    Value ofUpdate = throughSigmoid(build.multiply(gradient, change), update);
    Value ofFresh =
        throughTanh(build.multiply(gradient, build.oneMinus(update)), fresh);
    Value ofReset = throughSigmoid(build.multiply(ofFresh, hidden), reset);
    give(0, {ofReset, ofUpdate, ofFresh});
    give(1, {ofReset, ofUpdate, build.multiply(ofFresh, reset)});
    if (a.wants(2))
      a.give(2, build.multiply(gradient, update));
    a.call.erase();
  }
};

} // namespace

/// Nothing but eager's own backward reads the workspace, the last result.
static LogicalResult hasUnreadWorkspace(Adjoint &a) {
  Value workspace = a.call->getResults().back();
  if (!workspace.use_empty())
    return a.refuse("its workspace is read");
  return success();
}

LogicalResult gradient_rules::LSTMCell(Adjoint &a) {
  if (failed(hasUnreadWorkspace(a)))
    return failure();
  if (a.gradient(0) || a.gradient(1))
    LongShortTermMemory(a).run();
  return success();
}

LogicalResult gradient_rules::GRUCell(Adjoint &a) {
  if (failed(hasUnreadWorkspace(a)))
    return failure();
  if (a.gradient())
    GatedUnit(a).run();
  return success();
}

/// A layer of cuDNN's: what else computes such layers was recorded in its
/// parts. Schema arguments: the input, states, weights, has_biases, num_layers,
/// dropout, train, bidirectional, batch_first.
LogicalResult gradient_rules::Recurrence(Adjoint &a) {
  if (a.flag(6) && a.number(5) != 0.0)
    return a.refuse("its layers drop what they hand on");
  GradientBuilder &build = a.build;
  SmallVector<Value> operands;
  for (auto [index, result] : llvm::enumerate(a.call.getResults()))
    operands.push_back(a.gradient(index) ? a.gradient(index)
                                         : build.zerosLike(result));
  size_t given = operands.size(), states = given - 1;
  SmallVector<Type> types;
  for (Value operand : a.call.getOperands()) {
    operands.push_back(operand);
    types.push_back(gradientTypeOf(typeOf(operand)));
  }
  Attribute place = a.call.getArgs()[0];
  auto places = [&](size_t count) {
    return build.list(SmallVector<Attribute>(count, place));
  };
  // As cuDNN numbers them (cudnnRNNMode_t).
  int64_t mode = llvm::StringSwitch<int64_t>(a.call.getOverload())
                     .Case(aten::rnn_relu_input, 0)
                     .Case(aten::rnn_tanh_input, 1)
                     .Case(aten::lstm_input, 2)
                     .Default(3);
  auto args = build.getBuilder().getArrayAttr(
      {places(given), place, places(states), places(types.size() - 1 - states),
       build.integer(mode), a.constant(3), a.constant(4), a.constant(7),
       a.constant(8)});
  auto backward =
      tssa::AtenOp::create(build.getBuilder(), build.getLoc(), types,
                           operators::pyjit::recurrence_backward, operands,
                           args, DenseI64ArrayAttr());
  for (auto [operand, gradient] :
       llvm::zip_equal(a.call.getOperands(), backward.getResults()))
    if (a.wants(operand))
      a.give(operand, gradient);
  return success();
}
