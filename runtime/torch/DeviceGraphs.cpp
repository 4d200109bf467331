//===- DeviceGraphs.cpp - The graphs of a launch program ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A graph without loops and branches is captured: its launches go to a stream
// of our own once. One with them is made node by node, since a stream cannot be
// told of them; its vendor calls are captured for themselves and become nodes
// that hold graphs.
//
//===----------------------------------------------------------------------===//

#include "DeviceExecutor.h"

#include <algorithm>
#include <stdexcept>

using namespace pyjit::rt;

/// Whether a slot's address is renewed at each call.
bool DeviceExecutor::isMoving(uint32_t slot) const {
  int32_t root = origins[slot].slot;
  return root >= 0 && !(program.slots()[root].flags & kSlotStable);
}

/// A view of what moves is a place in that memory, whoever made the view: one
/// that stands in front of the graph shows where the memory is in this call.
cuda::Address DeviceExecutor::addressOf(const Captured &captured, uint32_t slot,
                                        Variant variant,
                                        const Instance &instance) const {
  // What a call writes for the caller, and other launches read.
  for (const StandIn &standIn : captured.standIns)
    if (auto [external, own, isResult] = patchable(standIn.copy);
        isResult && standsFor[slot] == int32_t(standIn.copy))
      return {
          cuda::asAddress(instance.buffers[slot]), int32_t(external),
          int64_t(cuda::asAddress(instance.buffers[slot]) - standIn.address)};
  // What differs with the sizes stands in the slot's own buffer: a place, or a
  // number.
  bool number = sizesNow && program.slots()[slot].flags & kSlotValue;
  if (number || variesInPlace(slot))
    return {cuda::asAddress(instance.buffers[slot]), int32_t(slot), 0};
  if (!isMoving(slot))
    return {cuda::asAddress(instance.buffers[slot]), -1, 0};
  const Origin &origin = origins[slot];
  cuda::DevicePtr address =
      cuda::asAddress(instance.buffers[origin.slot]) + origin.offset;
  // The graph's own copy stays where it is.
  if (variant == Variant::Copy)
    return {address, -1, 0};
  return {address, origin.slot, origin.offset};
}

/// What a word of a table holds for a slot: an external's address, a place in
/// one, or a number.
DeviceExecutor::Origin DeviceExecutor::tableEntry(uint32_t slot) const {
  if (program.slots()[slot].flags & kSlotValue || variesInPlace(slot))
    return {int32_t(slot), 0};
  return origins[slot];
}

DeviceExecutor::Captured *DeviceExecutor::graphFor(uint32_t number,
                                                   Variant variant,
                                                   Instance &instance,
                                                   cuda::Stream stream) {
  auto &graphs = instance.graphs[unsigned(variant)];
  graphs.resize(graphInfos.size());
  std::unique_ptr<Captured> &graph = graphs[number];
  auto makeAnew = [&] {
    ++instance.captures;
    if (sizesNow)
      ++shared->captures;
    graph = make(number, variant, instance);
  };
  if (!graph)
    makeAnew();
  std::string reason;
  if (!renew(*graph, instance, reason)) {
    cuda::check(device->driver(), device->driver().synchronize(stream),
                "waiting for a graph that is made anew");
    instance.refused[number] = std::move(reason);
    // Later graphs hold addresses of what this one's vendor calls made.
    for (uint32_t i = number; i < graphs.size(); ++i)
      graphs[i].reset();
    makeAnew();
    if (!renew(*graph, instance, reason))
      throw std::runtime_error(reason);
  }
  return graph.get();
}

/// The graph holds this call's addresses afterwards; false, with the reason,
/// where it cannot.
bool DeviceExecutor::renew(Captured &captured, Instance &instance,
                           std::string &reason) {
  void *const *buffers = instance.buffers.data();
  if (!captured.graph.fits(buffers, reason))
    return false;
  try {
    captured.graph.update(buffers);
    return true;
  } catch (const std::exception &exception) {
    reason = exception.what();
    return false;
  }
}

