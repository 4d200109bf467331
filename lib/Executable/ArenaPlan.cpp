//===- ArenaPlan.cpp - Offsets of intermediates in one arena --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ArenaPlan.h"

#include <algorithm>
#include <numeric>

using namespace pyjit::executable;

int64_t pyjit::executable::planArena(std::vector<Lifetime> &buffers) {
  constexpr int64_t kAlignment = 64;
  auto aligned = [](int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  // Largest first: small buffers fit into what large ones leave.
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_pair(-buffers[a].bytes, a) <
           std::make_pair(-buffers[b].bytes, b);
  });

  int64_t total = 0;
  std::vector<Lifetime *> placed; // by offset
  for (size_t index : order) {
    Lifetime &buffer = buffers[index];
    int64_t need = aligned(buffer.bytes);
    int64_t best = -1, bestGap = 0, end = 0;
    for (const Lifetime *other : placed) {
      if (other->last < buffer.first || buffer.last < other->first)
        continue;
      int64_t gap = other->offset - end;
      if (gap >= need && (best < 0 || gap < bestGap)) {
        best = end;
        bestGap = gap;
      }
      end = std::max(end, other->offset + aligned(other->bytes));
    }
    buffer.offset = best >= 0 ? best : end;
    total = std::max(total, buffer.offset + need);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &buffer,
                                   [](const Lifetime *a, const Lifetime *b) {
                                     return a->offset < b->offset;
                                   }),
                  &buffer);
  }
  return total;
}

SymbolicArena pyjit::executable::planArena(const std::vector<Lifetime> &buffers,
                                           llvm::ArrayRef<analysis::Size> bytes,
                                           mlir::MLIRContext *context,
                                           int64_t alignment) {
  struct Place {
    analysis::Size bytes;
    std::vector<const Lifetime *> taken;
    mlir::AffineExpr offset;
  };
  std::vector<Place> places;
  SymbolicArena arena;
  arena.bytes = mlir::getAffineConstantExpr(0, context);
  std::vector<size_t> placeOf;
  for (size_t i = 0; i < buffers.size(); ++i) {
    auto isFree = [&](const Place &place) {
      return place.bytes == bytes[i] &&
             std::none_of(place.taken.begin(), place.taken.end(),
                          [&](const Lifetime *other) {
                            return other->last >= buffers[i].first &&
                                   buffers[i].last >= other->first;
                          });
    };
    auto found = std::find_if(places.begin(), places.end(), isFree);
    if (found == places.end()) {
      places.push_back({bytes[i], {}, arena.bytes});
      found = std::prev(places.end());
      mlir::AffineExpr need = bytes[i].toExpr(context);
      if (!bytes[i].dividedBy(alignment))
        need = need.ceilDiv(alignment) * alignment;
      arena.bytes = arena.bytes + need;
    }
    found->taken.push_back(&buffers[i]);
    arena.offsets.push_back(found->offset);
  }
  return arena;
}
