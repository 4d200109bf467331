//===- RulesDecompositions.cpp - Derivatives of matrices' factors ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas: torch/csrc/autograd/FunctionsManual.cpp.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"
#include "LinearAlgebra.h"

#include "pyjit/Operators/OperatorNames.h"

#include <cmath>

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;

//===----------------------------------------------------------------------===//
// What of a factor is known
//===----------------------------------------------------------------------===//

static Value lower(GradientBuilder &build, Value value, int64_t diagonal) {
  return build.pointwise(operators::aten::tril,
                         {value, build.integer(diagonal)});
}

static Value upper(GradientBuilder &build, Value value, int64_t diagonal) {
  return build.pointwise(operators::aten::triu,
                         {value, build.integer(diagonal)});
}

static Value diagonalMatrix(GradientBuilder &build, Value diagonal) {
  RankedTensorType type = typeOf(diagonal);
  SmallVector<Size> sizes = tssa::getSizes(type);
  sizes.push_back(sizes.back());
  return build.call(
      operators::aten::diag_embed,
      {diagonal, build.integer(0), build.integer(-2), build.integer(-1)},
      rowMajorType(sizes, type.getElementType()));
}

static Value diagonalOf(GradientBuilder &build, Value matrix) {
  int64_t rank = typeOf(matrix).getRank();
  return build.access(matrix, tssa::ViewAttr::get(matrix.getContext(),
                                                  tssa::ViewKind::diagonal,
                                                  {0, rank - 2, rank - 1}));
}

/// Numbers of matrices as factors of their columns, or rows.
static Value ofColumns(GradientBuilder &build, Value numbers) {
  return build.unsqueeze(numbers, typeOf(numbers).getRank() - 1);
}
static Value ofRows(GradientBuilder &build, Value numbers) {
  return build.unsqueeze(numbers, typeOf(numbers).getRank());
}

/// numbers[j] - numbers[i], and ones in the diagonal.
static Value differences(GradientBuilder &build, Value numbers) {
  Value ones = build.ones(tssa::getRowMajorType(typeOf(numbers)));
  return build.add(
      build.subtract(ofColumns(build, numbers), ofRows(build, numbers)),
      diagonalMatrix(build, ones));
}

static Value addOptional(GradientBuilder &build, Value a, Value b) {
  return a && b ? build.add(a, b) : a ? a : b;
}

static bool isSquare(Value matrix) {
  SmallVector<Size> sizes = tssa::getSizes(typeOf(matrix));
  return sizes[sizes.size() - 2] == sizes.back();
}

//===----------------------------------------------------------------------===//
// Eigenvalues, singular values
//===----------------------------------------------------------------------===//

static Value skew(GradientBuilder &build, Value value) {
  return build.subtract(value, transposed(build, value));
}

/// V (skew(V^T G_V) / 2 E with G_L as diagonal) V^T, where E holds the
/// differences of eigenvalues.
LogicalResult gradient_rules::Eigenvectors(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value values = a.call.getResult(0), vectors = a.call.getResult(1);
  Value ofValues = a.gradient(0), ofVectors = a.gradient(1);
  if (!a.flag(2))
    return a.refuse("it computes no eigenvectors");
  if (!ofVectors) {
    a.give(0,
           product(build, build.multiply(vectors, ofColumns(build, ofValues)),
                   transposed(build, vectors)));
    return success();
  }
  Value inner =
      skew(build, product(build, transposed(build, vectors), ofVectors));
  inner = build.divide(build.multiply(inner, build.wrapped(0.5)),
                       differences(build, values));
  if (ofValues)
    inner = build.add(inner, diagonalMatrix(build, ofValues));
  a.give(0, product(build, vectors,
                    product(build, inner, transposed(build, vectors))));
  return success();
}

namespace {

/// A = U S V^T.
class SingularValuesRule {
public:
  explicit SingularValuesRule(Adjoint &a)
      : a(a), build(a.build), u(a.call.getResult(0)), s(a.call.getResult(1)),
        vh(a.call.getResult(2)), ofU(a.gradient(0)), ofS(a.gradient(1)),
        ofVh(a.gradient(2)) {}

