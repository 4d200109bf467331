//===- DeviceExecutor.cpp - Runs launch programs on a GPU -----------------===//

#include "DeviceExecutor.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <stdexcept>

using namespace pyjit::rt;

namespace {

size_t elementBytes(uint8_t dtype) {
  return c10::elementSize(static_cast<c10::ScalarType>(dtype));
}

cuda::DevicePtr pointer(const void *data) {
  return reinterpret_cast<cuda::DevicePtr>(data);
}

} // namespace

/// Whether running a call twice would draw other numbers the second time.
bool DeviceExecutor::drawsNumbers(const CallPlan &plan) {
  if (!plan.op.hasTag(at::Tag::nondeterministic_seeded))
    return false;
  const auto &schema = plan.op.schema().arguments();
  for (size_t i = 0; i < schema.size(); ++i)
    if ((schema[i].name() == "dropout_p" || schema[i].name() == "p") &&
        plan.arguments[i].isDouble())
      return plan.arguments[i].toDouble() != 0;
  return true;
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

std::unique_ptr<DeviceExecutor>
DeviceExecutor::create(Program program, std::vector<KernelFn> kernels,
                       std::string &error) {
  const Header &header = program.header();
  auto device = TorchDevice::open(header.deviceType, header.deviceIndex, error);
  if (!device)
    return nullptr;
  std::unique_ptr<DeviceExecutor> executor(new DeviceExecutor(
      std::move(program), std::move(kernels), std::move(device)));
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
                               std::unique_ptr<TorchDevice> where)
    : TorchExecutor(std::move(loadedProgram), std::move(functions)),
      device(std::move(where)), loaded(device->sharedDriver()) {}

DeviceExecutor::~DeviceExecutor() {
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
  for (uint32_t i = 0; i < program.numSteps(); ++i)
    if (program.steps()[i].kind > StepKind::GraphEnd) {
      error = "loops and branches are not launched on a device yet";
      return false;
    }
  if (!plan(error) || !loaded.load(program, kernels, error))
    return false;
  int32_t call = 0;
  for (uint32_t i = 0; i < program.numSteps(); ++i)
    callOfStep.push_back(program.steps()[i].kind == StepKind::Call ? call++
                                                                   : -1);
  for (const CallPlan &call : calls)
    repeatable &= !drawsNumbers(call);
  findOrigins();
  findGraphs();
  return true;
}

/// Which external memory each slot is part of, and how it has to be aligned.
void DeviceExecutor::findOrigins() {
  origins.resize(program.numSlots());
  inputAlign.assign(program.numSlots(), 1);
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
    // What a library call outside of graphs allocates is elsewhere next time.
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
  std::vector<bool> listed(program.numSlots()), touched(program.numSlots());
  int32_t current = -1;
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
      GraphInfo info{i, i, false, {}, {}, {}};
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
      graphInfos[current].libraryCalls = true;
      for (int64_t k = 0; k < plan.numResults; ++k)
        if (plan.results[k] >= 0)
          madeIn[plan.results[k]] = current;
      break;
    }
    case StepKind::View:
      read(step.b);
      if (current >= 0)
        madeIn[step.a] = current;
      break;
    case StepKind::Copy:
      read(step.a);
      touch(step.b);
      break;
    case StepKind::HostValue:
      read(step.a);
      break;
    case StepKind::Release:
      break;
    default:
      break; // refused at load
    }
  }
  for (uint32_t i = 0; i < program.numOutputs(); ++i)
    read(program.outputSlot(i));
}

//===----------------------------------------------------------------------===//
// One call
//===----------------------------------------------------------------------===//

std::unique_ptr<DeviceExecutor::Instance> DeviceExecutor::makeInstance() {
  auto instance = std::make_unique<Instance>();
  at::Tensor storage;
  if (int64_t bytes = program.header().arenaBytes) {
    int64_t one = 1;
    storage = device->empty(bytes, one, at::kByte);
  }
  fillArena(*instance, std::move(storage));
  return instance;
}

void DeviceExecutor::run(const at::Tensor *inputs, const at::Tensor *cached,
                         at::Tensor *outputs) {
  std::lock_guard<std::mutex> guard(runLock);
  TorchDevice::Scope scope(*device);
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  cuda::Stream stream = device->currentStream();
  bool captured = false;
  cuda::check(device->driver(), device->driver().isCapturing(stream, &captured),
              "the stream");
  if (captured) {
    // The user's own graph: memory that lives as long as it does, plain
    // launches.
    auto once = makeInstance();
    runOnce(*once, Variant::Plain, inputs, cached, outputs, stream);
    return;
  }
  std::unique_ptr<Instance> &instance = instances[stream];
  if (!instance)
    instance = makeInstance();
  if (!instance->warm) {
    // Libraries set themselves up here, which a capture does not allow.
    runOnce(*instance, Variant::Plain, inputs, cached, outputs, stream);
    instance->warm = true;
    return;
  }
  if (!selected) {
    select(*instance, inputs, cached, outputs, stream);
    return;
  }
  runOnce(*instance, chosen, inputs, cached, outputs, stream);
}

