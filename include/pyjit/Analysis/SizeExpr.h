//===- SizeExpr.h - Sizes that differ between calls -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A symbolic size is a polynomial over the symbols s0, s1, … of a function:
// whole numbers of at least 2 that each call has values for. It is held as an
// affine expression without dims in one normal form (expanded, terms ordered),
// so that two sizes that are always equal are the same expression. Sizes that
// are not the same expression may still coincide in some call: nothing may
// follow from their being different but what `isKnownAtLeast` says.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_ANALYSIS_SIZEEXPR_H
#define PYJIT_ANALYSIS_SIZEEXPR_H

#include "mlir/IR/AffineExpr.h"
#include <cstdint>
#include <optional>

namespace pyjit::analysis {

/// The normal form; null where `expr` is no polynomial over symbols.
mlir::AffineExpr normalizeSize(mlir::AffineExpr expr);

/// The value of a size that is the same in every call.
std::optional<int64_t> getConstantSize(mlir::AffineExpr size);

/// a / b where b divides a for all values of the symbols; else null. Both in
/// normal form.
mlir::AffineExpr divideSizes(mlir::AffineExpr a, mlir::AffineExpr b);

/// Whether the size is at least `least` for all symbols of at least 2. False:
/// not known.
bool isKnownAtLeast(mlir::AffineExpr size, int64_t least);

/// The value where every symbol is `symbol`, and no less than 2, as sizes that
/// have symbols are. For costs, never for correctness.
int64_t estimateSize(mlir::AffineExpr size, int64_t symbol = 32);

/// One more than the highest symbol in `size`.
unsigned countSymbols(mlir::AffineExpr size);

/// A size: a number, or a polynomial that is not one. Arithmetic keeps the
/// normal form.
class Size {
public:
  Size(int64_t value = 0) : value(value) {}
  /// `expr` must be a polynomial over symbols.
  Size(mlir::AffineExpr expr);

  bool isConstant() const { return !expr; }
  /// The number; only where `isConstant`.
  int64_t constant() const { return value; }
  bool is(int64_t number) const { return !expr && value == number; }
  mlir::AffineExpr toExpr(mlir::MLIRContext *context) const;
  bool isKnownAtLeast(int64_t least) const;
  int64_t estimate() const { return expr ? estimateSize(expr) : value; }

  /// Equal in every call.
  bool operator==(const Size &other) const {
    return expr == other.expr && (expr || value == other.value);
  }
  bool operator!=(const Size &other) const { return !(*this == other); }
  Size operator+(const Size &other) const;
  Size operator-(const Size &other) const;
  Size operator*(const Size &other) const;
  Size &operator*=(const Size &other) { return *this = *this * other; }
  Size &operator+=(const Size &other) { return *this = *this + other; }
  /// Nothing where `other` does not divide it in every call.
  std::optional<Size> dividedBy(const Size &other) const;

private:
  int64_t value = 0;
  mlir::AffineExpr expr; ///< null for a number
};

/// Whether a and b are equal in every call (true) or in none (false); nothing
/// where that depends on the call.
std::optional<bool> compareSizes(const Size &a, const Size &b);

} // namespace pyjit::analysis

#endif // PYJIT_ANALYSIS_SIZEEXPR_H
