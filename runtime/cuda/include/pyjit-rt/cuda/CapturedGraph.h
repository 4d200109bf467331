//===- CapturedGraph.h - A graph and what a replay renews -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RT_CUDA_CAPTUREDGRAPH_H
#define PYJIT_RT_CUDA_CAPTUREDGRAPH_H

#include "pyjit-rt/cuda/Differential.h"
#include "pyjit-rt/cuda/LoadedKernels.h"

#include <array>

namespace pyjit::rt::cuda {

/// Where a launch finds an address: fixed, or that of an external slot plus an
/// offset, which a replay renews.
struct Address {
  DevicePtr value = 0;
  int32_t slot = -1; ///< -1: fixed
  int64_t offset = 0;
};

/// A number on the host that kernels read on the device, where there is room
/// for whole words of 8 bytes.
struct HostNumber {
  DevicePtr target;
  uint32_t slot;       ///< whose element it is
  const void *element; ///< now
  size_t bytes;
};

/// An operand of vendor calls whose address a proof has found in nodes.
struct PatchedOperand {
  uint32_t slot;     ///< external: where its address is found at each call
  DevicePtr address; ///< in the capture
  uint64_t varied;   ///< bits of it that the captures of the proof varied
  uint32_t align;
};

/// Launches into a stream that is being captured, remembering which nodes
/// touch what may differ at the next call; then the instantiated graph.
///
/// The same methods launch on a stream that is not captured; nothing is
/// remembered then.
class CapturedGraph {
public:
  explicit CapturedGraph(std::shared_ptr<Driver> driver)
      : driver(std::move(driver)) {}
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph &) = delete;
  CapturedGraph &operator=(const CapturedGraph &) = delete;

  /// All throw std::runtime_error when the driver refuses.
  /// `varies`: `kernel.shape`, which a replay has to look at.
  void addKernel(const LoadedKernel &kernel, const std::vector<Address> &params,
                 Stream stream, bool varies = false);
  /// `bytes`: kept, and looked at by a replay, where it `varies`.
  void addCopy(const Address &target, const Address &source,
               const uint64_t &bytes, Stream stream, bool varies = false);
  /// Numbers travel as parameters of a kernel: a replay may renew them while
  /// an earlier launch is still running. `writer`: LoadedKernels::tableWriter.
  void addHostNumbers(const LoadedKernel &writer,
                      const std::vector<HostNumber> &numbers, Stream stream);
  /// Words of a table in device memory: word i holds the address of entry i.
  void addTable(const LoadedKernel &writer, DevicePtr table,
                const std::vector<Address> &entries, Stream stream);

  // A graph made by hand. Conditional nodes cannot be captured: from
  // `beginNodes` on, what the methods above launch becomes nodes, one behind
  // the other, and no stream takes part.

  void beginNodes();
  /// What was captured elsewhere, as one node. It has to outlive the graph.
  void addGraph(Graph child);
  /// What follows, up to `endBody`, runs as long as the bool at `flag` is true
  /// before an iteration. `setter`: LoadedKernels::conditionSetter.
  void beginWhile(const LoadedKernel &setter, DevicePtr flag);
  /// What follows runs if it is true; behind `otherwise`, if it is not.
  void beginIf(const LoadedKernel &setter, DevicePtr flag, bool hasElse);
  void otherwise();
  void endBody();
  /// Makes the graph launchable.
  void finishNodes();

  /// Takes the captured graph over. `owned`: destroyed with this object.
  void take(Graph graph, bool owned);
  /// Makes it launchable.
  void finish();
  void finish(Graph graph, bool owned) {
    take(graph, owned);
    finish();
  }
  Graph handle() const { return graph; }
  /// Without the words of nodes that are renewed anyway: launches of our own.
  void dropRenewed(std::vector<OperandWord> &words) const;
  /// Renews words of vendor calls' nodes, too, from now on: `words`, found in
  /// this very graph, follow `operands`. Call before `finish`, since addresses
  /// that only stood in for an operand have to be gone by then: `buffers` has
  /// those of the slots now. False, with the reason, where a node cannot be
  /// renewed so.
  bool patch(const std::vector<OperandWord> &words,
             const std::vector<PatchedOperand> &operands, void *const *buffers,
             std::string &reason);
  /// Whether the proof holds for these addresses.
  bool fits(void *const *buffers, std::string &reason) const;
  size_t numPatchedOperands() const { return operands.size(); }
  bool ready() const { return exec != nullptr; }
  size_t numNodes() const { return nodeCount; }
  /// Nodes that a replay may have to renew.
  size_t numExternalNodes() const {
    return kernels.size() + copies.size() + libraries.size();
  }

  /// What the last update has renewed.
  size_t numRenewedNodes() const { return renewed; }

  /// Renews the parameters that differ, given the address (host slots: the
  /// element; numbers that kernels take: the number) of every slot, and sizes
  /// that vary. Returns how many nodes it touched.
  unsigned update(void *const *buffers);
  void replay(Stream stream);

private:
  /// Part of a host slot's element, as the value of a parameter.
  struct HostWord {
    uint32_t param, slot;
    uint32_t offset, bytes;

    uint64_t read(const void *element) const;
  };
  struct KernelNode {
    GraphNode node;
    const LoadedKernel *kernel;
    std::vector<uint64_t> params;
    std::vector<std::pair<uint32_t, Address>> external;
    std::vector<HostWord> numbers;
    bool varies = false;
    std::array<unsigned, 3> grid{}; ///< that the node has
  };
  struct CopyNode {
    GraphNode node;
    CopyNodeParams params;
    Address target, source;
    const uint64_t *bytes = nullptr; ///< where it varies
  };
  struct VendorWord {
    uint32_t offset, slot;
    int64_t addend;
  };
  struct VendorNode {
    PatchedNode node;
    std::vector<VendorWord> words;
  };

  /// A graph that nodes are added to: the whole, or a body in it.
  struct Level {
    Graph graph = nullptr;
    GraphNode last = nullptr;
    /// Of a loop, to be set at the end of each iteration.
    const LoadedKernel *setter = nullptr;
    Condition condition = 0;
    DevicePtr flag = 0;
    Graph otherwise = nullptr; ///< the other body of a branch
  };

  GraphNode lastNode(Stream stream, const char *what);
  GraphNode launch(const LoadedKernel &kernel, std::vector<uint64_t> &params,
                   Stream stream);
  void addKernel(KernelNode entry, Stream stream);
  bool renewNode(KernelNode &entry, void *const *buffers, bool all);
  bool renewNode(CopyNode &entry, void *const *buffers, bool all);
  bool renewNode(VendorNode &entry, void *const *buffers, bool all);
  GraphNode addNode(GraphNode node);
  void setCondition(const LoadedKernel &setter, Condition condition,
                    DevicePtr flag, bool negated);
  Graph addCondition(Condition condition, ConditionKind kind);
  void mustStay(bool moves, const char *what) const;
  bool isRenewed(GraphNode node) const;

  std::shared_ptr<Driver> driver;
  std::vector<KernelNode> kernels;
  std::vector<CopyNode> copies;
  std::vector<VendorNode> libraries;
  std::vector<PatchedOperand> operands;
  bool renewAll = false;        ///< an update failed: who knows what nodes hold
  std::vector<void *> pointers; // scratch
  std::vector<Level> levels;    // while nodes are added
  Graph graph = nullptr;
  bool ownsGraph = false;
  GraphExec exec = nullptr;
  size_t nodeCount = 0, renewed = 0;
};

} // namespace pyjit::rt::cuda

#endif // PYJIT_RT_CUDA_CAPTUREDGRAPH_H
