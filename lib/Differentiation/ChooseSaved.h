//===- ChooseSaved.h - What a forward program saves -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_DIFFERENTIATION_CHOOSESAVED_H
#define PYJIT_LIB_DIFFERENTIATION_CHOOSESAVED_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace pyjit::differentiation {

/// A program that computes a function's results and gradients of its inputs.
struct JointProgram {
  mlir::func::FuncOp joint;
  mlir::Block &block = joint.front();
  /// The arguments that are gradients of results.
  llvm::SmallVector<mlir::BlockArgument> gradients = {};
  unsigned numInputs = 0, numResults = 0;
  /// Behind the results, views of results and inputs, which have gradients.
  unsigned numViews = 0;
  /// What cannot be computed before the gradients are there, and what the
  /// results that are shown depend on; neither: what only gradients need.
  llvm::SmallPtrSet<mlir::Operation *, 32> isBackward = {}, isForward = {};

  mlir::func::ReturnOp returned() const {
    return mlir::cast<mlir::func::ReturnOp>(block.getTerminator());
  }
  mlir::ValueRange shownResults() const {
    return mlir::ValueRange(returned().getOperands()).take_front(numResults);
  }
  mlir::ValueRange gradientResults() const {
    return mlir::ValueRange(returned().getOperands())
        .drop_front(numResults + numViews);
  }
  bool isBeforeGradients(mlir::Value value) const;
  /// Values from outside that an operation and its regions read.
  static void forEachOperand(mlir::Operation *op,
                             llvm::function_ref<void(mlir::Value)> visit);
};

/// The values that the backward program is given, and the operations that it
/// repeats to have others.
using SavedChoice = std::pair<llvm::SetVector<mlir::Value>,
                              llvm::SmallPtrSet<mlir::Operation *, 32>>;

/// By a minimum cut over bytes moved. Inputs and results are saved only where a
/// derivative reads them, as eager's nodes do: somebody may write them before
/// the backward comes. So what the forward program computes of them is saved,
/// or computed again of something that is; what only a derivative computes of
/// them is computed in the backward program.
SavedChoice chooseSaved(const JointProgram &program);

} // namespace pyjit::differentiation

#endif // PYJIT_LIB_DIFFERENTIATION_CHOOSESAVED_H
