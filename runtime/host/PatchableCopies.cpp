//===- PatchableCopies.cpp - Copies that a graph can do without -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Validator.h"

using namespace pyjit::rt;

/// The first and the last step of the graph around a step; the end of the
/// program where there is none.
static std::pair<uint32_t, uint32_t> graphAround(const Program &program,
                                                 uint32_t index) {
  const Step *steps = program.steps();
  uint32_t count = program.header().steps, begin = count, end = count;
  for (uint32_t i = 0; i < count; ++i)
    if (steps[i].kind == StepKind::GraphBegin && i < index)
      begin = i;
    else if (steps[i].kind == StepKind::GraphEnd && i < index)
      begin = count;
    else if (steps[i].kind == StepKind::GraphEnd && end == count)
      end = i;
  return {begin, begin == count ? count : end};
}

/// The target is an output, of which the source is a stand-in.
static bool isPatchableResult(const Program &program, uint32_t index) {
  const Slot *slots = program.slots();
  const Step *steps = program.steps();
  const int64_t *ints = program.ints();
  const Step &copy = steps[index];
  uint32_t standIn = wholeSlot(program, copy.a);
  if (slots[standIn].kind != SlotKind::Arena ||
      slots[standIn].bytes != slots[copy.b].bytes)
    return false;
  auto [begin, end] = graphAround(program, index);
  std::vector<bool> shows(program.header().slots);
  shows[standIn] = true;
  for (uint32_t i = 0; i < program.header().steps; ++i) {
    const Step &s = steps[i];
    if (i == index)
      continue;
    bool inside = begin < i && i < end, meets = false, target = false;
    auto meet = [&](int64_t slot) {
      meets |= slot >= 0 && shows[slot];
      target |= slot == copy.b;
    };
    switch (s.kind) {
    case StepKind::Kernel:
      for (uint32_t k = 0; k < s.c; ++k)
        meet(ints[s.b + k]);
      break;
    case StepKind::Call:
      for (uint64_t at = s.b; ArgTag(ints[at]) != ArgTag::End; ++at) {
        ArgTag tag = ArgTag(ints[at]);
        if (tag != ArgTag::None && ++at && tag == ArgTag::Tensor)
          meet(ints[at]);
      }
      break;
    case StepKind::View:
      meet(s.b);
      if (meets && inside)
        shows[s.a] = true;
      break;
    case StepKind::Copy:
      meet(s.a);
      if (shows[s.b] || (inside && s.b == copy.b))
        return false;
      break;
    case StepKind::HostValue:
    case StepKind::Move:
      if (shows[s.a] || shows[s.b])
        return false;
      break;
    case StepKind::If:
    case StepKind::WhileTest:
    case StepKind::For:
    case StepKind::Release:
      if (shows[s.a])
        return false;
      break;
    default:
      break;
    }
    if (inside ? target : meets)
      return false;
  }
  for (uint32_t i = 0; i < program.header().outputs; ++i)
    if (shows[program.outputSlot(i)])
      return false;
  return true;
}

bool pyjit::rt::isPatchable(const Program &program, uint32_t index) {
  if (program.slots()[program.steps()[index].b].kind == SlotKind::Fresh)
    return isPatchableResult(program, index);
  const Header &h = program.header();
  const Slot *slots = program.slots();
  const Step *steps = program.steps();
  const int64_t *ints = program.ints();
  const Step &copy = steps[index];
  SlotKind kind = slots[copy.a].kind;
  bool isExternal = kind == SlotKind::Input || kind == SlotKind::Cached ||
                    kind == SlotKind::Fresh || kind == SlotKind::Result;
  if (!isExternal || slots[copy.a].flags & kSlotHost ||
      slots[copy.b].kind != SlotKind::Arena)
    return false;
  std::vector<bool> shows(h.slots); // the target
  shows[copy.b] = true;
  bool isWritten = slots[copy.a].flags & kSlotWritten;
  bool inside = false; // behind the copy, in its graph
  for (uint32_t i = 0; i < h.steps; ++i) {
    const Step &s = steps[i];
    inside = i == index || (inside && s.kind != StepKind::GraphEnd);
    if (i == index)
      continue;
    bool meets = false;
    switch (s.kind) {
    case StepKind::Kernel:
      for (uint32_t k = 0; k < s.c; ++k)
        meets |= shows[ints[s.b + k]] ||
                 (inside && isWritten && s.flags & kStepWritesInput &&
                  ints[s.b + k] == copy.a);
      break;
    case StepKind::View:
      meets = shows[s.b] && !inside;
      if (shows[s.b])
        shows[s.a] = true;
      break;
    case StepKind::Copy:
    case StepKind::HostValue:
    case StepKind::Move:
      meets = shows[s.a] || shows[s.b] || (inside && s.b == copy.a);
      break;
    case StepKind::If:
    case StepKind::WhileTest:
    case StepKind::For:
    case StepKind::Release:
      meets = shows[s.a];
      break;
    default:
      break;
    }
    if (meets)
      return false;
  }
  for (uint32_t i = 0; i < h.outputs; ++i)
    if (shows[program.outputSlot(i)])
      return false;
  return true;
}
