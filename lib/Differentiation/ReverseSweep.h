// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- ReverseSweep.h - Gradients by going through a block backwards -*- C++
//-*-===//

#ifndef PYJIT_LIB_DIFFERENTIATION_REVERSESWEEP_H
#define PYJIT_LIB_DIFFERENTIATION_REVERSESWEEP_H

#include "GradientBuilder.h"

#include "dialects/tssa/IR/TSSA.h"

#include "llvm/ADT/DenseSet.h"

namespace pyjit::differentiation {

/// Reverse mode over the operations in front of one: gradients come in for
/// values (`give`), go through each operation from the last to the first, and
/// are there for the inputs in the end. What is built stands in front of `end`,
/// too, behind all that was there before.
class ReverseSweep {
public:
  ReverseSweep(mlir::Operation *end) : end(end), builder(end) {}

  /// Values whose gradients are asked for.
  void findActive(mlir::ValueRange inputs);
  bool isActive(mlir::Value value) const { return active.contains(value); }
  /// A gradient of the value, beside those that it has.
  void give(mlir::Value value, mlir::Value gradient);
  /// Where the sweep comes to the value, the sum of its gradients so far gets
  /// the attribute `pyjit.gradient_at`, unless it is what one `give` gave.
  void mark(mlir::Value value, int64_t result) { marked[value] = result; }
  /// Fails at an operation on the way that cannot be differentiated, which it
  /// names in an error.
  llvm::LogicalResult run();
  /// The input's gradient, laid out as its value is; null if nothing that got a
  /// gradient depends on it.
  mlir::Value gradientOf(mlir::Value input);
  /// When the input's gradient was complete: the visit that added to it last,
  /// and its place in that. Eager's engine goes from what was computed last to
  /// what was computed first, too.
  std::pair<unsigned, unsigned> completedAt(mlir::Value input) const {
    return completed.lookup(input);
  }
  /// Whether any of the values is computed from the input, be it by way of
  /// something that has no derivative (the mask of a relu). Eager's gradient is
  /// zero then, where there is no other way.
  static bool reaches(mlir::Value input, mlir::ValueRange values);
  /// Whether the operation's results depend on its operands as far as
  /// gradients go.
  static bool letsPass(mlir::Operation *op);

private:
  llvm::LogicalResult visit(mlir::Operation *op);
  llvm::LogicalResult pass(tssa::AtenOp op);
  llvm::LogicalResult pass(tssa::AccessOp op);
  llvm::LogicalResult pass(tssa::AssignOp op);
  mlir::Value showThrough(tssa::AccessOp op, mlir::Value gradient);
  mlir::Value undo(GradientBuilder &build, tssa::ViewAttr view,
                   mlir::ValueRange indices, mlir::RankedTensorType from,
                   mlir::RankedTensorType shown, mlir::Value gradient);

  mlir::Operation *end;
  mlir::OpBuilder builder;
  llvm::DenseSet<mlir::Value> active;
  llvm::DenseMap<mlir::Value, mlir::Value> gradients;
  llvm::DenseMap<mlir::Value, int64_t> marked;
  llvm::DenseMap<mlir::Value, std::pair<unsigned, unsigned>> completed;
  mlir::Operation *visited = nullptr; ///< null before the sweep
  unsigned visits = 0;
  bool hasFailed = false; ///< something could not be built; an error has told
};

} // namespace pyjit::differentiation

#endif // PYJIT_LIB_DIFFERENTIATION_REVERSESWEEP_H
