//===- CapturedGraph.cpp - A graph and what a replay renews ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/cuda/CapturedGraph.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

using namespace pyjit::rt;
using namespace pyjit::rt::cuda;

CapturedGraph::~CapturedGraph() {
  if (exec)
    driver->destroyExec(exec);
  if (graph && ownsGraph)
    driver->destroyGraph(graph);
}

/// The node that was captured last; null if the stream is not captured.
GraphNode CapturedGraph::lastNode(Stream stream, const char *what) {
  bool capturing = false;
  check(*driver, driver->isCapturing(stream, &capturing), what);
  if (!capturing)
    return nullptr;
  GraphNode node = nullptr;
  check(*driver, driver->lastCaptured(stream, &node), what);
  if (!node)
    throw std::runtime_error(std::string("CUDA graph: ") + what +
                             " is not one node");
  return node;
}

/// A node in the body of a conditional node is never renewed.
void CapturedGraph::mustStay(bool moves, const char *what) const {
  if (moves && levels.size() > 1)
    throw std::runtime_error(std::string("CUDA graph: ") + what +
                             " in a conditional body holds an address that "
                             "moves");
}

/// Launches, or adds a node. The node, if there is one.
GraphNode CapturedGraph::launch(const LoadedKernel &kernel,
                                std::vector<uint64_t> &params, Stream stream) {
  pointers.resize(params.size());
  for (size_t i = 0; i < params.size(); ++i)
    pointers[i] = &params[i];
  GraphNode node = nullptr;
  Result result =
      levels.empty()
          ? driver->launchKernel(kernel.function, kernel.shape, stream,
                                 pointers.data(), kernel.waits)
          : driver->addKernelNode(&node, levels.back().graph,
                                  levels.back().last, kernel.function,
                                  kernel.shape, pointers.data());
  if (result) {
    std::string what = std::string("kernel ") + kernel.name;
    if (kernel.location)
      what += std::string(" (") + kernel.location + ")";
    check(*driver, result, what.c_str());
  }
  return node ? addNode(node) : nullptr;
}

GraphNode CapturedGraph::addNode(GraphNode node) {
  ++nodeCount;
  return levels.back().last = node;
}

void CapturedGraph::addKernel(KernelNode entry, Stream stream) {
  bool moves =
      !entry.external.empty() || !entry.numbers.empty() || entry.varies;
  mustStay(moves, entry.kernel->name);
  std::copy_n(entry.kernel->shape.grid, 3, entry.grid.begin());
  entry.node = launch(*entry.kernel, entry.params, stream);
  if (!moves)
    return;
  if (!entry.node)
    entry.node = lastNode(stream, entry.kernel->name);
  if (entry.node)
    kernels.push_back(std::move(entry));
}

void CapturedGraph::addKernel(const LoadedKernel &kernel,
                              const std::vector<Address> &params, Stream stream,
                              bool varies) {
  if (!kernel.shape.grid[0])
    return;
  KernelNode entry{nullptr, &kernel, {}, {}, {}, varies};
  for (uint32_t i = 0; i < params.size(); ++i) {
    entry.params.push_back(params[i].value);
    if (params[i].slot >= 0)
      entry.external.emplace_back(i, params[i]);
  }
  addKernel(std::move(entry), stream);
}

void CapturedGraph::addCopy(const Address &target, const Address &source,
                            const uint64_t &bytes, Stream stream, bool varies) {
  if (!bytes)
    return;
  bool external = target.slot >= 0 || source.slot >= 0 || varies;
  mustStay(external, "a copy");
  CopyNodeParams params{source.value, target.value, bytes};
  GraphNode node = nullptr;
  if (levels.empty()) {
    checkCopy(*driver,
              driver->copyAsync(target.value, source.value, bytes, stream),
              params);
  } else {
    check(*driver,
          driver->addCopyNode(&node, levels.back().graph, levels.back().last,
                              params),
          "copy");
    addNode(node);
  }
  if (!external)
    return;
  if (!node)
    node = lastNode(stream, "copy");
  if (node)
    copies.push_back({node, params, target, source, varies ? &bytes : nullptr});
}