/// Null, with the reason in `captureFailure`, where the graph cannot be
/// captured: the call is what it was before then. What stood in front of the
/// graph has run, and may have effects, so the call goes on and is not made
/// again.
DeviceExecutor::Captured *DeviceExecutor::tryGraph(uint32_t number,
                                                   Variant variant,
                                                   Instance &instance,
                                                   cuda::Stream stream) {
  if (!captureFailure.empty())
    return nullptr;
  auto &graphs = instance.graphs[unsigned(variant)];
  placeViews(graphInfos[number], instance);
  std::string reason;
  if (number < graphs.size() && graphs[number] &&
      renew(*graphs[number], instance, reason))
    return graphs[number].get();
  std::vector<at::Tensor> values = instance.values;
  std::vector<void *> buffers = instance.buffers;
  try {
    return graphFor(number, variant, instance, stream);
  } catch (const std::exception &exception) {
    captureFailure = exception.what();
    if (captureFailure.empty())
      captureFailure = "no reason given";
    instance.values = std::move(values);
    instance.buffers = std::move(buffers);
    return nullptr;
  }
}

std::unique_ptr<DeviceExecutor::Captured>
DeviceExecutor::make(uint32_t number, Variant variant, Instance &instance) {
  cuda::Driver &driver = device->driver();
  if (!captureStream)
    cuda::check(driver, driver.createStream(&captureStream),
                "a stream to capture");
  const GraphInfo &info = graphInfos[number];
  auto captured = std::make_unique<Captured>(device->sharedDriver());
  captured->memory = std::make_shared<SimulatedMemory>();

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
      captured->copies.emplace_back(slot, std::move(copy));
    }
  }
  auto restore = [&] {
    for (auto &[slot, address] : actual)
      instance.buffers[slot] = address;
  };
  try {
    if (variant == Variant::Table)
      prepareTable(*captured, info, instance);
    TorchDevice::StreamScope current(*device, captureStream);
    if (info.conditional) {
      stageCopies(*captured, info, instance);
      placeResults(*captured, info, variant, instance);
      captured->graph.beginNodes();
      addSteps(*captured, info, variant, instance);
      captured->graph.finishNodes();
      if (!info.patchable.empty())
        captured->keptCopies = "its graph is made node by node";
    } else if (auto patched =
                   makePatched(*captured, number, variant, instance)) {
      captured = std::move(patched);
    } else {
      capture(*captured, info, variant, instance);
      captured->graph.finish();
    }
  } catch (...) {
    restore();
    throw;
  }
  restore();
  for (uint32_t slot : info.results)
    captured->results.emplace_back(slot, instance.values[slot]);
  // What is asked of operands that are patched, this call's have to be as well.
  for (uint32_t slot : info.externals)
    if (captured->graph.numPatchedOperands() &&
        (program.slots()[slot].kind == SlotKind::Input ||
         program.slots()[slot].kind == SlotKind::Cached) &&
        !(program.slots()[slot].flags & kSlotHost))
      bindAddress(instance, slot, instance.values[slot]);
  return captured;
}

void DeviceExecutor::capture(Captured &captured, const GraphInfo &info,
                             Variant variant, Instance &instance,
                             CapturePool *sharing) {
  stageCopies(captured, info, instance);
  placeResults(captured, info, variant, instance);
  CapturePool &pool =
      beginVendorCalls(captured, info.vendorCalls, instance, sharing);
  cuda::Graph graph = nullptr;
  try {
    addSteps(captured, info, variant, instance);
    graph = pool.end(captureStream);
  } catch (...) {
    pool.abandon(captureStream);
    throw;
  }
  captured.graph.take(graph, !pool.ownsGraph());
}

CapturePool &DeviceExecutor::beginVendorCalls(Captured &captured,
                                              bool vendorCalls,
                                              const Instance &instance,
                                              CapturePool *sharing) {
  std::string error;
  auto pool = CapturePool::make(*device, vendorCalls, instance.workspace, error,
                                sharing);
  if (!pool)
    throw std::runtime_error(error);
  pool->begin(captureStream);
  captured.pools.push_back(std::move(pool));
  return *captured.pools.back();
}

