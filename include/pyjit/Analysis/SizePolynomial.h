// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- SizePolynomial.h - Sizes computed from sizes -------------------*- C++
//-*-===//
//
// The one implementation of polynomials over symbols. Here is the form that
// sizes are computed and solved for in: symbols are substituted, and values put
// in for them. SizeExpr.h has the form that types and attributes hold, unique
// in its context.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_ANALYSIS_SIZEPOLYNOMIAL_H
#define PYJIT_ANALYSIS_SIZEPOLYNOMIAL_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <map>
#include <optional>
#include <vector>

namespace pyjit::analysis {

class SizePolynomial {
public:
  /// A product of symbols: their numbers, in order, repeated for powers.
  using Monomial = std::vector<unsigned>;
  /// Products of more symbols come first, so that the constant is last.
  struct Before {
    bool operator()(const Monomial &a, const Monomial &b) const {
      return a.size() != b.size() ? a.size() > b.size() : a < b;
    }
  };
  using Terms = std::map<Monomial, int64_t, Before>;

  SizePolynomial() = default;
  SizePolynomial(int64_t constant) { add({}, constant); }
  static SizePolynomial symbol(unsigned number);

  std::optional<int64_t> getConstant() const;
  bool isConstant() const { return getConstant().has_value(); }
  /// The symbol that this expression is.
  std::optional<unsigned> getSymbol() const;
  const Terms &getTerms() const { return terms; }
  /// Calls `fn` for each symbol that occurs.
  void walkSymbols(llvm::function_ref<void(unsigned)> fn) const;
  bool contains(unsigned symbol) const;

  SizePolynomial operator+(const SizePolynomial &other) const;
  SizePolynomial operator-(const SizePolynomial &other) const;
  SizePolynomial operator*(const SizePolynomial &other) const;
  bool operator==(const SizePolynomial &other) const {
    return terms == other.terms;
  }
  bool operator!=(const SizePolynomial &other) const {
    return !(*this == other);
  }

  /// The quotient, if it is an expression: no remainder for any sizes.
  std::optional<SizePolynomial> divide(const SizePolynomial &by) const;
  SizePolynomial substitute(unsigned symbol, const SizePolynomial &by) const;
  int64_t evaluate(llvm::ArrayRef<int64_t> symbols) const;
  /// A bound that holds for all symbols of at least 2, if one is seen.
  std::optional<int64_t> getLowerBound() const;

  /// In normal form: expanded, terms in their order.
  mlir::AffineExpr toAffine(mlir::MLIRContext *context) const;
  /// Nothing for dimensions and divisions.
  static std::optional<SizePolynomial> fromAffine(mlir::AffineExpr expr);

private:
  void add(const Monomial &monomial, int64_t factor);

  Terms terms;
};

using SizePolynomials = llvm::SmallVector<SizePolynomial, 4>;

/// `[s0 * 2, 64]`; the expressions need not be canonical in the text.
mlir::ParseResult parseSizes(mlir::AsmParser &parser, SizePolynomials &sizes);
void printSizes(llvm::raw_ostream &os, llvm::ArrayRef<SizePolynomial> sizes,
                mlir::MLIRContext *context);

} // namespace pyjit::analysis

#endif // PYJIT_ANALYSIS_SIZEPOLYNOMIAL_H
