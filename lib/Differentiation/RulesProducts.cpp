//===- RulesProducts.cpp - Derivatives of products of matrices ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Adjoint.h"

#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;

/// All dimensions but the last as one.
static Value asMatrix(GradientBuilder &build, Value value) {
  SmallVector<Size> sizes = tssa::getSizes(typeOf(value));
  SmallVector<Size> matrix{countOf(ArrayRef(sizes).drop_back()), sizes.back()};
  return build.reshape(value,
                       rowMajorType(matrix, typeOf(value).getElementType()));
}

LogicalResult gradient_rules::Linear(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value input = a.tensor(0), weight = a.tensor(1);
  if (typeOf(weight).getRank() != 2)
    return a.refuse("its weight is no matrix");
  Value gradient = asMatrix(build, a.gradient());
  if (a.wants(0u))
    a.give(0, build.reshape(build.product(gradient, conjugate(build, weight)),
                            typeOf(input)));
  if (a.wants(1))
    a.give(1, build.product(build.transpose(gradient, 0, 1),
                            conjugate(build, asMatrix(build, input))));
  if (a.wants(2))
    a.give(2, gradient);
  return success();
}

namespace {

/// The gradients of two factors, each of which is a vector, a matrix or
/// matrices whose first dimensions are broadcast.
class ProductRule {
public:
  ProductRule(Adjoint &a, unsigned left, unsigned right, Value gradient)
      : a(a), build(a.build), left(left), right(right), x(a.tensor(left)),
        y(a.tensor(right)), gradient(gradient) {}

  LogicalResult run() {
    // Without columns, `mv` takes a matrix of ints and a vector of floats.
    Type type = typeOf(gradient).getElementType();
    for (Value *factor : {&x, &y})
      if (typeOf(*factor).getElementType() != type)
        *factor = build.convert(*factor, type);
    makeMatrices();
    batch = tssa::getSizes(typeOf(gradient));
    batch.pop_back_n(2);
    Value stack = asStack(gradient);
    auto turned = [&](Value factor) {
      return transposed(conjugate(build, asStack(factor)));
    };
    if (a.wants(left))
      give(left, build.product(stack, turned(y)), x);
    if (a.wants(right))
      give(right, build.product(turned(x), stack), y);
    return success();
  }

private:
  /// A vector is a row on the left and a column on the right.
  void makeMatrices() {
    if (typeOf(y).getRank() == 1) {
      y = build.unsqueeze(y, 1);
      gradient = build.unsqueeze(gradient, typeOf(gradient).getRank());
    }
    if (typeOf(x).getRank() == 1) {
      x = build.unsqueeze(x, 0);
      gradient = build.unsqueeze(gradient, typeOf(gradient).getRank() - 1);
    }
    // One matrix on the right: all rows on the left are of one matrix, too.
    if (typeOf(y).getRank() == 2 && typeOf(x).getRank() > 2) {
      x = asMatrix(build, x);
      gradient = asMatrix(build, gradient);
    }
  }

  /// These first dimensions and a matrix.
  RankedTensorType matricesOf(ArrayRef<Size> first, Value matrix) {
    SmallVector<Size> sizes(first);
    SmallVector<Size> own = tssa::getSizes(typeOf(matrix));
    sizes.append(own.end() - 2, own.end());
    return rowMajorType(sizes, typeOf(matrix).getElementType());
  }

  Value asStack(Value value) {
    value = build.expand(value, matricesOf(batch, value));
    return batch.empty()
               ? value
               : build.reshape(value, matricesOf(countOf(batch), value));
  }

  Value transposed(Value stack) {
    int64_t rank = typeOf(stack).getRank();
    return build.transpose(stack, rank - 2, rank - 1);
  }

  void give(unsigned index, Value product, Value matrix) {
    product = build.reshape(product, matricesOf(batch, product));
    product = build.sumTo(product, typeOf(matrix));
    a.give(index, build.reshape(product, typeOf(a.tensor(index))));
  }

  Adjoint &a;
  GradientBuilder &build;
  unsigned left, right;
  Value x, y, gradient;
  SmallVector<Size> batch;
};

} // namespace

LogicalResult gradient_rules::MatrixProduct(Adjoint &a) {
  return ProductRule(a, 0, 1, a.gradient()).run();
}

/// beta * self + alpha * (left @ right)
LogicalResult gradient_rules::AddMatrixProduct(Adjoint &a) {
  if (a.wants(0u))
    a.give(0, a.times(a.gradient(), 3));
  return ProductRule(a, 1, 2, a.times(a.gradient(), 4)).run();
}

