//===- DeviceExecutor.cpp - Runs launch programs on a GPU -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DeviceExecutor.h"

#include "pyjit-rt/ControlFlow.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <stdexcept>

using namespace pyjit::rt;

static size_t elementBytes(uint8_t dtype) {
  return c10::elementSize(static_cast<c10::ScalarType>(dtype));
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

std::unique_ptr<DeviceExecutor>
DeviceExecutor::create(Program program, std::vector<KernelFn> kernels,
                       std::string &error,
                       std::shared_ptr<SharedBySizes> shared) {
  const Header &header = program.header();
  auto device = TorchDevice::open(header.deviceType, header.deviceIndex, error);
  if (!device)
    return nullptr;
  std::unique_ptr<DeviceExecutor> executor(
      new DeviceExecutor(std::move(program), std::move(kernels),
                         std::move(device), std::move(shared)));
  try {
    if (!executor->load(error))
      return nullptr;
  } catch (const std::exception &exception) {
    error = exception.what();
    return nullptr;
  }
  return executor;
}

DeviceExecutor::DeviceExecutor(Program loadedProgram,
                               std::vector<KernelFn> functions,
                               std::unique_ptr<TorchDevice> where,
                               std::shared_ptr<SharedBySizes> sizes)
    : TorchExecutor(std::move(loadedProgram), std::move(functions)),
      device(std::move(where)), shared(std::move(sizes)),
      loaded(device->sharedDriver()) {
  if (shared && !shared->pool)
    shared->pool = device->driver().graphPool();
}

DeviceExecutor::~DeviceExecutor() {
  if (shared)
    shared->pool->leave(*this);
  if (!captureStream)
    return;
  try {
    TorchDevice::Scope scope(*device);
    // Replays may still be under way; their memory goes with the instances.
    for (auto &[stream, instance] : instances)
      device->driver().synchronize(stream);
    instances.clear();
    device->driver().destroyStream(captureStream);
  } catch (const std::exception &) {
    // At the end of the process the driver may be gone already.
  }
}

bool DeviceExecutor::load(std::string &error) {
  TorchDevice::Scope scope(*device);
  for (uint32_t i = 0; i < program.numSteps(); ++i) {
    const Step &step = program.steps()[i];
    bool counts = step.kind == StepKind::For || step.kind == StepKind::ForEnd;
    if (counts || step.kind >= StepKind::Move || step.flags & kStepDynamic) {
      error = "counted loops, names and indices known at run time are not "
              "launched on a device";
      return false;
    }
  }
  if (!plan(error) ||
      !loaded.load(program, kernels, error, shared ? &shared->code : nullptr) ||
      (device->driver().isSimulated() && !loadCalls(error)))
    return false;
  int32_t call = 0;
  for (uint32_t i = 0; i < program.numSteps(); ++i)
    callOfStep.push_back(program.steps()[i].kind == StepKind::Call ? call++
                                                                   : -1);
  findOrigins();
  findAlignments();
  findGraphs();
  findTensors();
  findStaging();
  ran.assign(program.numSteps(), false);
  choice.emplace(program.header().variants, /*dropSlow=*/decides);
  idle = findIdle();
  return true;
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
      read(step.a);
      break;
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

//===----------------------------------------------------------------------===//
// One call
//===----------------------------------------------------------------------===//

/// Memory that nobody else writes.
void DeviceExecutor::ownArena(Instance &instance) {
  // Even where all are empty: tensors have to know their device.
  int64_t bytes = std::max<int64_t>(stagingBegin, 1), one = 1;
  fillArena(instance, device->empty(bytes, one, at::kByte), staged);
  instance.ownsArena = true;
}

/// The memory of all sizes, which is as large as the largest of them needs.
void DeviceExecutor::borrowArena(Instance &instance, cuda::Stream stream) {
  at::Tensor &arena = shared->arenas[stream];
  int64_t bytes = std::max<int64_t>(program.header().arenaBytes, 1), one = 1;
  if (!arena.defined() || arena.numel() < bytes) {
    // Sizes that grow would need more each time.
    int64_t more = arena.defined() ? arena.numel() + arena.numel() / 2 : 0;
    arena.reset();
    arena = device->empty(std::max(bytes, more), one, at::kByte);
  }
  if (instance.filledFor == arena.const_data_ptr())
    instance.storage = arena;
  else
    fillArena(instance, arena);
  instance.filledFor = arena.const_data_ptr();
}

/// Plain launches, with memory of its own or borrowed until they are made.
bool DeviceExecutor::runPlain(Instance &instance, const at::Tensor *inputs,
                              const at::Tensor *cached, const Results &results,
                              cuda::Stream stream) {
  if (!shared && !instance.ownsArena)
    ownArena(instance);
  if (instance.ownsArena)
    return runOnce(instance, Variant::Plain, inputs, cached, results, stream);
  std::lock_guard<std::mutex> guard(shared->arenaLock);
  borrowArena(instance, stream);
  struct Release {
    Instance &instance;
    ~Release() { instance.storage.reset(); }
  } release{instance};
  return runOnce(instance, Variant::Plain, inputs, cached, results, stream);
}

bool DeviceExecutor::giveUpGraphs() {
  std::unique_lock<std::mutex> guard(runLock, std::try_to_lock);
  if (!guard)
    return false;
  try {
    TorchDevice::Scope scope(*device);
    cuda::Driver &driver = device->driver();
    for (auto &[stream, instance] : instances) {
      bool captured = false;
      if (driver.isCapturing(stream, &captured) || captured)
        return false;
    }
    for (auto &[stream, instance] : instances) {
      if (!instance->ownsArena)
        continue;
      dropGraphs(*instance, stream);
      instance->ownsArena = false;
      instance->storage.reset();
      instance->filledFor = nullptr;
      instance->runs = 0;
    }
    return true;
  } catch (const std::exception &) {
    return false;
  }
}

bool DeviceExecutor::run(const at::Tensor *inputs, const at::Tensor *cached,
                         at::Tensor *outputs, SavedValues *saved) {
  std::lock_guard<std::mutex> guard(runLock);
  return runNow(inputs, cached, {outputs, saved});
}

bool DeviceExecutor::runNow(const at::Tensor *inputs, const at::Tensor *cached,
                            const Results &results) {
  TorchDevice::Scope scope(*device);
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  cuda::Stream stream = device->currentStream();
  bool captured = false;
  cuda::check(device->driver(), device->driver().isCapturing(stream, &captured),
              "the stream");
  if (captured) {
    // The user's own graph: memory that lives as long as it does, plain
    // launches.
    if (decides || speculates)
      throw std::runtime_error("a loop or branch that data decide cannot be "
                               "launched into a graph of the user's own");
    auto once = std::make_unique<Instance>();
    ownArena(*once);
    return runOnce(*once, Variant::Plain, inputs, cached, results, stream);
  }
  std::unique_ptr<Instance> &instance = instances[stream];
  if (!instance) {
    instance = std::make_unique<Instance>();
    instance->workspace = LibraryWorkspace::of(device->device(), stream);
  }
  dropOtherSettings(*instance, stream);
  warmUp(*instance, stream);
  adapt(*instance, stream);
  // Libraries set themselves up in a plain run, which a capture does not allow.
  // One of several sizes may never come back: graphs are for those that do.
  constexpr uint64_t kComesBack = 2;
  uint64_t run = instance->runs++;
  if (!instance->warm || (shared && !sizesNow && run < kComesBack)) {
    bool answered = runPlain(*instance, inputs, cached, results, stream);
    instance->warm = instance->warm || everyCallRan();
    warmUp(*instance, stream);
    return answered;
  }
  if (!shared)
    return runNext(*instance, inputs, cached, results, stream);
  if (!choice->numLooks() && !assumed) {
    std::lock_guard<std::mutex> guard(shared->bestLock);
    if (shared->best)
      choice->assume(*shared->best);
    assumed = true;
  }
  if (choice->decided() && choice->chosen() == Variant::Plain &&
      !choice->wantsTime()) {
    choice->passed();
    return runPlain(*instance, inputs, cached, results, stream);
  }
  if (!instance->ownsArena)
    ownArena(*instance);
  shared->pool->use(*this);
  bool answered = runNext(*instance, inputs, cached, results, stream);
  if (choice->decided() && choice->numLooks()) {
    std::lock_guard<std::mutex> guard(shared->bestLock);
    shared->best = choice->chosen();
  }
  return answered;
}

bool DeviceExecutor::settle() {
  try {
    TorchDevice::Scope scope(*device);
    cuda::Driver &driver = device->driver();
    cuda::Stream stream = device->currentStream();
    bool captured = false;
    return !driver.isCapturing(stream, &captured) && !captured &&
           !driver.synchronize(stream);
  } catch (const std::exception &) {
    return false;
  }
}

/// An input that the code's alignment asked a copy of has it written; the
/// input itself is still to be.
void DeviceExecutor::writeMisaligned(Instance &instance,
                                     const at::Tensor *inputs) {
  for (uint32_t i = 0; i < program.numSlots(); ++i) {
    const Slot &slot = program.slots()[i];
    if (slot.flags & kSlotWritten &&
        !instance.values[i].is_same(inputs[slot.place]))
      inputs[slot.place].copy_(instance.values[i]);
  }
}

/// See `run`.
bool DeviceExecutor::runOnce(Instance &instance, Variant variant,
                             const at::Tensor *inputs, const at::Tensor *cached,
                             const Results &results, cuda::Stream stream) {
  makeWritable(inputs);
  bind(instance, inputs, cached);
  if (sizesNow && variant == Variant::Plain)
    ++shared->plainCalls;
  if (variant != Variant::Plain)
    dropMoved(instance, stream);
  bool answered = execute(instance, variant, stream);
  if (answered && !written.empty())
    writeMisaligned(instance, inputs);
  if (answered)
    giveOutputs(instance, results.outputs, results.saved);
  instance.saved.reset();
  for (at::Tensor &value : instance.values)
    value.reset();
  return answered;
}

void DeviceExecutor::bind(Instance &instance, const at::Tensor *inputs,
                          const at::Tensor *cached) {
  if (savedPlan) {
    int64_t bytes = std::max<int64_t>(program.header().savedBytes, 1), one = 1;
    instance.saved = device->empty(bytes, one, at::kByte);
  }
  for (uint32_t i = 0; i < program.numSlots(); ++i) {
    const Slot &slot = program.slots()[i];
    at::Tensor &value = instance.values[i];
    switch (slot.kind) {
    case SlotKind::Input:
    case SlotKind::Cached: {
      bool isInput = slot.kind == SlotKind::Input;
      const at::Tensor &given = (isInput ? inputs : cached)[slot.place];
      if (asTensor[i])
        value = given;
      bindAddress(instance, i, given);
      continue;
    }
    case SlotKind::Fresh:
      if (slot.flags & kSlotSaved) {
        bindSaved(i, instance, asTensor[i]);
        continue;
      }
      value = device->empty(sizes(slot), strides(slot),
                            static_cast<c10::ScalarType>(slot.dtype));
      bindAddress(instance, i, value);
      continue;
    case SlotKind::Arena:
      if (asTensor[i])
        value = instance.slots[i];
      continue;
    case SlotKind::Words: {
      auto *words = const_cast<int64_t *>(program.ints() + slot.place);
      // A kernel's parameter is what stands here: for a number, the number.
      instance.buffers[i] =
          slot.flags & kSlotValue ? reinterpret_cast<void *>(*words) : words;
      continue;
    }
    case SlotKind::Result:
    case SlotKind::View:
      continue;
    }
  }
}

void DeviceExecutor::bindAddress(Instance &instance, uint32_t i,
                                 const at::Tensor &given) {
  if (!given.has_storage())
    return;
  const void *data = given.const_data_ptr();
  // Code relies on an alignment that a view of the user's may not have.
  if (cuda::asAddress(data) % inputAlign[i]) {
    const Slot &slot = program.slots()[i];
    at::Tensor aligned =
        device->empty(sizes(slot), strides(slot), given.scalar_type());
    if (at::has_internal_overlap(aligned) == at::MemOverlap::Yes) {
      // ATen writes no tensor that is expanded; its memory, from the first
      // element to the last, is one that it writes.
      int64_t count = slot.bytes / given.element_size(), one = 1;
      aligned.as_strided(count, one).copy_(given.as_strided(count, one));
    } else {
      aligned.copy_(given);
    }
    data = aligned.const_data_ptr();
    instance.values[i] = std::move(aligned);
  }
  instance.buffers[i] = const_cast<void *>(data);
}

/// Graphs that hold the address of a parameter that moved are made anew.
void DeviceExecutor::dropMoved(Instance &instance, cuda::Stream stream) {
  bool moved = false;
  for (auto &[slot, address] : instance.stable)
    moved |= instance.buffers[slot] != address;
  if (!moved)
    return;
  dropGraphs(instance, stream);
  // Parameters that move all the time are no parameters.
  constexpr unsigned kMany = 8;
  if (++instance.recaptures < kMany)
    return;
  choice->failed("parameters keep moving");
  choice->fix(Variant::Plain);
}

/// The next call is a plain one: libraries choose their kernels anew then.
void DeviceExecutor::dropOtherSettings(Instance &instance,
                                       cuda::Stream stream) {
  if (calls.empty())
    return;
  VendorSettings settings = VendorSettings::now();
  if (instance.settings == settings)
    return;
  instance.settings = settings;
  if (!instance.warm)
    return;
  dropGraphs(instance, stream);
  instance.warm = false;
  std::fill(ran.begin(), ran.end(), false);
}

void DeviceExecutor::dropGraphs(Instance &instance, cuda::Stream stream) {
  cuda::check(device->driver(), device->driver().synchronize(stream),
              "waiting for graphs that are out of date");
  for (auto &graphs : instance.graphs)
    graphs.clear();
  instance.stable.clear();
}

/// A body that no call has entered yet may hold vendor calls that still have
/// to set themselves up.
bool DeviceExecutor::everyCallRan() const {
  for (uint32_t i = 0; i < program.numSteps(); ++i)
    if (callOfStep[i] >= 0 && !ran[i])
      return false;
  return true;
}

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
