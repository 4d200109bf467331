//===- GenericBody.h - A generic's body as straight-line code ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emitters see a linalg.generic as scalar operations on its operands' elements.
// On lanes, each becomes the same operation on vectors.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CODEGEN_GENERICBODY_H
#define PYJIT_CODEGEN_GENERICBODY_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"
#include <functional>

namespace pyjit::codegen {

/// Body values that are known, by the operation's result or block argument.
using BodyValues = llvm::DenseMap<mlir::Value, mlir::Value>;

/// What a target knows that the body does not.
struct BodyHooks {
  /// The element of operand `number`.
  std::function<mlir::Value(unsigned number)> input;
  /// The position along loop `dim`, an i64.
  std::function<mlir::Value(unsigned dim)> position;
  /// An element at computed positions, which are known already.
  std::function<mlir::Value(mlir::tensor::ExtractOp, BodyValues &)> extract;
  /// An operation that the target writes in its own way; null: as it stands.
  /// `width` is 1, or the number of lanes where an operand has them.
  std::function<mlir::Value(
      mlir::Operation *, llvm::ArrayRef<mlir::Value> operands, unsigned width)>
      instead;
  unsigned lanes = 1;
};

/// A scalar type on `width` lanes.
mlir::Type laneType(mlir::Type scalar, unsigned width);

/// A scalar on `width` lanes; a vector stays as it is.
mlir::Value broadcast(mlir::OpBuilder &b, mlir::Location loc,
                      mlir::Value scalar, unsigned width);

/// What memory holds of an element type: a signless integer, and a byte for a
/// bool.
mlir::Type memoryType(mlir::Type element);
/// An element, or lanes of them, as memory holds them; and back. For i1 that is
/// a byte, in which anything but 0 is true.
mlir::Value toMemory(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value);
mlir::Value fromMemory(mlir::OpBuilder &b, mlir::Location loc, mlir::Value raw,
                       mlir::Type element);

/// Applies a reduction's combiner to two values, of lanes or not.
mlir::Value combine(mlir::OpBuilder &b, mlir::Location loc,
                    mlir::Operation *combiner, mlir::Value x, mlir::Value y);

/// The body operations that `value` needs, in order, and the block arguments.
void bodySlice(mlir::Value value, mlir::Block *body,
               llvm::SetVector<mlir::Operation *> &ops,
               llvm::SmallBitVector &arguments);

/// `element`, a value of the body or a constant outside of it, at the builder's
/// insertion point and the generic's location. Indices are i64, unsigned
/// integers signless.
mlir::Value emitBody(mlir::ImplicitLocOpBuilder &b, mlir::linalg::GenericOp op,
                     mlir::Value element, const BodyHooks &hooks);

} // namespace pyjit::codegen

#endif // PYJIT_CODEGEN_GENERICBODY_H
