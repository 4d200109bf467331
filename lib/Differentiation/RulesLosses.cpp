//===- RulesLosses.cpp - Derivatives of losses ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas: torch/csrc/autograd/FunctionsManual.cpp and the kernels of the
// backward overloads that derivatives.yaml names.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"

#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::typeOf;

/// The gradient of each element's loss, where a call reduces them as argument
/// `reduction` says; null where that differs between calls. `each` has their
/// shape. (Of a backward overload: what its result was multiplied by.)
static Value ofElements(Adjoint &a, unsigned reduction, Value each) {
  constexpr double kMean = 1;
  std::optional<double> given = a.number(reduction);
  if (!given)
    return {};
  return *given == kMean
             ? a.build.divide(a.gradient(),
                              a.build.count(tssa::getSizes(typeOf(each))))
             : a.gradient();
}

static bool isHuberLoss(StringRef overload) {
  return overload == operators::aten::huber_loss ||
         overload == operators::aten::huber_loss_backward;
}
static bool isSquareLoss(StringRef overload) {
  return overload == operators::aten::mse_loss ||
         overload == operators::aten::mse_loss_backward;
}

/// The slope of a loss at a difference; `width` is the number of its argument
/// that says where two lines begin, smooth_l1_loss(beta) or huber_loss(delta).
static Value slopeOf(Adjoint &a, Value difference, unsigned widthAt) {
  GradientBuilder &build = a.build;
  StringRef overload = a.call.getOverload();
  if (isSquareLoss(overload))
    return build.multiply(difference, build.wrapped(2));
  if (overload == operators::aten::l1_loss)
    return build.apply(operators::aten::sign, difference);
  Argument width = a.factor(widthAt);
  bool isHuber = isHuberLoss(overload);
  Value ofWidth = build.multiply(
      build.ones(rowMajorType({}, typeOf(difference).getElementType())), width);
  Value negative = build.negate(ofWidth);
  Value below =
      build.pointwise(operators::aten::le_Tensor, {difference, negative});
  Value above =
      build.pointwise(operators::aten::ge_Tensor, {difference, ofWidth});
  Argument low = isHuber ? Argument(negative) : build.wrapped(-1);
  Argument high = isHuber ? Argument(ofWidth) : build.wrapped(1);
  Value inside = isHuber ? difference : build.divide(difference, width);
  return build.select(below, low, build.select(above, high, inside));
}

/// Of the differences of two tensors.
LogicalResult gradient_rules::Loss(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value difference = build.subtract(a.tensor(0), a.tensor(1));
  Value gradient = ofElements(a, 2, difference);
  if (!gradient)
    return a.refuse("its reduction differs between calls");
  gradient = build.multiply(slopeOf(a, difference, 3), gradient);
  if (a.wants(0u))
    a.give(0, gradient);
  if (a.wants(1))
    a.give(1, build.negate(gradient));
  return success();
}

/// By the gradient that came in, the slope; by the tensors, the curvature.
LogicalResult gradient_rules::LossBackward(Adjoint &a) {
  constexpr unsigned kReduction = 3, kWidth = 4;
  GradientBuilder &build = a.build;
  StringRef overload = a.call.getOverload();
  Value difference = build.subtract(a.tensor(1), a.tensor(2));
  Value gradient = ofElements(a, kReduction, difference);
  if (!gradient)
    return a.refuse("its reduction differs between calls");
  if (a.wants(0u))
    a.give(0, build.multiply(slopeOf(a, difference, kWidth), gradient));
  if (!a.wants(1) && !a.wants(2))
    return success();
  Value bent = build.multiply(gradient, a.tensor(0));
  if (isSquareLoss(overload)) {
    bent = build.multiply(bent, build.wrapped(2));
  } else {
    Value size = build.apply(operators::aten::abs, difference);
    Value inside =
        build.pointwise(operators::aten::lt_Tensor, {size, a.factor(kWidth)});
    if (!isHuberLoss(overload))
      bent = build.divide(bent, a.factor(kWidth));
    bent = build.select(inside, bent, build.wrapped(0));
  }
  if (a.wants(1))
    a.give(1, bent);
  if (a.wants(2))
    a.give(2, build.negate(bent));
  return success();
}

/// z = exp(-target * self); the loss of an element is log(1 + z).
static Value softMarginPower(GradientBuilder &build, Value self, Value target) {
  return build.apply(operators::aten::exp,
                     build.multiply(build.negate(target), self));
}

/// -target z / (1 + z)
static Value softMarginSlope(GradientBuilder &build, Value target,
                             Value power) {
  return build.divide(build.negate(build.multiply(target, power)),
                      build.add(power, build.wrapped(1)));
}

LogicalResult gradient_rules::SoftMargin(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value self = a.tensor(0), target = a.tensor(1);
  if (a.wants(1))
    return a.refuse("its target requires grad");
  Value power = softMarginPower(build, self, target);
  Value gradient = ofElements(a, 2, power);
  if (!gradient)
    return a.refuse("its reduction differs between calls");
  a.give(0, build.multiply(softMarginSlope(build, target, power), gradient));
  return success();
}

/// -y z / (1 + z) where z = exp(-y x); by x, y^2 z / (1 + z)^2.
LogicalResult gradient_rules::SoftMarginBackward(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value self = a.tensor(1), target = a.tensor(2);
  if (a.wants(2))
    return a.refuse("its target requires grad");
  Value power = softMarginPower(build, self, target);
  Value gradient = ofElements(a, 3, power);
  if (!gradient)
    return a.refuse("its reduction differs between calls");
  if (a.wants(0u))
    a.give(0, build.multiply(softMarginSlope(build, target, power), gradient));
  if (a.wants(1)) {
    Value whole = build.add(power, build.wrapped(1));
    Value bent =
        build.divide(build.multiply(build.multiply(target, target), power),
                     build.multiply(whole, whole));
    a.give(1, build.multiply(bent, build.multiply(gradient, a.tensor(0))));
  }
  return success();
}

