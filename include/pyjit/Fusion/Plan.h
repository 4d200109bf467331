//===- Plan.h - Which operations share a kernel -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A fusion plan is data: groups of linalg operations of one block, each of
// which one kernel can compute. It is made by asking the code generator's own
// analysis (KernelGraph) whether a group is a kernel, verified on its own, and
// carried out by a rewrite that decides nothing.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_FUSION_PLAN_H
#define PYJIT_FUSION_PLAN_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/SetVector.h"
#include <string>

namespace pyjit::fusion {

struct Group {
  /// In block order: the operations that the kernel computes, and views that it
  /// reads through. A view may be in several groups, any other operation is in
  /// one that does not compute it again.
  llvm::SmallVector<mlir::Operation *, 8> ops;
  /// Those of `ops` that another group has as well: cheaper to compute again
  /// than to read.
  llvm::SmallVector<mlir::Operation *, 2> again;
  /// Values from outside, constants excepted; and values that others need.
  llvm::SmallVector<mlir::Value, 8> inputs;
  llvm::SmallVector<mlir::Value, 2> results;
};

struct Plan {
  mlir::Block *block = nullptr;
  llvm::SmallVector<Group> groups;

  void print(llvm::raw_ostream &os) const;
};

struct PlanOptions {
  /// Operations in a group; bounds the time that planning takes.
  unsigned maxGroupSize = 48;
  /// Buffers of a kernel.
  unsigned maxBuffers = 24;
  /// What a value may cost that several kernels compute instead of reading it:
  /// scalar additions for an element, transcendental functions 16 of them.
  unsigned maxRecomputeCost = 12;
  /// Whether no kernel that reduces stores an input's new contents: where such
  /// kernels do not write in place, the contents would have to be copied.
  bool updatesApart = false;
  /// Whether few queries' softmax between two sums of products is one kernel
  /// (pyjit/Codegen/Attention.h).
  bool attention = false;
};

/// Whether `op` only shows its operand in another way: no kernel of its own as
/// long as its users can read through it.
bool isView(mlir::Operation *op);
/// Whether `op` is a constant, a fill or an empty tensor: part of every group
/// that uses it.
bool isFree(mlir::Operation *op);
/// Whether `op` runs before and behind the same operations with effects as it
/// did.
bool keepsItsPlace(mlir::Operation *op);

Plan makePlan(mlir::Block &block, const PlanOptions &options = {});

/// Every linalg operation is in a group, each group is a kernel, and the groups
/// can be put in an order. Reports the first violation.
llvm::LogicalResult verify(const Plan &plan);

} // namespace pyjit::fusion

#endif
