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

enum class State { Ready, Barrier, Exchange, Multiply, Done };

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

struct Block {
  void (*kernel)(void *const *);
  void *const *buffers;
  std::vector<Fiber> fibers;
  std::vector<char> stacks;
  ucontext_t scheduler;
  uint32_t block = 0, thread = 0;
  std::string error; ///< of a thread
};

// The kernel's calls come without a context of their own.
thread_local Block *current = nullptr;

Fiber &self() { return current->fibers[current->thread]; }

void leave(State state) {
  Fiber &fiber = self();
  fiber.state = state;
  swapcontext(&fiber.context, &current->scheduler);
}

int32_t threadNumber() { return current->thread; }
int32_t blockNumber() { return current->block; }
void barrier(int32_t) { leave(State::Barrier); }
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
                   std::to_string(current->block) +
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

std::string runBlock(Block &block) {
  for (size_t t = 0; t < block.fibers.size(); ++t) {
    Fiber &fiber = block.fibers[t];
    fiber.state = State::Ready;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = block.stacks.data() + t * stackBytes;
    fiber.context.uc_stack.ss_size = stackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, start, 0);
  }
  for (;;) {
    bool moved = false;
    for (size_t t = 0; t < block.fibers.size(); ++t)
      if (block.fibers[t].state == State::Ready) {
        block.thread = t;
        swapcontext(&block.scheduler, &block.fibers[t].context);
        if (!block.error.empty())
          return block.error;
        moved = true;
      }
    std::string error = inWarps(block.fibers, State::Exchange, "an exchange",
                                moved, exchangeInWarp);
    if (error.empty())
      error = inWarps(block.fibers, State::Multiply, "a multiplication", moved,
                      multiplyInWarp);
    if (!error.empty())
      return error;
    if (moved)
      continue;
    unsigned done = 0, waiting = 0;
    for (Fiber &fiber : block.fibers) {
      done += fiber.state == State::Done;
      waiting += fiber.state == State::Barrier;
    }
    if (done == block.fibers.size())
      return {};
    if (waiting != block.fibers.size())
      return "a barrier that a thread never reaches";
    for (Fiber &fiber : block.fibers)
      fiber.state = State::Ready;
  }
}

} // namespace

std::vector<std::pair<const char *, void *>> symbols() {
  return {{"pyjit_sim_thread", reinterpret_cast<void *>(threadNumber)},
          {"pyjit_sim_block", reinterpret_cast<void *>(blockNumber)},
          {"pyjit_sim_barrier", reinterpret_cast<void *>(barrier)},
          {"pyjit_sim_exchange", reinterpret_cast<void *>(exchange)},
          {"pyjit_sim_multiply", reinterpret_cast<void *>(multiply)},
          {"pyjit_sim_sum", reinterpret_cast<void *>(sumOf)},
          {"pyjit_sim_access", reinterpret_cast<void *>(access)},
          {"pyjit_sim_power2", reinterpret_cast<void *>(power2)},
          {"pyjit_sim_reciprocal", reinterpret_cast<void *>(reciprocal)},
          {"pyjit_sim_quotient", reinterpret_cast<void *>(quotient)}};
}

std::string run(void (*kernel)(void *const *), void *const *buffers,
                uint32_t blocks, uint32_t threads) {
  Block block;
  block.kernel = kernel;
  block.buffers = buffers;
  block.fibers.resize(threads);
  block.stacks.resize(threads * stackBytes);
  current = &block;
  std::string error;
  for (block.block = 0; block.block < blocks && error.empty(); ++block.block)
    error = runBlock(block);
  current = nullptr;
  return error;
}

} // namespace pyjit::simulator
