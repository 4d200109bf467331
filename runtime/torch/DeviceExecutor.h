//===- DeviceExecutor.h - Runs launch programs on a GPU ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RUNTIME_TORCH_DEVICEEXECUTOR_H
#define PYJIT_RUNTIME_TORCH_DEVICEEXECUTOR_H

#include "TorchDevice.h"
#include "VendorSettings.h"

#include "pyjit-rt/SizeDependence.h"
#include "pyjit-rt/TorchExecutor.h"
#include "pyjit-rt/cuda/CapturedGraph.h"
#include "pyjit-rt/cuda/LaunchChoice.h"

#include <array>
#include <map>
#include <optional>
#include <set>

namespace pyjit::rt {

/// What the executors of one program's sizes have in common.
struct SharedBySizes {
  std::shared_ptr<cuda::LoadedCode> code; ///< once loaded
  std::shared_ptr<cuda::GraphPool> pool;
  /// Memory for the intermediates of plain launches: by stream, whose order
  /// keeps them apart once they are launched; until then, the lock does.
  std::mutex arenaLock;
  std::map<cuda::Stream, at::Tensor> arenas;
  /// How to launch, as far as any of them knows, and on which streams each
  /// vendor call has been made, with which settings.
  std::mutex bestLock;
  std::optional<Variant> best;
  std::map<cuda::Stream, VendorSettings> warm;
  /// So far, of executors for several sizes at once.
  std::atomic<uint64_t> captures = 0, plainCalls = 0;
  /// What differs with the sizes; the program with symbols.
  const SizeDependence *dependence = nullptr;
  const Program *form = nullptr;
};

/// Values of a program's symbols, and those that its arena is laid out for.
struct SizesOfCall {
  std::vector<int64_t> symbols, capacity;
};

/// Runs one launch program on PyTorch's current stream, in the way that was
/// measured to be the fastest (cudagraph-select).
///
/// Outputs are fresh tensors that the launch writes in place; no later call
/// writes them again.
class DeviceExecutor final : public TorchExecutor,
                             private cuda::GraphPool::Tenant {
public:
  /// `shared`: for one of several sizes. It launches plainly until it comes
  /// back, has memory of its own only when it has graphs, and may have to give
  /// these up.
  static std::unique_ptr<DeviceExecutor>
  create(Program program, std::vector<KernelFn> kernels, std::string &error,
         std::shared_ptr<SharedBySizes> shared = nullptr);
  /// For all sizes for which an arena that is laid out for `capacity` has room:
  /// `runWith`. One graph serves them, whose parameters a replay renews.
  /// `shared` says what differs, without an obstacle.
  static std::unique_ptr<DeviceExecutor>
  create(Program program, std::vector<KernelFn> kernels, SizesOfCall sizes,
         std::string &error, std::shared_ptr<SharedBySizes> shared);
  ~DeviceExecutor() override;

  bool runWith(const std::vector<int64_t> &symbols, const at::Tensor *inputs,
               const at::Tensor *cached, at::Tensor *outputs,
               SavedValues *saved);
  bool run(const at::Tensor *inputs, const at::Tensor *cached,
           at::Tensor *outputs, SavedValues *saved = nullptr) override;
  void prefer(Variant variant) override;
  bool settle() override;
  std::string report() const override;

private:
  /// The memory of an external slot that a slot is part of.
  struct Origin {
    int32_t slot = -1; ///< -1: not external
    int64_t offset = 0;
    bool operator==(const Origin &other) const {
      return slot == other.slot && offset == other.offset;
    }
  };
  struct GraphInfo {
    uint32_t begin = 0, end = 0; ///< steps
    bool vendorCalls = false;
    bool conditional = false;        ///< has loops or branches
    std::vector<uint32_t> externals; ///< slots
    std::vector<uint32_t> results;   ///< slots that later steps read
    std::vector<uint32_t> carried;   ///< outputs that earlier steps wrote
    std::vector<uint32_t> patchable; ///< copies, steps
  };
  /// What vendor calls on a simulated device write: a replay needs it again,
  /// and equal captures find it in equal places.
  struct SimulatedMemory {
    std::vector<at::Tensor> blocks;
    size_t next = 0;
    at::Tensor take(uint64_t bytes);
  };
  /// What a patchable copy is about: the external memory, and the program's own
  /// that stands in for it.
  struct Patchable {
    uint32_t external, own; ///< slots
    bool isResult;          ///< `own` is written, and `external` an output
  };
  /// Addresses that a graph sees instead of a patchable copy's external memory.
  struct StandIn {
    uint32_t copy; ///< step
    cuda::DevicePtr address;
    uint64_t bytes;
  };
  /// What a vendor call's capture added: nodes behind `before`, up to `last`.
  struct CallNodes {
    uint32_t step;
    cuda::GraphNode before, last;
  };
  /// One captured graph, for one variant.
  struct Captured {
    explicit Captured(std::shared_ptr<cuda::Driver> driver)
        : graph(std::move(driver)) {}
    std::vector<std::unique_ptr<CapturePool>> pools; ///< outlive `graph`
    cuda::CapturedGraph graph;
    /// What vendor calls made inside: read later, and kept for the replays.
    std::vector<std::pair<uint32_t, at::Tensor>> results;
    std::shared_ptr<SimulatedMemory> memory; ///< simulated devices
    /// Variant::Copy: the graph's own memory of external slots.
    std::vector<std::pair<uint32_t, at::Tensor>> copies;
    at::Tensor table; ///< Variant::Table
    std::vector<Origin> entries;
    // While it is found out where calls hold their operands' addresses.
    std::vector<StandIn> standIns;
    std::vector<CallNodes> callNodes;
    std::string keptCopies; ///< why, where there are patchable ones
  };
  /// What belongs to the calls of one stream: their order keeps them apart.
  struct Instance : Arena {
    std::shared_ptr<LibraryWorkspace> workspace; ///< outlives the graphs
    std::array<std::vector<std::unique_ptr<Captured>>, kNumVariants> graphs;
    /// Addresses of stable slots that captured graphs hold.
    std::vector<std::pair<uint32_t, const void *>> stable;
    /// By graph: why calls keep their copies, for good.
    std::map<uint32_t, std::string> refused;
    /// Patchable copies of which it has been seen that calls need them.
    std::set<uint32_t> needed;
    /// Where the host reads what it decides by: pinned, so that the copy waits
    /// for nothing but its stream.
    at::Tensor flag;
    /// Memory for copies that vendor calls in some graph do not do without.
    std::vector<at::Tensor> staging;
    bool warm = false;
    bool ownsArena = false;
    uint64_t runs = 0;
    VendorSettings settings; ///< of the captured graphs' vendor calls
    unsigned recaptures = 0;
    unsigned captures = 0;  ///< graphs made so far
    uint64_t version = 0;   ///< of the sizes that the tensors in its arena have
    std::vector<bool> idle; ///< by step: what no graph has a node for
  };

  DeviceExecutor(Program program, std::vector<KernelFn> functions,
                 std::unique_ptr<TorchDevice> device,
                 std::shared_ptr<SharedBySizes> shared);
  bool load(std::string &error);
  bool loadCalls(std::string &error);
  void findOrigins();
  void findAlignments();
  void findGraphs();
  void findTensors();
  void findStaging();
  Patchable patchable(uint32_t copy) const;

  /// Where a run leaves what it makes.
  struct Results {
    at::Tensor *outputs;
    SavedValues *saved; ///< may be null
  };

  bool runNow(const at::Tensor *inputs, const at::Tensor *cached,
              const Results &results);
  void reserveBlocks();
  void adapt(const std::vector<int64_t> &symbols);
  void adapt(Instance &instance, cuda::Stream stream);
  void warmUp(Instance &instance, cuda::Stream stream);
  std::vector<bool> findIdle() const;
  void placeViews(const GraphInfo &info, Instance &instance) const;
  bool variesInPlace(uint32_t slot) const {
    return sizesNow && shared->dependence->ofPlace(slot);
  }

  void ownArena(Instance &instance);
  void borrowArena(Instance &instance, cuda::Stream stream);
  bool runPlain(Instance &instance, const at::Tensor *inputs,
                const at::Tensor *cached, const Results &results,
                cuda::Stream stream);
  bool giveUpGraphs() override;
  void bind(Instance &instance, const at::Tensor *inputs,
            const at::Tensor *cached);
  void writeMisaligned(Instance &instance, const at::Tensor *inputs);
  void bindAddress(Instance &instance, uint32_t slot, const at::Tensor &given);
  void dropMoved(Instance &instance, cuda::Stream stream);
  void dropOtherSettings(Instance &instance, cuda::Stream stream);
  void dropGraphs(Instance &instance, cuda::Stream stream);
  bool execute(Instance &instance, Variant variant, cuda::Stream stream);
  void step(uint32_t index, Instance &instance, cuda::Stream stream);
  uint32_t follow(uint32_t index, Instance &instance, cuda::Stream stream);
  bool readFlag(const Step &step, Instance &instance, cuda::Stream stream);
  bool everyCallRan() const;
  void launch(const Step &step, Instance &instance, cuda::Stream stream);
  void makeViewSlot(const Step &step, Instance &instance);

  Captured *graphFor(uint32_t number, Variant variant, Instance &instance,
                     cuda::Stream stream);
  Captured *tryGraph(uint32_t number, Variant variant, Instance &instance,
                     cuda::Stream stream);
  std::unique_ptr<Captured> make(uint32_t number, Variant variant,
                                 Instance &instance);
  void capture(Captured &captured, const GraphInfo &info, Variant variant,
               Instance &instance, CapturePool *sharing = nullptr);
  std::unique_ptr<Captured> makePatched(Captured &plain, uint32_t number,
                                        Variant variant, Instance &instance);
  struct Proof;
  std::unique_ptr<Captured> prove(Proof &proof, Captured &plain,
                                  const GraphInfo &info, Variant variant,
                                  Instance &instance);
  using NodeRange = std::optional<std::pair<int64_t, int64_t>>;
  std::vector<NodeRange> nodesOfCalls(const Captured &captured);
  std::set<uint32_t> copiesUsedBy(uint32_t step) const;
  bool everyCallShows(Proof &proof, const Captured &captured);
  bool copiesMemory(const Captured &captured, int64_t first, int64_t last);
  bool leaveOut(Proof &proof, Instance &instance);
  void keepDearCopies(Proof &proof);
  void stageCopies(const Captured &captured, const GraphInfo &info,
                   Instance &instance);
  bool usesInPlace(Captured &captured, uint32_t step, Variant variant,
                   Instance &instance);
  at::Tensor placeInGraph(const Captured &captured, uint32_t copy,
                          Variant variant) const;
  void placeResults(const Captured &captured, const GraphInfo &info,
                    Variant variant, Instance &instance) const;
  void showResults(const GraphInfo &info, Instance &instance) const;
  CapturePool &beginVendorCalls(Captured &captured, bool vendorCalls,
                                const Instance &instance,
                                CapturePool *sharing = nullptr);
  void addVendorCalls(Captured &captured, uint32_t begin, uint32_t end,
                      Instance &instance);
  void addSteps(Captured &captured, const GraphInfo &info, Variant variant,
                Instance &instance);
  void captureKernel(Captured &captured, const Step &step, Variant variant,
                     Instance &instance);
  void captureCall(uint32_t step, Instance &instance, Captured &captured);
  void launchSimulatedCall(uint32_t call, Instance &instance,
                           Captured &captured);
  void runSimulatedCall(uint32_t call, const uint64_t *params) const;
  cuda::DevicePtr flagAddress(const Step &step, const Instance &instance) const;
  std::vector<cuda::HostNumber> hostNumbers(uint32_t first,
                                            const Instance &instance) const;
  void prepareTable(Captured &captured, const GraphInfo &info,
                    Instance &instance);
  bool renew(Captured &captured, Instance &instance, std::string &reason);
  void replay(Captured &captured, const GraphInfo &info, Instance &instance,
              cuda::Stream stream);
  cuda::Address addressOf(const Captured &captured, uint32_t slot,
                          Variant variant, const Instance &instance) const;
  bool isMoving(uint32_t slot) const;
  Origin tableEntry(uint32_t slot) const;

  bool runNext(Instance &instance, const at::Tensor *inputs,
               const at::Tensor *cached, const Results &results,
               cuda::Stream stream);
  void dropUnwanted(Instance &instance, cuda::Stream stream);
  bool runOnce(Instance &instance, Variant variant, const at::Tensor *inputs,
               const at::Tensor *cached, const Results &results,
               cuda::Stream stream);

  std::unique_ptr<TorchDevice> device;
  std::shared_ptr<SharedBySizes> shared; ///< null: a program of one size
  std::optional<SizesOfCall> sizesNow;   ///< of one for several sizes at once
  std::set<std::vector<int64_t>> sizesSeen; ///< which the program is valid for
  uint64_t version = 0;                     ///< of these
  std::vector<bool> idle; ///< by step: a kernel or copy of nothing
  bool assumed = false;   ///< what others chose
  cuda::LoadedKernels loaded;
  std::vector<Origin> origins;      // by slot
  std::vector<uint32_t> inputAlign; // by slot, in bytes
  std::vector<GraphInfo> graphInfos;
  /// By slot: more than its address is asked for. To hold a tensor of Python's
  /// takes the interpreter's lock.
  std::vector<bool> asTensor;
  std::vector<int32_t> callOfStep; // index into `calls`, or -1
  std::vector<int32_t> standsFor; // by slot: the patchable copy it shows, or -1
  std::unique_ptr<cuda::LoadedCode> callCode; // simulated devices
  std::vector<cuda::LoadedKernel> callKernels;
  std::vector<bool> ran; // by step: vendor calls
  /// What patchable copies have of the program's own, by slot, where it lies
  /// behind all others in the arena; else empty. And where it begins.
  std::vector<bool> staged;
  uint64_t stagingBegin = 0;
  bool decides = false; // has loops or branches

  mutable std::mutex runLock;
  std::map<cuda::Stream, std::unique_ptr<Instance>> instances;
  cuda::Stream captureStream = nullptr;
  std::optional<cuda::LaunchChoice> choice; // set when loaded
  std::string captureFailure; ///< of the present call; empty: none
};

} // namespace pyjit::rt

#endif // PYJIT_RUNTIME_TORCH_DEVICEEXECUTOR_H
