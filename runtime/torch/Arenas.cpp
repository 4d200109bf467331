//===- Arenas.cpp - The intermediates of one call in flight ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/TorchExecutor.h"

#include <ATen/EmptyTensor.h>

using namespace pyjit::rt;

static at::Tensor allocateBytes(int64_t bytes) {
  return at::detail::empty_cpu({bytes}, at::kByte);
}

at::Tensor TorchExecutor::StorageCache::take(int64_t bytes) {
  {
    std::lock_guard<std::mutex> guard(lock);
    if (!storages.empty()) {
      at::Tensor storage = std::move(storages.back());
      storages.pop_back();
      if (storage.numel() >= bytes)
        return storage;
    }
  }
  return allocateBytes(bytes);
}

void TorchExecutor::StorageCache::give(at::Tensor storage) {
  std::lock_guard<std::mutex> guard(lock);
  storages.push_back(std::move(storage));
}

std::unique_ptr<TorchExecutor::Arena> TorchExecutor::takeArena() {
  std::unique_ptr<Arena> arena(spare.exchange(nullptr));
  if (!arena) {
    std::lock_guard<std::mutex> guard(lock);
    if (!arenas.empty()) {
      arena = std::move(arenas.back());
      arenas.pop_back();
    }
  }
  bool known = arena != nullptr;
  // A first call, or one that runs while every arena is in use.
  if (!known)
    arena = std::make_unique<Arena>();
  uint64_t bytes = program.header().arenaBytes;
  if (sharedStorage && bytes) {
    at::Tensor storage = sharedStorage->take(bytes);
    if (known && arena->filledFor == storage.const_data_ptr())
      arena->storage = std::move(storage);
    else
      fillArena(*arena, std::move(storage));
    arena->filledFor = arena->storage.const_data_ptr();
  } else if (!known) {
    // Of no bytes where all values are empty: they, too, have a device.
    fillArena(*arena, allocateBytes(bytes));
  }
  return arena;
}

/// Makes the tensors that stand for parts of `storage`, for all slots but
/// `without`.
void TorchExecutor::fillArena(Arena &arena, at::Tensor storage,
                              const std::vector<bool> &without) const {
  arena.values.resize(program.numSlots());
  arena.buffers.resize(program.numSlots());
  arena.slots.resize(program.numSlots());
  arena.storage = std::move(storage);
  for (uint32_t i = 0; i < program.numSlots(); ++i) {
    const Slot &slot = program.slots()[i];
    if (slot.kind != SlotKind::Arena || (!without.empty() && without[i]))
      continue;
    char *data =
        static_cast<char *>(arena.storage.mutable_data_ptr()) + slot.place;
    arena.buffers[i] = data;
    // A storage of its own, so that nothing can resize or view its neighbours.
    arena.slots[i] = makeTensorAt(slot, data, arena.storage.device());
  }
}

void TorchExecutor::giveArena(std::unique_ptr<Arena> arena) {
  for (at::Tensor &value : arena->values)
    value.reset();
  if (savedPlan)
    arena->saved.reset();
  if (sharedStorage && arena->storage.defined())
    sharedStorage->give(std::move(arena->storage));
  std::unique_ptr<Arena> second(spare.exchange(arena.release()));
  if (!second)
    return;
  std::lock_guard<std::mutex> guard(lock);
  arenas.push_back(std::move(second));
}

void TorchExecutor::dropIdleMemory() {
  delete spare.exchange(nullptr);
  std::lock_guard<std::mutex> guard(lock);
  arenas.clear();
}