constexpr double kLeast = 1e-12; // as eager's kernel has it

/// (x - y) / (x (1 - x)); by the target log(1 - x) - log(x), as long as neither
/// is infinite.
LogicalResult gradient_rules::CrossEntropy(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value self = a.tensor(0), target = a.tensor(1);
  Value rest = build.oneMinus(self);
  Value gradient = ofElements(a, 3, rest);
  if (!gradient)
    return a.refuse("its reduction differs between calls");
  if (Value weight = a.tensor(2))
    gradient = build.multiply(gradient, weight);
  if (a.wants(0u)) {
    Value product = build.multiply(rest, self);
    Value bounded = build.pointwise(operators::aten::clamp_min,
                                    {product, build.number(kLeast)});
    Value slope = build.divide(build.subtract(self, target), bounded);
    a.give(0, build.multiply(slope, gradient));
  }
  if (a.wants(1)) {
    Value slope = build.subtract(build.apply(operators::aten::log, rest),
                                 build.apply(operators::aten::log, self));
    a.give(1, build.multiply(slope, gradient));
  }
  return success();
}

/// Of (x - y) / (x (1 - x)): by x, (x^2 - 2 x y + y) / (x (1 - x))^2.
LogicalResult gradient_rules::CrossEntropyBackward(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value self = a.tensor(1), target = a.tensor(2);
  Value rest = build.oneMinus(self);
  Value gradient = ofElements(a, 4, rest);
  if (!gradient)
    return a.refuse("its reduction differs between calls");
  if (Value weight = a.tensor(3))
    gradient = build.multiply(gradient, weight);
  Value product = build.multiply(rest, self);
  if (a.wants(0u)) {
    Value bounded = build.pointwise(operators::aten::clamp_min,
                                    {product, build.number(kLeast)});
    Value slope = build.divide(build.subtract(self, target), bounded);
    a.give(0, build.multiply(slope, gradient));
  }
  gradient = build.multiply(gradient, a.tensor(0));
  if (a.wants(1)) {
    Value root = build.multiply(build.add(self, build.wrapped(kLeast)),
                                build.add(rest, build.wrapped(kLeast)));
    Value across =
        build.multiply(build.multiply(self, build.wrapped(2)), target);
    Value above =
        build.add(build.subtract(build.multiply(self, self), across), target);
    Value bent = build.divide(above, build.multiply(root, root));
    a.give(1, build.multiply(bent, gradient));
  }
  if (a.wants(2))
    a.give(2, build.divide(build.negate(gradient), product));
  return success();
}

LogicalResult gradient_rules::CrossEntropyOfLogits(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value self = a.tensor(0), target = a.tensor(1), positive = a.tensor(3);
  Value gradient = ofElements(a, 4, self);
  if (!gradient)
    return a.refuse("its reduction differs between calls");
  if (Value weight = a.tensor(2))
    gradient = build.multiply(gradient, weight);
  if (a.wants(0u)) {
    Value sigmoid = build.apply(operators::aten::sigmoid, self);
    Value slope;
    if (positive) {
      Value scaled = build.multiply(positive, target);
      Value factor =
          build.subtract(build.add(scaled, build.wrapped(1)), target);
      slope = build.subtract(build.multiply(factor, sigmoid), scaled);
    } else {
      slope = build.subtract(sigmoid, target);
    }
    a.give(0, build.multiply(slope, gradient));
  }
  if (a.wants(1)) {
    Value slope = build.negate(self);
    if (positive)
      slope = build.subtract(
          build.apply(operators::aten::log_sigmoid, slope),
          build.multiply(build.apply(operators::aten::log_sigmoid, self),
                         positive));
    a.give(1, build.multiply(slope, gradient));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Of chosen classes
//===----------------------------------------------------------------------===//

/// The second result is the sum of the weights.
LogicalResult gradient_rules::ClassLoss(Adjoint &a) {
  GradientBuilder &build = a.build;
  bool ofImages = a.call.getOverload() == operators::aten::nll_loss2d_forward;
  if (!a.isOfFirst())
    return a.refuse("a gradient of the sum of its weights");
  a.give(0, build.call(ofImages ? operators::aten::nll_loss2d_backward
                                : operators::aten::nll_loss_backward,
                       {a.gradient(), a.tensor(0), a.tensor(1),
                        build.optional(a.tensor(2)), a.constant(3),
                        a.constant(4), Value(a.call.getResult(1))},
                       gradientTypeOf(typeOf(a.tensor(0)))));
  return success();
}

/// Linear in the gradient that came in; what the loss was taken of decides
/// nothing but the shape.
LogicalResult gradient_rules::ClassLossBackward(Adjoint &a) {
  GradientBuilder &build = a.build;
  bool ofImages = a.call.getOverload() == operators::aten::nll_loss2d_backward;
  RankedTensorType type = gradientTypeOf(typeOf(a.tensor(0)));
  if (a.wants(0u))
    a.give(0, build.callAll(
                  ofImages ? operators::aten::nll_loss2d_forward
                           : operators::aten::nll_loss_forward,
                  {a.gradient(), a.tensor(2), build.optional(a.tensor(3)),
                   a.constant(4), a.constant(5)},
                  {type, RankedTensorType::get({}, type.getElementType())})[0]);
  if (a.wants(1))
    a.give(1, build.zerosBy(a.gradient()));
  return success();
}
