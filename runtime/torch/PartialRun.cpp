//===- PartialRun.cpp - Running a program for some of its outputs ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/TorchExecutor.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

using namespace pyjit::rt;

namespace {

/// Which memory slots show: those of one root may overlap.
class Roots {
public:
  explicit Roots(const Program &program) {
    for (uint32_t i = 0; i < program.numSlots(); ++i)
      roots.push_back(i);
    for (uint32_t i = 0; i < program.numSteps(); ++i)
      if (const Step &step = program.steps()[i];
          step.kind == StepKind::View || step.kind == StepKind::Move)
        roots[step.a] = roots[step.b];
  }
  uint32_t operator[](int64_t slot) const { return roots[slot]; }

private:
  std::vector<uint32_t> roots;
};

/// Whether steps run one after the other, and write nothing but slots of the
/// run.
bool isStraight(const Program &program) {
  for (uint32_t i = 0; i < program.numSteps(); ++i)
    switch (program.steps()[i].kind) {
    case StepKind::Kernel:
    case StepKind::Call:
    case StepKind::View:
    case StepKind::Move:
    case StepKind::Copy:
    case StepKind::Release:
      break;
    default:
      return false;
    }
  return true;
}

} // namespace

/// The slots that step `i` may read or write, all of which it is taken to do.
std::vector<int64_t> TorchExecutor::slotsOf(uint32_t i) const {
  const Step &step = program.steps()[i];
  std::vector<int64_t> slots;
  switch (step.kind) {
  case StepKind::Kernel:
    slots.assign(program.ints() + step.b, program.ints() + step.b + step.c);
    break;
  case StepKind::Call: {
    const CallPlan &plan = calls[callOf[i]];
    slots.assign(plan.results, plan.results + plan.numResults);
    for (const TensorArgument &argument : plan.tensors)
      slots.insert(slots.end(), argument.slots.begin(), argument.slots.end());
    break;
  }
  case StepKind::View:
    if (step.flags & kStepDynamic)
      for (int64_t k = 0; k < program.ints()[step.c + 1]; ++k)
        slots.push_back(program.ints()[step.c + 2 + 5 * k]);
    [[fallthrough]];
  default:
    slots.insert(slots.end(), {step.a, step.b});
  }
  slots.erase(std::remove(slots.begin(), slots.end(), int64_t(-1)),
              slots.end());
  return slots;
}

/// From the last step to the first: one that may write what is needed behind it
/// runs, and needs all that it touches.
TorchExecutor::Part
TorchExecutor::partFor(const std::vector<bool> &wanted) const {
  Roots roots(program);
  std::vector<bool> needed(program.numSlots()); // by root
  for (uint32_t i = 0; i < program.numOutputs(); ++i)
    if (wanted[i])
      needed[roots[program.outputSlot(i)]] = true;
  auto isWritten = [&](int64_t slot) {
    SlotKind kind = program.slots()[roots[slot]].kind;
    return kind != SlotKind::Input && kind != SlotKind::Words &&
           needed[roots[slot]];
  };
  Part part;
  part.steps.resize(program.numSteps());
  for (uint32_t i = program.numSteps(); i-- > 0;) {
    const Step &step = program.steps()[i];
    std::vector<int64_t> slots = slotsOf(i);
    if (step.kind == StepKind::Release) // of nothing, maybe
      part.steps[i] = true;
    else if (step.kind == StepKind::View || step.kind == StepKind::Move)
      part.steps[i] = needed[roots[step.a]];
    else
      part.steps[i] = std::any_of(slots.begin(), slots.end(), isWritten);
    if (part.steps[i] && step.kind != StepKind::Release)
      for (int64_t slot : slots)
        needed[roots[slot]] = true;
  }
  for (uint32_t i = 0; i < program.numSlots(); ++i)
    part.slots.push_back(needed[roots[i]]);
  return part;
}

void TorchExecutor::runFor(const std::vector<bool> &wanted,
                           const at::Tensor *inputs, at::Tensor *outputs) {
  if (onDevice() || program.numSymbols() || savedPlan || !written.empty() ||
      !isStraight(program)) {
    run(inputs, nullptr, outputs);
    return;
  }
  auto arena = takeArena();
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  Part part = partFor(wanted);
  bindSlots(*arena, inputs, nullptr, &part);
  runSteps(*arena, &part);
  for (uint32_t i = 0; i < program.numOutputs(); ++i)
    if (wanted[i])
      outputs[i] = ownOutput(*arena, i);
  giveArena(std::move(arena));
}
