//===- RulesScans.cpp - Derivatives of products and scans -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas: torch/csrc/autograd/FunctionsManual.cpp.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"

#include "pyjit/Operators/OperatorNames.h"

#include <limits>

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;

/// Where a scan goes along a dimension; nothing of a single number, which it
/// hands on.
static std::optional<int64_t> scanned(Adjoint &a) {
  int64_t rank = typeOf(a.tensor(0)).getRank();
  if (!rank)
    return std::nullopt;
  return a.dimensions(1, rank).front();
}

static Value scan(GradientBuilder &build, StringRef overload, Value value,
                  int64_t dim) {
  return build.callLike(overload, {value, build.integer(dim), build.none()});
}

/// The sum from each element to the end.
static Value sumToEnd(GradientBuilder &build, Value value, int64_t dim) {
  return build.flip(
      scan(build, operators::aten::cumsum, build.flip(value, dim), dim), dim);
}

static Value ofSelfType(Adjoint &a) {
  return a.build.convert(a.gradient(), typeOf(a.tensor(0)).getElementType());
}

LogicalResult gradient_rules::CumulativeSum(Adjoint &a) {
  Value gradient = ofSelfType(a);
  if (std::optional<int64_t> dim = scanned(a))
    gradient = sumToEnd(a.build, gradient, *dim);
  a.give(0, gradient);
  return success();
}

/// The elements that were shown have the gradients.
LogicalResult gradient_rules::CumulativeExtreme(Adjoint &a) {
  if (!a.gradient())
    return success();
  std::optional<int64_t> dim = scanned(a);
  a.give(0, dim ? a.build.callLike(operators::aten::scatter_add,
                                   {a.build.zerosLike(a.tensor(0)),
                                    a.build.integer(*dim),
                                    Value(a.call.getResult(1)), a.gradient()})
                : a.gradient());
  return success();
}

