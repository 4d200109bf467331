//===- SizeSolver.cpp - What the symbols of sizes stand for ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Analysis/SizeSolver.h"

#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace pyjit::analysis;

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

unsigned SizeSolver::addSymbol(int64_t value) {
  unsigned symbol = values.size();
  values.push_back(value);
  if (value < 2 || fixesAll)
    replaced[symbol] = SizePolynomial(value);
  if (fixesAll && !fixesAll->empty())
    reasons[symbol] = *fixesAll;
  return symbol;
}

void SizeSolver::fixAll(std::string why) { fixesAll = std::move(why); }

const SizeSolver::Quotient *SizeSolver::getQuotient(unsigned symbol) const {
  auto found = quotients.find(symbol);
  return found == quotients.end() ? nullptr : &found->second;
}

const SizePolynomial *SizeSolver::getReplacement(unsigned symbol) const {
  auto found = replaced.find(symbol);
  return found == replaced.end() ? nullptr : &found->second;
}

const std::string *SizeSolver::getReason(unsigned symbol) const {
  auto found = reasons.find(symbol);
  return found == reasons.end() ? nullptr : &found->second;
}

SizePolynomial SizeSolver::resolve(SizePolynomial size) const {
  for (auto &[symbol, by] : replaced)
    if (size.contains(symbol))
      size = size.substitute(symbol, by);
  return size;
}

void SizeSolver::replace(unsigned symbol, SizePolynomial by) {
  if (by.isConstant())
    if (std::string why = reason(); !why.empty())
      reasons.try_emplace(symbol, std::move(why));
  for (auto &entry : replaced)
    entry.second = entry.second.substitute(symbol, by);
  replaced[symbol] = std::move(by);
  changed = true;
}

void SizeSolver::fix(const SizePolynomial &size) {
  resolve(size).walkSymbols([&](unsigned symbol) {
    replace(symbol, SizePolynomial(values[symbol]));
  });
}

void SizeSolver::restart() {
  changed = false;
  notNegative.clear();
  different.clear();
  used.clear();
}

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

/// The symbols of one that the other has not.
static llvm::SmallVector<unsigned> ownSymbols(const SizePolynomial &size,
                                              const SizePolynomial &other) {
  llvm::SmallVector<unsigned> own;
  size.walkSymbols([&](unsigned symbol) {
    if (!other.contains(symbol) && !llvm::is_contained(own, symbol))
      own.push_back(symbol);
  });
  return own;
}

/// Two expressions that are the same but for the names of their symbols,
/// `(a - 1) * b` and `(c - 1) * d`: they are equal if their symbols are, where
/// these were equal one by one.
bool SizeSolver::equateAlike(const SizePolynomial &a, const SizePolynomial &b) {
  constexpr size_t most = 4;
  llvm::SmallVector<unsigned> of = ownSymbols(a, b), others = ownSymbols(b, a);
  if (of.empty() || of.size() != others.size() || of.size() > most)
    return false;
  // Each of `of` in turn, for the first `n` of the others.
  auto match = [&](auto &&self, size_t n, const SizePolynomial &now) -> bool {
    if (n == others.size())
      return now == a;
    for (size_t i = n; i < of.size(); ++i) {
      if (values[of[i]] != values[others[n]])
        continue;
      std::swap(of[n], of[i]);
      if (self(self, n + 1,
               now.substitute(others[n], SizePolynomial::symbol(of[n]))))
        return true;
      std::swap(of[n], of[i]);
    }
    return false;
  };
  if (!match(match, 0, b))
    return false;
  for (auto [x, y] : llvm::zip_equal(of, others))
    requireEqual(SizePolynomial::symbol(x), SizePolynomial::symbol(y));
  return true;
}

/// Two products of as many sizes, `a * b - c * d`: they are equal if their
/// factors are. Where these were not equal one by one, all keep their values.
bool SizeSolver::equateFactors(const SizePolynomial &rest) {
  auto terms = llvm::to_vector(rest.getTerms());
  auto lhs = terms.front().first, rhs = terms.back().first;
  auto byValue = [&](unsigned a, unsigned b) { return values[a] < values[b]; };
  llvm::stable_sort(lhs, byValue);
  llvm::stable_sort(rhs, byValue);
  if (terms.size() != 2 || terms.front().second + terms.back().second != 0 ||
      lhs.size() != rhs.size() ||
      !llvm::all_of(llvm::zip_equal(lhs, rhs), [&](auto pair) {
        return values[std::get<0>(pair)] == values[std::get<1>(pair)];
      })) {
    fix(rest);
    return true;
  }
  for (auto [a, b] : llvm::zip_equal(lhs, rhs))
    requireEqual(SizePolynomial::symbol(a), SizePolynomial::symbol(b));
  return true;
}

