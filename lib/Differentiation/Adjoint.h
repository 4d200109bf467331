//===- Adjoint.h - The gradients of one call's operands ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_DIFFERENTIATION_ADJOINT_H
#define PYJIT_LIB_DIFFERENTIATION_ADJOINT_H

#include "GradientBuilder.h"

#include "pyjit/Operators/Derivatives.h"

namespace pyjit::differentiation {

/// One call of the forward program, as the reverse sweep comes by it: hands the
/// gradients of its results to its operands.
class Adjoint {
public:
  /// `wants` says of an operand whether anybody asks for its gradient, `give`
  /// takes a gradient of the operand's shape and element type.
  Adjoint(tssa::AtenOp call, mlir::OpBuilder &builder,
          llvm::ArrayRef<mlir::Value> gradients,
          llvm::function_ref<bool(mlir::Value)> wants,
          llvm::function_ref<void(mlir::Value, mlir::Value)> give)
      : call(call), build(builder, call.getLoc()), gradients(gradients),
        wantsValue(wants), giveValue(give) {}

  /// By the table's expressions, or by the overload's rule. Tells what has no
  /// derivative.
  llvm::LogicalResult run();

  tssa::AtenOp call;
  GradientBuilder build;

  /// Of a result; null where nothing that counts depends on it.
  mlir::Value gradient(unsigned result = 0) const {
    return result < gradients.size() ? gradients[result] : mlir::Value();
  }
  /// The tensor at schema argument `index`, or null.
  mlir::Value tensor(unsigned index) const {
    return tssa::tensorArgument(call, index);
  }
  mlir::Attribute constant(unsigned index) const {
    return tssa::constantArgument(call, index);
  }
  /// The dimension that a constant names, from the front. No derivative comes
  /// of one that is none.
  int64_t dimension(mlir::Attribute given, int64_t rank);
  /// The dimensions that schema argument `index` names, from the front, in
  /// ascending order: one, a list; none or []: all of `rank`.
  llvm::SmallVector<int64_t> dimensions(unsigned index, int64_t rank);
  std::optional<double> number(unsigned index) const {
    return tssa::numberArgument(call, index);
  }
  bool flag(unsigned index) const;
  /// The number at schema argument `index` as an operand of arithmetic, whether
  /// or not it differs between calls.
  Argument factor(unsigned index) const;
  mlir::Value times(mlir::Value value, unsigned index);
  /// Whether gradients come in by the first result alone.
  bool isOfFirst() const {
    return gradients[0] && llvm::none_of(gradients.drop_front(),
                                         [](mlir::Value v) { return bool(v); });
  }
  /// A reduction's result, or its gradient, with these dimensions as ones.
  mlir::Value keepDims(mlir::Value value, llvm::ArrayRef<int64_t> dims);
  /// Whether a gradient of schema argument `index` is asked for.
  bool wants(unsigned index) const {
    mlir::Value operand = tensor(index);
    return operand && wantsValue(operand);
  }
  bool wants(mlir::Value operand) const { return wantsValue(operand); }
  /// Sums and converts the gradient to the operand's shape and element type.
  void give(mlir::Value operand, mlir::Value gradient) {
    gradient = build.sumTo(gradient, tssa::typeOf(operand));
    if (!build.hasFailed())
      giveValue(operand, gradient);
  }
  void give(unsigned index, mlir::Value gradient) {
    give(tensor(index), gradient);
  }
  llvm::LogicalResult refuse(const llvm::Twine &why) {
    return call.emitError("cannot be differentiated: ") << why;
  }

private:
  llvm::LogicalResult applyRule(llvm::StringRef overload);
  llvm::LogicalResult
  applyExpressions(llvm::ArrayRef<operators::Derivative> derivatives);

  bool isOutside = false; ///< it names a dimension that there is not
  llvm::ArrayRef<mlir::Value> gradients;
  llvm::function_ref<bool(mlir::Value)> wantsValue;
  llvm::function_ref<void(mlir::Value, mlir::Value)> giveValue;
};

/// Rules for operators that no expression describes (GradientRule of
/// Derivatives.td).
namespace gradient_rules {
#define PYJIT_GRADIENT_RULE(Name, name) llvm::LogicalResult Name(Adjoint &);
#include "pyjit-c/OperatorFacts.h.inc"
} // namespace gradient_rules

} // namespace pyjit::differentiation

#endif // PYJIT_LIB_DIFFERENTIATION_ADJOINT_H
