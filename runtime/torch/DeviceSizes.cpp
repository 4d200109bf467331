//===- DeviceSizes.cpp - One graph for calls of several sizes -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arena is laid out for as much as fits into it, so that every buffer stays
// where it is. A call of other sizes writes them into the program; a replay
// then renews the nodes that hold one: a kernel's grid and the numbers that it
// takes, a copy's bytes, places that views of those sizes begin at. With a
// table kernels find all of that in device memory, and one grid serves all
// sizes for which there is room. Vendor calls are the same for all sizes
// (`SizeDependence::obstacle`).
//
//===----------------------------------------------------------------------===//

#include "DeviceExecutor.h"

#include <algorithm>

using namespace pyjit::rt;

std::unique_ptr<DeviceExecutor>
DeviceExecutor::create(Program program, std::vector<KernelFn> kernels,
                       SizesOfCall sizes, std::string &error,
                       std::shared_ptr<SharedBySizes> shared) {
  auto executor =
      create(std::move(program), std::move(kernels), error, std::move(shared));
  if (!executor)
    return nullptr;
  executor->sizesNow = std::move(sizes);
  executor->reserveBlocks();
  // Copies of externals are of one size.
  constexpr uint32_t kRenewed = 1u << unsigned(Variant::Plain) |
                                1u << unsigned(Variant::Table) |
                                1u << unsigned(Variant::Update);
  executor->choice.emplace(executor->program.header().variants & kRenewed,
                           /*dropSlow=*/false);
  return executor;
}

/// Kernels that read their sizes on the device get as many blocks as the
/// largest sizes take, which none of those sizes has to renew. Where that is
/// more than a launch can have, grids grow with the calls.
void DeviceExecutor::reserveBlocks() {
  const int64_t *capacity = sizesNow->capacity.data();
  Program largest;
  std::string ignored;
  if (!shared->form->specialize(capacity, capacity, largest, ignored))
    return;
  loaded.resize(largest, ignored);
  loaded.resize(program, ignored);
}

bool DeviceExecutor::runWith(const std::vector<int64_t> &symbols,
                             const at::Tensor *inputs, const at::Tensor *cached,
                             at::Tensor *outputs, SavedValues *saved) {
  std::lock_guard<std::mutex> guard(runLock);
  if (sizesNow->symbols != symbols)
    adapt(symbols);
  return runNow(inputs, cached, {outputs, saved});
}

/// The program becomes that of other sizes.
void DeviceExecutor::adapt(const std::vector<int64_t> &symbols) {
  sizesNow->symbols.clear(); // until all is done
  constexpr size_t kMostSeen = 4096;
  bool seen = sizesSeen.count(symbols);
  std::string error;
  TORCH_CHECK(shared->form->respecialize(symbols.data(),
                                         sizesNow->capacity.data(), program,
                                         error, /*isValid=*/seen) &&
                  loaded.resize(program, error),
              "pyjit: ", error);
  if (!seen && sizesSeen.size() < kMostSeen)
    sizesSeen.insert(symbols);
  findOrigins();
  ++version;
  idle = findIdle();
  sizesNow->symbols = symbols;
}

/// The tensors in the arena get the sizes of this call.
void DeviceExecutor::adapt(Instance &instance, cuda::Stream stream) {
  // What has nothing to do is no node of a graph, and what is one has to have.
  if (instance.idle != idle) {
    if (!instance.idle.empty())
      dropGraphs(instance, stream);
    instance.idle = idle;
  }
  if (instance.version == version)
    return;
  instance.version = version;
  instance.filledFor = nullptr;
  if (!instance.ownsArena)
    return;
  for (uint32_t i = 0; i < program.numSlots(); ++i)
    if (program.slots()[i].kind == SlotKind::Arena && asTensor[i] &&
        shared->dependence->ofSlot(i))
      instance.slots[i] = makeTensorAt(program.slots()[i], instance.buffers[i],
                                       device->device());
}

/// By step: kernels and copies that have nothing to do.
std::vector<bool> DeviceExecutor::findIdle() const {
  std::vector<bool> found(program.numSteps());
  for (uint32_t i = 0; i < program.numSteps(); ++i) {
    const Step &step = program.steps()[i];
    found[i] =
        (step.kind == StepKind::Kernel && !loaded[step.a].shape.grid[0]) ||
        (step.kind == StepKind::Copy && !program.slots()[step.a].bytes);
  }
  return found;
}

/// The addresses of this call, where a graph's views lie elsewhere with its
/// sizes: a graph that is replayed makes no views.
void DeviceExecutor::placeViews(const GraphInfo &info,
                                Instance &instance) const {
  if (!sizesNow)
    return;
  for (uint32_t i = info.begin; i < info.end; ++i) {
    const Step &step = program.steps()[i];
    if (step.kind == StepKind::View && variesInPlace(step.a))
      instance.buffers[step.a] =
          static_cast<char *>(instance.buffers[step.b]) +
          program.ints()[step.c] *
              int64_t(c10::elementSize(
                  static_cast<c10::ScalarType>(program.slots()[step.a].dtype)));
  }
}

/// A vendor call that no size changes has set itself up for all of them.
void DeviceExecutor::warmUp(Instance &instance, cuda::Stream stream) {
  if (!sizesNow)
    return;
  std::lock_guard<std::mutex> guard(shared->bestLock);
  if (instance.warm) {
    shared->warm[stream] = instance.settings;
    return;
  }
  auto found = shared->warm.find(stream);
  if (found == shared->warm.end() || !(found->second == instance.settings))
    return;
  instance.warm = true;
  std::fill(ran.begin(), ran.end(), true);
}
