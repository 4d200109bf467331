//===- RulesReductions.cpp - Derivatives of reductions --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas: torch/csrc/autograd/FunctionsManual.cpp.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"

#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/OperatorNames.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;

namespace {

/// Over which dimensions a call reduces argument 0, and whether its result
/// keeps them.
struct Reduction {
  SmallVector<int64_t> dims;
  bool keeps;
};

Reduction reductionOf(Adjoint &a, unsigned dim, unsigned keepdim) {
  int64_t rank = typeOf(a.tensor(0)).getRank();
  return {a.dimensions(dim, rank), a.flag(keepdim)};
}
/// ... over all.
Reduction reductionOf(Adjoint &a) {
  int64_t rank = typeOf(a.tensor(0)).getRank();
  return {llvm::to_vector(llvm::seq<int64_t>(0, rank)), false};
}

/// A value of the result's shape, with the reduced dimensions as ones.
Value kept(Adjoint &a, const Reduction &over, Value value) {
  return over.keeps ? value : a.keepDims(value, over.dims);
}

/// The sizes whose product says how many elements are joined in one.
SmallVector<Size> sizesOver(Adjoint &a, const Reduction &over) {
  SmallVector<Size> sizes;
  for (int64_t dim : over.dims)
    sizes.push_back(tssa::getSizes(typeOf(a.tensor(0)))[dim]);
  return sizes;
}

/// The gradient of a sum, at each element.
Value spread(Adjoint &a, const Reduction &over) {
  auto type = typeOf(a.tensor(0));
  Value gradient = a.build.convert(a.gradient(), type.getElementType());
  return a.build.expand(kept(a, over, gradient), type);
}

} // namespace

static Reduction ofSum(Adjoint &a) {
  bool overAll = a.call.getArgs().size() == 2; // self, dtype
  return overAll ? reductionOf(a) : reductionOf(a, 1, 2);
}

LogicalResult gradient_rules::Sum(Adjoint &a) {
  a.give(0, spread(a, ofSum(a)));
  return success();
}

/// nansum
LogicalResult gradient_rules::SumOfNumbers(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value self = a.tensor(0);
  Value isNumber = build.apply(operators::aten::logical_not,
                               build.apply(operators::aten::isnan, self));
  a.give(0, build.multiply(spread(a, reductionOf(a, 1, 2)), isNumber));
  return success();
}

LogicalResult gradient_rules::Mean(Adjoint &a) {
  Reduction over = ofSum(a);
  a.give(0, a.build.divide(spread(a, over), a.build.count(sizesOver(a, over))));
  return success();
}

/// Of whole images, eager takes the mean, which saves nothing.
LogicalResult gradient_rules::AdaptiveAverage(Adjoint &a) {
  auto sizes = dyn_cast_or_null<ArrayAttr>(a.constant(1));
  if (!sizes)
    return a.refuse("its sizes are not a list");
  GradientBuilder &build = a.build;
  Value self = a.tensor(0);
  if (llvm::all_of(sizes, [](Attribute size) {
        auto number = dyn_cast<IntegerAttr>(size);
        return number && number.getInt() == 1;
      })) {
    int64_t rank = typeOf(self).getRank();
    auto images = llvm::seq<int64_t>(rank - int64_t(sizes.size()), rank);
    Reduction over{llvm::to_vector(images), /*keeps=*/true};
    a.give(0, build.divide(spread(a, over), build.count(sizesOver(a, over))));
    return success();
  }
  StringRef backward = sizes.size() == 3
                           ? operators::aten::_adaptive_avg_pool3d_backward
                           : operators::aten::_adaptive_avg_pool2d_backward;
  a.give(0, build.call(backward, {a.gradient(), self},
                       gradientTypeOf(typeOf(self))));
  return success();
}

/// The elements that are as great share the gradient.
LogicalResult gradient_rules::Extreme(Adjoint &a) {
  GradientBuilder &build = a.build;
  Reduction over = reductionOf(a, 1, 2);
  Value self = a.tensor(0);
  Value isExtreme = build.equal(self, kept(a, over, a.call.getResult(0)));
  Value shares = build.convert(isExtreme, typeOf(self).getElementType());
  Value gradient = kept(a, over, a.gradient());
  a.give(0, build.divide(build.multiply(shares, gradient),
                         build.sum(shares, over.dims)));
  return success();
}