  LogicalResult run() {
    if (!a.flag(2))
      return a.refuse("it computes no singular vectors");
    SmallVector<Size> sizes = tssa::getSizes(typeOf(a.tensor(0)));
    rows = sizes[sizes.size() - 2];
    columns = sizes.back();
    rank = tssa::getSizes(typeOf(s)).back();
    if (a.flag(1))
      narrow();
    if (!ofU && !ofVh) {
      a.give(0, product(build, build.multiply(u, ofColumns(build, ofS)), vh));
      return success();
    }
    Value gradient = inner();
    if (rows != rank && ofU) {
      Value outside = build.divide(ofU, ofColumns(build, s));
      gradient = build.add(
          product(build, u, gradient),
          build.subtract(
              outside, product(build, u,
                               product(build, transposed(build, u), outside))));
      gradient = product(build, gradient, vh);
    } else if (columns != rank && ofVh) {
      Value outside = build.divide(ofVh, ofRows(build, s));
      gradient = build.add(
          product(build, gradient, vh),
          build.subtract(outside,
                         product(build,
                                 product(build, outside, transposed(build, vh)),
                                 vh)));
      gradient = product(build, u, gradient);
    } else {
      gradient = product(build, u, product(build, gradient, vh));
    }
    a.give(0, gradient);
    return success();
  }

private:
  /// The vectors of singular values alone count.
  void narrow() {
    int64_t last = typeOf(u).getRank() - 1;
    auto part = [&](Value value, int64_t dim) {
      return value ? build.slice(value, dim, 0, rank) : value;
    };
    u = part(u, last);
    ofU = part(ofU, last);
    vh = part(vh, last - 1);
    ofVh = part(ofVh, last - 1);
  }

  /// What stands between U and V^T.
  Value inner() {
    Value between = differences(build, build.multiply(s, s));
    Value left, right;
    if (ofU)
      left =
          build.multiply(skew(build, product(build, transposed(build, u), ofU)),
                         ofColumns(build, s));
    if (ofVh)
      right = build.multiply(
          skew(build, product(build, vh, transposed(build, ofVh))),
          ofRows(build, s));
    Value sum = build.divide(addOptional(build, left, right), between);
    return ofS ? build.add(sum, diagonalMatrix(build, ofS)) : sum;
  }

  Adjoint &a;
  GradientBuilder &build;
  Value u, s, vh, ofU, ofS, ofVh;
  Size rows, columns, rank;
};

} // namespace

LogicalResult gradient_rules::SingularValues(Adjoint &a) {
  return SingularValuesRule(a).run();
}

/// A = Q R, of at least as many rows as columns:
/// (Q sym(triu(G_R R^T - Q^T G_Q)) + G_Q) R^-T
LogicalResult gradient_rules::OrthogonalFactor(Adjoint &a) {
  GradientBuilder &build = a.build;
  auto mode = dyn_cast_or_null<StringAttr>(a.constant(1));
  SmallVector<Size> sizes = tssa::getSizes(typeOf(a.tensor(0)));
  Size rows = sizes[sizes.size() - 2];
  bool isTall = rows.isConstant() && sizes.back().isConstant() &&
                rows.constant() >= sizes.back().constant();
  if (!mode || mode == "r" || !isTall ||
      (mode == "complete" && rows != sizes.back()))
    return a.refuse("a mode or shape other than that of a tall Q of "
                    "orthogonal columns");
  Value q = a.call.getResult(0), r = a.call.getResult(1);
  Value ofQ = a.gradient(0), ofR = a.gradient(1), inner;
  if (ofR)
    inner = product(build, ofR, transposed(build, r));
  if (ofQ) {
    Value other = product(build, transposed(build, q), ofQ);
    inner = inner ? build.subtract(inner, other) : build.negate(other);
  }
  inner = upper(build, inner, 0);
  inner = build.add(inner, transposed(build, upper(build, inner, 1)));
  Value gradient = addOptional(build, product(build, q, inner), ofQ);
  a.give(0, solveTriangular(build, transposed(build, r), gradient,
                            /*upper=*/false, /*left=*/false, false));
  return success();
}

//===----------------------------------------------------------------------===//
// P L U, and determinants
//===----------------------------------------------------------------------===//

/// The permutation that stands in front of L and U.
static Value permutationOf(GradientBuilder &build, Value factors,
                           Value pivots) {
  RankedTensorType type = typeOf(factors);
  Type element = type.getElementType();
  SmallVector<Size> sizes = tssa::getSizes(type);
  auto none = RankedTensorType::get({0}, element);
  return build.callAll(
      operators::aten::lu_unpack,
      {factors, pivots, build.boolean(false), build.boolean(true)},
      {rowMajorType(sizes, element), none, none})[0];
}

static Value timesUpper(GradientBuilder &build, Value value, Value factors) {
  return product(build, value, transposed(build, upper(build, factors, 0)));
}

/// L^T value, L being lower triangular with ones in its diagonal.
static Value timesLower(GradientBuilder &build, Value factors, Value value) {
  Value below = lower(build, factors, -1);
  return build.add(product(build, transposed(build, below), value), value);
}

