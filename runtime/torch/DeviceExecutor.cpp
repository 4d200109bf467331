//===- DeviceExecutor.cpp - Runs launch programs on a GPU -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DeviceExecutor.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <stdexcept>

using namespace pyjit::rt;

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