/// The elements that are the one that was chosen of all share the gradient; nan
/// is chosen of nans.
LogicalResult gradient_rules::Chosen(Adjoint &a) {
  GradientBuilder &build = a.build;
  Reduction over = reductionOf(a);
  Value self = a.tensor(0), result = kept(a, over, a.call.getResult(0));
  Value areNans =
      build.pointwise(operators::aten::logical_and,
                      {build.apply(operators::aten::isnan, self),
                       build.apply(operators::aten::isnan, result)});
  Value isChosen = build.pointwise(operators::aten::logical_or,
                                   {build.equal(self, result), areNans});
  Value count = build.sum(
      build.convert(isChosen, typeOf(self).getElementType()), over.dims);
  Value share = build.divide(kept(a, over, a.gradient()), count);
  a.give(0, build.select(isChosen, share, build.wrapped(0)));
  return success();
}

/// The elements at the indices that the call returned have the gradient. Calls
/// that keep their dimension (sort, topk) have no argument to say so.
LogicalResult gradient_rules::ChosenAt(Adjoint &a) {
  GradientBuilder &build = a.build;
  RankedTensorType type = gradientTypeOf(typeOf(a.tensor(0)));
  if (!a.gradient())
    return success();
  if (type.getRank() == 0) {
    a.give(0, a.gradient());
    return success();
  }
  const operators::OperatorInfo *info =
      operators::lookupOperator(a.call.getOverload());
  auto find = [&](StringRef name) {
    const auto *found = llvm::find_if(
        info->arguments, [&](const auto &known) { return known.name == name; });
    return unsigned(found - info->arguments.begin());
  };
  Reduction over = reductionOf(a, find("dim"), find("keepdim"));
  over.keeps |= typeOf(a.gradient()).getRank() == type.getRank();
  a.give(0, build.call(operators::aten::scatter_src,
                       {build.zeros(type), build.integer(over.dims.front()),
                        kept(a, over, a.call.getResult(1)),
                        kept(a, over, a.gradient())},
                       type));
  return success();
}

LogicalResult gradient_rules::LogSumExp(Adjoint &a) {
  GradientBuilder &build = a.build;
  Reduction over = reductionOf(a, 1, 2);
  Value power = build.pointwise(
      operators::aten::exp,
      {build.subtract(a.tensor(0), kept(a, over, a.call.getResult(0)))});
  a.give(0, build.multiply(power, kept(a, over, a.gradient())));
  return success();
}

namespace {

/// Of the variance, 2 / (n - correction) * (x - mean); of its root, a half of
/// that over the result, and none where the result is zero.
class VarianceRule {
public:
  VarianceRule(Adjoint &a)
      : a(a), build(a.build), over(reductionOf(a, 1, 3)), self(a.tensor(0)),
        isOverAll(a.constant(1) == a.build.none()) {}

  LogicalResult run() {
    std::optional<double> correction = a.number(2);
    if (!correction && a.constant(2) != build.none())
      return a.refuse("its correction differs between calls");
    less = correction.value_or(1);
    StringRef overload = a.call.getOverload();
    bool isRoot = overload == operators::aten::std_correction ||
                  overload == operators::aten::std_mean_correction;
    Value gradient;
    if (Value ofVariance = a.gradient(0)) {
      gradient = kept(a, over, ofVariance);
      if (isRoot)
        gradient = ofRoot(gradient);
      gradient = ofSquares(gradient);
    }
    bool hasMean = a.call->getNumResults() > 1;
    if (Value ofMean = hasMean ? a.gradient(1) : Value()) {
      ofMean = build.divide(build.expand(kept(a, over, ofMean), typeOf(self)),
                            build.count(sizesOver(a, over)));
      gradient = gradient ? build.add(gradient, ofMean) : ofMean;
    }
    a.give(0, gradient);
    return success();
  }

private:
  Value ofRoot(Value gradient) {
    Value deviation = kept(a, over, a.call.getResult(0));
    Value isZero = build.equal(deviation, build.wrapped(0));
    return build.select(
        isZero, build.wrapped(0),
        build.divide(gradient, build.multiply(deviation, build.wrapped(2))));
  }

  Value ofSquares(Value gradient) {
    SmallVector<Size> sizes = sizesOver(a, over);
    Size count = countOf(sizes);
    Value mean = build.mean(self, over.dims);
    double rest = double(count.isConstant() ? count.constant() : 1) - less;
    if (!count.isConstant())
      return build.multiply(
          build.divide(build.multiply(gradient, build.wrapped(2)),
                       build.count(sizes, less)),
          build.subtract(self, mean));
    // Nothing is left to divide by: as eager, which asks whether all elements
    // are alike.
    if (rest <= 0 && (isOverAll || typeOf(self).getRank() == 0))
      return build.select(
          build.equal(self, mean),
          build.multiply(
              gradient,
              build.wrapped(std::numeric_limits<double>::quiet_NaN())),
          build.multiply(
              gradient,
              build.wrapped(std::numeric_limits<double>::infinity())));
    return build.multiply(build.multiply(gradient, build.wrapped(2 / rest)),
                          build.subtract(self, mean));
  }

