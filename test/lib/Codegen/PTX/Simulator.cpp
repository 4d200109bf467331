//===- Simulator.cpp - A GPU's blocks and threads on the host -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Simulator.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <ucontext.h>

namespace pyjit::simulator {
namespace {

enum class State { Ready, Barrier, Cluster, Exchange, Multiply, Done };

struct Fiber {
  ucontext_t context;
  State state = State::Ready;
  int32_t value = 0, received = 0;
  int32_t distance = 0;
  /// Of `mma.m16n8k16`: two halves each, and the sums.
  int32_t left[4], right[2];
  float sums[4];
  bool bf16 = false;
};

constexpr size_t stackBytes = 256 << 10;
constexpr unsigned warpSize = 32;
constexpr size_t sharedBytes = 48 << 10;

struct Block {
  std::vector<Fiber> fibers;
  uint32_t number = 0;
  std::vector<char> shared = std::vector<char>(sharedBytes + 16);

  char *sharedBase() {
    return shared.data() +
           (16 - reinterpret_cast<uintptr_t>(shared.data()) % 16);
  }
};

struct Cluster {
  void (*kernel)(void *const *);
  void *const *buffers;
  std::vector<Block> blocks;
  std::vector<char> stacks;
  ucontext_t scheduler;
  uint32_t block = 0, thread = 0; ///< which of them runs
  std::string error;              ///< of a thread
};

// The kernel's calls come without a context of their own.
thread_local Cluster *current = nullptr;

Block &ownBlock() { return current->blocks[current->block]; }
Fiber &self() { return ownBlock().fibers[current->thread]; }

void leave(State state) {
  Fiber &fiber = self();
  fiber.state = state;
  swapcontext(&fiber.context, &current->scheduler);
}

int32_t threadNumber() { return current->thread; }
int32_t blockNumber() { return ownBlock().number; }
void barrier(int32_t) { leave(State::Barrier); }
void arrive() {}
void waitForCluster() { leave(State::Cluster); }
/// Where this block has what the kernel declares as shared.
void *shared(void *) { return ownBlock().sharedBase(); }
void *sharedOf(void *mine, int32_t block) {
  return current->blocks[block].sharedBase() +
         (static_cast<char *>(mine) - ownBlock().sharedBase());
}
int32_t exchange(int32_t mask, int32_t value, int32_t distance, int32_t) {
  Fiber &fiber = self();
  fiber.value = value;
  fiber.distance = mask == -1 ? distance : -1;
  leave(State::Exchange);
  return self().received;
}

void multiply(int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t b0,
              int32_t b1, float c0, float c1, float c2, float c3,
              int32_t bf16) {
  Fiber &fiber = self();
  int32_t left[] = {a0, a1, a2, a3}, right[] = {b0, b1};
  float sums[] = {c0, c1, c2, c3};
  std::copy(left, left + 4, fiber.left);
  std::copy(right, right + 2, fiber.right);
  std::copy(sums, sums + 4, fiber.sums);
  fiber.bf16 = bf16 != 0;
  leave(State::Multiply);
}
float sumOf(int32_t number) { return self().sums[number]; }

void access(int64_t address, int64_t aligned) {
  if (address % aligned == 0)
    return;
  // The thread that a GPU would stop here is not gone on with.
  current->error = "thread " + std::to_string(current->thread) + " of block " +
                   std::to_string(ownBlock().number) +
                   ": a vector access at an address that is no multiple of " +
                   std::to_string(aligned);
  leave(State::Done);
}

float power2(float x) { return std::exp2(x); }
float reciprocal(float x) { return std::fabs(x) > 0x1p126f ? 0 / x : 1 / x; }
float quotient(float x, float y) { return x / y; }

void start() {
  current->kernel(current->buffers);
  // The scheduler never comes back to a fiber that is done.
  leave(State::Done);
}

/// Carries out `act` for each warp whose threads all stand at `state`, and lets
/// them go on. An error where only some do, or what `act` says.
template <typename F>
std::string inWarps(std::vector<Fiber> &fibers, State state, const char *what,
                    bool &moved, F act) {
  for (size_t first = 0; first < fibers.size(); first += warpSize) {
    Fiber *warp = &fibers[first];
    unsigned waiting = 0;
    for (unsigned lane = 0; lane < warpSize; ++lane)
      waiting += warp[lane].state == state;
    if (waiting == 0)
      continue;
    if (waiting != warpSize)
      return std::string(what) + " that a part of a warp takes part in";
    std::string error = act(warp);
    if (!error.empty())
      return error;
    for (unsigned lane = 0; lane < warpSize; ++lane)
      warp[lane].state = State::Ready;
    moved = true;
  }
  return {};
}

std::string exchangeInWarp(Fiber *warp) {
  int32_t distance = warp->distance;
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    if (warp[lane].distance != distance || distance <= 0 ||
        distance >= int32_t(warpSize))
      return "threads of a warp at different exchanges";
    warp[lane].received = warp[lane ^ distance].value;
  }
  return {};
}

/// One of the two halves in a word.
float halfOf(int32_t word, unsigned number, bool bf16) {
  uint32_t bits = (uint32_t(word) >> (16 * number)) & 0xffff;
  if (bf16) {
    float value;
    bits <<= 16;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
  float size = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent == 0
                   ? std::ldexp(float(fraction), -24)
                   : std::ldexp(float(fraction + 1024), int(exponent) - 25);
  return bits >> 15 ? -size : size;
}

/// D = A B + C of 16 x 16 by 16 x 8, whose elements lie in the warp's threads
/// as PTX ISA says ("Matrix fragments for mma.m16n8k16").
std::string multiplyInWarp(Fiber *warp) {
  bool bf16 = warp->bf16;
  auto left = [&](unsigned row, unsigned k) {
    Fiber &fiber = warp[row % 8 * 4 + k % 8 / 2];
    return halfOf(fiber.left[row / 8 + k / 8 * 2], k % 2, bf16);
  };
  auto right = [&](unsigned k, unsigned column) {
    Fiber &fiber = warp[column * 4 + k % 8 / 2];
    return halfOf(fiber.right[k / 8], k % 2, bf16);
  };
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned column = 0; column < 8; ++column) {
      float &sum =
          warp[row % 8 * 4 + column / 2].sums[row / 8 * 2 + column % 2];
      for (unsigned k = 0; k < 16; ++k)
        sum += left(row, k) * right(k, column);
    }
  return {};
}

/// Lets all threads of a block run until each of them waits.
std::string runBlock(Cluster &cluster, uint32_t number) {
  std::vector<Fiber> &fibers = cluster.blocks[number].fibers;
  cluster.block = number;
  for (;;) {
    bool moved = false;
    for (size_t t = 0; t < fibers.size(); ++t)
      if (fibers[t].state == State::Ready) {
        cluster.thread = t;
        swapcontext(&cluster.scheduler, &fibers[t].context);
        if (!cluster.error.empty())
          return cluster.error;
        moved = true;
      }
    std::string error =
        inWarps(fibers, State::Exchange, "an exchange", moved, exchangeInWarp);
    if (error.empty())
      error = inWarps(fibers, State::Multiply, "a multiplication", moved,
                      multiplyInWarp);
    if (!error.empty())
      return error;
    if (moved)
      continue;
    auto at = [&](State state) {
      return std::count_if(fibers.begin(), fibers.end(),
                           [&](Fiber &fiber) { return fiber.state == state; });
    };
    auto all = std::ptrdiff_t(fibers.size());
    if (at(State::Done) == all || at(State::Cluster) == all)
      return {};
    if (at(State::Barrier) != all)
      return "a barrier that a thread never reaches";
    for (Fiber &fiber : fibers)
      fiber.state = State::Ready;
  }
}

std::string runCluster(Cluster &cluster) {
  size_t next = 0;
  for (Block &block : cluster.blocks)
    for (Fiber &fiber : block.fibers) {
      fiber.state = State::Ready;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp =
          cluster.stacks.data() + next++ * stackBytes;
      fiber.context.uc_stack.ss_size = stackBytes;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, start, 0);
    }
  for (;;) {
    unsigned waiting = 0;
    for (uint32_t i = 0; i < cluster.blocks.size(); ++i) {
      std::string error = runBlock(cluster, i);
      if (!error.empty())
        return error;
      waiting += cluster.blocks[i].fibers[0].state == State::Cluster;
    }
    if (waiting == 0)
      return {};
    if (waiting != cluster.blocks.size())
      return "a barrier that a block of the cluster never reaches";
    for (Block &block : cluster.blocks)
      for (Fiber &fiber : block.fibers)
        fiber.state = State::Ready;
  }
}

} // namespace