/// Captures vendor calls that stand side by side: one node of the whole.
void DeviceExecutor::addVendorCalls(Captured &captured, uint32_t begin,
                                    uint32_t end, Instance &instance) {
  CapturePool &pool =
      beginVendorCalls(captured, /*vendorCalls=*/true, instance);
  cuda::Graph graph = nullptr;
  try {
    for (uint32_t i = begin; i < end; ++i)
      step(i, instance, captureStream);
    graph = pool.end(captureStream);
  } catch (...) {
    pool.abandon(captureStream);
    throw;
  }
  std::vector<cuda::GraphNode> nodes;
  cuda::check(device->driver(), device->driver().getNodes(graph, &nodes),
              "nodes of a vendor call");
  if (!nodes.empty())
    captured.graph.addGraph(graph);
}

/// One word for each address or number that a kernel reads indirectly.
void DeviceExecutor::prepareTable(Captured &captured, const GraphInfo &info,
                                  Instance &instance) {
  for (uint32_t i = info.begin; i < info.end; ++i) {
    const Step &step = program.steps()[i];
    if (step.kind != StepKind::Kernel || !(step.flags & kStepIndirect))
      continue;
    const int64_t *words = program.ints() + step.b;
    for (uint32_t k = 0; k < step.c; ++k) {
      const Origin origin = tableEntry(words[k]);
      if (words[step.c + 1] >> k & 1 &&
          std::find(captured.entries.begin(), captured.entries.end(), origin) ==
              captured.entries.end())
        captured.entries.push_back(origin);
    }
  }
  if (captured.entries.empty())
    return;
  int64_t count = captured.entries.size(), one = 1;
  captured.table = device->empty(count, one, at::kLong);
}

/// The steps of a graph, in order: launches to the captured stream, or nodes.
void DeviceExecutor::addSteps(Captured &captured, const GraphInfo &info,
                              Variant variant, Instance &instance) {
  if (!captured.entries.empty()) {
    std::vector<cuda::Address> entries;
    for (const Origin &origin : captured.entries)
      entries.push_back(
          {cuda::asAddress(instance.buffers[origin.slot]) + origin.offset,
           origin.slot, origin.offset});
    captured.graph.addTable(loaded.tableWriter(),
                            cuda::asAddress(captured.table.const_data_ptr()),
                            entries, captureStream);
  }
  const Slot *slots = program.slots();
  const Step *steps = program.steps();
  bool simulated = device->driver().isSimulated();
  std::vector<bool> loops; // of the bodies around the step
  for (uint32_t i = info.begin + 1; i < info.end; ++i) {
    const Step &step = steps[i];
    switch (step.kind) {
    case StepKind::Kernel:
      captureKernel(captured, step, variant, instance);
      break;
    case StepKind::Call: {
      if (!info.conditional || simulated) {
        captureCall(i, instance, captured);
        break;
      }
      uint32_t end = i + 1;
      while (
          steps[end].kind == StepKind::Call ||
          steps[end].kind == StepKind::Release ||
          (steps[end].kind == StepKind::View && origins[steps[end].a].slot < 0))
        ++end;
      addVendorCalls(captured, i, end, instance);
      i = end - 1;
      break;
    }
    case StepKind::Copy:
      if (step.flags & kStepPatchable &&
          usesInPlace(captured, i, variant, instance))
        break;
      captured.graph.addCopy(addressOf(captured, step.b, variant, instance),
                             addressOf(captured, step.a, variant, instance),
                             slots[step.a].bytes, captureStream,
                             sizesNow && shared->dependence->ofSlot(step.a));
      break;
    case StepKind::HostValue: {
      std::vector<cuda::HostNumber> numbers = hostNumbers(i, instance);
      captured.graph.addHostNumbers(loaded.tableWriter(), numbers,
                                    captureStream);
      i += numbers.size() - 1;
      break;
    }
    case StepKind::View:
      makeViewSlot(step, instance);
      break;
    case StepKind::Release:
      instance.values[step.a].reset();
      break;
    case StepKind::WhileTest:
      captured.graph.beginWhile(loaded.conditionSetter(),
                                flagAddress(step, instance));
      break;
    case StepKind::If:
      captured.graph.beginIf(loaded.conditionSetter(),
                             flagAddress(step, instance),
                             steps[step.b].kind == StepKind::Else);
      break;
    case StepKind::Else:
      captured.graph.otherwise();
      break;
    case StepKind::WhileEnd:
    case StepKind::IfEnd:
      captured.graph.endBody();
      break;
    default:
      break;
    }
  }
}

