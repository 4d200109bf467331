//===- SimulatedGraph.cpp - Graphs of a simulated device ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SimulatedGraph.h"

#include <algorithm>
#include <cstring>

using namespace pyjit::rt;
using namespace pyjit::rt::cuda;

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

Result SoftNode::makeKernel(SoftNode &node, Function function,
                            const LaunchShape &shape, void **params) {
  auto *kernel = reinterpret_cast<const SoftFunction *>(function);
  uint64_t threads = uint64_t(shape.block[0]) * shape.block[1] * shape.block[2];
  if (!kernel || !shape.grid[0] || !shape.grid[1] || !shape.grid[2] ||
      threads == 0 || threads > 1024)
    return kInvalidValue;
  node.type = NodeType::Kernel;
  node.function = kernel;
  node.shape = shape;
  for (unsigned i = 0; i < kernel->kernel.params; ++i)
    node.params.push_back(*static_cast<uint64_t *>(params[i]));
  // A library promises no more than that its code runs on operands aligned like
  // those that it chose the code for.
  if (kernel->kernel.library)
    for (uint64_t address : node.params)
      node.chosenFor.push_back(std::min<uint64_t>(
          address ? address & -address : kVendorAlign, kVendorAlign));
  return kSuccess;
}

SoftNode SoftNode::makeCopy(const CopyNodeParams &params) {
  SoftNode node;
  node.type = NodeType::Memcpy;
  node.copy = params;
  return node;
}

Result SoftNode::makeFill(SoftNode &node, const FillNodeParams &fill) {
  if (fill.elementBytes != 1 && fill.elementBytes != 2 &&
      fill.elementBytes != 4)
    return kInvalidValue;
  node.type = NodeType::Memset;
  node.fill = fill;
  return kSuccess;
}

/// Whether all addresses are what the kernel's code for a GPU relies on.
static bool isAligned(const HostKernel &kernel,
                      const std::vector<uint64_t> &params) {
  for (size_t i = 0; i < kernel.align.size() && i < params.size(); ++i) {
    uint64_t address = isIndirect(kernel.indirect, i)
                           ? *reinterpret_cast<const uint64_t *>(params[i])
                           : params[i];
    if (address % kernel.align[i])
      return false;
  }
  return true;
}

Result SoftNode::run() const {
  switch (type) {
  case NodeType::Kernel:
    if (!shape.grid[0])
      return kSuccess;
    if (!isAligned(function->kernel, params))
      return kMisaligned;
    for (size_t i = 0; i < chosenFor.size(); ++i)
      if (params[i] % chosenFor[i])
        return kMisaligned;
    function->kernel.function(params.data(), shape);
    return kSuccess;
  case NodeType::Memcpy:
    std::memmove(reinterpret_cast<void *>(copy.target),
                 reinterpret_cast<const void *>(copy.source), copy.bytes);
    return kSuccess;
  case NodeType::Memset: {
    auto *target = reinterpret_cast<char *>(fill.target);
    for (size_t i = 0; i < fill.count; ++i)
      std::memcpy(target + i * fill.elementBytes, &fill.value,
                  fill.elementBytes);
    return kSuccess;
  }
  case NodeType::Graph:
    return body->run();
  case NodeType::Empty:
    return kSuccess;
  case NodeType::Conditional:
    // Where nobody has set it, a real driver's value could be any.
    if (*condition == kUnset)
      return kInvalidValue;
    while (*condition) {
      if (Result result = body->run())
        return result;
      if (kind == ConditionKind::If)
        break;
    }
    return kSuccess;
  case NodeType::Other:
    break;
  }
  return kInvalidValue;
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

static SoftNode cloneNode(const SoftNode &node) {
  SoftNode copy = node;
  if (node.body)
    copy.body = node.body->clone();
  return copy;
}

static void unsetConditions(const SoftNode &node) {
  if (node.condition)
    *node.condition = kUnset;
  if (node.body)
    node.body->unsetConditions();
}

Result SoftGraph::run() const {
  for (const auto &node : nodes)
    if (Result result = node->run())
      return result;
  return kSuccess;
}

std::shared_ptr<SoftGraph> SoftGraph::clone() const {
  auto copy = std::make_shared<SoftGraph>();
  for (const auto &node : nodes)
    copy->nodes.push_back(std::make_unique<SoftNode>(cloneNode(*node)));
  return copy;
}

void SoftGraph::unsetConditions() const {
  for (const auto &node : nodes)
    ::unsetConditions(*node);
}

SoftExec::SoftExec(const SoftGraph &graph) {
  for (const auto &node : graph.nodes) {
    origins.push_back(node.get());
    nodes.push_back(cloneNode(*node));
  }
}

SoftNode *SoftExec::find(const SoftNode *origin) {
  auto found = std::find(origins.begin(), origins.end(), origin);
  return found == origins.end() ? nullptr : &nodes[found - origins.begin()];
}

Result SoftExec::launch() const {
  for (const SoftNode &node : nodes)
    unsetConditions(node);
  for (const SoftNode &node : nodes)
    if (Result result = node.run())
      return result;
  return kSuccess;
}
