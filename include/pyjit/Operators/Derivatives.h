//===- Derivatives.h - how gradients reach operands -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The column of derivatives, generated from lib/Operators/Derivatives.td by
// pyjit-tblgen: for an overload and one of its operands an expression of ATen
// calls. lib/Differentiation makes operations of it.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_OPERATORS_DERIVATIVES_H
#define PYJIT_OPERATORS_DERIVATIVES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace pyjit::operators {

/// Nodes of a derivative's expression, in prefix order.
enum class DerivativeOp : uint8_t {
  // leaves
  Gradient, ///< of the call's first result
  Result,   ///< the call's, number `index`
  Argument, ///< argument `index` of the call: a tensor, or anything else
  Local,    ///< what the Let of this `index` named
  Integer,  ///< `number`
  Real,     ///< `number`
  Flag,     ///< `index`: 0 or 1
  None,
  Text,  ///< `text`
  Sizes, ///< of the tensor at argument `index`; `number`: the last so many
  // others
  Call,     ///< of the overload `text`, with `index` arguments: the children
  Backward, ///< likewise; the result has the operand's type
  Let,      ///< children: a value, the expression in which it is `index`
  IfNone,   ///< whether argument `index` is none: first child, else second
  IfTrue,   ///< whether it is true
  IfNumber, ///< whether it is `number`
  IfString, ///< whether it is `text`
  IfComplex ///< whether it is a tensor of complex numbers
};

struct DerivativeNode {
  DerivativeOp op;
  uint8_t index;
  double number;
  const char *text;
};

struct Derivative {
  llvm::StringRef overload;
  uint8_t operand; ///< a schema argument
  llvm::ArrayRef<DerivativeNode> expression;
};

/// Of an overload ("aten::mul.Tensor"), in the order of its operands; empty
/// where no expression says it.
llvm::ArrayRef<Derivative> lookupDerivatives(llvm::StringRef overload);
/// All, sorted by overload.
llvm::ArrayRef<Derivative> getDerivatives();

/// Whether gradients pass a call of this overload, by expressions, a rule
/// (GradientRule), as a view, or as the functional form of an in-place one.
/// Not all arguments may be covered: lib/Differentiation refuses then.
/// `ofComplex`: whether those of complex numbers do.
bool isDifferentiable(llvm::StringRef overload, bool ofComplex);

} // namespace pyjit::operators

#endif // PYJIT_OPERATORS_DERIVATIVES_H