  Adjoint &a;
  GradientBuilder &build;
  Reduction over;
  Value self;
  bool isOverAll;
  double less = 1;
};

} // namespace

LogicalResult gradient_rules::Variance(Adjoint &a) {
  return VarianceRule(a).run();
}

//===----------------------------------------------------------------------===//
// Lengths of vectors
//===----------------------------------------------------------------------===//

namespace {

/// The gradient of a vector's p-norm; `norm` and `gradient` have its dimensions
/// as ones.
class NormRule {
public:
  NormRule(GradientBuilder &build, Value self, Value norm, Value gradient,
           ArrayRef<int64_t> dims)
      : build(build), self(self), norm(norm), gradient(gradient), dims(dims) {}

  Value run(double order) {
    if (order == 1.0)
      return build.multiply(sign(), gradient);
    if (order == 2.0)
      return build.multiply(gradient, unlessZero(build.divide(self, norm)));
    if (std::isinf(order))
      return ofGreatest();
    Value scale = unlessZero(build.divide(gradient, power(norm, order - 1)));
    if (order > 2.0)
      return build.multiply(build.multiply(self, power(absolute(), order - 2)),
                            scale);
    Value steep = power(absolute(), order - 1);
    if (order > 1.0)
      return build.multiply(build.multiply(sign(), steep), scale);
    Value isZero = build.equal(self, build.wrapped(0));
    steep = build.select(isZero, build.wrapped(0), steep);
    return build.multiply(
        build.multiply(build.multiply(sign(), steep), gradient),
        power(norm, 1 - order));
  }

private:
  Value sign() { return build.apply(operators::aten::sign, self); }
  Value absolute() { return build.apply(operators::aten::abs, self); }
  Value power(Value value, double exponent) {
    return build.pointwise(operators::aten::pow_Tensor_Scalar,
                           {value, build.number(exponent)});
  }
  Value unlessZero(Value value) {
    return build.select(build.equal(norm, build.wrapped(0)), build.wrapped(0),
                        value);
  }

  /// Those that are as great share it; nan is.
  Value ofGreatest() {
    Value size = absolute();
    Value isGreatest = build.pointwise(
        operators::aten::logical_or,
        {build.equal(size, norm), build.apply(operators::aten::isnan, size)});
    Value shares = build.convert(isGreatest, typeOf(self).getElementType());
    Value share = build.divide(gradient, build.sum(shares, dims));
    return build.multiply(sign(), build.multiply(share, shares));
  }

  GradientBuilder &build;
  Value self, norm, gradient;
  SmallVector<int64_t> dims;
};

} // namespace

LogicalResult gradient_rules::VectorNorm(Adjoint &a) {
  GradientBuilder &build = a.build;
  StringRef overload = a.call.getOverload();
  bool isOverAll = overload == operators::aten::norm_Scalar ||
                   overload == operators::aten::norm_ScalarOpt_dtype;
  Reduction over = isOverAll ? reductionOf(a) : reductionOf(a, 2, 3);
  std::optional<double> order = a.number(1);
  if (!order && a.constant(1) == build.none())
    order = 2;
  if (!order)
    return a.refuse("its order differs between calls");
  if (*order == 0.0) // a count
    return success();
  if (isComplex(a.tensor(0)) && *order != 2.0)
    return a.refuse("it is a norm of complex numbers of another order than 2");
  Value norm = kept(a, over, a.call.getResult(0));
  // Computed in the result's type.
  Value self = a.tensor(0);
  if (!isComplex(self))
    self = build.convert(self, typeOf(norm).getElementType());
  a.give(0, NormRule(build, self, norm, kept(a, over, a.gradient()), over.dims)
                .run(*order));
  return success();
}

/// The norm of a difference.
LogicalResult gradient_rules::Distance(Adjoint &a) {
  GradientBuilder &build = a.build;
  std::optional<double> order = a.number(2);
  if (!order)
    return a.refuse("its order differs between calls");
  if (*order == 0.0) // a count
    return success();
  Value difference = build.subtract(a.tensor(0), a.tensor(1));
  auto dims =
      llvm::to_vector(llvm::seq<int64_t>(0, typeOf(difference).getRank()));
  Value gradient =
      NormRule(build, difference, a.keepDims(a.call.getResult(0), dims),
               a.keepDims(a.gradient(), dims), dims)
          .run(*order);
  if (a.wants(0u))
    a.give(0, gradient);
  if (a.wants(1))
    a.give(1, build.negate(gradient));
  return success();
}
