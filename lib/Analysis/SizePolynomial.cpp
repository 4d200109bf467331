//===- SizePolynomial.cpp - Sizes computed from sizes ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Analysis/SizePolynomial.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace pyjit::analysis {

void SizePolynomial::add(const Monomial &monomial, int64_t factor) {
  int64_t &sum = terms[monomial];
  sum += factor;
  if (sum == 0)
    terms.erase(monomial);
}

SizePolynomial SizePolynomial::symbol(unsigned number) {
  SizePolynomial result;
  result.add({number}, 1);
  return result;
}

std::optional<int64_t> SizePolynomial::getConstant() const {
  if (terms.empty())
    return 0;
  if (terms.size() == 1 && terms.begin()->first.empty())
    return terms.begin()->second;
  return std::nullopt;
}

std::optional<unsigned> SizePolynomial::getSymbol() const {
  if (terms.size() == 1 && terms.begin()->first.size() == 1 &&
      terms.begin()->second == 1)
    return terms.begin()->first.front();
  return std::nullopt;
}

void SizePolynomial::walkSymbols(llvm::function_ref<void(unsigned)> fn) const {
  std::set<unsigned> seen;
  for (auto &[monomial, factor] : terms)
    for (unsigned symbol : monomial)
      if (seen.insert(symbol).second)
        fn(symbol);
}

bool SizePolynomial::contains(unsigned symbol) const {
  return llvm::any_of(terms, [&](auto &term) {
    return llvm::is_contained(term.first, symbol);
  });
}

SizePolynomial SizePolynomial::operator+(const SizePolynomial &other) const {
  SizePolynomial result = *this;
  for (auto &[monomial, factor] : other.terms)
    result.add(monomial, factor);
  return result;
}

SizePolynomial SizePolynomial::operator-(const SizePolynomial &other) const {
  SizePolynomial result = *this;
  for (auto &[monomial, factor] : other.terms)
    result.add(monomial, -factor);
  return result;
}

SizePolynomial SizePolynomial::operator*(const SizePolynomial &other) const {
  SizePolynomial result;
  for (auto &[a, x] : terms)
    for (auto &[b, y] : other.terms) {
      Monomial product;
      std::merge(a.begin(), a.end(), b.begin(), b.end(),
                 std::back_inserter(product));
      result.add(product, x * y);
    }
  return result;
}

/// Cancels the leading term until nothing is left: each step leaves terms that
/// come later.
std::optional<SizePolynomial>
SizePolynomial::divide(const SizePolynomial &by) const {
  if (by.terms.empty())
    return std::nullopt;
  SizePolynomial rest = *this, quotient;
  const auto &[lead, factor] = *by.terms.begin();
  while (!rest.terms.empty()) {
    const auto &[monomial, top] = *rest.terms.begin();
    if (top % factor != 0 || !std::includes(monomial.begin(), monomial.end(),
                                            lead.begin(), lead.end()))
      return std::nullopt;
    SizePolynomial term;
    Monomial left;
    std::set_difference(monomial.begin(), monomial.end(), lead.begin(),
                        lead.end(), std::back_inserter(left));
    term.add(left, top / factor);
    quotient = quotient + term;
    rest = rest - term * by;
  }
  return quotient;
}

SizePolynomial SizePolynomial::substitute(unsigned symbol,
                                          const SizePolynomial &by) const {
  SizePolynomial result;
  for (auto &[monomial, factor] : terms) {
    SizePolynomial product(factor);
    for (unsigned part : monomial)
      product = product * (part == symbol ? by : SizePolynomial::symbol(part));
    result = result + product;
  }
  return result;
}

int64_t SizePolynomial::evaluate(ArrayRef<int64_t> symbols) const {
  int64_t sum = 0;
  for (auto &[monomial, factor] : terms) {
    int64_t product = factor;
    for (unsigned symbol : monomial)
      product *= symbols[symbol];
    sum += product;
  }
  return sum;
}

/// Each symbol is 2 and something that is not negative.
std::optional<int64_t> SizePolynomial::getLowerBound() const {
  SizePolynomial moved = *this;
  walkSymbols([&](unsigned symbol) {
    moved = moved.substitute(symbol, SizePolynomial::symbol(symbol) + 2);
  });
  int64_t bound = 0;
  for (auto &[monomial, factor] : moved.terms) {
    if (monomial.empty())
      bound = factor;
    else if (factor < 0)
      return std::nullopt;
  }
  return bound;
}

AffineExpr SizePolynomial::toAffine(MLIRContext *context) const {
  AffineExpr sum;
  for (auto &[monomial, factor] : terms) {
    AffineExpr product;
    for (unsigned symbol : monomial) {
      AffineExpr next = getAffineSymbolExpr(symbol, context);
      product = product ? product * next : next;
    }
    product =
        product ? product * factor : getAffineConstantExpr(factor, context);
    sum = sum ? sum + product : product;
  }
  return sum ? sum : getAffineConstantExpr(0, context);
}

std::optional<SizePolynomial> SizePolynomial::fromAffine(AffineExpr expr) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return SizePolynomial(constant.getValue());
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return SizePolynomial::symbol(symbol.getPosition());
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return std::nullopt;
  auto lhs = fromAffine(binary.getLHS()), rhs = fromAffine(binary.getRHS());
  if (!lhs || !rhs)
    return std::nullopt;
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return *lhs + *rhs;
  case AffineExprKind::Mul:
    return *lhs * *rhs;
  default:
    return std::nullopt;
  }
}

ParseResult parseSizes(AsmParser &parser, SizePolynomials &sizes) {
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Square, [&]() -> ParseResult {
        int64_t number;
        OptionalParseResult constant = parser.parseOptionalInteger(number);
        if (constant.has_value()) {
          sizes.push_back(SizePolynomial(number));
          return *constant;
        }
        MLIRContext *context = parser.getContext();
        SmallVector<std::pair<std::string, AffineExpr>> names;
        for (unsigned i = 0; i < 64; ++i)
          names.emplace_back("s" + std::to_string(i),
                             getAffineSymbolExpr(i, context));
        SmallVector<std::pair<StringRef, AffineExpr>> symbols(names.begin(),
                                                              names.end());
        AffineExpr expr;
        SMLoc loc = parser.getCurrentLocation();
        if (parser.parseAffineExpr(symbols, expr))
          return failure();
        auto size = SizePolynomial::fromAffine(expr);
        if (!size)
          return parser.emitError(loc, "expected sums and products of "
                                       "symbols and constants");
        sizes.push_back(*size);
        return success();
      });
}

void printSizes(raw_ostream &os, ArrayRef<SizePolynomial> sizes,
                MLIRContext *context) {
  os << "[";
  llvm::interleaveComma(sizes, os, [&](const SizePolynomial &size) {
    if (auto constant = size.getConstant())
      os << *constant;
    else
      size.toAffine(context).print(os);
  });
  os << "]";
}

} // namespace pyjit::analysis
