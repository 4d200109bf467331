//===- Differential.h - Which parameter words hold an address ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A library's kernel keeps its operands' addresses somewhere in its parameter
// block: as parameters, in structures, inside descriptors. Nothing says where.
// Capturing the same call with other operand addresses and comparing the blocks
// shows which words follow which operand.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_CUDA_DIFFERENTIAL_H
#define PYJIT_RT_CUDA_DIFFERENTIAL_H

#include "pyjit-rt/cuda/Driver.h"

#include <array>
#include <optional>

namespace pyjit::rt::cuda {

/// One operand's memory in each of three captures.
struct MovedOperand {
  std::array<DevicePtr, 3> address;
  size_t bytes;
};

/// A word of a node's parameters that holds an address inside an operand.
struct OperandWord {
  uint32_t node;   ///< number among the graph's nodes
  uint32_t offset; ///< in a kernel's parameter block, in bytes; kCopySource
  uint32_t operand;
  int64_t addend; ///< from the operand's address to the word's value
};
/// The word is what a copy node reads.
inline constexpr uint32_t kCopySource = 0xffffffff;

/// Why nothing is proved.
struct Unexplained {
  std::string reason; ///< of the last one
  /// Numbers among the graph's nodes; empty: the captures cannot be compared.
  std::vector<uint32_t> nodes;
};

/// Compares three captures of one piece of a program that differ in where the
/// operands are, and in nothing else. True, with every word that follows an
/// operand, only if each byte that differs between the captures is part of such
/// a word in all three: two captures find the words, the third confirms them.
/// Nodes are kernels, copies that read operands, and fills that stay as they
/// are; of any other kind nothing is known. Otherwise `why` says which nodes
/// could not be explained.
///
/// `control`, where it is given, is the first capture again, with all operands
/// in the same places. A word of a kernel's that differs between these two
/// depends on no address: it is memory that nobody has written (the unused
/// entries of a structure), and may differ between the three, too.
///
/// What is proved holds for addresses that differ from the captures' in bits
/// that differ between the captures, and are aligned as these are.
bool findOperandWords(Driver &driver, const std::array<Graph, 3> &captures,
                      Graph control, const std::vector<MovedOperand> &operands,
                      std::vector<OperandWord> &words, Unexplained &why);

/// A kernel node's parameters with words that can be changed.
class PatchedNode {
public:
  /// Reads the node's parameters from the graph that it was captured into.
  bool read(Driver &driver, GraphNode node, std::string &reason);
  uint64_t get(uint32_t offset) const;
  void set(uint32_t offset, uint64_t word);
  Result write(Driver &driver, GraphExec exec);

  std::vector<unsigned char> block;
  KernelNodeParams params{};
  GraphNode node = nullptr;

private:
  std::vector<std::pair<size_t, size_t>> layout; ///< offset, size
  std::vector<void *> pointers;
  size_t blockSize = 0;
  void *extra[5] = {};
};

} // namespace pyjit::rt::cuda

#endif // PYJIT_RT_CUDA_DIFFERENTIAL_H
