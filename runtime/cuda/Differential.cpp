//===- Differential.cpp - Which parameter words hold an address -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/cuda/Differential.h"

#include <algorithm>
#include <cstring>

using namespace pyjit::rt;
using namespace pyjit::rt::cuda;

/// CU_LAUNCH_PARAM_*.
static void *const kParamEnd = nullptr;
static void *const kParamPointer = reinterpret_cast<void *>(1);
static void *const kParamSize = reinterpret_cast<void *>(2);

bool PatchedNode::read(Driver &driver, GraphNode from, std::string &reason) {
  node = from;
  if (driver.getKernelParams(node, &params)) {
    reason = "a kernel's parameters cannot be read";
    return false;
  }
  layout.clear();
  block.clear();
  if (params.extra) {
    const void *data = nullptr;
    size_t size = 0;
    for (void **at = params.extra; *at != kParamEnd; at += 2) {
      if (at[0] == kParamPointer)
        data = at[1];
      else if (at[0] == kParamSize)
        size = *static_cast<size_t *>(at[1]);
      else
        break;
    }
    if (!data) {
      reason = "a kernel's parameters are passed in an unknown way";
      return false;
    }
    block.assign(static_cast<const unsigned char *>(data),
                 static_cast<const unsigned char *>(data) + size);
    return true;
  }
  for (size_t i = 0;; ++i) {
    size_t offset = 0, size = 0;
    Result result = driver.paramInfo(params, i, &offset, &size);
    // Past the last one. Any other failure says nothing of how many there are.
    if (result == kInvalidValue && (i > 0 || !params.kernelParams))
      return true;
    if (result || !params.kernelParams) {
      reason = "a kernel's parameters are not shown (" +
               driver.describe(result) + ")";
      return false;
    }
    layout.emplace_back(offset, size);
    block.resize(std::max(block.size(), offset + size));
    std::memcpy(block.data() + offset, params.kernelParams[i], size);
  }
}

uint64_t PatchedNode::get(uint32_t offset) const {
  uint64_t word;
  std::memcpy(&word, block.data() + offset, sizeof word);
  return word;
}

void PatchedNode::set(uint32_t offset, uint64_t word) {
  std::memcpy(block.data() + offset, &word, sizeof word);
}

Result PatchedNode::write(Driver &driver, GraphExec exec) {
  KernelNodeParams now = params;
  if (params.extra) {
    blockSize = block.size();
    void *list[5] = {kParamPointer, block.data(), kParamSize, &blockSize,
                     kParamEnd};
    std::copy_n(list, 5, extra);
    now.extra = extra;
    now.kernelParams = nullptr;
  } else {
    pointers.clear();
    for (auto &[offset, size] : layout)
      pointers.push_back(block.data() + offset);
    now.kernelParams = pointers.data();
  }
  return driver.setKernelParams(exec, node, now);
}

namespace {

bool sameLaunch(const KernelNodeParams &a, const KernelNodeParams &b) {
  return a.func == b.func && a.kern == b.kern && a.gridX == b.gridX &&
         a.gridY == b.gridY && a.gridZ == b.gridZ && a.blockX == b.blockX &&
         a.blockY == b.blockY && a.blockZ == b.blockZ &&
         a.sharedBytes == b.sharedBytes;
}

/// The operand that the three words follow, or -1.
int findOperand(const std::array<uint64_t, 3> &word,
                const std::vector<MovedOperand> &operands, int64_t &addend) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const MovedOperand &operand = operands[i];
    addend = int64_t(word[0] - operand.address[0]);
    bool follows = addend >= 0 && addend <= int64_t(operand.bytes);
    for (int k = 1; k < 3; ++k)
      follows &= int64_t(word[k] - operand.address[k]) == addend;
    if (follows)
      return int(i);
  }
  return -1;
}

/// One node in each of three captures.
class Comparison {
public:
  Comparison(Driver &driver, const std::vector<MovedOperand> &operands,
             std::vector<OperandWord> &words, Unexplained &why)
      : driver(driver), operands(operands), words(words), why(why) {}

  /// `again`: the node of the control, or null.
  bool compare(uint32_t number, const std::array<GraphNode, 3> &nodes,
               GraphNode again) {
    index = number;
    control = again;
    NodeType type = NodeType::Other;
    for (int k = 0; k < 3; ++k) {
      NodeType found = NodeType::Other;
      if (driver.getType(nodes[k], &found) || (k > 0 && found != type))
        return fail("the captures have different kinds of nodes");
      type = found;
    }
    switch (type) {
    case NodeType::Kernel:
      return compareKernels(nodes);
    case NodeType::Memcpy:
      return compareCopies(nodes);
    case NodeType::Memset:
      return compareFills(nodes);
    case NodeType::Empty:
      return true;
    default:
      return fail("a node is neither kernel nor copy nor fill");
    }
  }

private:
  bool fail(const std::string &what) {
    why.reason = what + " (node " + std::to_string(index) + ")";
    why.nodes.push_back(index);
    return false;
  }