LogicalResult gradient_rules::CumulativeLogSumExp(Adjoint &a) {
  GradientBuilder &build = a.build;
  std::optional<int64_t> dim = scanned(a);
  if (!dim) {
    a.give(0, a.gradient());
    return success();
  }
  Value gradient = a.gradient(), self = a.tensor(0);
  Type type = typeOf(gradient).getElementType();
  double least = type.isF64() ? std::numeric_limits<double>::lowest()
                              : double(std::numeric_limits<float>::lowest());
  if (!type.isF64() && !type.isF32())
    least = APFloat::getLargest(cast<FloatType>(type).getFloatSemantics(), true)
                .convertToDouble();
  Value logarithm = build.apply(operators::aten::log,
                                build.apply(operators::aten::abs, gradient));
  auto ofSign = [&](StringRef compare) {
    Value own =
        build.select(build.pointwise(compare, {gradient, build.wrapped(0)}),
                     logarithm, build.wrapped(least));
    own = build.flip(build.subtract(own, a.call.getResult(0)), *dim);
    own = build.callLike(operators::aten::logcumsumexp,
                         {own, build.integer(*dim)});
    return build.apply(operators::aten::exp,
                       build.add(build.flip(own, *dim), self));
  };
  a.give(0, build.subtract(ofSign(operators::aten::gt_Tensor),
                           ofSign(operators::aten::lt_Tensor)));
  return success();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// At each element, the product of all others along a dimension.
static Value productOfOthers(GradientBuilder &build, Value value, int64_t dim) {
  SmallVector<Size> sizes = tssa::getSizes(typeOf(value));
  Type elementType = typeOf(value).getElementType();
  Size length = sizes[dim];
  if (length.is(1))
    return build.ones(rowMajorType(sizes, elementType));
  SmallVector<Size> one(sizes);
  one[dim] = 1;
  // The products of those in front, and of those behind.
  auto inFront = [&](Value of) {
    SmallVector<int64_t> pad((sizes.size() - size_t(dim)) * 2, 0);
    pad[pad.size() - 2] = 1;
    Value shifted = build.call(operators::aten::constant_pad_nd,
                               {build.slice(of, dim, 0, length - Size(1)),
                                build.integers(pad), build.number(1)},
                               rowMajorType(sizes, elementType));
    return scan(build, operators::aten::cumprod, shifted, dim);
  };
  Value behind = build.flip(inFront(build.flip(value, dim)), dim);
  return build.multiply(inFront(value), behind);
}

/// result / self, unless an element is zero. What is not taken must not divide
/// by zero, since it is differentiated, too.
LogicalResult gradient_rules::Product(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value self =
      build.convert(a.tensor(0), typeOf(a.gradient()).getElementType());
  Value gradient = a.gradient(), result = a.call.getResult(0);
  RankedTensorType type = typeOf(self);
  if (!type.getRank()) {
    a.give(0, gradient);
    return success();
  }
  if (llvm::is_contained(type.getShape(), int64_t(0))) {
    a.give(0, build.empty(gradient, typeOf(a.tensor(0))));
    return success();
  }
  bool isOverAll = a.call.getOverload() == operators::aten::prod;
  Value isZero, anyZero, others;
  if (isOverAll) {
    auto dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    gradient = a.keepDims(gradient, dims);
    result = a.keepDims(result, dims);
    others =
        build.reshape(productOfOthers(build, build.flatten(self), 0), type);
  } else {
    int64_t dim = a.dimensions(1, type.getRank()).front();
    if (!a.flag(2)) {
      gradient = build.unsqueeze(gradient, dim);
      result = build.unsqueeze(result, dim);
    }
    others = productOfOthers(build, self, dim);
  }
  isZero = build.equal(self, build.wrapped(0));
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  Value zeros = build.sum(build.convert(isZero, type.getElementType()), all);
  anyZero =
      build.pointwise(operators::aten::gt_Tensor, {zeros, build.wrapped(0)});
  Value divisor = build.select(anyZero, build.wrapped(1), self);
  Value slope = build.select(anyZero, others, build.divide(result, divisor));
  Value product = build.multiply(gradient, slope);
  if (isOverAll) {
    // Beside two zeros eager gives zeros, and multiplies nothing.
    Value several = build.pointwise(operators::aten::gt_Tensor,
                                    {zeros, build.wrapped(1)}),
          isNan =
              build.pointwise(operators::aten::ne_Tensor, {product, product});
    product = build.select(
        build.pointwise(operators::aten::bitwise_and_Tensor, {several, isNan}),
        build.wrapped(0), product);
  }
  a.give(0, product);
  return success();
}

namespace {

/// The gradient of a cumulative product: the sum to the end of gradient *
/// result, divided by self; at the first zero of a row, the sum of gradients
/// times the products without it. Products behind zeros are not masked, nor is
/// the second zero of a row passed over: their value is zero, but not their
/// derivative.
class CumulativeProductRule {
public:
  CumulativeProductRule(Adjoint &a, int64_t dim)
      : build(a.build), dim(dim), result(a.call.getResult(0)),
        gradient(a.gradient()) {
    self = build.convert(a.tensor(0), typeOf(gradient).getElementType());
  }

  Value run() {
    Value isZero = build.equal(self, build.wrapped(0));
    passed = scan(build, operators::aten::cumsum,
                  build.convert(isZero, typeOf(self).getElementType()), dim);
    auto zeroOfNumber = [&](double number) {
      return build.pointwise(
          operators::aten::logical_and,
          {build.equal(passed, build.wrapped(number)), isZero});
    };
    Value isFirst = zeroOfNumber(1), isSecond = zeroOfNumber(2);
    Value quotient = build.divide(sumToEnd(build, products(), dim),
                                  build.select(isZero, build.wrapped(1), self));
    Attribute one = build.wrapped(1), zero = build.wrapped(0);
    Value left = build.select(isFirst, one, self);
    Value first = build.sum(build.select(isFirst, self, zero), {dim});
    Value ofSecond =
        build.multiply(first, sumBehind(build.select(isSecond, one, left), 2));
    return build.select(isFirst, sumBehind(left, 1),
                        build.select(isSecond, ofSecond, quotient));
  }

private:
  /// Of gradients and results. Behind a zero, infinity times zero counts as
  /// nothing.
  Value products() {
    Value product = build.multiply(result, gradient);
    Value isNothing =
        build.pointwise(operators::aten::logical_and,
                        {build.pointwise(operators::aten::ge_Tensor,
                                         {passed, build.wrapped(1)}),
                         build.apply(operators::aten::isnan, product)});
    return build.select(isNothing, build.wrapped(0), product);
  }

  /// Of gradients times products of what is left, from zero number `number` on.
  Value sumBehind(Value left, double number) {
    Value products = build.multiply(
        scan(build, operators::aten::cumprod, left, dim), gradient);
    Value isIn = build.pointwise(operators::aten::ge_Tensor,
                                 {passed, build.wrapped(number)});
    return build.sum(build.select(isIn, products, build.wrapped(0)), {dim});
  }

  GradientBuilder &build;
  int64_t dim;
  Value result, gradient, self, passed;
};

} // namespace

LogicalResult gradient_rules::CumulativeProduct(Adjoint &a) {
  std::optional<int64_t> dim = scanned(a);
  a.give(0, dim ? CumulativeProductRule(a, *dim).run() : a.gradient());
  return success();
}
