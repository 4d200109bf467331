//===- PatchableCopies.cpp - Copies that vendor calls can do without ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Validator.h"

using namespace pyjit::rt;

bool pyjit::rt::isPatchable(const Program &program, uint32_t index) {
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
