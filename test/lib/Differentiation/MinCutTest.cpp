//===- MinCutTest.cpp - Minimum cuts --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "lib/Differentiation/MinCut.h"

#include <gtest/gtest.h>

#include <random>

using pyjit::differentiation::FlowNetwork;

namespace {

struct Edge {
  unsigned from, to;
  int64_t capacity;
};

int64_t capacityOf(const std::vector<Edge> &edges,
                   const std::vector<bool> &onSourceSide) {
  int64_t sum = 0;
  for (const Edge &edge : edges)
    if (onSourceSide[edge.from] && !onSourceSide[edge.to])
      sum += edge.capacity;
  return sum;
}

std::vector<bool> cutOf(unsigned nodes, const std::vector<Edge> &edges) {
  FlowNetwork network;
  while (--nodes > 1)
    network.addNode();
  for (const Edge &edge : edges)
    network.addEdge(edge.from, edge.to, edge.capacity);
  return network.cut();
}

TEST(MinCut, takesTheNarrowestPlace) {
  // source -> 2 -> 3 -> sink
  std::vector<bool> side = cutOf(4, {{0, 2, 5}, {2, 3, 2}, {3, 1, 5}});
  EXPECT_TRUE(side[2]);
  EXPECT_FALSE(side[3]);
}

TEST(MinCut, isNearestToTheSourceAmongEquals) {
  std::vector<bool> side = cutOf(4, {{0, 2, 3}, {2, 3, 3}, {3, 1, 3}});
  EXPECT_FALSE(side[2]);
}

TEST(MinCut, undoesAPathThatWasTakenTooEarly) {
  // The long path through 2 -> 5 has to be given up for two that share nothing.
  std::vector<Edge> edges{{0, 2, 1}, {0, 3, 1}, {2, 4, 1}, {2, 5, 1},
                          {3, 5, 1}, {4, 1, 1}, {5, 1, 1}};
  EXPECT_EQ(capacityOf(edges, cutOf(6, edges)), 2);
}

TEST(MinCut, goesThroughDeepNetworks) {
  constexpr unsigned kNodes = 20000;
  std::vector<Edge> edges{{0, 2, FlowNetwork::kUnlimited}};
  for (unsigned i = 2; i + 1 < kNodes; ++i)
    edges.push_back({i, i + 1, i == kNodes / 2 ? 1 : 7});
  edges.push_back({kNodes - 1, 1, FlowNetwork::kUnlimited});
  EXPECT_EQ(capacityOf(edges, cutOf(kNodes, edges)), 1);
}

TEST(MinCut, isLeastAmongAllCutsOfSmallNetworks) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    unsigned nodes = 4 + random() % 5;
    std::vector<Edge> edges;
    for (unsigned i = 0; i < 3 * nodes; ++i) {
      unsigned from = random() % nodes, to = random() % nodes;
      if (from != to)
        edges.push_back({from, to, int64_t(random() % 9)});
    }
    int64_t least = FlowNetwork::kUnlimited;
    for (unsigned bits = 0; bits < 1u << (nodes - 2); ++bits) {
      std::vector<bool> side(nodes);
      side[0] = true;
      for (unsigned i = 2; i < nodes; ++i)
        side[i] = bits >> (i - 2) & 1;
      least = std::min(least, capacityOf(edges, side));
    }
    EXPECT_EQ(capacityOf(edges, cutOf(nodes, edges)), least);
  }
}

} // namespace
