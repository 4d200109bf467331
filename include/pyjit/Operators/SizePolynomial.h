//===- SizePolynomial.h - Sizes computed from sizes -------------------*- C++
//-*-===//
//
// A size in the form that sizes are solved for in: symbols are substituted, and
// values put in for them. SizeExpr.h has the form that is written in types.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_OPERATORS_SIZEPOLYNOMIAL_H
#define PYJIT_OPERATORS_SIZEPOLYNOMIAL_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <map>
#include <optional>
#include <vector>

namespace pyjit::operators {

class SizePolynomial {
public:
  /// A product of symbols: their numbers, in order, repeated for powers.
  using Monomial = std::vector<unsigned>;

  SizePolynomial() = default;
  SizePolynomial(int64_t constant) { add({}, constant); }
  static SizePolynomial symbol(unsigned number);

  std::optional<int64_t> getConstant() const;
  bool isConstant() const { return getConstant().has_value(); }
  /// The symbol that this expression is.
  std::optional<unsigned> getSymbol() const;
  const std::map<Monomial, int64_t> &getTerms() const { return terms; }
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

  mlir::AffineExpr toAffine(mlir::MLIRContext *context) const;
  /// Nothing for dimensions and divisions.
  static std::optional<SizePolynomial> fromAffine(mlir::AffineExpr expr);

private:
  void add(const Monomial &monomial, int64_t factor);

  std::map<Monomial, int64_t> terms;
};

using SizePolynomials = llvm::SmallVector<SizePolynomial, 4>;

/// `[s0 * 2, 64]`; the expressions need not be canonical in the text.
mlir::ParseResult parseSizes(mlir::AsmParser &parser, SizePolynomials &sizes);
void printSizes(llvm::raw_ostream &os, llvm::ArrayRef<SizePolynomial> sizes,
                mlir::MLIRContext *context);

} // namespace pyjit::operators

#endif // PYJIT_OPERATORS_SIZEPOLYNOMIAL_H