/// Nobody renews the address: it must be one that stays.
cuda::DevicePtr DeviceExecutor::flagAddress(const Step &step,
                                            const Instance &instance) const {
  if (isMoving(step.a))
    throw std::runtime_error("a conditional node's flag moves");
  return cuda::asAddress(instance.buffers[step.a]);
}

void DeviceExecutor::captureKernel(Captured &captured, const Step &step,
                                   Variant variant, Instance &instance) {
  const int64_t *words = program.ints() + step.b;
  bool indirect = variant == Variant::Table && step.flags & kStepIndirect;
  std::vector<cuda::Address> params;
  for (uint32_t k = 0; k < step.c; ++k) {
    if (!indirect || !(words[step.c + 1] >> k & 1)) {
      params.push_back(addressOf(captured, words[k], variant, instance));
      continue;
    }
    auto entry = std::find(captured.entries.begin(), captured.entries.end(),
                           tableEntry(words[k]));
    params.push_back({cuda::asAddress(captured.table.const_data_ptr()) +
                          8 * (entry - captured.entries.begin()),
                      -1, 0});
  }
  uint32_t number = indirect ? words[step.c] : step.a;
  captured.graph.addKernel(loaded[number], params, captureStream,
                           sizesNow && shared->dependence->ofKernel(number));
}

void DeviceExecutor::captureCall(uint32_t step, Instance &instance,
                                 Captured &captured) {
  cuda::Driver &driver = device->driver();
  const CallPlan &plan = calls[callOfStep[step]];
  CallNodes nodes{step, nullptr, nullptr};
  bool watched = !captured.standIns.empty();
  if (watched)
    cuda::check(driver, driver.lastCaptured(captureStream, &nodes.before),
                "the captured stream");
  if (driver.isSimulated())
    launchSimulatedCall(callOfStep[step], instance, captured);
  else
    runCall(plan, instance);
  if (!watched)
    return;
  cuda::check(driver, driver.lastCaptured(captureStream, &nodes.last),
              "the captured stream");
  captured.callNodes.push_back(nodes);
  for (int64_t k = 0; k < plan.numResults; ++k)
    for (const StandIn &standIn : captured.standIns)
      if (int64_t slot = plan.results[k];
          slot >= 0 &&
          cuda::asAddress(instance.buffers[slot]) - standIn.address <
              standIn.bytes)
        throw std::runtime_error(
            std::string(program.string(program.steps()[step].a)) +
            " returns memory of its operand");
}

/// Launches a graph that `renew` has prepared.
void DeviceExecutor::replay(Captured &captured, const GraphInfo &info,
                            Instance &instance, cuda::Stream stream) {
  cuda::Driver &driver = device->driver();
  auto copies = [&](bool toGraph) {
    for (auto &[slot, copy] : captured.copies) {
      const Slot &external = program.slots()[slot];
      bool output = external.kind == SlotKind::Fresh;
      bool carried = std::find(info.carried.begin(), info.carried.end(),
                               slot) != info.carried.end();
      bool written = output || external.flags & kSlotWritten;
      if (!external.bytes || (toGraph ? output && !carried : !written))
        continue;
      auto own = cuda::asAddress(copy.const_data_ptr());
      auto actual = cuda::asAddress(instance.buffers[slot]);
      auto target = toGraph ? own : actual, source = toGraph ? actual : own;
      cuda::checkCopy(driver,
                      driver.copyAsync(target, source, external.bytes, stream),
                      {source, target, external.bytes});
    }
  };
  copies(/*toGraph=*/true);
  captured.graph.replay(stream);
  copies(/*toGraph=*/false);
  for (auto &[slot, tensor] : captured.results) {
    instance.values[slot] = tensor;
    instance.buffers[slot] = const_cast<void *>(tensor.const_data_ptr());
  }
}
