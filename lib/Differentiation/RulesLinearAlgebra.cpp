//===- RulesLinearAlgebra.cpp - Derivatives of what solves ----------------===//
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

static Value transposed(GradientBuilder &build, Value value) {
  int64_t rank = typeOf(value).getRank();
  return build.transpose(value, rank - 2, rank - 1);
}

/// The products of matrices, of whatever first dimensions, that are alike or
/// broadcast.
static Value product(GradientBuilder &build, Value a, Value b) {
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

/// A X = B: of B, A^T G = gradient; of A, -G X^T.
LogicalResult gradient_rules::Solution(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value matrix = a.tensor(0), right = a.tensor(1), result = a.call.getResult(0);
  if (!a.flag(2))
    return a.refuse("it solves from the right");
  SmallVector<Size> sizes = tssa::getSizes(typeOf(matrix));
  bool isVector = typeOf(result).getRank() + 1 == typeOf(matrix).getRank();
  // A right side may be a batch of vectors, or one matrix for all of a batch.
  if (!isVector && typeOf(right).getRank() != typeOf(result).getRank())
    return a.refuse("its operands are broadcast");
  Value gradient =
      build.call(operators::aten::linalg_solve,
                 {transposed(build, matrix), a.gradient(), build.boolean(true)},
                 tssa::getRowMajorType(typeOf(a.gradient())));
  if (a.wants(1))
    a.give(1, gradient);
  if (a.wants(0u)) {
    if (isVector) {
      int64_t rank = typeOf(result).getRank();
      gradient = build.unsqueeze(gradient, rank);
      result = build.unsqueeze(result, rank);
    }
    a.give(0,
           build.negate(product(build, gradient, transposed(build, result))));
  }
  return success();
}

static Value solveTriangular(GradientBuilder &build, Value matrix, Value right,
                             bool upper, bool left, bool hasUnits) {
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