void DeviceExecutor::runOnce(Instance &instance, Variant variant,
                             const at::Tensor *inputs, const at::Tensor *cached,
                             at::Tensor *outputs, cuda::Stream stream) {
  bind(instance, inputs, cached);
  if (variant != Variant::Plain)
    dropMoved(instance, stream);
  execute(instance, variant, stream);
  for (uint32_t i = 0; i < program.numOutputs(); ++i)
    outputs[i] = ownOutput(instance, i);
  for (at::Tensor &value : instance.values)
    value.reset();
}

void DeviceExecutor::bind(Instance &instance, const at::Tensor *inputs,
                          const at::Tensor *cached) {
  for (uint32_t i = 0; i < program.numSlots(); ++i) {
    const Slot &slot = program.slots()[i];
    at::Tensor &value = instance.values[i];
    switch (slot.kind) {
    case SlotKind::Input:
      value = inputs[slot.place];
      break;
    case SlotKind::Cached:
      value = cached[slot.place];
      break;
    case SlotKind::Fresh:
      value = device->empty(sizes(slot), strides(slot),
                            static_cast<c10::ScalarType>(slot.dtype));
      break;
    case SlotKind::Arena:
      value = instance.slots[i];
      continue;
    case SlotKind::Words:
    case SlotKind::Result:
    case SlotKind::View:
      continue;
    }
    if (!value.has_storage())
      continue;
    const void *data = value.const_data_ptr();
    // Code relies on an alignment that a view of the user's may not have.
    if (pointer(data) % inputAlign[i]) {
      at::Tensor aligned =
          device->empty(sizes(slot), strides(slot), value.scalar_type());
      value = aligned.copy_(value);
      data = value.const_data_ptr();
    }
    instance.buffers[i] = const_cast<void *>(data);
  }
}

/// Graphs that hold the address of a parameter that moved are made anew.
void DeviceExecutor::dropMoved(Instance &instance, cuda::Stream stream) {
  bool moved = false;
  for (auto &[slot, address] : instance.stable)
    moved |= instance.buffers[slot] != address;
  if (!moved)
    return;
  cuda::check(device->driver(), device->driver().synchronize(stream),
              "waiting for graphs that hold a parameter's old address");
  for (auto &graphs : instance.graphs)
    graphs.clear();
  instance.stable.clear();
  // Parameters that move all the time are no parameters.
  constexpr unsigned kMany = 8;
  if (++instance.recaptures < kMany)
    return;
  chosen = Variant::Plain;
  failures[unsigned(Variant::Update)] = "parameters keep moving";
}