uint64_t CapturedGraph::HostWord::read(const void *element) const {
  uint64_t word = 0;
  std::memcpy(&word, static_cast<const char *>(element) + offset, bytes);
  return word;
}

void CapturedGraph::addHostNumbers(const LoadedKernel &writer,
                                   const std::vector<HostNumber> &numbers,
                                   Stream stream) {
  KernelNode entry{};
  auto add = [&] {
    if (entry.numbers.empty())
      return;
    entry.kernel = &writer;
    entry.params[0] = entry.numbers.size();
    addKernel(std::exchange(entry, {}), stream);
  };
  for (const HostNumber &number : numbers)
    for (uint32_t at = 0; at < number.bytes; at += 8) {
      uint32_t bytes = std::min<size_t>(number.bytes - at, 8);
      entry.params.resize(1 + 2 * LoadedKernels::kTableWords);
      auto param = uint32_t(2 + 2 * entry.numbers.size());
      HostWord word{param, number.slot, at, bytes};
      entry.params[param - 1] = number.target + at;
      entry.params[param] = word.read(number.element);
      entry.numbers.push_back(word);
      if (entry.numbers.size() == LoadedKernels::kTableWords)
        add();
    }
  add();
}

//===----------------------------------------------------------------------===//
// Graphs made by hand
//===----------------------------------------------------------------------===//

void CapturedGraph::beginNodes() {
  check(*driver, driver->createGraph(&graph), "a graph");
  ownsGraph = true;
  levels.push_back({graph});
}

void CapturedGraph::addGraph(Graph child) {
  GraphNode node = nullptr;
  Level &level = levels.back();
  check(*driver, driver->addGraphNode(&node, level.graph, level.last, child),
        "a captured vendor call");
  addNode(node);
}

void CapturedGraph::setCondition(const LoadedKernel &setter,
                                 Condition condition, DevicePtr flag,
                                 bool negated) {
  std::vector<uint64_t> params{condition, flag, negated};
  launch(setter, params, nullptr);
}

Graph CapturedGraph::addCondition(Condition condition, ConditionKind kind) {
  Level &level = levels.back();
  GraphNode node = nullptr;
  Graph body = nullptr;
  check(*driver,
        driver->addConditionNode(&node, level.graph, level.last, condition,
                                 kind, &body),
        "a conditional node");
  addNode(node);
  return body;
}

static Condition makeCondition(Driver &driver, Graph graph) {
  Condition condition = 0;
  check(driver, driver.createCondition(&condition, graph), "a condition");
  return condition;
}

void CapturedGraph::beginWhile(const LoadedKernel &setter, DevicePtr flag) {
  Condition condition = makeCondition(*driver, levels.back().graph);
  setCondition(setter, condition, flag, /*negated=*/false);
  Graph body = addCondition(condition, ConditionKind::While);
  levels.push_back({body, nullptr, &setter, condition, flag, nullptr});
}

void CapturedGraph::beginIf(const LoadedKernel &setter, DevicePtr flag,
                            bool hasElse) {
  // Both are set before either body may write the flag.
  Condition yes = makeCondition(*driver, levels.back().graph), no = 0;
  setCondition(setter, yes, flag, /*negated=*/false);
  if (hasElse) {
    no = makeCondition(*driver, levels.back().graph);
    setCondition(setter, no, flag, /*negated=*/true);
  }
  Graph body = addCondition(yes, ConditionKind::If);
  Graph other = hasElse ? addCondition(no, ConditionKind::If) : nullptr;
  levels.push_back({body, nullptr, nullptr, 0, 0, other});
}

void CapturedGraph::otherwise() {
  Graph other = levels.back().otherwise;
  endBody();
  levels.push_back({other});
}

