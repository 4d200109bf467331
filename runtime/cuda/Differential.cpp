//===- Differential.cpp - Which parameter words hold an address -----------===//

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
  size_t offset = 0, size = 0;
  for (size_t i = 0;
       driver.paramInfo(params.func, i, &offset, &size) == kSuccess; ++i) {
    if (!params.kernelParams) {
      reason = "a kernel has parameters that are not shown";
      return false;
    }
    layout.emplace_back(offset, size);
    block.resize(std::max(block.size(), offset + size));
    std::memcpy(block.data() + offset, params.kernelParams[i], size);
  }
  return true;
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

uint64_t wordAt(const std::vector<unsigned char> &block, size_t offset) {
  uint64_t word;
  std::memcpy(&word, block.data() + offset, sizeof word);
  return word;
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

} // namespace

bool cuda::findOperandWords(Driver &driver,
                            const std::array<Graph, 3> &captures,
                            const std::vector<MovedOperand> &operands,
                            std::vector<OperandWord> &words,
                            std::string &reason) {
  // Operands that moved alike could not be told apart.
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (operands[i].address[1] - operands[i].address[0] ==
              operands[j].address[1] - operands[j].address[0] &&
          operands[i].address[2] - operands[i].address[0] ==
              operands[j].address[2] - operands[j].address[0]) {
        reason = "two operands moved by the same distances";
        return false;
      }
  std::array<std::vector<GraphNode>, 3> nodes;
  for (int k = 0; k < 3; ++k)
    if (driver.getNodes(captures[k], &nodes[k])) {
      reason = "a graph's nodes cannot be read";
      return false;
    }
  if (nodes[0].size() != nodes[1].size() ||
      nodes[0].size() != nodes[2].size()) {
    reason = "the captures have different numbers of nodes";
    return false;
  }
  words.clear();
  for (uint32_t n = 0; n < nodes[0].size(); ++n) {
    std::array<PatchedNode, 3> image;
    for (int k = 0; k < 3; ++k) {
      NodeType type = NodeType::Other;
      driver.getType(nodes[k][n], &type);
      if (type != NodeType::Kernel) {
        reason = "a node is no kernel";
        return false;
      }
      if (!image[k].read(driver, nodes[k][n], reason))
        return false;
      if (!sameLaunch(image[k].params, image[0].params) ||
          image[k].block.size() != image[0].block.size()) {
        reason = "the captures launch different kernels";
        return false;
      }
    }
    const auto &a = image[0].block, &b = image[1].block, &c = image[2].block;
    for (size_t at = 0; at < a.size();) {
      if (a[at] == b[at] && a[at] == c[at]) {
        ++at;
        continue;
      }
      // Addresses are aligned words; the rest of one may be equal.
      size_t begin = at / 8 * 8;
      int64_t addend = 0;
      int operand = begin + 8 > a.size()
                        ? -1
                        : findOperand({wordAt(a, begin), wordAt(b, begin),
                                       wordAt(c, begin)},
                                      operands, addend);
      if (operand < 0) {
        reason = "byte " + std::to_string(at) + " of node " +
                 std::to_string(n) + " follows no operand";
        return false;
      }
      words.push_back({n, static_cast<uint32_t>(begin),
                       static_cast<uint32_t>(operand), addend});
      at = begin + 8;
    }
  }
  return true;
}