void DeviceExecutor::execute(Instance &instance, Variant variant,
                             cuda::Stream stream) {
  uint32_t graph = 0;
  for (uint32_t i = 0; i < program.numSteps(); ++i) {
    if (program.steps()[i].kind == StepKind::GraphBegin) {
      uint32_t number = graph++;
      if (variant == Variant::Plain)
        continue;
      replay(graphFor(number, variant, instance), graphInfos[number], instance,
             stream);
      i = graphInfos[number].end;
      continue;
    }
    step(i, instance, stream);
  }
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
    return;
  case StepKind::View:
    makeViewSlot(step, instance);
    return;
  case StepKind::Release:
    instance.values[step.a].reset();
    return;
  case StepKind::Copy: {
    void *target = instance.buffers[step.b], *source = instance.buffers[step.a];
    if (!slots[step.a].bytes)
      return;
    if (slots[step.b].flags & kSlotHost)
      throw std::runtime_error("a copy to the host is no launch");
    bool host = slots[step.a].flags & kSlotHost;
    cuda::check(driver,
                host ? driver.copyFromHostAsync(pointer(target), source,
                                                slots[step.a].bytes, stream)
                     : driver.copyAsync(pointer(target), pointer(source),
                                        slots[step.a].bytes, stream),
                "copy");
    return;
  }
  case StepKind::HostValue: {
    cuda::CapturedGraph now(device->sharedDriver());
    now.addHostValue(pointer(instance.buffers[step.b]), step.a,
                     instance.buffers[step.a], slots[step.a].bytes, stream);
    return;
  }
  default: // a graph's ends; loops were refused at load
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

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

/// Whether a slot's address is renewed at each call.
bool DeviceExecutor::isMoving(uint32_t slot) const {
  int32_t root = origins[slot].slot;
  return root >= 0 && !(program.slots()[root].flags & kSlotStable);
}

cuda::Address DeviceExecutor::addressOf(uint32_t slot, Variant variant,
                                        const Instance &instance) const {
  cuda::Address address{pointer(instance.buffers[slot]), -1, 0};
  if (variant != Variant::Copy && isMoving(slot)) {
    address.slot = origins[slot].slot;
    address.offset = origins[slot].offset;
  }
  return address;
}

DeviceExecutor::Captured &
DeviceExecutor::graphFor(uint32_t number, Variant variant, Instance &instance) {
  auto &graphs = instance.graphs[unsigned(variant)];
  graphs.resize(graphInfos.size());
  if (!graphs[number]) {
    auto captured = std::make_unique<Captured>(device->sharedDriver());
    capture(*captured, graphInfos[number], variant, instance);
    graphs[number] = std::move(captured);
  }
  return *graphs[number];
}

void DeviceExecutor::capture(Captured &captured, const GraphInfo &info,
                             Variant variant, Instance &instance) {
  std::string error;
  cuda::Driver &driver = device->driver();
  captured.pool = CapturePool::make(*device, info.libraryCalls, error);
  if (!captured.pool)
    throw std::runtime_error(error);
  if (!captureStream)
    cuda::check(driver, driver.createStream(&captureStream),
                "a stream to capture");

  // What the graph holds of external memory.
  std::vector<std::pair<uint32_t, void *>> actual;
  for (uint32_t slot : info.externals) {
    const Slot &external = program.slots()[slot];
    if (external.flags & kSlotHost)
      continue;
    if (!isMoving(slot)) {
      instance.stable.emplace_back(slot, instance.buffers[slot]);
    } else if (variant == Variant::Copy) {
      at::Tensor copy =
          device->empty(sizes(external), strides(external),
                        static_cast<c10::ScalarType>(external.dtype));
      actual.emplace_back(slot, instance.buffers[slot]);
      instance.buffers[slot] = const_cast<void *>(copy.const_data_ptr());
      captured.copies.emplace_back(slot, std::move(copy));
    }
  }
  if (variant == Variant::Table)
    prepareTable(captured, info, instance);

  cuda::Graph graph = nullptr;
  {
    TorchDevice::StreamScope current(*device, captureStream);
    captured.pool->begin(captureStream);
    try {
      captureSteps(captured, info, variant, instance);
      graph = captured.pool->end(captureStream);
    } catch (...) {
      captured.pool->abandon(captureStream);
      for (auto &[slot, address] : actual)
        instance.buffers[slot] = address;
      throw;
    }
  }
  for (auto &[slot, address] : actual)
    instance.buffers[slot] = address;
  captured.graph.finish(graph, !captured.pool->ownsGraph());
  for (uint32_t slot : info.results)
    captured.results.emplace_back(slot, instance.values[slot]);
}

/// One word for each external address that a kernel reads indirectly.
void DeviceExecutor::prepareTable(Captured &captured, const GraphInfo &info,
                                  Instance &instance) {
  for (uint32_t i = info.begin; i < info.end; ++i) {
    const Step &step = program.steps()[i];
    if (step.kind != StepKind::Kernel || !(step.flags & kStepTwin))
      continue;
    const int64_t *words = program.ints() + step.b;
    for (uint32_t k = 0; k < step.c; ++k) {
      const Origin &origin = origins[words[k]];
      auto same = [&](const Origin &entry) {
        return entry.slot == origin.slot && entry.offset == origin.offset;
      };
      if (words[step.c + 1] >> k & 1 &&
          std::none_of(captured.entries.begin(), captured.entries.end(), same))
        captured.entries.push_back(origin);
    }
  }
  if (captured.entries.empty())
    return;
  int64_t count = captured.entries.size(), one = 1;
  captured.table = device->empty(count, one, at::kLong);
}

void DeviceExecutor::captureSteps(Captured &captured, const GraphInfo &info,
                                  Variant variant, Instance &instance) {
  if (!captured.entries.empty()) {
    std::vector<cuda::Address> entries;
    for (const Origin &origin : captured.entries)
      entries.push_back({pointer(instance.buffers[origin.slot]) + origin.offset,
                         origin.slot, origin.offset});
    captured.graph.addTable(loaded.tableWriter(),
                            pointer(captured.table.const_data_ptr()), entries,
                            captureStream);
  }
  const Slot *slots = program.slots();
  for (uint32_t i = info.begin + 1; i < info.end; ++i) {
    const Step &step = program.steps()[i];
    switch (step.kind) {
    case StepKind::Kernel:
      captureKernel(captured, step, variant, instance);
      break;
    case StepKind::Call:
      captureCall(calls[callOfStep[i]], instance, captured);
      break;
    case StepKind::Copy:
      captured.graph.addCopy(addressOf(step.b, variant, instance),
                             addressOf(step.a, variant, instance),
                             slots[step.a].bytes, captureStream);
      break;
    case StepKind::HostValue:
      captured.graph.addHostValue(pointer(instance.buffers[step.b]), step.a,
                                  instance.buffers[step.a], slots[step.a].bytes,
                                  captureStream);
      break;
    case StepKind::View:
      // A view of a graph's own copy is shown by address alone.
      makeViewSlot(step, instance);
      if (variant == Variant::Copy && isMoving(step.a))
        instance.buffers[step.a] =
            static_cast<char *>(instance.buffers[origins[step.a].slot]) +
            origins[step.a].offset;
      break;
    case StepKind::Release:
      // On a software device a replay needs it again.
      if (device->driver().isSoftware())
        captured.kept.push_back(instance.values[step.a]);
      instance.values[step.a].reset();
      break;
    default:
      break;
    }
  }
}

void DeviceExecutor::captureKernel(Captured &captured, const Step &step,
                                   Variant variant, Instance &instance) {
  const int64_t *words = program.ints() + step.b;
  bool twin = variant == Variant::Table && step.flags & kStepTwin;
  std::vector<cuda::Address> params;
  for (uint32_t k = 0; k < step.c; ++k) {
    if (!twin || !(words[step.c + 1] >> k & 1)) {
      params.push_back(addressOf(words[k], variant, instance));
      continue;
    }
    const Origin &origin = origins[words[k]];
    auto entry = std::find_if(
        captured.entries.begin(), captured.entries.end(), [&](const Origin &e) {
          return e.slot == origin.slot && e.offset == origin.offset;
        });
    params.push_back({pointer(captured.table.const_data_ptr()) +
                          8 * (entry - captured.entries.begin()),
                      -1, 0});
  }
  captured.graph.addKernel(loaded[twin ? words[step.c] : step.a], params,
                           captureStream);
}

void DeviceExecutor::captureCall(const CallPlan &plan, Instance &instance,
                                 Captured &captured) {
  runCall(plan, instance);
  if (!device->driver().isSoftware())
    return;
  // The processor's libraries are not captured: they run again in each replay,
  // into the same memory.
  auto scene = std::make_shared<Arena>();
  scene->values = instance.values;
  scene->buffers = instance.buffers;
  std::vector<std::pair<int64_t, at::Tensor>> results;
  for (int64_t k = 0; k < plan.numResults; ++k)
    if (plan.results[k] >= 0)
      results.emplace_back(plan.results[k], instance.values[plan.results[k]]);
  auto work = [this, &plan, scene, results] {
    at::AutoDispatchBelowADInplaceOrView belowAutograd;
    Arena again;
    again.values = scene->values;
    again.buffers = scene->buffers;
    runCall(plan, again);
    for (const auto &[slot, tensor] : results)
      if (!again.values[slot].is_same(tensor))
        tensor.copy_(again.values[slot]);
  };
  cuda::check(device->driver(),
              device->driver().addHostWork(captureStream, std::move(work)),
              "a library call on a software device");
}

void DeviceExecutor::replay(Captured &captured, const GraphInfo &info,
                            Instance &instance, cuda::Stream stream) {
  cuda::Driver &driver = device->driver();
  auto copies = [&](bool toGraph) {
    for (auto &[slot, copy] : captured.copies) {
      const Slot &external = program.slots()[slot];
      bool output = external.kind == SlotKind::Fresh;
      bool carried = std::find(info.carried.begin(), info.carried.end(),
                               slot) != info.carried.end();
      if (!external.bytes || (toGraph ? output && !carried : !output))
        continue;
      auto own = pointer(copy.const_data_ptr());
      auto actual = pointer(instance.buffers[slot]);
      cuda::check(driver,
                  driver.copyAsync(toGraph ? own : actual,
                                   toGraph ? actual : own, external.bytes,
                                   stream),
                  "copy");
    }
  };
  copies(/*toGraph=*/true);
  captured.graph.update(instance.buffers.data());
  captured.graph.replay(stream);
  copies(/*toGraph=*/false);
  for (auto &[slot, tensor] : captured.results) {
    instance.values[slot] = tensor;
    instance.buffers[slot] = const_cast<void *>(tensor.const_data_ptr());
  }
}
