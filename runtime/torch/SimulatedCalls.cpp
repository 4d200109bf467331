//===- SimulatedCalls.cpp - Vendor calls on a simulated device ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A GPU's library launches kernels, whose parameters hold the addresses of what
// they read and write. On a simulated device each vendor call is such a
// kernel: a function of the host that calls the CPU's vendor library on
// whatever addresses its parameters hold now.
//
//===----------------------------------------------------------------------===//

#include "DeviceExecutor.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

using namespace pyjit::rt;

/// The slots whose addresses are parameters: operands, then results.
template <class Plan> static std::vector<int64_t> operandsOf(const Plan &plan) {
  std::vector<int64_t> slots;
  for (const auto &argument : plan.tensors)
    for (int64_t slot : argument.slots)
      if (slot >= 0 &&
          std::find(slots.begin(), slots.end(), slot) == slots.end())
        slots.push_back(slot);
  return slots;
}

template <class Plan> static std::vector<int64_t> resultsOf(const Plan &plan) {
  std::vector<int64_t> slots(plan.results, plan.results + plan.numResults);
  slots.erase(std::remove(slots.begin(), slots.end(), -1), slots.end());
  return slots;
}

at::Tensor DeviceExecutor::SimulatedMemory::take(uint64_t bytes) {
  int64_t wanted = std::max<uint64_t>(bytes, 1);
  if (next == blocks.size())
    blocks.push_back(at::detail::empty_cpu({wanted}, at::kByte));
  at::Tensor &block = blocks[next++];
  if (block.numel() < wanted)
    block = at::detail::empty_cpu({wanted}, at::kByte);
  return block;
}

bool DeviceExecutor::loadCalls(std::string &error) {
  std::vector<cuda::HostKernel> host;
  for (uint32_t i = 0; i < calls.size(); ++i) {
    cuda::HostKernel kernel;
    kernel.name = calls[i].op.schema().name() + "/" + std::to_string(i);
    kernel.function = [this, i](const uint64_t *params,
                                const cuda::LaunchShape &) {
      runSimulatedCall(i, params);
    };
    kernel.params = operandsOf(calls[i]).size() + resultsOf(calls[i]).size();
    kernel.library = true;
    host.push_back(std::move(kernel));
  }
  callCode = std::make_unique<cuda::LoadedCode>(device->sharedDriver());
  cuda::Driver &driver = device->driver();
  if (driver.loadHostModule(&callCode->modules.emplace_back(), host)) {
    error = "the simulated driver takes no module now";
    return false;
  }
  callKernels.resize(calls.size());
  for (uint32_t i = 0; i < calls.size(); ++i) {
    callKernels[i].name = "a vendor call on a simulated device";
    callKernels[i].shape = {{1, 1, 1}, {1, 1, 1}, 0};
    callCode->find(&callKernels[i].function, host[i].name.c_str());
  }
  return true;
}

/// Launches the call, or adds it to the graph; its results have memory now.
void DeviceExecutor::launchSimulatedCall(uint32_t call, Instance &instance,
                                         Captured &captured) {
  const CallPlan &plan = calls[call];
  std::vector<cuda::Address> params;
  for (int64_t slot : operandsOf(plan))
    params.push_back(
        {cuda::asAddress(instance.values[slot].const_data_ptr()), -1, 0});
  for (int64_t slot : resultsOf(plan)) {
    const Slot &made = program.slots()[slot];
    at::Tensor block = captured.memory->take(made.bytes);
    instance.values[slot] = makeTensor(made, c10::Storage(block.storage()));
    instance.buffers[slot] = const_cast<void *>(block.const_data_ptr());
    params.push_back({cuda::asAddress(instance.buffers[slot]), -1, 0});
  }
  captured.graph.addKernel(callKernels[call], params, captureStream);
}

void DeviceExecutor::runSimulatedCall(uint32_t call,
                                      const uint64_t *params) const {
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  const CallPlan &plan = calls[call];
  Arena scene;
  scene.values.resize(program.numSlots());
  scene.buffers.resize(program.numSlots());
  auto show = [&](int64_t slot) {
    return makeTensorAt(program.slots()[slot],
                        reinterpret_cast<void *>(*params++), device->device());
  };
  for (int64_t slot : operandsOf(plan))
    scene.values[slot] = show(slot);
  runCall(plan, scene);
  for (int64_t slot : resultsOf(plan))
    show(slot).copy_(scene.values[slot]);
}
