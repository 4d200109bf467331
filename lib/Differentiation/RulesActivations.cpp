//===- RulesActivations.cpp - Derivatives of activations ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Those that no expression describes: halves of a tensor, what has two results,
// and powers of a number. Formulas: torch/csrc/autograd/FunctionsManual.cpp.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"

#include "pyjit/Operators/OperatorNames.h"

#include <cmath>

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;

namespace {

/// The halves of what `glu` takes: x, and the gate g, of which it makes
/// x sigmoid(g).
class Halves {
public:
  /// `operand` is the number of the argument that is divided along `dim`.
  Halves(Adjoint &a, unsigned operand, int64_t dim, Size half)
      : a(a), build(a.build), operand(operand), dim(dim), half(half) {
    Value self = a.tensor(operand);
    first = firstOf(self);
    gate = build.apply(operators::aten::sigmoid, secondOf(self));
    rest = build.oneMinus(gate);
  }

  Value first, gate, rest;

  Value firstOf(Value whole) { return build.slice(whole, dim, 0, half); }
  Value secondOf(Value whole) { return build.slice(whole, dim, half, half); }

  void give(Value ofFirst, Value ofGate) {
    a.give(operand,
           build.concatenate({ofFirst, ofGate}, dim,
                             tssa::getRowMajorType(typeOf(a.tensor(operand)))));
  }

private:
  Adjoint &a;
  GradientBuilder &build;
  unsigned operand;
  int64_t dim;
  Size half;
};

} // namespace

LogicalResult gradient_rules::Gated(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value gradient = a.gradient();
  int64_t dim = a.dimensions(1, typeOf(a.tensor(0)).getRank()).front();
  Halves halves(a, 0, dim, tssa::getSizes(typeOf(gradient))[dim]);
  Value ofFirst = build.multiply(gradient, halves.gate);
  Value ofGate =
      build.multiply(build.multiply(ofFirst, halves.rest), halves.first);
  halves.give(ofFirst, ofGate);
  return success();
}

/// Where s = sigmoid(g), it makes (h s, h x s (1 - s)) of what came in.
LogicalResult gradient_rules::GatedBackward(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value came = a.tensor(0);
  int64_t dim = a.dimensions(2, typeOf(came).getRank()).front();
  Halves halves(a, 1, dim, tssa::getSizes(typeOf(came))[dim]);
  Value slope = build.multiply(halves.gate, halves.rest);
  Value ofFirst = halves.firstOf(a.gradient());
  Value ofGate = halves.secondOf(a.gradient());
  if (a.wants(0u))
    a.give(0, build.add(
                  build.multiply(ofFirst, halves.gate),
                  build.multiply(build.multiply(ofGate, halves.first), slope)));
  if (!a.wants(1))
    return success();
  // d slope / dg = slope (1 - 2 s)
  Value bend = build.multiply(build.subtract(halves.rest, halves.gate),
                              build.multiply(ofGate, halves.first));
  Value scaled = build.multiply(came, slope);
  halves.give(build.multiply(scaled, ofGate),
              build.multiply(scaled, build.add(ofFirst, bend)));
  return success();
}

/// (h, or h w where x is not positive; x h there). At zero eager takes the
/// other side than the operator itself.
LogicalResult gradient_rules::ParametricBackward(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value came = a.tensor(0), self = a.tensor(1), weight = a.tensor(2);
  Value ofSelf = a.gradient(0), ofWeight = a.gradient(1);
  Argument zero = build.wrapped(0);
  Value isRight = build.pointwise(operators::aten::ge_Tensor, {self, zero});
  if (a.wants(0u)) {
    Value left;
    if (ofSelf)
      left = build.multiply(ofSelf, weight);
    if (ofWeight) {
      Value scaled = build.multiply(ofWeight, self);
      left = left ? build.add(left, scaled) : scaled;
    }
    a.give(0, build.select(isRight, ofSelf ? Argument(ofSelf) : zero, left));
  }
  auto giveLeft = [&](unsigned operand, Value gradient, Value other) {
    if (!a.wants(operand))
      return;
    a.give(operand, gradient ? build.select(isRight, zero,
                                            build.multiply(came, gradient))
                             : build.zerosBy(other));
  };
  giveLeft(1, ofWeight, ofSelf);
  giveLeft(2, ofSelf, ofWeight);
  return success();
}

/// The logarithm is that of the number: as an element of a tensor, one that is
/// very small would be zero.
LogicalResult gradient_rules::PowerOfNumber(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value result = a.call.getResult(0);
  Value raised = build.pointwise(operators::aten::ge_Tensor,
                                 {a.tensor(1), build.wrapped(0)});
  Value slope;
  if (std::optional<double> base = a.number(0)) {
    slope = build.multiply(result, build.wrapped(std::log(*base)));
    if (*base == 0)
      slope = build.select(raised, build.wrapped(0), slope);
  } else if (Value given = tssa::numberOperand(a.call, 0)) {
    Value base = build.convert(given, build.getBuilder().getF64Type());
    Value isZero = build.equal(base, build.wrapped(0));
    slope = build.multiply(
        result, tssa::NumberOperand{build.apply(operators::aten::log, base)});
    slope = build.select(
        build.pointwise(operators::aten::bitwise_and_Tensor, {raised, isZero}),
        build.wrapped(0), slope);
  } else {
    return a.refuse("a power of what is no real number");
  }
  a.give(1, build.multiply(a.gradient(), slope));
  return success();
}
