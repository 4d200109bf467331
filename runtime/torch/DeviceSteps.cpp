//===- DeviceSteps.cpp - Runs the steps of a launch program ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps of one run in their order: graphs are replayed, what lies between
// them and has no graph is launched step by step.
//
//===----------------------------------------------------------------------===//

#include "DeviceExecutor.h"

#include "pyjit-rt/ControlFlow.h"

#include <ATen/EmptyTensor.h>

#include <stdexcept>

using namespace pyjit::rt;

/// See `run`.
bool DeviceExecutor::execute(Instance &instance, Variant variant,
                             cuda::Stream stream) {
  uint32_t graph = 0;
  Interruption interruption(interrupt);
  for (uint32_t i = 0; i < program.numSteps();) {
    if (program.steps()[i].kind == StepKind::GraphBegin) {
      uint32_t number = graph++;
      Captured *graph = variant == Variant::Plain
                            ? nullptr
                            : tryGraph(number, variant, instance, stream);
      if (!graph) { // its launches one by one
        showResults(graphInfos[number], instance);
        ++i;
        continue;
      }
      try {
        replay(*graph, graphInfos[number], instance, stream);
      } catch (const std::exception &exception) {
        captureFailure = exception.what(); // this way of launching's
        throw;
      }
      i = graphInfos[number].end + 1;
      continue;
    }
    if (program.steps()[i].kind == StepKind::WhileEnd)
      interruption.check();
    if (program.steps()[i].kind == StepKind::Speculate &&
        !readFlag(program.steps()[i], instance, stream))
      return false;
    step(i, instance, stream);
    i = follow(i, instance, stream);
  }
  return true;
}

/// Where the host goes on.
uint32_t DeviceExecutor::follow(uint32_t index, Instance &instance,
                                cuda::Stream stream) {
  const Step &step = program.steps()[index];
  if (step.kind != StepKind::WhileTest && step.kind != StepKind::If)
    return followStep(program, index, nullptr);
  return readFlag(step, instance, stream) ? index + 1 : step.b + 1;
}

/// The bool in slot `step.a`. What the host decides by, it waits for.
bool DeviceExecutor::readFlag(const Step &step, Instance &instance,
                              cuda::Stream stream) {
  if (program.slots()[step.a].flags & kSlotHost)
    return *static_cast<const uint8_t *>(instance.buffers[step.a]);
  cuda::Driver &driver = device->driver();
  if (!instance.flag.defined())
    instance.flag = at::detail::empty_cpu({1}, at::kByte,
                                          /*pin_memory=*/!driver.isSimulated());
  auto *flag = static_cast<uint8_t *>(instance.flag.mutable_data_ptr());
  cuda::check(driver,
              driver.copyToHostAsync(
                  flag, cuda::asAddress(instance.buffers[step.a]), 1, stream),
              "reading a flag");
  cuda::check(driver, driver.synchronize(stream), "waiting for a flag");
  return *flag;
}

/// The numbers of this step and of those right behind it.
std::vector<cuda::HostNumber>
DeviceExecutor::hostNumbers(uint32_t first, const Instance &instance) const {
  std::vector<cuda::HostNumber> numbers;
  const Step *step = program.steps() + first;
  for (; step != program.steps() + program.numSteps() &&
         step->kind == StepKind::HostValue;
       ++step)
    numbers.push_back({cuda::asAddress(instance.buffers[step->b]), step->a,
                       instance.buffers[step->a],
                       program.slots()[step->a].bytes});
  return numbers;
}

void DeviceExecutor::step(uint32_t index, Instance &instance,
                          cuda::Stream stream) {
  const Step &step = program.steps()[index];
  cuda::Driver &driver = device->driver();
  const Slot *slots = program.slots();
  switch (step.kind) {
  case StepKind::Kernel:
    launch(step, instance, stream);
    return;
  case StepKind::Call:
    runCall(calls[callOfStep[index]], instance);
    ran[index] = true;
    return;
  case StepKind::View:
    makeViewSlot(step, instance);
    return;
  case StepKind::Release:
    instance.values[step.a].reset();
    return;
  case StepKind::Copy: {
    if (step.flags & kStepPatchable) {
      if (!patchable(index).isResult) // see `showResults`
        instance.values[step.b] = instance.values[step.a];
      return;
    }
    void *target = instance.buffers[step.b], *source = instance.buffers[step.a];
    if (!slots[step.a].bytes)
      return;
    if (slots[step.b].flags & kSlotHost)
      throw std::runtime_error("a copy to the host is no launch");
    bool host = slots[step.a].flags & kSlotHost;
    size_t bytes = slots[step.a].bytes;
    cuda::Result result =
        host ? driver.copyFromHostAsync(cuda::asAddress(target), source, bytes,
                                        stream)
             : driver.copyAsync(cuda::asAddress(target),
                                cuda::asAddress(source), bytes, stream);
    cuda::checkCopy(driver, result,
                    {cuda::asAddress(source), cuda::asAddress(target), bytes});
    return;
  }
  case StepKind::HostValue: {
    // The first of several has written those behind it.
    if (index && program.steps()[index - 1].kind == StepKind::HostValue)
      return;
    cuda::CapturedGraph now(device->sharedDriver());
    now.addHostNumbers(loaded.tableWriter(), hostNumbers(index, instance),
                       stream);
    return;
  }
  default: // where to go on: `follow`
    return;
  }
}

void DeviceExecutor::launch(const Step &step, Instance &instance,
                            cuda::Stream stream) {
  const cuda::LoadedKernel &kernel = loaded[step.a];
  if (!kernel.shape.grid[0])
    return;
  constexpr uint32_t kInline = 64;
  void *few[kInline];
  std::vector<void *> many;
  void **params = few;
  if (step.c > kInline) {
    many.resize(step.c);
    params = many.data();
  }
  // A parameter is given by the address of its value.
  for (uint32_t k = 0; k < step.c; ++k)
    params[k] = &instance.buffers[program.ints()[step.b + k]];
  cuda::Driver &driver = device->driver();
  if (cuda::Result result =
          driver.launchKernel(kernel.function, kernel.shape, stream, params))
    throw std::runtime_error(
        std::string("CUDA driver: kernel ") + kernel.name +
        (kernel.location ? std::string(" (") + kernel.location + ")" : "") +
        ": " + driver.describe(result));
}

void DeviceExecutor::makeViewSlot(const Step &step, Instance &instance) {
  const Slot &slot = program.slots()[step.a];
  const at::Tensor &base = instance.values[step.b];
  int64_t offset = program.ints()[step.c];
  instance.values[step.a] = makeView(slot, base, offset);
  instance.buffers[step.a] =
      const_cast<void *>(instance.values[step.a].const_data_ptr());
}
