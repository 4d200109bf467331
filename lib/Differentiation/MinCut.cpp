//===- MinCut.cpp - Minimum cuts of flow networks -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "MinCut.h"

#include <algorithm>

using namespace pyjit::differentiation;

void FlowNetwork::addEdge(unsigned from, unsigned to, int64_t capacity) {
  nodes[from].push_back({to, unsigned(nodes[to].size()), capacity});
  nodes[to].push_back({from, unsigned(nodes[from].size()) - 1, 0});
}

/// Distances from the source along edges with capacity left. False: the sink is
/// out of reach.
bool FlowNetwork::layOut() {
  level.assign(nodes.size(), -1);
  level[kSource] = 0;
  std::vector<unsigned> queue{kSource};
  for (size_t i = 0; i < queue.size(); ++i)
    for (const Edge &edge : nodes[queue[i]])
      if (edge.left > 0 && level[edge.to] < 0) {
        level[edge.to] = level[queue[i]] + 1;
        queue.push_back(edge.to);
      }
  return level[kSink] >= 0;
}

/// Sends up to `flow` on from `node`; the search keeps its own stack, for
/// programs are thousands of operations deep.
int64_t FlowNetwork::push(unsigned node, int64_t flow) {
  std::vector<Edge *> path;
  while (node != kSink) {
    std::vector<Edge> &edges = nodes[node];
    while (next[node] < edges.size() &&
           !(edges[next[node]].left > 0 &&
             level[edges[next[node]].to] == level[node] + 1))
      ++next[node];
    if (next[node] < edges.size()) {
      path.push_back(&edges[next[node]]);
      node = path.back()->to;
      continue;
    }
    if (path.empty())
      return 0;
    // A dead end: go on with the next edge of the node before.
    Edge *last = path.back();
    path.pop_back();
    node = nodes[last->to][last->back].to;
    ++next[node];
  }
  for (Edge *edge : path)
    flow = std::min(flow, edge->left);
  for (Edge *edge : path) {
    edge->left -= flow;
    nodes[edge->to][edge->back].left += flow;
  }
  return flow;
}

std::vector<bool> FlowNetwork::cut() {
  while (layOut()) {
    next.assign(nodes.size(), 0);
    while (push(kSource, kUnlimited))
      ;
  }
  std::vector<bool> reached(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    reached[i] = level[i] >= 0;
  return reached;
}
