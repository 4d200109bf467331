//===- SizeSolver.h - What the symbols of sizes stand for -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program was run once with sizes that may be others in the next call: each
// is a symbol with the value that it had. Whoever goes through the program asks
// for facts (two expressions are equal, one is no less than zero), and the
// solver answers by the recorded values:
//
// - An equation that the recorded values fulfil is solved for one of its
//   symbols, which is replaced for good. One that cannot be solved fixes its
//   symbols to their values: in doubt a size keeps its value, and why is
//   remembered.
// - An inequality that does not hold for all symbols of at least 2 is a
//   condition, which calls have to check.
// - What is rounded is no polynomial: a quotient is a symbol of its own. Two
//   quotients that are always equal are one symbol.
//
// Whoever asks must start again when a symbol was replaced (`restart`), since
// what was inferred before has it.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_ANALYSIS_SIZESOLVER_H
#define PYJIT_ANALYSIS_SIZESOLVER_H

#include "pyjit/Analysis/SizePolynomial.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include <functional>
#include <string>
#include <utility>

namespace pyjit::analysis {

class SizeSolver {
public:
  /// `reason` says why a symbol keeps its value, where one is fixed now; empty
  /// where that need not be said.
  explicit SizeSolver(std::function<std::string()> reason)
      : reason(std::move(reason)) {}

  /// A sum of at least one symbol and of nothing that divides out, rounded
  /// down. In the symbols of when it was first met: replaced ones have a number
  /// all the same.
  struct Quotient {
    SizePolynomial numerator;
    int64_t divisor;
  };

  //===--- Symbols, numbered in the order in which they were met
  /// A new one. One and zero decide about broadcasting and layouts: such a
  /// symbol keeps its value.
  unsigned addSymbol(int64_t value);
  unsigned getNumSymbols() const { return values.size(); }
  int64_t getValue(unsigned symbol) const { return values[symbol]; }
  /// The quotient that a symbol is, or null.
  const Quotient *getQuotient(unsigned symbol) const;
  /// What a symbol was replaced by, or null.
  const SizePolynomial *getReplacement(unsigned symbol) const;
  /// Why a symbol keeps its value, or null.
  const std::string *getReason(unsigned symbol) const;
  /// All symbols that are made from now on keep their values.
  void fixAll(std::string why);

  //===--- Expressions
  /// With what symbols were replaced by.
  SizePolynomial resolve(SizePolynomial size) const;
  /// In the recorded run.
  int64_t evaluate(const SizePolynomial &size) const {
    return size.evaluate(values);
  }
  /// `size / by`, rounded down; `by` is positive. Nothing where there are too
  /// many quotients. `mayFix`: a quotient of 0 or 1 will do, which calls
  /// compare.
  std::optional<SizePolynomial> floorDivide(const SizePolynomial &size,
                                            int64_t by, bool mayFix = true);

  //===--- Facts: false where the recorded run says otherwise
  bool requireEqual(const SizePolynomial &a, const SizePolynomial &b);
  bool requireNotNegative(const SizePolynomial &size);
  bool requireDifferent(const SizePolynomial &a, const SizePolynomial &b);
  /// It keeps its value, and so does what it was computed from.
  bool requireRecorded(const SizePolynomial &size);
  /// All symbols in it keep their values.
  void fix(const SizePolynomial &size);

  //===--- One way through the program
  /// Whether a symbol was replaced since `restart`.
  bool hasChanged() const { return changed; }
  /// Forgets the conditions.
  void restart();
  llvm::ArrayRef<SizePolynomial> getNotNegative() const { return notNegative; }
  llvm::ArrayRef<std::pair<SizePolynomial, SizePolynomial>>
  getDifferent() const {
    return different;
  }
  /// Whether something relies on a quotient.
  bool isUsed(unsigned quotient) const { return used.contains(quotient); }

private:
  void replace(unsigned symbol, SizePolynomial by);
  bool equateAlike(const SizePolynomial &a, const SizePolynomial &b);
  bool equateFactors(const SizePolynomial &rest);
  SizePolynomial addQuotient(const SizePolynomial &numerator, int64_t divisor);

  std::function<std::string()> reason;
  llvm::SmallVector<int64_t> values;
  llvm::MapVector<unsigned, Quotient> quotients;      ///< by symbol
  llvm::MapVector<unsigned, SizePolynomial> replaced; ///< resolved
  llvm::DenseMap<unsigned, std::string> reasons;
  std::optional<std::string> fixesAll; ///< why
  bool changed = false;
  llvm::SmallVector<SizePolynomial> notNegative;
  llvm::SmallVector<std::pair<SizePolynomial, SizePolynomial>> different;
  llvm::DenseSet<unsigned> used;
};

} // namespace pyjit::analysis

#endif // PYJIT_ANALYSIS_SIZESOLVER_H
