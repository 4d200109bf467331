//===- RulesLinearAlgebra.cpp - Derivatives of what solves ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas: torch/csrc/autograd/FunctionsManual.cpp.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"
#include "LinearAlgebra.h"

#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;

Value differentiation::transposed(GradientBuilder &build, Value value) {
  int64_t rank = typeOf(value).getRank();
  return build.transpose(value, rank - 2, rank - 1);
}

Value differentiation::product(GradientBuilder &build, Value a, Value b) {
  SmallVector<Size> left = tssa::getSizes(typeOf(a)),
                    right = tssa::getSizes(typeOf(b));
  SmallVector<Size> sizes(left.size() > right.size() ? left : right);
  SmallVector<Size> &other = left.size() > right.size() ? right : left;
  for (size_t i = 0; i + 2 < other.size(); ++i) {
    Size &size = sizes[sizes.size() - other.size() + i];
    if (size.is(1))
      size = other[i];
  }
  sizes[sizes.size() - 2] = left[left.size() - 2];
  sizes.back() = right.back();
  return build.call(operators::aten::matmul, {a, b},
                    rowMajorType(sizes, typeOf(a).getElementType()));
}

/// -inverse^T gradient inverse^T
LogicalResult gradient_rules::InverseMatrix(Adjoint &a) {
  GradientBuilder &build = a.build;
  if (!a.gradient())
    return success();
  Value inverse = transposed(build, a.call.getResult(0));
  a.give(0, build.negate(product(build, inverse,
                                 product(build, a.gradient(), inverse))));
  return success();
}

/// A X = B: of B, A^-T G = gradient; of A, -gradient X^T. X A = B likewise,
/// from the right.
LogicalResult gradient_rules::Solution(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value matrix = a.tensor(0), right = a.tensor(1), result = a.call.getResult(0);
  bool left = a.flag(2);
  bool isVector = typeOf(result).getRank() + 1 == typeOf(matrix).getRank();
  // A right side may be a batch of vectors, or one matrix for all of a batch.
  if (!isVector && typeOf(right).getRank() != typeOf(result).getRank())
    return a.refuse("its operands are broadcast");
  Value gradient =
      build.call(operators::aten::linalg_solve,
                 {transposed(build, matrix), a.gradient(), build.boolean(left)},
                 tssa::getRowMajorType(typeOf(a.gradient())));
  if (a.wants(1))
    a.give(1, gradient);
  if (a.wants(0u)) {
    if (isVector) {
      int64_t rank = typeOf(result).getRank();
      gradient = build.unsqueeze(gradient, rank);
      result = build.unsqueeze(result, rank);
    }
    a.give(0, build.negate(
                  left ? product(build, gradient, transposed(build, result))
                       : product(build, transposed(build, result), gradient)));
  }
  return success();
}

Value differentiation::solveTriangular(GradientBuilder &build, Value matrix,
                                       Value right, bool upper, bool left,
                                       bool hasUnits) {
  return build.call(operators::aten::linalg_solve_triangular,
                    {matrix, right, build.boolean(upper), build.boolean(left),
                     build.boolean(hasUnits)},
                    rowMajorType(tssa::getSizes(typeOf(right)),
                                 typeOf(right).getElementType()));
}

LogicalResult gradient_rules::TriangularSolution(Adjoint &a) {
  GradientBuilder &build = a.build;
  bool upper = a.flag(2), left = a.flag(3), hasUnits = a.flag(4);
  Value matrix = a.tensor(0), result = a.call.getResult(0);
  Value gradient = solveTriangular(build, transposed(build, matrix),
                                   a.gradient(), !upper, left, hasUnits);
  if (a.wants(1))
    a.give(1, gradient);
  if (a.wants(0u)) {
    Value whole = build.negate(
        left ? product(build, gradient, transposed(build, result))
             : product(build, transposed(build, result), gradient));
    int64_t diagonal = hasUnits ? 1 : 0;
    a.give(0, build.pointwise(
                  upper ? operators::aten::triu : operators::aten::tril,
                  {whole, build.integer(upper ? diagonal : -diagonal)}));
  }
  return success();
}

/// L^-T Phi(L^T G) L^-1, symmetric; Phi halves the diagonal and keeps what is
/// below it.
LogicalResult gradient_rules::Cholesky(Adjoint &a) {
  GradientBuilder &build = a.build;
  if (!a.gradient())
    return success();
  Value factor = a.call.getResult(0), gradient = a.gradient();
  if (a.flag(1)) {
    factor = transposed(build, factor);
    gradient = transposed(build, gradient);
  }
  auto below = [&](Value value, int64_t diagonal) {
    return build.pointwise(operators::aten::tril,
                           {value, build.integer(diagonal)});
  };
  Value inner = below(product(build, transposed(build, factor), gradient), 0);
  inner = build.add(inner, transposed(build, below(inner, -1)));
  inner = solveTriangular(build, transposed(build, factor), inner, true, true,
                          false);
  inner = solveTriangular(build, factor, inner, false, false, false);
  a.give(0, build.multiply(inner, build.wrapped(0.5)));
  return success();
}

/// A X = B where A = L L^T: argument 0 is B, 1 is L, 2 whether it is L^T.
LogicalResult gradient_rules::CholeskySolution(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value factor = a.tensor(1), result = a.call.getResult(0);
  Value gradient = build.call(operators::aten::cholesky_solve,
                              {a.gradient(), factor, a.constant(2)},
                              tssa::getRowMajorType(typeOf(a.gradient())));
  if (a.wants(0u))
    a.give(0, gradient);
  if (a.wants(1)) {
    Value common = product(build, gradient, transposed(build, result));
    common = build.add(common, transposed(build, common));
    a.give(1, build.negate(a.flag(2) ? product(build, factor, common)
                                     : product(build, common, factor)));
  }
  return success();
}

LogicalResult gradient_rules::CholeskyInverse(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value factor = a.tensor(0), inverse = a.call.getResult(0);
  Value common = build.add(a.gradient(), transposed(build, a.gradient()));
  common = product(build, inverse, product(build, common, inverse));
  a.give(0, build.negate(a.flag(1) ? product(build, factor, common)
                                   : product(build, common, factor)));
  return success();
}

/// ratio = G / result, and 0 where that is 0: of x, x sum(ratio) - ratio y; of
/// y, y sum(ratio^T) - ratio^T x.
LogicalResult gradient_rules::EuclideanDistances(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value result = a.call.getResult(0), x = a.tensor(0), y = a.tensor(1);
  Value isZero = build.equal(result, build.wrapped(0));
  Value ratio = build.select(
      isZero, build.wrapped(0),
      build.divide(a.gradient(),
                   build.select(isZero, build.wrapped(1), result)));
  int64_t last = typeOf(ratio).getRank() - 1;
  auto give = [&](unsigned index, Value own, Value other, Value weights) {
    if (a.wants(index))
      a.give(index,
             build.subtract(build.multiply(own, build.sum(weights, {last})),
                            product(build, weights, other)));
  };
  give(0, x, y, ratio);
  give(1, y, x, transposed(build, ratio));
  return success();
}
