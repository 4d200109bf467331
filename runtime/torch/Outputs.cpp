//===- Outputs.cpp - What a run hands over --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/TorchExecutor.h"

using namespace pyjit::rt;

/// By slot: the fresh memory or vendor result that it is, or is a view of; -1
/// where it is something else.
std::vector<int64_t> TorchExecutor::findOwnMemory() const {
  std::vector<int64_t> roots(program.numSlots(), -1);
  for (uint32_t i = 0; i < program.numSlots(); ++i)
    if (SlotKind kind = program.slots()[i].kind;
        kind == SlotKind::Result || kind == SlotKind::Fresh)
      roots[i] = i;
  for (uint32_t i = 0; i < program.numSteps(); ++i)
    if (const Step &step = program.steps()[i]; step.kind == StepKind::View)
      roots[step.a] = roots[step.b];
  return roots;
}

/// Which outputs are copies of what their slots show, for nobody else may have
/// their memory. A view is none where it shows all of what nobody else gets. A
/// saved one, which nobody writes, may be a view of what a vendor call made on
/// the host (on a device a graph may write that again), if it shows most of it.
void TorchExecutor::planOutputs() {
  std::vector<int64_t> roots = findOwnMemory();
  std::vector<bool> taken(program.numSlots());
  for (uint32_t i = 0; i < program.numOutputs(); ++i) {
    uint32_t index = program.outputSlot(i);
    int64_t root = roots[index];
    if (root < 0 || taken[root] || program.isInPlace(i)) {
      givings.push_back(Giving::Copy);
      continue;
    }
    const Slot &slot = program.slots()[index], &memory = program.slots()[root];
    bool isResult = memory.kind == SlotKind::Result;
    bool isHeld = i >= program.header().firstSaved && !onDevice() && isResult &&
                  slot.bytes >= memory.bytes / 2;
    bool mayBeWhole = !(memory.flags & kSlotSaved) && !(isResult && onDevice());
    givings.push_back(isHeld || index == root ? Giving::Own
                      : mayBeWhole            ? Giving::Whole
                                              : Giving::Copy);
    // Saved ones may share memory with one another.
    taken[root] = !isHeld && givings.back() != Giving::Copy;
  }
}

/// So many elements of memory are there from the first element to the last.
static int64_t extentOf(const at::Tensor &value) {
  if (!value.numel())
    return 0;
  int64_t extent = 1;
  for (int64_t d = 0; d < value.dim(); ++d)
    extent += (value.size(d) - 1) * value.stride(d);
  return extent;
}

/// Whether the value begins and ends where its storage does, as a copy would.
static bool isWhole(const at::Tensor &value) {
  return !value.storage_offset() &&
         int64_t(value.storage().nbytes()) ==
             extentOf(value) * int64_t(value.element_size());
}

/// With the same strides, gaps and elements that share memory included: what
/// reads the output was compiled for them.
static at::Tensor copyOf(const at::Tensor &value) {
  if (value.is_non_overlapping_and_dense() || !value.numel())
    return value.clone();
  at::Tensor memory = value.as_strided({extentOf(value)}, {1}).clone();
  return memory.as_strided(value.sizes(), value.strides());
}

/// Output `i` as a tensor that shares its memory with nothing else; none where
/// it is the new contents of an input, which has them.
at::Tensor TorchExecutor::ownOutput(const Arena &arena, uint32_t i) const {
  if (program.isInPlace(i))
    return {};
  uint32_t index = program.outputSlot(i);
  const at::Tensor &value = arena.values[index];
  if (!value.has_storage()) // an opaque packed weight
    return value;
  // A vendor result may not carry memory of the arena, or of the block of saved
  // values, out of the call either.
  auto liesIn = [&](const at::Tensor &memory, uint64_t bytes) {
    if (!memory.defined())
      return false;
    auto *data = static_cast<const char *>(value.storage().data());
    auto *base = static_cast<const char *>(memory.const_data_ptr());
    return data >= base && data < base + bytes;
  };
  bool shared = givings[i] == Giving::Copy ||
                (givings[i] == Giving::Whole && !isWhole(value)) ||
                (program.slots()[index].kind != SlotKind::Fresh &&
                 (liesIn(arena.storage, program.header().arenaBytes) ||
                  liesIn(arena.saved, program.header().savedBytes)));
  return shared ? copyOf(value) : value;
}

/// Everything that the call leaves.
void TorchExecutor::giveOutputs(Arena &arena, at::Tensor *outputs,
                                SavedValues *saved) const {
  if (!savedPlan) {
    for (uint32_t i = 0; i < program.numOutputs(); ++i)
      outputs[i] = ownOutput(arena, i);
    return;
  }
  for (uint32_t i = 0; i < program.numOutputs(); ++i) {
    if (!savedPlan->has(i))
      outputs[i] = ownOutput(arena, i);
    else if (!saved)
      outputs[i] = savedPlan->show(i, arena.saved);
  }
  if (saved)
    *saved = {savedPlan, std::move(arena.saved)};
}

/// The address of a slot in the present call's block.
void TorchExecutor::bindSaved(uint32_t i, Arena &arena, bool asTensor) const {
  const Slot &slot = program.slots()[i];
  void *data = static_cast<char *>(arena.saved.mutable_data_ptr()) + slot.place;
  arena.buffers[i] = data;
  if (asTensor)
    arena.values[i] = makeTensorAt(slot, data, arena.saved.device());
}
