//===- SizeExpr.cpp - Sizes that differ between calls ---------------------===//

#include "pyjit/Operators/SizeExpr.h"
#include "llvm/ADT/SmallVector.h"
#include <map>

using namespace mlir;

namespace pyjit::operators {
namespace {

/// Symbols of a product, ascending; its coefficient. Products of more symbols
/// come first, so that the constant is last.
using Monomial = llvm::SmallVector<unsigned, 4>;
struct Before {
  bool operator()(const Monomial &a, const Monomial &b) const {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  }
};
using Polynomial = std::map<Monomial, int64_t, Before>;

void addTerm(Polynomial &sum, const Monomial &monomial, int64_t factor) {
  int64_t &entry = sum[monomial];
  entry += factor;
  if (entry == 0)
    sum.erase(monomial);
}

Polynomial multiply(const Polynomial &a, const Polynomial &b) {
  Polynomial product;
  for (auto &[x, f] : a)
    for (auto &[y, g] : b) {
      Monomial both(x);
      both.append(y.begin(), y.end());
      llvm::sort(both);
      addTerm(product, both, f * g);
    }
  return product;
}

bool read(AffineExpr expr, Polynomial &polynomial) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    if (constant.getValue() != 0)
      polynomial[{}] = constant.getValue();
    return true;
  }
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
    polynomial[{symbol.getPosition()}] = 1;
    return true;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary || (expr.getKind() != AffineExprKind::Add &&
                  expr.getKind() != AffineExprKind::Mul))
    return false;
  Polynomial lhs, rhs;
  if (!read(binary.getLHS(), lhs) || !read(binary.getRHS(), rhs))
    return false;
  if (expr.getKind() == AffineExprKind::Mul) {
    polynomial = multiply(lhs, rhs);
    return true;
  }
  polynomial = std::move(lhs);
  for (auto &[monomial, factor] : rhs)
    addTerm(polynomial, monomial, factor);
  return true;
}

AffineExpr write(const Polynomial &polynomial, MLIRContext *context) {
  AffineExpr sum;
  for (auto &[monomial, factor] : polynomial) {
    AffineExpr term;
    for (unsigned symbol : monomial) {
      AffineExpr next = getAffineSymbolExpr(symbol, context);
      term = term ? term * next : next;
    }
    term = term ? term * factor : getAffineConstantExpr(factor, context);
    sum = sum ? sum + term : term;
  }
  return sum ? sum : getAffineConstantExpr(0, context);
}

/// Divides by repeatedly cancelling the leading term.
std::optional<Polynomial> divide(Polynomial a, const Polynomial &b) {
  Polynomial quotient;
  if (b.empty())
    return std::nullopt;
  auto &[lead, leadFactor] = *b.begin();
  while (!a.empty()) {
    auto [monomial, factor] = *a.begin();
    if (factor % leadFactor != 0)
      return std::nullopt;
    Monomial rest(monomial);
    for (unsigned symbol : lead) {
      auto *found = llvm::find(rest, symbol);
      if (found == rest.end())
        return std::nullopt;
      rest.erase(found);
    }
    int64_t ratio = factor / leadFactor;
    addTerm(quotient, rest, ratio);
    Polynomial part{{rest, -ratio}};
    for (auto &[m, f] : multiply(part, b))
      addTerm(a, m, f);
  }
  return quotient;
}

} // namespace

AffineExpr normalizeSize(AffineExpr expr) {
  Polynomial polynomial;
  if (!read(expr, polynomial))
    return {};
  return write(polynomial, expr.getContext());
}

std::optional<int64_t> getConstantSize(AffineExpr size) {
  if (auto constant = dyn_cast<AffineConstantExpr>(size))
    return constant.getValue();
  return std::nullopt;
}

AffineExpr divideSizes(AffineExpr a, AffineExpr b) {
  Polynomial dividend, divisor;
  if (!read(a, dividend) || !read(b, divisor))
    return {};
  std::optional<Polynomial> quotient = divide(dividend, divisor);
  return quotient ? write(*quotient, a.getContext()) : AffineExpr();
}

bool isKnownAtLeast(AffineExpr size, int64_t least) {
  Polynomial polynomial;
  if (!read(size, polynomial))
    return false;
  // With s = 2 + t and t >= 0, no coefficient that is negative leaves no way
  // down.
  Polynomial shifted;
  for (auto &[monomial, factor] : polynomial) {
    Polynomial term{{{}, factor}};
    for (unsigned symbol : monomial)
      term = multiply(term, {{{symbol}, 1}, {{}, 2}});
    for (auto &[m, f] : term)
      addTerm(shifted, m, f);
  }
  addTerm(shifted, {}, -least);
  return llvm::all_of(shifted, [](auto &term) { return term.second >= 0; });
}

int64_t estimateSize(AffineExpr size, int64_t symbol) {
  if (auto constant = dyn_cast<AffineConstantExpr>(size))
    return constant.getValue();
  auto binary = dyn_cast<AffineBinaryOpExpr>(size);
  if (!binary)
    return symbol;
  int64_t lhs = estimateSize(binary.getLHS(), symbol);
  int64_t rhs = estimateSize(binary.getRHS(), symbol);
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
  return expr ? operators::isKnownAtLeast(expr, least) : value >= least;
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

} // namespace pyjit::operators