  bool compareKernels(const std::array<GraphNode, 3> &nodes) {
    std::array<PatchedNode, 3> image;
    for (int k = 0; k < 3; ++k) {
      if (std::string why; !image[k].read(driver, nodes[k], why))
        return fail(why);
      if (!sameLaunch(image[k].params, image[0].params) ||
          image[k].block.size() != image[0].block.size())
        return fail("the captures launch different kernels");
    }
    const auto &a = image[0].block, &b = image[1].block, &c = image[2].block;
    PatchedNode same;
    if (std::string unread; control && !same.read(driver, control, unread))
      return fail(unread);
    bool hasControl = same.block.size() == a.size();
    for (size_t at = 0; at < a.size();) {
      if (a[at] == b[at] && a[at] == c[at]) {
        ++at;
        continue;
      }
      // Addresses are aligned words; the rest of one may be equal.
      uint32_t begin = at / 8 * 8;
      size_t end = std::min<size_t>(begin + 8, a.size());
      bool isUnwritten =
          hasControl && !std::equal(a.begin() + begin, a.begin() + end,
                                    same.block.begin() + begin);
      bool isExplained =
          isUnwritten || (begin + 8 <= a.size() &&
                          follows({image[0].get(begin), image[1].get(begin),
                                   image[2].get(begin)},
                                  begin));
      if (!isExplained) {
        std::string name = driver.nameOf(image[0].params);
        return fail("byte " + std::to_string(at) + " of " +
                    std::to_string(a.size()) + " of the parameters of " +
                    (name.empty() ? "a kernel" : name) + " follows no operand");
      }
      at = begin + 8;
    }
    return true;
  }

  bool compareCopies(const std::array<GraphNode, 3> &nodes) {
    std::array<CopyNodeParams, 3> copy{};
    for (int k = 0; k < 3; ++k)
      if (driver.getCopyParams(nodes[k], &copy[k]) ||
          copy[k].bytes != copy[0].bytes)
        return fail("a copy's parameters cannot be read");
    for (int k = 1; k < 3; ++k)
      if (copy[k].target != copy[0].target)
        return fail("a copy's target differs between the captures");
    if (copy[1].source == copy[0].source && copy[2].source == copy[0].source)
      return true;
    return follows({copy[0].source, copy[1].source, copy[2].source},
                   kCopySource) ||
           fail("a copy's source follows no operand");
  }

  bool compareFills(const std::array<GraphNode, 3> &nodes) {
    std::array<FillNodeParams, 3> fill{};
    for (int k = 0; k < 3; ++k)
      if (driver.getFillParams(nodes[k], &fill[k]))
        return fail("a fill's parameters cannot be read");
    for (int k = 1; k < 3; ++k)
      if (fill[k].target != fill[0].target || fill[k].value != fill[0].value ||
          fill[k].elementBytes != fill[0].elementBytes ||
          fill[k].count != fill[0].count)
        return fail("a fill differs between the captures");
    return true;
  }

  bool follows(const std::array<uint64_t, 3> &values, uint32_t offset) {
    int64_t addend = 0;
    int operand = findOperand(values, operands, addend);
    if (operand < 0)
      return false;
    words.push_back({index, offset, static_cast<uint32_t>(operand), addend});
    return true;
  }

  Driver &driver;
  const std::vector<MovedOperand> &operands;
  std::vector<OperandWord> &words;
  Unexplained &why;
  uint32_t index = 0;
  GraphNode control = nullptr;
};

} // namespace

bool cuda::findOperandWords(Driver &driver,
                            const std::array<Graph, 3> &captures, Graph control,
                            const std::vector<MovedOperand> &operands,
                            std::vector<OperandWord> &words, Unexplained &why) {
  why = {};
  // Operands that moved alike could not be told apart.
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (operands[i].address[1] - operands[i].address[0] ==
              operands[j].address[1] - operands[j].address[0] &&
          operands[i].address[2] - operands[i].address[0] ==
              operands[j].address[2] - operands[j].address[0]) {
        why.reason = "two operands moved by the same distances";
        return false;
      }
  std::array<std::vector<GraphNode>, 3> nodes;
  std::vector<GraphNode> again;
  bool read = !control || !driver.getNodes(control, &again);
  for (int k = 0; k < 3; ++k)
    read = read && !driver.getNodes(captures[k], &nodes[k]);
  if (!read) {
    why.reason = "a graph's nodes cannot be read";
    return false;
  }
  again.resize(control ? again.size() : nodes[0].size());
  if (nodes[0].size() != nodes[1].size() ||
      nodes[0].size() != nodes[2].size() || nodes[0].size() != again.size()) {
    why.reason = "the captures have different numbers of nodes";
    return false;
  }
  words.clear();
  Comparison comparison(driver, operands, words, why);
  for (uint32_t n = 0; n < nodes[0].size(); ++n)
    comparison.compare(n, {nodes[0][n], nodes[1][n], nodes[2][n]}, again[n]);
  return why.nodes.empty();
}
