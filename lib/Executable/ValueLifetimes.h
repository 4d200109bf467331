//===- ValueLifetimes.h - How long values are needed ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_EXECUTABLE_VALUELIFETIMES_H
#define PYJIT_LIB_EXECUTABLE_VALUELIFETIMES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace pyjit::executable {

/// Positions of a function's ops in the order of the launch program, loops and
/// branches included, and the last one at which each value is needed.
class ValueLifetimes {
public:
  explicit ValueLifetimes(mlir::func::FuncOp function);

  /// Where an op begins; an op with regions ends behind their ops.
  int64_t begin(mlir::Operation *op) const { return begins.lookup(op); }
  int64_t end(mlir::Operation *op) const { return ends.lookup(op); }

  /// The position of the last op that needs the value, or the value under
  /// another name that shares its memory: a view, a number read from it, the
  /// result of a branch or of a `scf.while`. A value of a loop's outside that
  /// is needed inside is needed to the loop's end. -1: never.
  ///
  /// With `from`, an op: what only a way out of the body of a `scf.while`
  /// around `from` reaches does not count, since that way passes the loop's
  /// first region, which makes the value again.
  int64_t lastUse(mlir::Value value, mlir::Operation *from = nullptr);

  /// From now on the value is needed to the function's end.
  void keep(mlir::Value value) {
    kept.insert(value);
    known.clear();
  }

private:
  void number(mlir::Block &block);
  int64_t positionOf(mlir::Value value, mlir::OpOperand &use) const;

  int64_t next = 0;
  llvm::DenseMap<mlir::Operation *, int64_t> begins, ends;
  llvm::DenseMap<mlir::Value, int64_t> known; ///< without `from`
  llvm::DenseSet<mlir::Value> kept;
};

} // namespace pyjit::executable

#endif // PYJIT_LIB_EXECUTABLE_VALUELIFETIMES_H