void CapturedGraph::endBody() {
  Level &level = levels.back();
  if (level.setter) {
    setCondition(*level.setter, level.condition, level.flag,
                 /*negated=*/false);
  } else if (!level.last) {
    GraphNode node = nullptr;
    check(*driver, driver->addEmptyNode(&node, level.graph, nullptr),
          "an empty body");
    addNode(node);
  }
  levels.pop_back();
}

void CapturedGraph::finishNodes() {
  levels.clear();
  check(*driver, driver->instantiate(&exec, graph), "instantiating a graph");
}

void CapturedGraph::addTable(const LoadedKernel &writer, DevicePtr table,
                             const std::vector<Address> &entries,
                             Stream stream) {
  for (size_t first = 0; first < entries.size();
       first += LoadedKernels::kTableWords) {
    size_t count =
        std::min<size_t>(entries.size() - first, LoadedKernels::kTableWords);
    std::vector<Address> params(1 + 2 * LoadedKernels::kTableWords);
    params[0].value = count;
    for (size_t i = 0; i < count; ++i) {
      params[1 + 2 * i].value = table + 8 * (first + i);
      params[2 + 2 * i] = entries[first + i];
    }
    addKernel(writer, params, stream);
  }
}

void CapturedGraph::take(Graph captured, bool owned) {
  graph = captured;
  ownsGraph = owned;
  std::vector<GraphNode> nodes;
  check(*driver, driver->getNodes(graph, &nodes), "nodes of a graph");
  nodeCount = nodes.size();
}

void CapturedGraph::finish() {
  check(*driver, driver->instantiate(&exec, graph), "instantiating a graph");
}

//===----------------------------------------------------------------------===//
// What a replay renews
//===----------------------------------------------------------------------===//

bool CapturedGraph::isRenewed(GraphNode node) const {
  auto has = [&](auto &list) {
    return std::any_of(list.begin(), list.end(),
                       [&](auto &entry) { return entry.node == node; });
  };
  return has(kernels) || has(copies);
}

void CapturedGraph::dropRenewed(std::vector<OperandWord> &words) const {
  std::vector<GraphNode> nodes;
  check(*driver, driver->getNodes(graph, &nodes), "nodes of a graph");
  words.erase(std::remove_if(words.begin(), words.end(),
                             [&](const OperandWord &word) {
                               return isRenewed(nodes.at(word.node));
                             }),
              words.end());
}

bool CapturedGraph::patch(const std::vector<OperandWord> &words,
                          const std::vector<PatchedOperand> &proved,
                          void *const *buffers, std::string &reason) {
  std::vector<GraphNode> nodes;
  check(*driver, driver->getNodes(graph, &nodes), "nodes of a graph");
  std::vector<VendorNode> made;
  std::vector<CopyNode> madeCopies;
  uint32_t last = ~0u; // whose words are being collected
  for (const OperandWord &word : words) {
    GraphNode node = nodes.at(word.node);
    const PatchedOperand &operand = proved.at(word.operand);
    if (isRenewed(node)) {
      reason = "a kernel of this program's own holds a vendor operand";
      return false;
    }
    if (word.offset == kCopySource) {
      CopyNodeParams params{};
      check(*driver, driver->getCopyParams(node, &params), "a copy");
      Address source{params.source, int32_t(operand.slot), word.addend};
      params.source = asAddress(buffers[operand.slot]) + word.addend;
      checkCopy(*driver, driver->setCopyParams(node, params), params);
      madeCopies.push_back({node, params, {params.target, -1, 0}, source});
      continue;
    }
    if (word.node != last) {
      made.emplace_back();
      if (!made.back().node.read(*driver, node, reason))
        return false;
      last = word.node;
    }
    made.back().words.push_back({word.offset, operand.slot, word.addend});
  }
  for (CopyNode &copy : copies)
    for (const PatchedOperand &operand : proved)
      if (copy.source.slot == int32_t(operand.slot)) {
        copy.params.source =
            asAddress(buffers[operand.slot]) + copy.source.offset;
        checkCopy(*driver, driver->setCopyParams(copy.node, copy.params),
                  copy.params);
      }
  libraries = std::move(made);
  copies.insert(copies.end(), madeCopies.begin(), madeCopies.end());
  operands = proved;
  return true;
}

