//===- SymbolicExecutor.cpp - A program for calls of any size -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SymbolicExecutor.h"

#include "DeviceExecutor.h"

#include <algorithm>

using namespace pyjit::rt;

SymbolicExecutor::SymbolicExecutor(Program program,
                                   std::vector<KernelFn> kernels)
    : TorchExecutor(std::move(program), std::move(kernels)) {
  sharedStorage = std::make_shared<StorageCache>();
  sizes = std::make_shared<SharedBySizes>();
}

std::shared_ptr<TorchExecutor> SymbolicExecutor::makeExecutor(Program special) {
  std::string error;
  std::shared_ptr<TorchExecutor> executor;
  if (special.header().variants) {
    std::lock_guard<std::mutex> guard(loadLock);
    executor =
        DeviceExecutor::create(std::move(special), kernels, error, sizes);
  } else {
    executor = create(std::move(special), kernels, error);
  }
  TORCH_CHECK(executor, "pyjit: ", error);
  shareStorage(*executor);
  return executor;
}

std::shared_ptr<TorchExecutor>
SymbolicExecutor::executorFor(const std::vector<int64_t> &values) {
  // Each keeps the tensors that stand for its intermediates, not their memory.
  constexpr size_t kMaxInstances = 64;
  {
    std::lock_guard<std::mutex> guard(instancesLock);
    auto found = std::find_if(
        instances.begin(), instances.end(),
        [&](const Instance &instance) { return instance.symbols == values; });
    if (found != instances.end()) {
      std::rotate(instances.begin(), found, found + 1);
      return instances.front().executor;
    }
  }
  Program special;
  std::string error;
  TORCH_CHECK(program.specialize(values.data(), special, error),
              "pyjit: ", error);
  std::shared_ptr<TorchExecutor> executor = makeExecutor(std::move(special));
  executor->onInterrupt(interrupt);
  if (preferred)
    executor->prefer(*preferred);
  std::lock_guard<std::mutex> guard(instancesLock);
  instances.insert(instances.begin(), {values, executor});
  if (instances.size() > kMaxInstances)
    instances.pop_back();
  return executor;
}

bool SymbolicExecutor::run(const at::Tensor *inputs, const at::Tensor *cached,
                           at::Tensor *outputs, SavedValues *saved) {
  std::vector<int64_t> values(program.numSymbols());
  for (uint32_t i = 0; i < values.size(); ++i) {
    auto [input, dim] = program.symbolSource(i);
    const at::Tensor &source = inputs[input];
    // A number that a symbol stands for is in host memory (Program::load).
    values[i] = dim < 0 ? *static_cast<const int64_t *>(source.const_data_ptr())
                        : source.sizes()[dim];
    TORCH_CHECK(values[i] >= 2, "pyjit: symbol s", i, " is ", values[i]);
  }
  return executorFor(values)->run(inputs, cached, outputs, saved);
}

bool SymbolicExecutor::settle() {
  std::shared_ptr<TorchExecutor> executor;
  {
    std::lock_guard<std::mutex> guard(instancesLock);
    if (!instances.empty())
      executor = instances.front().executor;
  }
  return executor ? executor->settle() : !onDevice();
}

std::string SymbolicExecutor::report() const {
  std::string text;
  std::lock_guard<std::mutex> guard(instancesLock);
  for (const Instance &instance : instances) {
    std::string own = instance.executor->report();
    if (own.empty())
      continue;
    text += "sizes";
    for (int64_t value : instance.symbols)
      text += " " + std::to_string(value);
    text += ": " + own;
  }
  return text;
}