std::vector<std::pair<const char *, void *>> symbols() {
  return {{"pyjit_sim_thread", reinterpret_cast<void *>(threadNumber)},
          {"pyjit_sim_block", reinterpret_cast<void *>(blockNumber)},
          {"pyjit_sim_barrier", reinterpret_cast<void *>(barrier)},
          {"pyjit_sim_arrive", reinterpret_cast<void *>(arrive)},
          {"pyjit_sim_wait", reinterpret_cast<void *>(waitForCluster)},
          {"pyjit_sim_shared", reinterpret_cast<void *>(shared)},
          {"pyjit_sim_shared_of", reinterpret_cast<void *>(sharedOf)},
          {"pyjit_sim_exchange", reinterpret_cast<void *>(exchange)},
          {"pyjit_sim_multiply", reinterpret_cast<void *>(multiply)},
          {"pyjit_sim_sum", reinterpret_cast<void *>(sumOf)},
          {"pyjit_sim_access", reinterpret_cast<void *>(access)},
          {"pyjit_sim_power2", reinterpret_cast<void *>(power2)},
          {"pyjit_sim_reciprocal", reinterpret_cast<void *>(reciprocal)},
          {"pyjit_sim_quotient", reinterpret_cast<void *>(quotient)}};
}

std::string run(void (*kernel)(void *const *), void *const *buffers,
                Grid grid) {
  Cluster cluster;
  cluster.kernel = kernel;
  cluster.buffers = buffers;
  cluster.blocks.resize(grid.cluster);
  for (Block &block : cluster.blocks)
    block.fibers.resize(grid.threads);
  cluster.stacks.resize(size_t(grid.cluster) * grid.threads * stackBytes);
  if (grid.blocks % grid.cluster != 0)
    return "blocks that are no whole clusters";
  current = &cluster;
  std::string error;
  for (uint32_t i = 0; i < grid.blocks && error.empty(); i += grid.cluster) {
    for (uint32_t j = 0; j < grid.cluster; ++j)
      cluster.blocks[j].number = i + j;
    error = runCluster(cluster);
  }
  current = nullptr;
  return error;
}

} // namespace pyjit::simulator
