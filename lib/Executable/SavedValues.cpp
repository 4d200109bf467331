//===- SavedValues.cpp - What calls leave for their backward programs -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values that a backward program alone reads lie side by side in one block of
// memory: a call allocates it once and makes no tensor of any of them.
//
//===----------------------------------------------------------------------===//

#include "LaunchEncoder.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::executable;

uint64_t BlobBuilder::placeSaved(ArrayRef<uint32_t> owners, int64_t alignment) {
  std::vector<Lifetime> lifetimes(owners.size(), {0, 0, 0});
  SmallVector<analysis::Size> bytes;
  for (auto [owner, lifetime] : llvm::zip(owners, lifetimes)) {
    slots[owner].flags |= rt::kSlotSaved;
    bytes.push_back(bytesOf(owner));
    lifetime.bytes = slots[owner].bytes;
  }
  if (llvm::any_of(bytes, [](auto &size) { return !size.isConstant(); })) {
    SymbolicArena block = planArena(lifetimes, bytes, context, alignment);
    for (auto [owner, offset] : llvm::zip(owners, block.offsets))
      patch(rt::PatchKind::SlotPlace, owner, offset);
    patch(rt::PatchKind::SavedBytes, 0, block.bytes);
    return 0;
  }
  uint64_t end = 0;
  for (uint32_t owner : owners) {
    slots[owner].place = end;
    end += llvm::alignTo(slots[owner].bytes, uint64_t(alignment));
  }
  return end;
}

/// The buffer that a saved slot is, or is a view of. Nothing where that is no
/// buffer of this call's own, or so much larger that a copy is the better deal.
std::optional<uint32_t> LaunchEncoder::savedRoot(uint32_t slot) const {
  uint32_t root = slot;
  if (blob.slots[slot].kind == rt::SlotKind::View) {
    auto roots = rootsOf.find(slot);
    if (roots == rootsOf.end() || roots->second.size() != 1)
      return std::nullopt;
    root = roots->second.front();
  }
  if (!buffers.contains(root) || counters.contains(root))
    return std::nullopt;
  return root;
}

uint64_t LaunchEncoder::placeSaved() {
  llvm::DenseSet<uint32_t> shown;
  unsigned numResults = function.getNumResults();
  for (unsigned i = 0; i < std::min(firstSaved, numResults); ++i)
    shown.insert(uint32_t(blob.ints[i]));
  // By root: the bytes of what is saved of it.
  llvm::MapVector<uint32_t, uint64_t> roots;
  llvm::DenseSet<uint32_t> known;
  for (unsigned i = firstSaved; i < numResults; ++i) {
    uint32_t slot = uint32_t(blob.ints[i]);
    if (auto root = savedRoot(slot); root && !shown.contains(*root))
      roots[*root] +=
          known.insert(slot).second ? uint64_t(blob.slots[slot].bytes) : 0;
  }
  SmallVector<uint32_t> owners;
  for (auto [root, bytes] : roots) {
    bool isWhole = blob.slots[root].kind == rt::SlotKind::Fresh;
    if (!isWhole && (!blob.bytesOf(root).isConstant() ||
                     bytes < uint64_t(blob.slots[root].bytes) / 2))
      continue;
    blob.slots[root].kind = rt::SlotKind::Fresh;
    owners.push_back(root);
  }
  constexpr int64_t kAlignment = 64; // as the arena's
  return blob.placeSaved(owners, kAlignment);
}