/// The gradient of L U by those of L and U:
/// L^-T (tril(L^T G_L, -1) + triu(G_U U^T)) U^-T
static Value throughFactors(GradientBuilder &build, Value factors,
                            Value ofLower, Value ofUpper) {
  Value inner;
  if (ofLower)
    inner =
        lower(build, timesLower(build, factors, lower(build, ofLower, -1)), -1);
  if (ofUpper)
    inner = addOptional(
        build, inner,
        upper(build, timesUpper(build, upper(build, ofUpper, 0), factors), 0));
  Value turned = transposed(build, factors);
  inner = solveTriangular(build, turned, inner, /*upper=*/true, /*left=*/true,
                          /*hasUnits=*/true);
  return solveTriangular(build, turned, inner, /*upper=*/false,
                         /*left=*/false, /*hasUnits=*/false);
}

/// The gradient of the matrix whose factors these are.
static Value ofFactored(GradientBuilder &build, Value factors, Value pivots,
                        Value gradient) {
  return product(build, permutationOf(build, factors, pivots),
                 throughFactors(build, factors, gradient, gradient));
}

static Value solveFactors(GradientBuilder &build, Value factors, Value pivots,
                          Value right, bool adjoint) {
  return build.call(
      operators::aten::linalg_lu_solve,
      {factors, pivots, right, build.boolean(true), build.boolean(adjoint)},
      rowMajorType(tssa::getSizes(typeOf(right)),
                   typeOf(right).getElementType()));
}

LogicalResult gradient_rules::Factors(Adjoint &a) {
  if (!a.gradient())
    return success();
  if (!isSquare(a.tensor(0)) || !a.flag(1))
    return a.refuse("it is not square, or not pivoted");
  a.give(0, ofFactored(a.build, a.call.getResult(0), a.call.getResult(1),
                       a.gradient()));
  return success();
}

/// P, L and U as results of their own.
LogicalResult gradient_rules::SeparateFactors(Adjoint &a) {
  GradientBuilder &build = a.build;
  if (!isSquare(a.tensor(0)) || !a.flag(1))
    return a.refuse("it is not square, or not pivoted");
  Value permutation = a.call.getResult(0);
  Value factors = build.add(lower(build, a.call.getResult(1), -1),
                            Value(a.call.getResult(2)));
  a.give(0,
         product(build, permutation,
                 throughFactors(build, factors, a.gradient(1), a.gradient(2))));
  return success();
}

/// Nothing comes of the pivots.
LogicalResult gradient_rules::UnpackedFactors(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value ofLower = a.gradient(1), ofUpper = a.gradient(2);
  if (!ofLower && !ofUpper)
    return success();
  if (!isSquare(a.tensor(0)))
    return a.refuse("it is not square");
  if (ofLower)
    ofLower = lower(build, ofLower, -1);
  if (ofUpper)
    ofUpper = upper(build, ofUpper, 0);
  a.give(0, addOptional(build, ofLower, ofUpper));
  return success();
}

/// P L U X = B, or its transpose; by the factors, with R = -P^T B' X^T (and
/// -P^T X B'^T), U has triu(L^T R), L has tril(R U^T, -1).
LogicalResult gradient_rules::SolutionOfFactors(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value factors = a.tensor(0), pivots = a.tensor(1);
  Value result = a.call.getResult(0);
  bool adjoint = a.flag(4);
  if (!a.flag(3))
    return a.refuse("it solves from the right");
  Value gradient = solveFactors(build, factors, pivots, a.gradient(), !adjoint);
  if (a.wants(2))
    a.give(2, gradient);
  if (a.wants(0u)) {
    Value first = adjoint ? result : gradient;
    Value second = adjoint ? gradient : result;
    Value permutation = permutationOf(build, factors, pivots);
    Value inner = build.negate(
        product(build, product(build, transposed(build, permutation), first),
                transposed(build, second)));
    a.give(0, build.add(upper(build, timesLower(build, factors, inner), 0),
                        lower(build, timesUpper(build, inner, factors), -1)));
  }
  return success();
}

/// Eager factors the transpose of a matrix that lies row by row.
static bool liesInRows(RankedTensorType type) {
  SmallVector<Size> sizes = tssa::getSizes(type),
                    strides = tssa::getSymbolicStrides(type),
                    rows = tssa::getRowMajorStrides(sizes);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (!sizes[i].is(1) && strides[i] != rows[i])
      return false;
  return true;
}

