//===- Simulator.cpp - A GPU's blocks and threads on the host -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Simulator.h"
#include <cmath>
#include <memory>
#include <ucontext.h>

namespace pyjit::simulator {
namespace {

enum class State { Ready, Barrier, Exchange, Done };

struct Fiber {
  ucontext_t context;
  State state = State::Ready;
  int32_t value = 0, received = 0;
  int32_t distance = 0;
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

void start() {
  current->kernel(current->buffers);
  // The scheduler never comes back to a fiber that is done.
  leave(State::Done);
}

/// Lets every warp go on whose threads all stand at the same exchange.
std::string exchangeInWarps(std::vector<Fiber> &fibers, bool &moved) {
  for (size_t first = 0; first < fibers.size(); first += warpSize) {
    unsigned waiting = 0;
    for (unsigned lane = 0; lane < warpSize; ++lane)
      waiting += fibers[first + lane].state == State::Exchange;
    if (waiting == 0)
      continue;
    if (waiting != warpSize)
      return "an exchange that a part of a warp takes part in";
    int32_t distance = fibers[first].distance;
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      Fiber &fiber = fibers[first + lane];
      if (fiber.distance != distance || distance <= 0 ||
          distance >= int32_t(warpSize))
        return "threads of a warp at different exchanges";
      fiber.received = fibers[first + (lane ^ distance)].value;
      fiber.state = State::Ready;
    }
    moved = true;
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
    std::string error = exchangeInWarps(block.fibers, moved);
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
          {"pyjit_sim_access", reinterpret_cast<void *>(access)},
          {"pyjit_sim_power2", reinterpret_cast<void *>(power2)}};
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