bool CapturedGraph::fits(void *const *buffers, std::string &reason) const {
  for (const PatchedOperand &operand : operands) {
    DevicePtr address = asAddress(buffers[operand.slot]);
    bool far = (address ^ operand.address) & ~operand.varied;
    if (address % operand.align == 0 && !far)
      continue;
    char text[128];
    std::snprintf(text, sizeof text,
                  far ? "an operand at 0x%llx differs from 0x%llx in more than "
                        "the bits that were varied, 0x%llx"
                      : "an operand at 0x%llx is aligned less than 0x%llx",
                  static_cast<unsigned long long>(address),
                  static_cast<unsigned long long>(operand.address),
                  static_cast<unsigned long long>(operand.varied));
    reason = text;
    return false;
  }
  return true;
}

static DevicePtr addressNow(const Address &address, void *const *buffers) {
  return reinterpret_cast<DevicePtr>(buffers[address.slot]) + address.offset;
}

bool CapturedGraph::renewNode(KernelNode &entry, void *const *buffers,
                              bool all) {
  const LaunchShape &s = entry.kernel->shape;
  bool changed = all || !std::equal(s.grid, s.grid + 3, entry.grid.begin());
  for (auto &[param, address] : entry.external) {
    DevicePtr value = addressNow(address, buffers);
    changed |= entry.params[param] != value;
    entry.params[param] = value;
  }
  for (const HostWord &word : entry.numbers) {
    uint64_t value = word.read(buffers[word.slot]);
    changed |= entry.params[word.param] != value;
    entry.params[word.param] = value;
  }
  if (!changed)
    return false;
  pointers.resize(entry.params.size());
  for (size_t i = 0; i < entry.params.size(); ++i)
    pointers[i] = &entry.params[i];
  check(*driver,
        driver->setKernelParams(
            exec, entry.node,
            kernelNodeParams(entry.kernel->function, s, pointers.data())),
        entry.kernel->name);
  std::copy_n(s.grid, 3, entry.grid.begin());
  return true;
}

bool CapturedGraph::renewNode(CopyNode &entry, void *const *buffers, bool all) {
  CopyNodeParams params = entry.params;
  if (entry.source.slot >= 0)
    params.source = addressNow(entry.source, buffers);
  if (entry.target.slot >= 0)
    params.target = addressNow(entry.target, buffers);
  if (entry.bytes)
    params.bytes = *entry.bytes;
  if (!all && params.source == entry.params.source &&
      params.target == entry.params.target &&
      params.bytes == entry.params.bytes)
    return false;
  entry.params = params;
  checkCopy(*driver, driver->setCopyParams(exec, entry.node, params), params);
  return true;
}

bool CapturedGraph::renewNode(VendorNode &entry, void *const *buffers,
                              bool all) {
  bool changed = all;
  for (const VendorWord &word : entry.words) {
    uint64_t value = asAddress(buffers[word.slot]) + word.addend;
    if (entry.node.get(word.offset) == value)
      continue;
    entry.node.set(word.offset, value);
    changed = true;
  }
  if (changed)
    check(*driver, entry.node.write(*driver, exec),
          "the address of a vendor call's operand");
  return changed;
}

unsigned CapturedGraph::update(void *const *buffers) {
  unsigned touched = 0;
  bool all = std::exchange(renewAll, true); // until all is done
  for (KernelNode &entry : kernels)
    touched += renewNode(entry, buffers, all);
  for (CopyNode &entry : copies)
    touched += renewNode(entry, buffers, all);
  for (VendorNode &entry : libraries)
    touched += renewNode(entry, buffers, all);
  renewAll = false;
  renewed = touched;
  return touched;
}

void CapturedGraph::replay(Stream stream) {
  check(*driver, driver->launchGraph(exec, stream), "launching a graph");
}
