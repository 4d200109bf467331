//===- MinCut.h - Minimum cuts of flow networks -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_DIFFERENTIATION_MINCUT_H
#define PYJIT_LIB_DIFFERENTIATION_MINCUT_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyjit::differentiation {

/// A flow network. Dinic's algorithm (1970): shortest augmenting paths in
/// layers, O(V^2 E) at worst.
class FlowNetwork {
public:
  static constexpr int64_t kUnlimited = int64_t(1) << 60;

  /// Nodes 0 (the source) and 1 (the sink) are there.
  FlowNetwork() : nodes(2) {}
  unsigned addNode() {
    nodes.emplace_back();
    return unsigned(nodes.size()) - 1;
  }
  void addEdge(unsigned from, unsigned to, int64_t capacity);

  static constexpr unsigned kSource = 0, kSink = 1;

  /// For each node whether it is on the source's side of a cut of least
  /// capacity: the one nearest to the source.
  std::vector<bool> cut();

private:
  struct Edge {
    unsigned to, back; ///< `back`: the number of the reverse edge, at `to`
    int64_t left;
  };
  bool layOut();
  int64_t push(unsigned node, int64_t flow);

  std::vector<std::vector<Edge>> nodes;
  std::vector<int> level;
  std::vector<std::size_t> next;
};

} // namespace pyjit::differentiation

#endif // PYJIT_LIB_DIFFERENTIATION_MINCUT_H
