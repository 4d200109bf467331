//===- SimulatedGraph.h - Graphs of a simulated device ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What stands behind the handles of the simulated driver: kernels that are host
// functions, nodes, graphs of nodes, and graphs ready to be launched.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_CUDA_SIMULATEDGRAPH_H
#define PYJIT_RT_CUDA_SIMULATEDGRAPH_H

#include "pyjit-rt/cuda/Driver.h"

namespace pyjit::rt::cuda {

struct SoftFunction {
  HostKernel kernel;
};

struct SoftModule {
  std::vector<std::unique_ptr<SoftFunction>> functions;
};

struct SoftGraph;

struct SoftNode {
  NodeType type = NodeType::Other;
  const SoftFunction *function = nullptr;
  LaunchShape shape{};
  std::vector<uint64_t> params;
  std::vector<void *> pointers; ///< into `params`, for getKernelParams
  /// Alignments of a vendor call's operands when the library chose its code.
  std::vector<uint64_t> chosenFor;
  CopyNodeParams copy{};
  /// Where the reserved memory begins that a copy was instantiated with.
  DevicePtr window = 0;
  FillNodeParams fill{};
  std::shared_ptr<SoftGraph> body; ///< of a conditional node or a child graph
  std::shared_ptr<uint32_t> condition;
  ConditionKind kind = ConditionKind::If;
  const SoftGraph *graph = nullptr; ///< that it was added to

  // These fail where the driver would refuse the parameters.
  static Result makeKernel(SoftNode &node, Function function,
                           const LaunchShape &shape, void **params);
  static Result makeFill(SoftNode &node, const FillNodeParams &fill);
  static SoftNode makeCopy(const CopyNodeParams &params);

  Result run() const;
};

/// What a condition's word holds until somebody sets it in this launch.
inline constexpr uint32_t kUnset = 0xdeadbeef;

/// The addresses of nodes are their handles, so nodes never move.
struct SoftGraph {
  std::vector<std::unique_ptr<SoftNode>> nodes;
  /// Conditions that no node has asked for yet.
  std::vector<std::shared_ptr<uint32_t>> conditions;
  bool isBody = false;

  Result run() const;
  std::shared_ptr<SoftGraph> clone() const;
  /// A launch begins: no condition is set.
  void unsetConditions() const;
};

/// A graph that can be launched: copies of the nodes, found by the originals.
struct SoftExec {
  std::vector<const SoftNode *> origins;
  std::vector<SoftNode> nodes;

  explicit SoftExec(const SoftGraph &graph);
  SoftNode *find(const SoftNode *origin);
  Result launch() const;
};

} // namespace pyjit::rt::cuda

#endif // PYJIT_RT_CUDA_SIMULATEDGRAPH_H
