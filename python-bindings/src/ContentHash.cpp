//===- ContentHash.cpp - What a tensor's memory holds ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ContentHash.h"

#include "runtime/torch/Parallel.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace pyjit::python {
namespace {

constexpr size_t kChunk = 256 << 10;
constexpr uint64_t kPrime = 0x9e3779b97f4a7c15ull; // odd: steps are bijective

uint64_t step(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * kPrime;
  return hash ^ (hash >> 29);
}

/// Cheaper, for the inner loop. Multiplication carries differences upwards
/// only, the rotation brings them down again: without it, two flipped signs
/// cancel.
uint64_t laneStep(uint64_t lane, uint64_t word) {
  lane = (lane ^ word) * kPrime;
  return lane << 31 | lane >> 33;
}

/// Several chains at once, because one is bound by the latency of its
/// multiplications.
uint64_t hashChunk(const char *data, size_t bytes) {
  constexpr size_t kLanes = 8, kBlock = kLanes * sizeof(uint64_t);
  uint64_t lanes[kLanes], words[kLanes];
  for (size_t lane = 0; lane < kLanes; ++lane)
    lanes[lane] = bytes + lane;
  size_t at = 0;
  for (; at + kBlock <= bytes; at += kBlock) {
    std::memcpy(words, data + at, kBlock);
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = laneStep(lanes[lane], words[lane]);
  }
  if (at < bytes) {
    std::memset(words, 0, kBlock);
    std::memcpy(words, data + at, bytes - at);
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = laneStep(lanes[lane], words[lane]);
  }
  uint64_t hash = kPrime;
  for (uint64_t lane : lanes)
    hash = step(hash, lane);
  return hash;
}

} // namespace

uint64_t contentHash(const void *data, size_t bytes) {
  const char *begin = static_cast<const char *>(data);
  size_t count = (bytes + kChunk - 1) / kChunk;
  if (count <= 1)
    return hashChunk(begin, bytes);
  std::vector<uint64_t> chunks(count);
  void *buffers[] = {const_cast<char *>(begin), &bytes, chunks.data()};
  auto hashChunks = [](void *const *buffers, int64_t from, int64_t to) {
    const char *data = static_cast<const char *>(buffers[0]);
    size_t size = *static_cast<const size_t *>(buffers[1]);
    for (int64_t i = from; i < to; ++i)
      static_cast<uint64_t *>(buffers[2])[i] =
          hashChunk(data + i * kChunk, std::min(kChunk, size - i * kChunk));
  };
  rt::Kernel chunkwise{};
  chunkwise.work = int64_t(count);
  chunkwise.grain = 1;
  rt::parallelFor(chunkwise, hashChunks, buffers);
  uint64_t hash = bytes;
  for (uint64_t chunk : chunks)
    hash = step(hash, chunk);
  return hash;
}

} // namespace pyjit::python
