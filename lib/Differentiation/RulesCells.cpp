//===- RulesCells.cpp - Derivatives of recurrent layers -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fused cells that eager takes there are written out, forward and backward:
// pointwise calls, which fusion joins with each other and with what stands
// around them. Formulas: aten/src/ATen/native/cuda/RNN.cu. Whole layers are
// vendor calls.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Operators/OperatorNames.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
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

//===----------------------------------------------------------------------===//
// Whole layers
//===----------------------------------------------------------------------===//

/// Gradients of these results, zeros where there are none.
static SmallVector<Value> gradientsOf(Adjoint &a, ValueRange results) {
  SmallVector<Value> gradients;
  for (auto [index, result] : llvm::enumerate(results))
    gradients.push_back(a.gradient(index) ? a.gradient(index)
                                          : a.build.zerosLike(result));
  return gradients;
}

/// A list of so many tensors.
static Attribute listOf(size_t count, Adjoint &a) {
  Attribute tensor = a.call.getArgs()[0];
  if (auto list = dyn_cast<ArrayAttr>(tensor))
    tensor = list[0];
  return a.build.list(SmallVector<Attribute>(count, tensor));
}

/// A call that gives a gradient of each of `inputs`.
static void giveAll(Adjoint &a, StringRef overload, ValueRange inputs,
                    ValueRange operands, ArrayRef<Attribute> args) {
  GradientBuilder &build = a.build;
  SmallVector<Type> types;
  for (Value input : inputs)
    types.push_back(gradientTypeOf(typeOf(input)));
  auto backward = tssa::AtenOp::create(
      build.getBuilder(), build.getLoc(), types, overload, operands,
      build.getBuilder().getArrayAttr(args), DenseI64ArrayAttr());
  for (auto [input, gradient] : llvm::zip_equal(inputs, backward.getResults()))
    if (a.wants(input))
      a.give(input, gradient);
}

/// The input, the state, the weights, and what the kind is: arguments of
/// `aten::gru` and the like for those of `pyjit::host_recurrence`.
static SmallVector<Attribute> hostArguments(Adjoint &a, int64_t mode) {
  ArrayAttr args = a.call.getArgs();
  return {args[0], args[1],       args[2], a.build.integer(mode),
          args[3], a.constant(4), args[7], args[8]};
}

/// `host_recurrence`, and what it has kept: its gradients.
static void giveHostGradients(Adjoint &a, ValueRange inputs,
                              ArrayRef<Attribute> args, ValueRange shown,
                              Value kept) {
  SmallVector<Value> operands = gradientsOf(a, shown);
  SmallVector<Attribute> all{listOf(operands.size(), a)};
  llvm::append_range(operands, inputs);
  operands.push_back(kept);
  llvm::append_range(all, args.take_front(3));
  all.push_back(args[0]);
  llvm::append_range(all, args.drop_front(3));
  giveAll(a, operators::pyjit::host_recurrence_backward, inputs, operands, all);
}

/// A layer of the CPU: one that keeps its gates takes its place.
static void runOnHost(Adjoint &a, int64_t mode) {
  SmallVector<Size> input = tssa::getSizes(typeOf(a.tensor(0))),
                    state = tssa::getSizes(typeOf(a.tensor(1)));
  constexpr int64_t kGated = 3;
  Size width = state[2] * Size(mode == kGated ? 5 : 1);
  SmallVector<Size> sizes{state[0], input[a.flag(8) ? 1 : 0], state[1], width};
  SmallVector<Size> strides{sizes[1] * sizes[2] * width, sizes[2] * width,
                            width, Size(1)};
  SmallVector<Type> types(a.call->getResultTypes());
  types.push_back(tssa::getSymbolicType(sizes, strides,
                                        typeOf(a.tensor(0)).getElementType()));
  SmallVector<Attribute> args = hostArguments(a, mode);
  OpBuilder ahead(a.call);
  auto forward = tssa::AtenOp::create(
      ahead, a.call.getLoc(), types, operators::pyjit::host_recurrence,
      a.call.getOperands(), ahead.getArrayAttr(args), DenseI64ArrayAttr());
  ValueRange shown = forward->getResults().take_front(2);
  a.call->replaceAllUsesWith(shown);
  giveHostGradients(a, forward.getOperands(), args, shown,
                    forward.getResult(2));
  a.call.erase();
}

LogicalResult gradient_rules::HostRecurrence(Adjoint &a) {
  giveHostGradients(a, a.call.getOperands(), a.call.getArgs().getValue(),
                    a.call->getResults().take_front(2), a.call.getResult(2));
  return success();
}

/// What is kept follows from the rest.
LogicalResult gradient_rules::HostRecurrenceBackward(Adjoint &a) {
  SmallVector<Value> operands = gradientsOf(a, a.call->getResults());
  SmallVector<Attribute> args{listOf(operands.size(), a)};
  constexpr unsigned kKept = 4;
  for (auto [index, arg] : llvm::enumerate(a.call.getArgs()))
    if (index != kKept)
      args.push_back(arg);
  ValueRange inputs = a.call.getOperands().drop_back();
  llvm::append_range(operands, inputs);
  giveAll(a, operators::pyjit::host_recurrence_double_backward, inputs,
          operands, args);
  return success();
}

/// A layer of cuDNN's, or one of the CPU whose lengths differ between calls:
/// what else computes such layers was recorded in its parts. Schema arguments:
/// the input, states, weights, has_biases, num_layers, dropout, train,
/// bidirectional, batch_first.
LogicalResult gradient_rules::Recurrence(Adjoint &a) {
  if (a.flag(6) && a.number(5) != 0.0)
    return a.refuse("its layers drop what they hand on");
  // As cuDNN numbers them (cudnnRNNMode_t).
  int64_t mode = llvm::StringSwitch<int64_t>(a.call.getOverload())
                     .Case(aten::rnn_relu_input, 0)
                     .Case(aten::rnn_tanh_input, 1)
                     .Case(aten::lstm_input, 2)
                     .Default(3);
  auto function = a.call->getParentOfType<FunctionOpInterface>();
  if (function && !function->hasAttr(attribute::kDevice) && mode != 2) {
    runOnHost(a, mode);
    return success();
  }
  ValueRange inputs = a.call.getOperands();
  SmallVector<Value> operands = gradientsOf(a, a.call->getResults());
  size_t given = operands.size(), states = given - 1;
  llvm::append_range(operands, inputs);
  giveAll(a, operators::pyjit::recurrence_backward, inputs, operands,
          {listOf(given, a), a.call.getArgs()[0], listOf(states, a),
           listOf(inputs.size() - 1 - states, a), a.build.integer(mode),
           a.constant(3), a.constant(4), a.constant(7), a.constant(8)});
  return success();
}
