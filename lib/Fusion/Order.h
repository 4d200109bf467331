//===- Order.h - The order of a block's operations --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_FUSION_ORDER_H
#define PYJIT_LIB_FUSION_ORDER_H

#include "mlir/IR/Block.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace pyjit::fusion {

/// The first operation has to stand in front of the second.
using Edge = std::pair<mlir::Operation *, mlir::Operation *>;

struct OrderRules {
  llvm::ArrayRef<Edge> edges = {};
  /// Those of `late` stand behind all of `early` (null: there are none).
  llvm::function_ref<bool(mlir::Operation *)> early = nullptr, late = nullptr;
};

/// The operations of a block but its terminator, each behind what it needs,
/// stable, with everything that has side effects in its old order, and nothing
/// in front of a speculation that stood behind it. Nothing where the rules
/// contradict one another.
std::optional<llvm::SmallVector<mlir::Operation *>>
orderBlock(mlir::Block &block, const OrderRules &rules = {});

/// Puts a block's operations into an order that `orderBlock` gave.
void applyOrder(mlir::Block &block, llvm::ArrayRef<mlir::Operation *> order);

} // namespace pyjit::fusion

#endif // PYJIT_LIB_FUSION_ORDER_H