bool SizeSolver::requireEqual(const SizePolynomial &a,
                              const SizePolynomial &b) {
  SizePolynomial rest = resolve(a) - resolve(b);
  if (evaluate(rest) != 0)
    return false;
  if (rest == SizePolynomial(0))
    return true;
  // What all terms are multiples of is not zero.
  while (true) {
    std::optional<unsigned> common;
    rest.walkSymbols([&](unsigned symbol) {
      if (llvm::all_of(rest.getTerms(), [&](auto &term) {
            return llvm::is_contained(term.first, symbol);
          }))
        common = symbol;
    });
    if (!common)
      break;
    rest = *rest.divide(SizePolynomial::symbol(*common));
  }
  // The latest symbol that is alone with a factor that divides all others.
  int64_t divisor = 0;
  for (auto &[monomial, factor] : rest.getTerms())
    divisor = std::gcd(divisor, factor);
  std::optional<unsigned> found;
  int64_t sign = 1;
  for (auto &[monomial, factor] : rest.getTerms()) {
    if (monomial.size() != 1 || std::abs(factor) != divisor)
      continue;
    unsigned symbol = monomial.front();
    unsigned uses = llvm::count_if(rest.getTerms(), [&](auto &term) {
      return llvm::is_contained(term.first, symbol);
    });
    if (uses == 1 && (!found || symbol > *found)) {
      found = symbol;
      sign = factor / divisor;
    }
  }
  if (!found)
    return equateAlike(resolve(a), resolve(b)) || equateFactors(rest);
  SizePolynomial others = *rest.divide(divisor) -
                          SizePolynomial(sign) * SizePolynomial::symbol(*found);
  replace(*found, SizePolynomial(-sign) * others);
  return true;
}

bool SizeSolver::requireNotNegative(const SizePolynomial &size) {
  SizePolynomial resolved = resolve(size);
  if (evaluate(resolved) < 0)
    return false;
  if (resolved.getLowerBound().value_or(-1) < 0)
    notNegative.push_back(resolved);
  return true;
}

bool SizeSolver::requireDifferent(const SizePolynomial &a,
                                  const SizePolynomial &b) {
  SizePolynomial rest = resolve(a) - resolve(b);
  if (evaluate(rest) == 0)
    return false;
  if (!rest.isConstant() && rest.getLowerBound().value_or(0) < 1 &&
      (SizePolynomial(0) - rest).getLowerBound().value_or(0) < 1)
    different.push_back({resolve(a), resolve(b)});
  return true;
}

bool SizeSolver::requireRecorded(const SizePolynomial &size) {
  SizePolynomial resolved = resolve(size);
  resolved.walkSymbols([&](unsigned symbol) {
    // One that an earlier symbol was computed from is a constant by now.
    if (!resolve(SizePolynomial::symbol(symbol)).isConstant())
      replace(symbol, SizePolynomial(values[symbol]));
    if (const Quotient *quotient = getQuotient(symbol))
      requireRecorded(SizePolynomial(quotient->numerator));
  });
  return true;
}

//===----------------------------------------------------------------------===//
// Quotients
//===----------------------------------------------------------------------===//

static int64_t floorDiv(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && a < 0);
}

/// In one form: what divides is taken out, so that the rest is the least one,
/// its first factor is positive, and all of it is divided by what it has in
/// common with the divisor. `mayFix`: a quotient of 0 or 1 will do, which the
/// guards compare.
std::optional<SizePolynomial>
SizeSolver::floorDivide(const SizePolynomial &size, int64_t by, bool mayFix) {
  constexpr unsigned limit = 24; // each one is computed in each call
  SizePolynomial whole = 0, rest = resolve(size);
  auto take = [&](const SizePolynomial::Monomial &monomial, int64_t times) {
    SizePolynomial term = times;
    for (unsigned symbol : monomial)
      term = term * SizePolynomial::symbol(symbol);
    whole = whole + term;
    rest = rest - term * by;
  };
  SizePolynomial given = rest;
  for (auto &[monomial, factor] : given.getTerms())
    if (!monomial.empty()) {
      int64_t times = (2 * std::abs(factor) + by - 1) / (2 * by);
      take(monomial, factor < 0 ? -times : times);
    }
  int64_t sign = 1;
  if (!rest.isConstant() && rest.getTerms().begin()->second < 0) {
    // -floor(-(rest) / by), rounded the other way.
    sign = -1;
    rest = SizePolynomial(by - 1) - rest;
  }
  SizePolynomial before = whole;
  whole = 0;
  int64_t common = by, constant = 0;
  for (auto &[monomial, factor] : rest.getTerms())
    if (monomial.empty())
      constant = factor;
    else
      common = std::gcd(common, factor);
  take({}, floorDiv(constant, by));
  if (auto number = rest.getConstant())
    return before + SizePolynomial(sign) * (whole + floorDiv(*number, by));
  constant -= floorDiv(constant, by) * by;
  rest = *(rest - constant).divide(common) + floorDiv(constant, common);
  by /= common;
  if (by != 1) {
    if (quotients.size() >= limit ||
        (!mayFix && floorDiv(evaluate(rest), by) < 2))
      return std::nullopt;
    rest = addQuotient(rest, by);
  }
  return before + SizePolynomial(sign) * (whole + rest);
}

SizePolynomial SizeSolver::addQuotient(const SizePolynomial &numerator,
                                       int64_t divisor) {
  for (auto &[symbol, quotient] : quotients)
    if (quotient.numerator == numerator && quotient.divisor == divisor) {
      used.insert(symbol);
      return resolve(SizePolynomial::symbol(symbol));
    }
  unsigned symbol = addSymbol(floorDiv(evaluate(numerator), divisor));
  quotients.insert({symbol, {numerator, divisor}});
  used.insert(symbol);
  return resolve(SizePolynomial::symbol(symbol));
}
