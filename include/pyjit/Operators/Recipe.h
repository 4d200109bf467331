//===- Recipe.h - how one call computes its result --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A recipe is one call's lowering, resolved: a list of steps, each a loop nest
// over an iteration space with one scalar expression, the last of which makes
// the result. Pointwise operators are one step; softmax is max, exp, sum, div.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_OPERATORS_RECIPE_H
#define PYJIT_OPERATORS_RECIPE_H

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeRange.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "llvm/ADT/SmallBitVector.h"

namespace pyjit::operators {

/// A tensor that a step reads.
struct StepInput {
  bool isStep;     ///< an earlier step's result, or one of the call's operands
  unsigned number; ///< which
  /// From the iteration index to the element's index: dims and constants 0.
  mlir::AffineMap map;
};

struct Step {
  llvm::SmallVector<int64_t> shape; ///< iteration space
  llvm::SmallVector<StepInput> inputs;
  ScalarExpr expr; ///< over `inputs`
  /// Empty: the result has the iteration space's shape. Else the dimensions
  /// (ascending) over which `combine` joins the values, starting from `init`;
  /// the result has the others, in order.
  llvm::SmallVector<unsigned> reducedDims;
  ScalarOp combine = ScalarOp::Add; ///< Add Mul Maximum Minimum BitOr BitAnd
  mlir::TypedAttr init;
  bool isReduction = false; ///< also where no dimension is reduced

  mlir::Type getElementType() const { return expr.front().type; }
  llvm::SmallVector<int64_t> getResultShape() const;
};

struct Recipe {
  /// In order. The last one's result has the call's result type, up to layout.
  llvm::SmallVector<Step, 1> steps;
};

/// Where a call is computed, as far as eager's answer depends on it.
struct CallPlace {
  /// torch.get_default_dtype(); null means f32.
  mlir::Type defaultFloat = {};
  /// Eager's roundings and conversions are those of a GPU.
  bool onDevice = false;
  /// The operands of a call on a device that are numbers on the host.
  llvm::SmallBitVector hostOperands = {};
};

/// The recipe of a call, or failure where the table has none for it (another
/// lowering, several results, complex types, arguments that its expression does
/// not cover): a vendor call then.
///
/// Sizes may be `?`, which is never 1. Two of them count as equal here: who
/// knows which ones are (the caller) has to check that a step's inputs agree.
llvm::FailureOr<Recipe> resolveRecipe(llvm::StringRef overload,
                                      mlir::ArrayAttr args,
                                      mlir::TypeRange operands,
                                      mlir::RankedTensorType result,
                                      const CallPlace &place = {});

void print(llvm::raw_ostream &os, const Recipe &recipe);

} // namespace pyjit::operators

#endif // PYJIT_OPERATORS_RECIPE_H
