//===- GraphPoolTest.cpp - Who keeps captured graphs ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/cuda/GraphPool.h"

#include <gtest/gtest.h>

#include <array>

using namespace pyjit::rt::cuda;

namespace {

struct Holder : GraphPool::Tenant {
  bool giveUpGraphs() override {
    if (busy)
      return false;
    ++evicted;
    return true;
  }
  bool busy = false;
  unsigned evicted = 0;
};

TEST(GraphPool, TheLeastRecentlyUsedMakesRoom) {
  GraphPool pool(2);
  std::array<Holder, 3> holders;
  pool.use(holders[0]);
  pool.use(holders[1]);
  pool.use(holders[0]);
  EXPECT_EQ(pool.size(), 2u);
  pool.use(holders[2]);
  EXPECT_EQ(pool.size(), 2u);
  EXPECT_EQ(holders[1].evicted, 1u);
  EXPECT_EQ(holders[0].evicted, 0u);
  pool.use(holders[1]);
  EXPECT_EQ(holders[0].evicted, 1u);
}

TEST(GraphPool, WhoIsAtWorkStays) {
  GraphPool pool(2);
  std::array<Holder, 4> holders;
  holders[0].busy = holders[1].busy = true;
  for (Holder &holder : holders)
    pool.use(holder);
  // Neither of the two, nor the one that asked.
  EXPECT_EQ(pool.size(), 3u);
  EXPECT_EQ(holders[2].evicted, 1u);
  EXPECT_EQ(holders[3].evicted, 0u);
  holders[0].busy = false;
  pool.use(holders[3]);
  EXPECT_EQ(holders[0].evicted, 1u);
  EXPECT_EQ(pool.size(), 2u);
}

TEST(GraphPool, WhoLeavesIsForgotten) {
  GraphPool pool(1);
  Holder a, b;
  pool.use(a);
  pool.leave(a);
  pool.leave(b);
  pool.use(b);
  EXPECT_EQ(a.evicted, 0u);
  EXPECT_EQ(pool.size(), 1u);
}

TEST(GraphPool, NoRoomForOneself) {
  GraphPool pool(0);
  Holder a;
  pool.use(a);
  EXPECT_EQ(a.evicted, 0u);
}

} // namespace
