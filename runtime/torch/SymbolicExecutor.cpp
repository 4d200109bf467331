//===- SymbolicExecutor.cpp - A program for calls of any size -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SymbolicExecutor.h"

#include "DeviceExecutor.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>

using namespace pyjit::rt;

SymbolicExecutor::SymbolicExecutor(Program program,
                                   std::vector<KernelFn> kernels)
    : TorchExecutor(std::move(program), std::move(kernels)) {
  sharedStorage = std::make_shared<StorageCache>();
  sizes = std::make_shared<SharedBySizes>();
  if (!onDevice())
    return;
  dependence = std::make_unique<SizeDependence>(this->program);
  sizes->dependence = dependence.get();
  sizes->form = &this->program;
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

void SymbolicExecutor::handDown(TorchExecutor &made) const {
  made.onInterrupt(interrupt);
  if (preferred)
    made.prefer(*preferred);
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
  handDown(*executor);
  std::lock_guard<std::mutex> guard(instancesLock);
  instances.insert(instances.begin(), {values, executor});
  if (instances.size() > kMaxInstances)
    instances.pop_back();
  return executor;
}

//===----------------------------------------------------------------------===//
// One graph for many sizes
//===----------------------------------------------------------------------===//

/// A way of launching that is asked for may be one that no replay renews.
bool SymbolicExecutor::sharesGraphs() const {
  return dependence && dependence->obstacle().empty() &&
         (!preferred || *preferred != Variant::Copy);
}

/// What to lay the memory out for: more than is asked for now, so that sizes
/// that grow meet few limits, and those of one call meet theirs together.
std::vector<int64_t>
SymbolicExecutor::capacityFor(const std::vector<int64_t> &values) const {
  constexpr int64_t kLeast = 64, kMost = int64_t(1) << 40;
  constexpr uint64_t kSmall = 64 << 20; // bytes
  std::vector<int64_t> roomy, tight;
  for (int64_t value : values) {
    bool grows = value < kMost;
    int64_t more = grows ? value + value / 8 : value, rounded = kLeast;
    while (grows && rounded < more)
      rounded *= 2;
    tight.push_back(more);
    roomy.push_back(grows ? rounded : value);
  }
  auto fits = [&](const std::vector<int64_t> &capacity, uint64_t most) {
    std::optional<uint64_t> bytes = program.arenaBytes(capacity.data());
    return bytes && *bytes <= most &&
           program.hasRoom(values.data(), capacity.data());
  };
  if (fits(roomy, kSmall))
    return roomy;
  if (fits(tight, std::numeric_limits<int64_t>::max()))
    return tight;
  return values;
}

std::shared_ptr<DeviceExecutor>
SymbolicExecutor::makeRoom(const std::vector<int64_t> &values,
                           const std::vector<int64_t> &capacity) {
  Program special;
  std::string error;
  TORCH_CHECK(
      program.specialize(values.data(), capacity.data(), special, error),
      "pyjit: ", error);
  std::lock_guard<std::mutex> guard(loadLock);
  std::shared_ptr<DeviceExecutor> executor = DeviceExecutor::create(
      std::move(special), kernels, {values, capacity}, error, sizes);
  TORCH_CHECK(executor, "pyjit: ", error);
  handDown(*executor);
  return executor;
}

/// All of `a` are at most those of `b`.
static bool isWithin(const std::vector<int64_t> &a,
                     const std::vector<int64_t> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
}

std::shared_ptr<DeviceExecutor>
SymbolicExecutor::roomFor(const std::vector<int64_t> &values) {
  // Growing sizes make few. A buffer that is large where symbols are small may
  // ask for one in each call: each size is on its own then.
  constexpr size_t kMaxRooms = 8, kMaxMade = 64;
  {
    std::lock_guard<std::mutex> guard(instancesLock);
    auto found = std::find_if(rooms.begin(), rooms.end(), [&](Room &room) {
      return room.last == values ||
             (isWithin(values, room.capacity) &&
              program.hasRoom(values.data(), room.capacity.data()));
    });
    if (found != rooms.end()) {
      std::rotate(rooms.begin(), found, found + 1);
      rooms.front().last = values;
      return rooms.front().executor;
    }
    if (roomsMade == kMaxMade)
      return nullptr;
    ++roomsMade;
  }
  std::vector<int64_t> capacity = capacityFor(values);
  std::shared_ptr<DeviceExecutor> executor = makeRoom(values, capacity);
  // Those for which there is room here, too, go; outside of the lock.
  std::vector<Room> dropped;
  std::lock_guard<std::mutex> guard(instancesLock);
  auto kept =
      std::stable_partition(rooms.begin(), rooms.end(), [&](const Room &room) {
        return !isWithin(room.capacity, capacity);
      });
  kept = std::min(kept, rooms.begin() + std::min(rooms.size(), kMaxRooms - 1));
  dropped.assign(std::make_move_iterator(kept),
                 std::make_move_iterator(rooms.end()));
  rooms.erase(kept, rooms.end());
  rooms.insert(rooms.begin(), {std::move(capacity), values, executor});
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
  if (sharesGraphs())
    if (std::shared_ptr<DeviceExecutor> executor = roomFor(values))
      return executor->runWith(values, inputs, cached, outputs, saved);
  return executorFor(values)->run(inputs, cached, outputs, saved);
}

bool SymbolicExecutor::settle() {
  std::shared_ptr<TorchExecutor> executor;
  {
    std::lock_guard<std::mutex> guard(instancesLock);
    if (!rooms.empty())
      executor = rooms.front().executor;
    else if (!instances.empty())
      executor = instances.front().executor;
  }
  return executor ? executor->settle() : !onDevice();
}

std::string SymbolicExecutor::report() const {
  std::string text;
  std::lock_guard<std::mutex> guard(instancesLock);
  auto add = [&](const char *what, const std::vector<int64_t> &symbols,
                 const TorchExecutor &executor) {
    std::string own = executor.report();
    if (own.empty())
      return;
    text += what;
    for (int64_t value : symbols)
      text += " " + std::to_string(value);
    text += ": " + own;
  };
  for (const Room &room : rooms)
    add("sizes up to", room.capacity, *room.executor);
  if (!rooms.empty())
    text += "for all sizes: " + std::to_string(sizes->captures) +
            " graphs captured, " + std::to_string(sizes->plainCalls) +
            " calls launched plainly\n";
  for (const Instance &instance : instances)
    add("sizes", instance.symbols, *instance.executor);
  if (!instances.empty() && dependence && !dependence->obstacle().empty())
    text += "no graph is for several sizes: " + dependence->obstacle() + "\n";
  return text;
}
