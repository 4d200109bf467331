//===- DeviceProgram.cpp - What a device's launch program says ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the steps and slots of a launch program mean for a device, found once,
// when it is loaded: a run asks the tables that are filled here.
//
//===----------------------------------------------------------------------===//

#include "DeviceExecutor.h"

#include <algorithm>

using namespace pyjit::rt;

static size_t elementBytes(uint8_t dtype) {
  return c10::elementSize(static_cast<c10::ScalarType>(dtype));
}

/// Which external memory each slot is part of.
void DeviceExecutor::findOrigins() {
  origins.assign(program.numSlots(), {});
  for (uint32_t i = 0; i < program.numSlots(); ++i) {
    SlotKind kind = program.slots()[i].kind;
    if (kind == SlotKind::Input || kind == SlotKind::Cached ||
        kind == SlotKind::Fresh)
      origins[i].slot = i;
  }
  bool inGraph = false;
  for (uint32_t i = 0; i < program.numSteps(); ++i) {
    const Step &step = program.steps()[i];
    inGraph |= step.kind == StepKind::GraphBegin;
    inGraph &= step.kind != StepKind::GraphEnd;
    // What a vendor call outside of graphs allocates is elsewhere next time.
    if (step.kind == StepKind::Call && !inGraph) {
      const CallPlan &plan = calls[callOfStep[i]];
      for (int64_t k = 0; k < plan.numResults; ++k)
        if (int64_t slot = plan.results[k]; slot >= 0)
          origins[slot].slot = slot;
    }
    if (step.kind == StepKind::View) {
      origins[step.a] = origins[step.b];
      origins[step.a].offset +=
          program.ints()[step.c] * elementBytes(program.slots()[step.a].dtype);
    }
  }
}

/// How external memory has to be aligned.
void DeviceExecutor::findAlignments() {
  inputAlign.assign(program.numSlots(), 1);
  for (uint32_t i = 0; i < program.numSteps(); ++i) {
    const Step &step = program.steps()[i];
    if (step.kind != StepKind::Kernel)
      continue;
    const std::vector<uint32_t> &align = loaded[step.a].align;
    for (uint32_t k = 0; k < step.c && k < align.size(); ++k) {
      int32_t root = origins[program.ints()[step.b + k]].slot;
      if (root >= 0)
        inputAlign[root] = std::max(inputAlign[root], align[k]);
    }
  }
}

void DeviceExecutor::findGraphs() {
  std::vector<int32_t> madeIn(program.numSlots(), -1);
  standsFor.assign(program.numSlots(), -1);
  std::vector<bool> listed(program.numSlots()), touched(program.numSlots());
  int32_t current = -1;
  for (uint32_t i = 0; i < program.numSteps(); ++i)
    if (const Step &step = program.steps()[i];
        step.kind == StepKind::Copy && step.flags & kStepPatchable)
      standsFor[patchable(i).own] = i;
  auto touch = [&](int64_t slot) {
    if (origins[slot].slot >= 0)
      touched[origins[slot].slot] = true;
  };
  auto read = [&](int64_t slot) {
    if (slot < 0 || madeIn[slot] < 0 || madeIn[slot] == current || listed[slot])
      return;
    listed[slot] = true;
    graphInfos[madeIn[slot]].results.push_back(slot);
  };
  for (uint32_t i = 0; i < program.numSteps(); ++i) {
    const Step &step = program.steps()[i];
    switch (step.kind) {
    case StepKind::GraphBegin: {
      current = graphInfos.size();
      GraphInfo info;
      info.begin = info.end = i;
      const int64_t *list = program.ints() + step.b;
      info.externals.assign(list + 1, list + 1 + list[0]);
      for (uint32_t slot : info.externals)
        if (program.slots()[slot].kind == SlotKind::Fresh && touched[slot])
          info.carried.push_back(slot);
      graphInfos.push_back(std::move(info));
      break;
    }
    case StepKind::GraphEnd:
      graphInfos[current].end = i;
      current = -1;
      break;
    case StepKind::Kernel:
      for (uint32_t k = 0; k < step.c; ++k) {
        read(program.ints()[step.b + k]);
        touch(program.ints()[step.b + k]);
      }
      break;
    case StepKind::Call: {
      const CallPlan &plan = calls[callOfStep[i]];
      for (const TensorArgument &argument : plan.tensors)
        for (int64_t slot : argument.slots)
          read(slot);
      if (current < 0)
        break;
      graphInfos[current].vendorCalls = true;
      for (int64_t k = 0; k < plan.numResults; ++k)
        if (plan.results[k] >= 0)
          madeIn[plan.results[k]] = current;
      break;
    }
    case StepKind::View:
      read(step.b);
      standsFor[step.a] = standsFor[step.b];
      if (current >= 0)
        madeIn[step.a] = current;
      break;
    case StepKind::Copy:
      read(step.a);
      touch(step.b);
      if (step.flags & kStepPatchable)
        graphInfos[current].patchable.push_back(i);
      break;
    case StepKind::HostValue:
    case StepKind::Speculate:
      read(step.a);
      break;
    case StepKind::If:
    case StepKind::WhileTest:
      read(step.a);
      if (current >= 0)
        graphInfos[current].conditional = true;
      decides = true;
      break;
    default:
      break;
    }
  }
  for (uint32_t i = 0; i < program.numOutputs(); ++i)
    read(program.outputSlot(i));
}

