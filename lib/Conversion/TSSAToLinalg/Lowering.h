//===- Lowering.h - What the parts of the conversion share ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_CONVERSION_TSSATOLINALG_LOWERING_H
#define PYJIT_LIB_CONVERSION_TSSATOLINALG_LOWERING_H

#include "dialects/tssa/IR/TSSA.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "pyjit/Analysis/SizeExpr.h"

namespace pyjit {

/// A pointwise generic with an identity map for its result. `body` gets the
/// elements of `inputs`.
mlir::Value
makeMap(mlir::OpBuilder &b, mlir::Location loc, mlir::RankedTensorType type,
        mlir::ValueRange inputs, llvm::ArrayRef<mlir::AffineMap> maps,
        llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location,
                                       mlir::ValueRange)>
            body);

/// The value of an index expression in a generic's body. Its symbols are the
/// function's sizes.
mlir::Value emitIndex(mlir::OpBuilder &b, mlir::Location loc,
                      mlir::AffineExpr expr);

/// In such a body, the index `expr`, forced to one of `size` places: no size
/// that differs between calls is 0.
mlir::Value forcedIndex(mlir::OpBuilder &b, mlir::Location loc,
                        mlir::AffineExpr expr, const analysis::Size &size);

/// The value that `op` shows, as a generic that copies; null where its path has
/// numbers known at run time only.
mlir::Value lowerAccess(mlir::OpBuilder &b, tssa::AccessOp op,
                        mlir::Value source);

/// Null where no affine rule says which elements are replaced.
mlir::Value lowerAssign(mlir::OpBuilder &b, tssa::AssignOp op,
                        mlir::Value target, mlir::Value source);

/// The result of one call by its recipe, read from `shown`, what kernels see of
/// its operands; null with a reason where it stays with the library.
mlir::Value lowerRecipe(mlir::OpBuilder &b, mlir::Location loc,
                        llvm::StringRef overload, mlir::ArrayAttr args,
                        mlir::TypeRange operands, mlir::ValueRange shown,
                        mlir::RankedTensorType type, std::string &reason);

} // namespace pyjit

#endif
