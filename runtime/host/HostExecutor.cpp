//===- HostExecutor.cpp - Runs launch programs without Torch --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/HostExecutor.h"

#include "pyjit-rt/ControlFlow.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace pyjit::rt {
namespace {

size_t elementBytes(int dtype) {
  static const uint8_t bytes[] = {1, 1, 2,  4, 8, 2, 4, 8,
                                  4, 8, 16, 1, 1, 1, 4, 2};
  return dtype >= 0 && dtype < int(sizeof bytes) ? bytes[dtype] : 1;
}

PyjitArray arrayOf(const Program &program, const Slot &slot) {
  PyjitArray array{};
  array.dtype = slot.dtype;
  array.rank = std::min<int32_t>(slot.rank, PYJIT_RT_MAX_RANK);
  std::copy_n(program.ints() + slot.dims, array.rank, array.sizes);
  std::copy_n(program.ints() + slot.dims + slot.rank, array.rank,
              array.strides);
  return array;
}

} // namespace

bool needsVendorCalls(const Program &program) {
  return std::any_of(
      program.steps(), program.steps() + program.numSteps(),
      [](const Step &step) { return step.kind == StepKind::Call; });
}

void describe(const Program &program, std::vector<PyjitArray> &inputs,
              std::vector<PyjitArray> &outputs) {
  inputs.assign(program.numInputs(), {});
  outputs.assign(program.numOutputs(), {});
  for (uint32_t i = 0; i < program.numSlots(); ++i)
    if (program.slots()[i].kind == SlotKind::Input)
      inputs[program.slots()[i].place] = arrayOf(program, program.slots()[i]);
  for (uint32_t i = 0; i < program.numOutputs(); ++i)
    outputs[i] = arrayOf(program, program.slots()[program.outputSlot(i)]);
}

bool readSymbols(const Program &program, const std::vector<PyjitArray> &inputs,
                 std::vector<int64_t> &symbols, std::string &error) {
  symbols.clear();
  for (uint32_t i = 0; i < program.numSymbols(); ++i) {
    auto [input, dim] = program.symbolSource(i);
    const PyjitArray &array = inputs[input];
    symbols.push_back(dim < 0 ? *static_cast<const int64_t *>(array.data)
                              : array.sizes[dim]);
    if (symbols.back() < 2) {
      error = "symbol s" + std::to_string(i) + " is " +
              std::to_string(symbols.back()) + ", it has to be at least 2";
      return false;
    }
  }
  return true;
}

size_t extentBytes(const PyjitArray &array) {
  int64_t last = 1;
  for (int i = 0; i < array.rank; ++i) {
    if (array.sizes[i] == 0)
      return 0;
    last += (array.sizes[i] - 1) * array.strides[i];
  }
  return last * elementBytes(array.dtype);
}

namespace {

/// One run: where each slot lies, and what is to be undone.
class HostRun {
public:
  HostRun(const Program &program, const std::vector<KernelFn> &kernels,
          const std::vector<PyjitArray> &inputs);
  /// Null, or why the run does not end; inputs are then as they were.
  const char *run();
  const void *output(uint32_t number) const {
    return data[program.outputSlot(number)];
  }

private:
  char *allocate(size_t bytes);
  /// Null, or why there is no next step.
  const char *carryOut(uint32_t number);
  void copy(const Step &step) {
    copySlot(program, program.slots()[step.a], data[step.a],
             program.slots()[step.b], data[step.b]);
  }

  const Program &program;
  const std::vector<KernelFn> &kernels;
  std::vector<std::unique_ptr<char[]>> owned;
  std::vector<void *> data; // by slot
  std::vector<void *> buffers;
  std::vector<uint32_t> undo; // steps
};

HostRun::HostRun(const Program &program, const std::vector<KernelFn> &kernels,
                 const std::vector<PyjitArray> &inputs)
    : program(program), kernels(kernels), data(program.numSlots(), nullptr) {
  char *arena = allocate(program.header().arenaBytes);
  for (uint32_t i = 0; i < program.numSlots(); ++i) {
    const Slot &slot = program.slots()[i];
    if (slot.kind == SlotKind::Input)
      data[i] = inputs[slot.place].data;
    else if (slot.kind == SlotKind::Arena)
      data[i] = arena + slot.place;
    else if (slot.kind == SlotKind::Fresh)
      data[i] = allocate(slot.bytes);
    else if (slot.kind == SlotKind::Words)
      data[i] = const_cast<int64_t *>(program.ints() + slot.place);
  }
}

char *HostRun::allocate(size_t bytes) {
  constexpr size_t kAlign = 64;
  owned.emplace_back(new char[bytes + kAlign]);
  auto address = reinterpret_cast<uintptr_t>(owned.back().get());
  return reinterpret_cast<char *>((address + kAlign - 1) / kAlign * kAlign);
}

const char *HostRun::carryOut(uint32_t number) {
  const Step &step = program.steps()[number];
  switch (step.kind) {
  case StepKind::View: {
    int64_t offset;
    if (!viewOffset(program, step, data.data(), offset))
      return "index out of range";
    data[step.a] =
        static_cast<char *>(data[step.b]) +
        offset * int64_t(elementBytes(program.slots()[step.b].dtype));
    return nullptr;
  }
  case StepKind::Move:
    data[step.a] = data[step.b];
    return nullptr;
  case StepKind::Pick: {
    uint32_t picked;
    if (!pickSlot(program, step, data.data(), picked))
      return "index out of range";
    data[step.a] = data[picked];
    return nullptr;
  }
  case StepKind::Copy:
    copy(step);
    return nullptr;
  case StepKind::Undo:
    undo.push_back(number);
    return nullptr;
  case StepKind::Speculate:
    return *static_cast<const uint8_t *>(data[step.a]) ? nullptr : kUnanswered;
  case StepKind::Kernel:
    buffers.clear();
    for (uint32_t k = 0; k < step.c; ++k)
      buffers.push_back(data[program.ints()[step.b + k]]);
    kernels[step.a](buffers.data(), 0, program.kernels()[step.a].work);
    return nullptr;
  default: // where to go on: `followStep`
    return nullptr;
  }
}

const char *HostRun::run() {
  for (uint32_t i = 0; i < program.numSteps();
       i = followStep(program, i, data.data()))
    if (const char *why = carryOut(i)) {
      // The last first.
      for (; !undo.empty(); undo.pop_back())
        for (uint32_t k = 1; k <= program.steps()[undo.back()].a; ++k)
          copy(program.steps()[undo.back() + k]);
      return why;
    }
  return nullptr;
}

} // namespace

bool runOnHost(const Program &program, const std::vector<KernelFn> &kernels,
               const std::vector<PyjitArray> &inputs,
               std::vector<PyjitArray> &outputs, std::string &error) {
  if (program.numSymbols()) {
    error = "the program's sizes have no values yet";
    return false;
  }
  if (needsVendorCalls(program)) {
    error = "the program makes vendor calls, which need Torch";
    return false;
  }
  HostRun run(program, kernels, inputs);
  if (const char *why = run.run()) {
    error = why;
    return false;
  }
  for (uint32_t i = 0; i < program.numOutputs(); ++i)
    std::memcpy(outputs[i].data, run.output(i), extentBytes(outputs[i]));
  return true;
}

} // namespace pyjit::rt
