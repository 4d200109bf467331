//===- Outputs.cpp - What a run hands over --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/TorchExecutor.h"

using namespace pyjit::rt;

/// Which outputs are copies of what their slots show, for nobody else may have
/// their memory. A saved one, which nobody writes, may be a view of what a
/// vendor call made on the host (on a device a graph may write that again), if
/// it shows most of it.
void TorchExecutor::planOutputs() {
  std::vector<int64_t> roots(program.numSlots(), -1);
  std::vector<bool> taken(program.numSlots());
  for (uint32_t i = 0; i < program.numSlots(); ++i)
    if (program.slots()[i].kind == SlotKind::Result)
      roots[i] = i;
  for (uint32_t i = 0; i < program.numSteps(); ++i)
    if (const Step &step = program.steps()[i]; step.kind == StepKind::View)
      roots[step.a] = roots[step.b];
  for (uint32_t i = 0; i < program.numOutputs(); ++i) {
    uint32_t index = program.outputSlot(i);
    const Slot &slot = program.slots()[index];
    bool saved = i >= program.header().firstSaved;
    bool isHeld = saved && !onDevice() && !program.isInPlace(i) &&
                  roots[index] >= 0 && !taken[roots[index]] &&
                  slot.bytes >= program.slots()[roots[index]].bytes / 2;
    bool isOwn = slot.kind == SlotKind::Fresh || slot.kind == SlotKind::Result;
    copiedOutputs.push_back(!isHeld && (!isOwn || taken[index]));
    // Saved ones may share memory with one another.
    taken[index] = taken[index] || !saved || !isHeld;
  }
}

/// With the same strides, gaps and elements that share memory included: what
/// reads the output was compiled for them.
static at::Tensor copyOf(const at::Tensor &value) {
  if (value.is_non_overlapping_and_dense() || !value.numel())
    return value.clone();
  int64_t extent = 1;
  for (int64_t d = 0; d < value.dim(); ++d)
    extent += (value.size(d) - 1) * value.stride(d);
  at::Tensor memory = value.as_strided({extent}, {1}).clone();
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
  bool shared = copiedOutputs[i] ||
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
