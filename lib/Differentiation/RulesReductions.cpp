//===- RulesReductions.cpp - Derivatives of reductions --------------------===//
//
// Formulas: torch/csrc/autograd/FunctionsManual.cpp.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"

#include "pyjit/Operators/OperatorNames.h"

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

LogicalResult gradient_rules::Mean(Adjoint &a) {
  Reduction over = ofSum(a);
  a.give(0, a.build.divide(spread(a, over), a.build.count(sizesOver(a, over))));
  return success();
}

/// The elements that are as great share the gradient.
LogicalResult gradient_rules::Extreme(Adjoint &a) {
  GradientBuilder &build = a.build;
  bool overAll = a.call.getArgs().size() == 1;
  Reduction over = overAll ? reductionOf(a) : reductionOf(a, 1, 2);
  Value self = a.tensor(0);
  Value isExtreme = build.pointwise(operators::aten::eq_Tensor,
                                    {self, kept(a, over, a.call.getResult(0))});
  Value shares = build.convert(isExtreme, typeOf(self).getElementType());
  Value gradient = kept(a, over, a.gradient());
  a.give(0, build.multiply(
                shares, build.divide(gradient, build.sum(shares, over.dims))));
  return success();
}

/// The element at the index that the call returned has the gradient.
LogicalResult gradient_rules::ExtremeAt(Adjoint &a) {
  GradientBuilder &build = a.build;
  RankedTensorType type = gradientTypeOf(typeOf(a.tensor(0)));
  if (type.getRank() == 0) {
    a.give(0, a.gradient());
    return success();
  }
  Reduction over = reductionOf(a, 1, 2);
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

/// Of the variance, 2 / (n - correction) * (x - mean); of its root, a half of
/// that over the result, and none where the result is zero.
LogicalResult gradient_rules::Variance(Adjoint &a) {
  GradientBuilder &build = a.build;
  Reduction over = reductionOf(a, 1, 3);
  std::optional<double> correction = a.number(2);
  if (!correction && !a.constant(2))
    return a.refuse("its correction differs between calls");
  SmallVector<Size> sizes = sizesOver(a, over);
  Size count = countOf(sizes);
  double less = correction.value_or(1);
  if (count.isConstant() && double(count.constant()) <= less)
    return a.refuse("it has no more elements than its correction");
  Value gradient = kept(a, over, a.gradient());
  if (a.call.getOverload() == operators::aten::std_correction) {
    Value deviation = kept(a, over, a.call.getResult(0));
    Value isZero = build.pointwise(operators::aten::eq_Tensor,
                                   {deviation, build.wrapped(0)});
    gradient = build.select(
        isZero, build.wrapped(0),
        build.divide(gradient, build.multiply(deviation, build.wrapped(2))));
  }
  Value self = a.tensor(0);
  Value centered = build.subtract(self, build.mean(self, over.dims));
  gradient = build.divide(build.multiply(gradient, build.wrapped(2)),
                          build.count(sizes, less));
  a.give(0, build.multiply(gradient, centered));
  return success();
}

/// Of the lengths of vectors; none where the length is zero.
LogicalResult gradient_rules::VectorNorm(Adjoint &a) {
  GradientBuilder &build = a.build;
  std::optional<double> order = a.number(1);
  Reduction over = reductionOf(a, 2, 3);
  Value self = a.tensor(0);
  Value gradient =
      build.convert(kept(a, over, a.gradient()), typeOf(self).getElementType());
  if (order == 1.0) {
    a.give(0, build.multiply(build.pointwise(operators::aten::sign, {self}),
                             gradient));
    return success();
  }
  if (order != 2.0)
    return a.refuse("no derivative of this order is known");
  Value length = build.convert(kept(a, over, a.call.getResult(0)),
                               typeOf(self).getElementType());
  Value isZero =
      build.pointwise(operators::aten::eq_Tensor, {length, build.wrapped(0)});
  a.give(0, build.multiply(self, build.select(isZero, build.wrapped(0),
                                              build.divide(gradient, length))));
  return success();
}

/// The sum from each element to the end.
LogicalResult gradient_rules::CumulativeSum(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value gradient =
      build.convert(a.gradient(), typeOf(a.tensor(0)).getElementType());
  RankedTensorType type = gradientTypeOf(typeOf(gradient));
  if (type.getRank() == 0) {
    a.give(0, gradient);
    return success();
  }
  int64_t dim = a.dimensions(1, type.getRank()).front();
  auto flip = [&](Value value) {
    return build.call(operators::aten::flip, {value, build.integers({dim})},
                      type);
  };
  a.give(0, flip(build.call(operators::aten::cumsum,
                            {flip(gradient), build.integer(dim), build.none()},
                            type)));
  return success();
}