/// `scale` A^-T, by its factors.
static LogicalResult ofDeterminant(Adjoint &a, Value scale, Value factors,
                                   Value pivots, Value ofFactors,
                                   bool perturbed) {
  GradientBuilder &build = a.build;
  RankedTensorType type = typeOf(a.tensor(0));
  bool turned = liesInRows(type);
  if (scale) {
    Value used = factors;
    if (perturbed) { // where it is singular
      const llvm::fltSemantics &semantics =
          cast<FloatType>(type.getElementType()).getFloatSemantics();
      double epsilon = std::ldexp(
          1.0, 1 - int(llvm::APFloat::semanticsPrecision(semantics)));
      Value diagonal = diagonalOf(build, factors);
      Value step =
          build.multiply(build.convert(build.equal(diagonal, build.wrapped(0)),
                                       type.getElementType()),
                         build.wrapped(epsilon));
      used = build.add(factors, diagonalMatrix(build, step));
    }
    SmallVector<Size> sizes = tssa::getSizes(type);
    sizes.pop_back();
    Value diagonal =
        build.expand(build.unsqueeze(scale, typeOf(scale).getRank()),
                     rowMajorType(sizes, type.getElementType()));
    a.give(0, solveFactors(build, used, pivots, diagonalMatrix(build, diagonal),
                           !turned));
  }
  if (ofFactors) {
    Value whole = ofFactored(build, factors, pivots, ofFactors);
    a.give(0, turned ? transposed(build, whole) : whole);
  }
  return success();
}

/// Of one without elements there is no gradient.
static bool hasNoElements(Value value) {
  return llvm::any_of(tssa::getSizes(typeOf(value)),
                      [](const Size &size) { return size.is(0); });
}

LogicalResult gradient_rules::Determinant(Adjoint &a) {
  Value scale;
  if (hasNoElements(a.tensor(0)))
    return success();
  if (a.gradient())
    scale = a.build.multiply(a.gradient(), Value(a.call.getResult(0)));
  return ofDeterminant(a, scale, a.call.getResult(1), a.call.getResult(2),
                       a.gradient(1), /*perturbed=*/true);
}

/// The sign's derivative is zero.
LogicalResult gradient_rules::LogDeterminant(Adjoint &a) {
  if (hasNoElements(a.tensor(0)))
    return success();
  Value scale = a.gradient(1);
  if (!scale && a.gradient(0))
    scale = a.build.multiply(a.gradient(0), a.build.wrapped(0));
  return ofDeterminant(a, scale, a.call.getResult(2), a.call.getResult(3),
                       a.gradient(2), /*perturbed=*/false);
}

//===----------------------------------------------------------------------===//
// Functions of matrices
//===----------------------------------------------------------------------===//

/// The upper right part of exp([[A^T, G], [0, A^T]]).
LogicalResult gradient_rules::MatrixExponential(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value matrix = transposed(build, a.tensor(0));
  RankedTensorType type = typeOf(matrix);
  SmallVector<Size> sizes = tssa::getSizes(type);
  Size size = sizes.back();
  if (!size.isConstant())
    return a.refuse("its size differs between calls");
  int64_t n = size.constant(), rank = type.getRank();
  sizes.back() = sizes[rank - 2] = Size(2 * n);
  RankedTensorType whole = rowMajorType(sizes, type.getElementType());
  auto place = [&](Value part, int64_t row, int64_t column) {
    return build.call(operators::aten::constant_pad_nd,
                      {build.layOut(part, tssa::getRowMajorType(typeOf(part))),
                       build.integers({column, n - column, row, n - row}),
                       build.number(0)},
                      whole);
  };
  Value blocks = build.add(build.add(place(matrix, 0, 0), place(matrix, n, n)),
                           place(a.gradient(), 0, n));
  Value power = build.call(operators::aten::linalg_matrix_exp, {blocks}, whole);
  a.give(0, build.slice(build.slice(power, rank - 2, 0, size), rank - 1, size,
                        size));
  return success();
}

LogicalResult gradient_rules::PseudoInverse(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value matrix = a.tensor(0), inverse = a.call.getResult(0);
  Value turned = transposed(build, inverse);
  Value gradient = transposed(build, a.gradient());
  SmallVector<Size> sizes = tssa::getSizes(typeOf(matrix));
  Size rows = sizes[sizes.size() - 2];
  if (!rows.isConstant() || !sizes.back().isConstant())
    return a.refuse("its sizes differ between calls");
  auto times = [&](Value x, Value y) { return product(build, x, y); };
  if (rows.constant() <= sizes.back().constant()) {
    Value k = times(gradient, inverse), kTurned = times(k, turned);
    Value sum = build.subtract(kTurned, transposed(build, times(inverse, k)));
    sum = build.subtract(sum, times(times(matrix, inverse), kTurned));
    a.give(0,
           build.add(sum, times(times(turned, inverse),
                                build.subtract(gradient, times(k, matrix)))));
  } else {
    Value k = times(inverse, gradient), turnedK = times(turned, k);
    Value sum = build.subtract(turnedK, transposed(build, times(k, inverse)));
    sum = build.subtract(sum, times(times(turnedK, inverse), matrix));
    a.give(0, build.add(sum,
                        times(times(build.subtract(gradient, times(matrix, k)),
                                    inverse),
                              turned)));
  }
  return success();
}
