//===- SymbolicExecutor.h - A program for calls of any size -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each combination of sizes gets a launch program with numbers in the places of
// symbols, made when it is first seen, and an executor of its own for that: a
// copy of some kilobytes and a look at each step, no compilation. The kernels'
// code is the same for all of them, and so is the memory of intermediates.
//
// On a device one executor, and its graph, serves all sizes for which its
// memory has room, where vendor calls are the same for all of them
// (SizeDependence.h). Else sizes that come back have memory and graphs of their
// own, as long as there is room for them.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RUNTIME_TORCH_SYMBOLICEXECUTOR_H
#define PYJIT_RUNTIME_TORCH_SYMBOLICEXECUTOR_H

#include "pyjit-rt/SizeDependence.h"
#include "pyjit-rt/TorchExecutor.h"

#include <optional>

namespace pyjit::rt {

class DeviceExecutor;
struct SharedBySizes;

class SymbolicExecutor final : public TorchExecutor {
public:
  SymbolicExecutor(Program program, std::vector<KernelFn> kernels);

  bool run(const at::Tensor *inputs, const at::Tensor *cached,
           at::Tensor *outputs, SavedValues *saved = nullptr) override;
  void prefer(Variant variant) override { preferred = variant; }
  bool settle() override;
  std::string report() const override;

private:
  struct Instance {
    std::vector<int64_t> symbols;
    std::shared_ptr<TorchExecutor> executor;
  };

  /// An executor for all sizes that its memory has room for.
  struct Room {
    std::vector<int64_t> capacity;
    std::vector<int64_t> last; ///< sizes that are known to fit
    std::shared_ptr<DeviceExecutor> executor;
  };

  std::shared_ptr<TorchExecutor>
  executorFor(const std::vector<int64_t> &values);
  std::shared_ptr<TorchExecutor> makeExecutor(Program special);
  /// Of one that was made: what callers have asked of this one.
  void handDown(TorchExecutor &made) const;
  bool sharesGraphs() const;
  /// Null where too many were made.
  std::shared_ptr<DeviceExecutor> roomFor(const std::vector<int64_t> &values);
  std::vector<int64_t> capacityFor(const std::vector<int64_t> &values) const;
  std::shared_ptr<DeviceExecutor>
  makeRoom(const std::vector<int64_t> &values,
           const std::vector<int64_t> &capacity);

  std::optional<Variant> preferred;
  std::mutex loadLock;
  std::shared_ptr<SharedBySizes> sizes; ///< a device's
  std::unique_ptr<SizeDependence> dependence;
  mutable std::mutex instancesLock;
  std::vector<Instance> instances; ///< most recently used first
  std::vector<Room> rooms;         ///< likewise
  size_t roomsMade = 0;
};

} // namespace pyjit::rt

#endif // PYJIT_RUNTIME_TORCH_SYMBOLICEXECUTOR_H