/// What vendor calls, views and patchable copies read as tensors, what is
/// handed over, and inputs that may have to be written behind the launch.
void DeviceExecutor::findTensors() {
  asTensor.assign(program.numSlots(), false);
  for (const CallPlan &call : calls)
    for (const TensorArgument &argument : call.tensors)
      for (int64_t slot : argument.slots)
        if (slot >= 0)
          asTensor[slot] = true;
  for (uint32_t i = 0; i < program.numSteps(); ++i) {
    const Step &step = program.steps()[i];
    if (step.kind == StepKind::View)
      asTensor[step.b] = true;
    if (step.kind == StepKind::Copy)
      asTensor[step.a] = true;
  }
  // Saved ones are shown by the plan of what is saved.
  for (uint32_t i = 0; i < program.numOutputs(); ++i)
    if (uint32_t slot = program.outputSlot(i);
        !(program.slots()[slot].flags & kSlotSaved))
      asTensor[slot] = true;
  for (uint32_t i = 0; i < program.numSlots(); ++i)
    if (program.slots()[i].flags & kSlotWritten)
      asTensor[i] = true;
}

DeviceExecutor::Patchable DeviceExecutor::patchable(uint32_t copy) const {
  const Step &step = program.steps()[copy];
  if (program.slots()[step.b].kind == SlotKind::Fresh)
    return {step.b, wholeSlot(program, step.a), true};
  return {step.a, step.b, false};
}

/// Programs of several sizes mix their buffers: there is nothing behind them.
void DeviceExecutor::findStaging() {
  staged.assign(program.numSlots(), false);
  for (uint32_t i = 0; i < program.numSteps(); ++i)
    if (const Step &step = program.steps()[i];
        step.kind == StepKind::Copy && step.flags & kStepPatchable)
      staged[patchable(i).own] = true;
  uint64_t others = 0;
  stagingBegin = program.header().arenaBytes;
  for (uint32_t i = 0; i < program.numSlots(); ++i)
    if (const Slot &slot = program.slots()[i]; slot.kind != SlotKind::Arena)
      continue;
    else if (staged[i])
      stagingBegin = std::min<uint64_t>(stagingBegin, slot.place);
    else
      others = std::max<uint64_t>(others, slot.place + slot.bytes);
  if (stagingBegin >= others && !shared)
    return;
  stagingBegin = program.header().arenaBytes;
  staged.clear();
}
