//===- TensorNodes.h - which values of a graph are one tensor ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Node: one tensor object, named by its first value; in-place operators define
// further values (versions) of it. Group: nodes that share storage.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_TENSORNODES_H
#define PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_TENSORNODES_H

#include "dialects/refgraph/IR/RefGraph.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace pyjit::refgraph {

class TensorNodes {
public:
  /// Of one block; regions inside take part.
  explicit TensorNodes(mlir::Block &block);

  /// The tensor's first value.
  mlir::Value getNode(mlir::Value value) const {
    auto it = node.find(value);
    return it == node.end() ? value : it->second;
  }
  mlir::Value getGroup(mlir::Value value) const {
    value = getNode(value);
    for (auto it = parent.find(value); it != parent.end();
         it = parent.find(value))
      value = it->second;
    return value;
  }
  /// All nodes that share storage with `value`, in order.
  llvm::ArrayRef<mlir::Value> getMembers(mlir::Value value) const {
    auto it = members.find(getGroup(value));
    return it == members.end() ? llvm::ArrayRef<mlir::Value>()
                               : llvm::ArrayRef(it->second);
  }
  /// Operators that write to the group of `value`.
  llvm::ArrayRef<mlir::Operation *> getWriters(mlir::Value value) const {
    auto it = writers.find(getGroup(value));
    return it == writers.end() ? llvm::ArrayRef<mlir::Operation *>()
                               : llvm::ArrayRef(it->second);
  }

private:
  void add(mlir::Block &block);

  llvm::DenseMap<mlir::Value, mlir::Value> node, parent;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> members;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Operation *>> writers;
  llvm::SmallVector<mlir::Value> nodes;
};

/// The tensor that gradients of a view pass to; null where they end at the
/// view: it is none, was made where grad mode was off, or is of other numbers.
mlir::Value getGradientSource(mlir::Value view);

} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_TENSORNODES_H
