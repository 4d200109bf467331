//===- SizeDependence.cpp - What of a program differs with sizes ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/SizeDependence.h"

using namespace pyjit::rt;

SizeDependence::SizeDependence(const Program &form)
    : words(form.header().ints), slots(form.numSlots()),
      kernels(form.numKernels()), places(form.numSlots()) {
  const Header &h = form.header();
  for (uint32_t i = 0; i < h.patches; ++i) {
    const int64_t *patch = form.ints() + h.patchTable + 3 * uint64_t(i);
    switch (static_cast<PatchKind>(patch[0])) {
    case PatchKind::Int:
    case PatchKind::Argument:
      words[patch[1]] = true;
      break;
    case PatchKind::SlotBytes:
      slots[patch[1]] = true;
      break;
    case PatchKind::KernelWork:
    case PatchKind::KernelBlocks:
      kernels[patch[1]] = true;
      break;
    // A layout's, which stays; the host's.
    case PatchKind::SlotPlace:
    case PatchKind::ArenaBytes:
    case PatchKind::SavedBytes:
    case PatchKind::KernelGrain:
      break;
    }
  }
  for (uint32_t i = 0; i < form.numSlots(); ++i) {
    const Slot &slot = form.slots()[i];
    for (uint32_t k = 0; k < 2u * slot.rank; ++k)
      slots[i] = slots[i] || words[slot.dims + k];
  }
  findPlaces(form);
  why = findObstacle(form);
}

void SizeDependence::findPlaces(const Program &form) {
  for (uint32_t i = 0; i < form.numSteps(); ++i)
    if (const Step &step = form.steps()[i]; step.kind == StepKind::View)
      places[step.a] = words[step.c] || places[step.b];
}

/// Whether the call's operands, arguments or results do.
bool SizeDependence::ofCall(const Program &form, const Step &step) const {
  const int64_t *ints = form.ints();
  for (int64_t k = 0; k < ints[step.c]; ++k)
    if (int64_t result = ints[step.c + 1 + k]; result >= 0 && slots[result])
      return true;
  for (uint64_t at = step.b;; ++at) {
    auto tag = static_cast<ArgTag>(ints[at]);
    if (tag == ArgTag::End)
      return false;
    if (tag == ArgTag::None)
      continue;
    ++at;
    bool isSlot = tag == ArgTag::Tensor || tag == ArgTag::WrappedSlot ||
                  tag == ArgTag::NumberSlot;
    if (words[at] || (isSlot && (slots[ints[at]] || places[ints[at]])))
      return true;
  }
}

std::string SizeDependence::findObstacle(const Program &form) const {
  for (uint32_t i = 0; i < form.numSlots(); ++i)
    if (form.slots()[i].flags & kSlotSaved)
      return "it leaves values for a backward program";
  std::vector<bool> made(form.numSlots());  // by a vendor call of a graph
  std::vector<bool> shown(form.numSlots()); // made, and views, of graphs
  bool inGraph = false;
  auto readBehind = [&](int64_t slot) {
    return !inGraph && slot >= 0 && shown[slot] &&
           (slots[slot] || places[slot]);
  };
  for (uint32_t i = 0; i < form.numSteps(); ++i) {
    const Step &step = form.steps()[i];
    switch (step.kind) {
    case StepKind::GraphBegin:
      inGraph = true;
      break;
    case StepKind::GraphEnd:
      inGraph = false;
      break;
    case StepKind::Call:
      if (ofCall(form, step))
        return std::string(form.string(step.a)) + " is another call then";
      for (int64_t k = 0; k < form.ints()[step.c]; ++k)
        if (int64_t slot = form.ints()[step.c + 1 + k]; slot >= 0 && inGraph)
          made[slot] = shown[slot] = true;
      break;
    case StepKind::View:
      if (readBehind(step.b))
        return "a view that a graph makes is another one then";
      shown[step.a] = inGraph;
      made[step.a] = made[step.b];
      if (places[step.a] && made[step.b])
        return "a view of a vendor call's result lies elsewhere then";
      break;
    case StepKind::Kernel:
      for (uint32_t k = 0; k < step.c; ++k)
        if (readBehind(form.ints()[step.b + k]))
          return "a view that a graph makes is another one then";
      break;
    case StepKind::Copy:
      if (readBehind(step.a))
        return "a view that a graph makes is another one then";
      break;
    case StepKind::If:
    case StepKind::WhileTest:
    case StepKind::For:
      return "it has loops or branches";
    default:
      break;
    }
  }
  for (uint32_t i = 0; i < form.numOutputs(); ++i)
    if (readBehind(form.outputSlot(i)))
      return "a view that a graph makes is another one then";
  return "";
}
