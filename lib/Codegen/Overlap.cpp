//===- Overlap.cpp - Results that lie where operands do -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/Overlap.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace pyjit::codegen {

namespace {

/// In which stage a kernel reads an operand for the last time.
class LastRead {
public:
  LastRead(const KernelGraph &graph, unsigned buffer)
      : graph(graph), buffer(buffer), reduced(graph.dims.size()) {
    for (auto [d, dim] : llvm::enumerate(graph.dims))
      if (dim.reduction)
        reduced.set(d);
  }

  /// The stage in which `store` is made; that behind the last one for what is
  /// known once per row.
  unsigned stageOf(const Store &store) const {
    return store.dims.anyCommon(reduced) ? store.node->stage : graph.numStages;
  }

  /// Values are computed anew in each stage that asks for them; a sum is known
  /// from then on.
  unsigned compute() {
    unsigned last = 0;
    for (auto &node : graph.nodes) {
      if (node->kind != Node::Kind::Reduce)
        continue;
      unsigned stage = node->inputs[0]->stage;
      if (reads(node->inputs[0]))
        last = std::max(last, stage);
      if (reads(node->init))
        last = std::max(last, stage + 1);
    }
    for (const Store &store : graph.stores)
      if (reads(store.node))
        last = std::max(last, stageOf(store));
    return last;
  }

private:
  bool reads(const Node *node) {
    if (!node || node->kind == Node::Kind::Reduce)
      return false;
    if (node->kind == Node::Kind::Load)
      return node->buffer == buffer;
    auto [it, isNew] = known.try_emplace(node, false);
    if (!isNew)
      return it->second;
    bool found =
        llvm::any_of(node->inputs, [&](Node *input) { return reads(input); });
    return known[node] = found;
  }

  const KernelGraph &graph;
  unsigned buffer;
  llvm::SmallBitVector reduced;
  DenseMap<const Node *, bool> known;
};

} // namespace

bool mayOverlap(const KernelGraph &graph, Value operand, unsigned number,
                unsigned result, std::string &reason) {
  const Store &store = graph.stores[result];
  for (Operation *user : operand.getUsers())
    if (isa<tensor::ExtractOp>(user)) {
      reason = "the kernel reads it at indices that are data";
      return false;
    }
  for (auto &node : graph.nodes)
    if (node->kind == Node::Kind::Load && node->buffer == number &&
        node->offset != store.offset) {
      reason = "the kernel reads other elements of it than it writes";
      return false;
    }
  LastRead last(graph, number);
  if (last.compute() > last.stageOf(store)) {
    reason = "the kernel reads it again after it has written it";
    return false;
  }
  return true;
}

} // namespace pyjit::codegen
