//===- SizeMatrices.cpp - Sizes of factorizations and of transforms -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/SizeRules.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

using Shapes = std::optional<SymbolicShapes>;

//===----------------------------------------------------------------------===//
// Matrices in the last two dimensions
//===----------------------------------------------------------------------===//

/// The first operand, as a batch of matrices.
static const SymbolicShape *firstMatrices(const SizeCall &c) {
  auto tensors = c.allTensors();
  return !tensors.empty() && tensors[0]->rank() >= 2 ? tensors[0] : nullptr;
}

/// What is not asked for is an empty vector (`compute_uv` of False).
static bool isLeftOut(const SizeCall &c, unsigned result) {
  return c.resultType(result).getShape() == ArrayRef<int64_t>{0};
}

/// What square matrices `a` come with: matrices of their size, a number for
/// each row (eigenvalues, pivots), or one for each matrix (a determinant, how
/// it went).
static std::optional<SymbolicShape>
ofSquare(const SizeCall &c, const SymbolicShape &a, unsigned result) {
  if (isLeftOut(c, result))
    return fresh({SizePolynomial(0)});
  unsigned fewer = a.rank() - c.resultType(result).getRank();
  if (fewer > 2)
    return std::nullopt;
  return fresh(SizePolynomials(ArrayRef(a.sizes).drop_back(fewer)));
}

/// Of the results from number `first` on; false if one is something else.
static bool addOfSquare(const SizeCall &c, const SymbolicShape &a,
                        unsigned first, SymbolicShapes &shapes) {
  for (unsigned r = first; r < c.op.getNumFresh(); ++r) {
    std::optional<SymbolicShape> shape = ofSquare(c, a, r);
    if (!shape)
      return false;
    shapes.push_back(*shape);
  }
  return true;
}

static bool isSquare(const SizeCall &c, const SymbolicShape &a) {
  return c.facts.requireEqual(a.sizes[a.rank() - 2], a.sizes.back());
}

Shapes size_rules::squares(const SizeCall &c) {
  const SymbolicShape *a = firstMatrices(c);
  if (!a || !isSquare(c, *a))
    return std::nullopt;
  SymbolicShapes shapes;
  return addOfSquare(c, *a, 0, shapes) ? Shapes(shapes) : std::nullopt;
}

/// The first result has the right side's sizes, others are of the matrix.
static Shapes solution(const SizeCall &c, const SymbolicShape *a,
                       const SymbolicShape *b) {
  // Of the same rank, so that the second holds no batch of vectors.
  if (!a || !b || a->rank() < 2 || a->rank() != b->rank() || !isSquare(c, *a))
    return std::nullopt;
  for (unsigned i = 0; i + 2 < a->rank(); ++i)
    if (!c.facts.requireEqual(a->sizes[i], b->sizes[i]))
      return std::nullopt;
  bool left = c.isNone("left") || c.isTrue("left");
  if (!c.facts.requireEqual(a->sizes.back(), b->sizes[b->rank() - 1 - left]))
    return std::nullopt;
  SymbolicShapes shapes{fresh(b->sizes)};
  return addOfSquare(c, *a, 1, shapes) ? Shapes(shapes) : std::nullopt;
}

Shapes size_rules::solve(const SizeCall &c) {
  return solution(c, c.tensor("A"), c.tensor("B"));
}
Shapes size_rules::solveTriangular(const SizeCall &c) {
  return solution(c, c.tensor(), c.tensor("B"));
}
Shapes size_rules::choleskySolve(const SizeCall &c) {
  return solution(c, c.tensor("input2"), c.tensor());
}

/// The lesser of rows and columns, which stays the lesser one.
static std::optional<SizePolynomial> shorterSide(const SizeCall &c,
                                                 const SymbolicShape &a) {
  const SizePolynomial &rows = a.sizes[a.rank() - 2], &columns = a.sizes.back();
  bool wide = c.facts.evaluate(rows) <= c.facts.evaluate(columns);
  if (!c.facts.requireNotNegative(wide ? columns - rows : rows - columns))
    return std::nullopt;
  return wide ? rows : columns;
}

/// A batch of `a`'s with other matrices, or vectors.
static SymbolicShape withLast(const SymbolicShape &a,
                              std::initializer_list<SizePolynomial> last) {
  SizePolynomials sizes(ArrayRef(a.sizes).drop_back(2));
  sizes.append(last.begin(), last.end());
  return fresh(sizes);
}

Shapes size_rules::qr(const SizeCall &c) {
  const SymbolicShape *a = firstMatrices(c);
  if (!a || c.op.getNumFresh() != 2)
    return std::nullopt;
  std::optional<SizePolynomial> shorter = shorterSide(c, *a);
  if (!shorter)
    return std::nullopt;
  const SizePolynomial &rows = a->sizes[a->rank() - 2];
  SizePolynomial inner = c.text("mode") == "complete" ? rows : *shorter;
  SymbolicShape q = isLeftOut(c, 0) ? fresh({SizePolynomial(0)})
                                    : withLast(*a, {rows, inner});
  return SymbolicShapes{q, withLast(*a, {inner, a->sizes.back()})};
}

Shapes size_rules::singularValues(const SizeCall &c) {
  const SymbolicShape *a = firstMatrices(c);
  if (!a || c.op.getNumFresh() != 3)
    return std::nullopt;
  std::optional<SizePolynomial> shorter = shorterSide(c, *a);
  if (!shorter)
    return std::nullopt;
  const SizePolynomial &rows = a->sizes[a->rank() - 2],
                       &columns = a->sizes.back();
  bool full = c.isTrue("full_matrices");
  SymbolicShape u = withLast(*a, {rows, full ? rows : *shorter}),
                vh = withLast(*a, {full ? columns : *shorter, columns});
  return SymbolicShapes{isLeftOut(c, 0) ? fresh({SizePolynomial(0)}) : u,
                        withLast(*a, {*shorter}),
                        isLeftOut(c, 2) ? fresh({SizePolynomial(0)}) : vh};
}

/// Each pair of rows that are not one.
Shapes size_rules::pairs(const SizeCall &c) {
  const SymbolicShape *rows = c.tensor();
  if (!rows || rows->rank() != 2)
    return std::nullopt;
  const SizePolynomial &count = rows->sizes[0];
  auto pairs = c.facts.floorDivide(count * (count - 1), 2);
  return pairs ? Shapes(allResults(c, {*pairs})) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Fourier transforms
//===----------------------------------------------------------------------===//

/// Of the last one of its dimensions real numbers have half as many
/// coefficients, and one.
Shapes size_rules::transform(const SizeCall &c) {
  const SymbolicShape *x = c.tensor();
  auto dims = c.integers("dim");
  if (!x || !dims || dims->empty() || c.op.getNumFresh() != 1)
    return std::nullopt;
  int64_t last = dims->back();
  last = last < 0 ? last + x->rank() : last;
  if (last < 0 || last >= static_cast<int64_t>(x->rank()))
    return std::nullopt;
  SizePolynomials sizes = x->sizes;
  SizePolynomial &size = sizes[last];
  if (auto real = c.size("last_dim_size")) {
    auto half = c.facts.floorDivide(*real, 2);
    if (!half || !c.facts.requireEqual(*half + 1, size))
      return std::nullopt;
    size = *real;
  } else if (c.isTrue("onesided")) {
    auto half = c.facts.floorDivide(size, 2);
    if (!half)
      return std::nullopt;
    size = *half + 1;
  }
  return allResults(c, sizes);
}