/// Likewise, of the sum of the products of a batch.
LogicalResult gradient_rules::AddSumOfProducts(Adjoint &a) {
  GradientBuilder &build = a.build;
  if (a.wants(0u))
    a.give(0, a.times(a.gradient(), 3));
  RankedTensorType type = typeOf(a.gradient());
  SmallVector<Size> sizes = tssa::getSizes(type);
  sizes.insert(sizes.begin(), tssa::getSizes(typeOf(a.tensor(1)))[0]);
  Value each = build.expand(build.unsqueeze(a.times(a.gradient(), 4), 0),
                            rowMajorType(sizes, type.getElementType()));
  return ProductRule(a, 1, 2, each).run();
}

/// beta * self + alpha * outer(vec1, vec2)
LogicalResult gradient_rules::AddOuterProduct(Adjoint &a) {
  GradientBuilder &build = a.build;
  if (a.wants(0u))
    a.give(0, a.times(a.gradient(), 3));
  Value gradient = a.times(a.gradient(), 4);
  auto give = [&](unsigned index, Value product, int64_t dim) {
    if (a.wants(index))
      a.give(index,
             build.reshape(build.sum(product, {dim}), typeOf(a.tensor(index))));
  };
  give(1, build.multiply(gradient, build.unsqueeze(a.tensor(2), 0)), 1);
  give(2, build.multiply(gradient, build.unsqueeze(a.tensor(1), 1)), 0);
  return success();
}

/// Whether rows begin at multiples of 16 bytes, which the vendor call demands
/// and pads its result for.
static bool hasAlignedRows(RankedTensorType type) {
  int64_t size = type.getShape().back();
  return !ShapedType::isDynamic(size) &&
         size * type.getElementTypeBitWidth() % 128 == 0;
}

/// Products of groups of rows, columns, or matrices: one more product of groups
/// for each factor, as a product of matrices has. Which dimension the groups
/// divide follows from the ranks.
LogicalResult gradient_rules::GroupedProduct(Adjoint &a) {
  GradientBuilder &build = a.build;
  if (a.wants(3))
    return a.refuse("it adds a bias");
  auto transposed = [&](Value value) {
    int64_t rank = typeOf(value).getRank();
    return build.transpose(value, rank - 2, rank - 1);
  };
  Argument ends = build.optional(a.tensor(2));
  auto give = [&](unsigned index, Value left, Value right) {
    RankedTensorType type = gradientTypeOf(typeOf(a.tensor(index)));
    type = tssa::getRowMajorType(type);
    a.give(index,
           build.call(operators::aten::_grouped_mm,
                      {left, right, ends, build.none(), build.none()}, type));
  };
  Value gradient = a.gradient();
  gradient = build.layOut(gradient, tssa::getRowMajorType(typeOf(gradient)));
  Value x = a.tensor(0), y = a.tensor(1);
  for (Value value : {x, y, gradient})
    if (!hasAlignedRows(typeOf(value)))
      return a.refuse("rows of its gradient would not begin at 16 bytes");
  if (a.wants(0u))
    give(0, gradient, transposed(y));
  if (a.wants(1))
    give(1, transposed(x), gradient);
  return success();
}

/// Of rows of two matrices, one from another.
LogicalResult gradient_rules::Distances(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value x = a.tensor(0), y = a.tensor(1), gradient = a.gradient();
  Value result = a.call.getResult(0);
  if (!a.constant(2))
    return a.refuse("its order differs between calls");
  auto contiguous = [&](Value value) {
    return build.layOut(value, tssa::getRowMajorType(typeOf(value)));
  };
  auto transposed = [&](Value value) {
    int64_t rank = typeOf(value).getRank();
    return contiguous(build.transpose(value, rank - 2, rank - 1));
  };
  // Expanded to the batch: only without elements does the call do that not.
  auto backward = [&](Value gradient, Value own, Value other, Value distances) {
    SmallVector<Size> sizes = tssa::getSizes(typeOf(gradient));
    sizes.back() = tssa::getSizes(typeOf(own)).back();
    RankedTensorType type = rowMajorType(sizes, typeOf(own).getElementType());
    return build.call(
        operators::aten::_cdist_backward,
        {gradient, build.expand(own, type), other, a.constant(2), distances},
        type);
  };
  if (a.wants(0u))
    a.give(0, backward(contiguous(gradient), x, y, result));
  if (a.wants(1))
    a.give(1, backward(transposed(gradient), y, x, transposed(result)));
  return success();
}
