//===- SizeExpr.cpp - Sizes that differ between calls ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Analysis/SizeExpr.h"
#include "pyjit/Analysis/SizePolynomial.h"

#include <algorithm>

using namespace mlir;

namespace pyjit::analysis {

AffineExpr normalizeSize(AffineExpr expr) {
  auto polynomial = SizePolynomial::fromAffine(expr);
  return polynomial ? polynomial->toAffine(expr.getContext()) : AffineExpr();
}

std::optional<int64_t> getConstantSize(AffineExpr size) {
  if (auto constant = dyn_cast<AffineConstantExpr>(size))
    return constant.getValue();
  return std::nullopt;
}

AffineExpr divideSizes(AffineExpr a, AffineExpr b) {
  auto dividend = SizePolynomial::fromAffine(a),
       divisor = SizePolynomial::fromAffine(b);
  if (!dividend || !divisor)
    return {};
  auto quotient = dividend->divide(*divisor);
  return quotient ? quotient->toAffine(a.getContext()) : AffineExpr();
}

bool isKnownAtLeast(AffineExpr size, int64_t least) {
  auto polynomial = SizePolynomial::fromAffine(size);
  auto bound = polynomial ? polynomial->getLowerBound() : std::nullopt;
  return bound && *bound >= least;
}

static int64_t evaluate(AffineExpr size, int64_t symbol) {
  if (auto constant = dyn_cast<AffineConstantExpr>(size))
    return constant.getValue();
  auto binary = dyn_cast<AffineBinaryOpExpr>(size);
  if (!binary)
    return symbol;
  int64_t lhs = evaluate(binary.getLHS(), symbol);
  int64_t rhs = evaluate(binary.getRHS(), symbol);
  switch (size.getKind()) {
  case AffineExprKind::Add:
    return lhs + rhs;
  case AffineExprKind::Mul:
    return lhs * rhs;
  case AffineExprKind::FloorDiv:
    return rhs > 0 ? lhs / rhs : 0;
  case AffineExprKind::CeilDiv:
    return rhs > 0 ? (lhs + rhs - 1) / rhs : 0;
  default:
    return rhs > 0 ? lhs % rhs : 0;
  }
}

int64_t estimateSize(AffineExpr size, int64_t symbol) {
  int64_t value = evaluate(size, symbol);
  // The size says `20 - s0` of symbols that are smaller than the guess.
  return isa<AffineConstantExpr>(size) ? value : std::max<int64_t>(value, 2);
}

unsigned countSymbols(AffineExpr size) {
  unsigned count = 0;
  size.walk([&](AffineExpr part) {
    if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
      count = std::max(count, symbol.getPosition() + 1);
  });
  return count;
}

Size::Size(AffineExpr given) {
  AffineExpr normal = normalizeSize(given);
  assert(normal && "a size is a polynomial over symbols");
  if (std::optional<int64_t> number = getConstantSize(normal))
    value = *number;
  else
    expr = normal;
}

AffineExpr Size::toExpr(MLIRContext *context) const {
  return expr ? expr : getAffineConstantExpr(value, context);
}

bool Size::isKnownAtLeast(int64_t least) const {
  return expr ? analysis::isKnownAtLeast(expr, least) : value >= least;
}

static MLIRContext *contextOf(AffineExpr a, AffineExpr b) {
  return (a ? a : b).getContext();
}

Size Size::operator+(const Size &other) const {
  if (!expr && !other.expr)
    return value + other.value;
  MLIRContext *context = contextOf(expr, other.expr);
  return Size(toExpr(context) + other.toExpr(context));
}

Size Size::operator-(const Size &other) const {
  return *this + other * Size(-1);
}

Size Size::operator*(const Size &other) const {
  if (!expr && !other.expr)
    return value * other.value;
  MLIRContext *context = contextOf(expr, other.expr);
  return Size(toExpr(context) * other.toExpr(context));
}

std::optional<Size> Size::dividedBy(const Size &other) const {
  if (!expr && !other.expr) {
    if (other.value == 0 || value % other.value != 0)
      return std::nullopt;
    return Size(value / other.value);
  }
  MLIRContext *context = contextOf(expr, other.expr);
  AffineExpr quotient = divideSizes(toExpr(context), other.toExpr(context));
  if (!quotient)
    return std::nullopt;
  return Size(quotient);
}

std::optional<bool> compareSizes(const Size &a, const Size &b) {
  if (a == b)
    return true;
  if (a.isConstant() && b.isConstant())
    return false;
  Size difference = a - b;
  if (difference.isKnownAtLeast(1) || (b - a).isKnownAtLeast(1))
    return false;
  return std::nullopt;
}

} // namespace pyjit::analysis
