//===- VersionAdvances.h - how far version counters go ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_VERSIONADVANCES_H
#define PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_VERSIONADVANCES_H

#include "dialects/refgraph/Transforms/TensorNodes.h"
#include "llvm/ADT/MapVector.h"

namespace pyjit::refgraph {

/// How far a version counter goes: as far as one of the arms takes it.
struct Advance {
  int64_t least = 0, most = 0;

  Advance operator+(Advance other) const {
    return {least + other.least, most + other.most};
  }
  /// Which arm runs is known on the device alone.
  Advance either(Advance other) const {
    return {std::min(least, other.least), std::max(most, other.most)};
  }
};

/// The tensors that version counters are named by: each memory's first, and
/// each `.data`.
class Counters {
public:
  explicit Counters(mlir::Block &block) : nodes(block) {
    block.walk([&](ShownOp shown) {
      if (shown.isData())
        data.insert(nodes.getNode(shown.getTensor()));
    });
  }
  mlir::Value getCounter(mlir::Value tensor) const {
    mlir::Value node = nodes.getNode(tensor);
    return data.contains(node) ? node : nodes.getGroup(tensor);
  }

private:
  TensorNodes nodes;
  llvm::DenseSet<mlir::Value> data;
};

/// Of each counter that `ops` says something of.
llvm::MapVector<mlir::Value, Advance>
sumAdvances(llvm::iterator_range<mlir::Block::iterator> ops,
            const Counters &counters);

} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_VERSIONADVANCES_H
