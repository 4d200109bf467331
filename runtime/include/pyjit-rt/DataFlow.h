//===- DataFlow.h - What a launch program computes from what ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RT_DATAFLOW_H
#define PYJIT_RT_DATAFLOW_H

#include "pyjit-rt/Program.h"

#include <string>
#include <vector>

namespace pyjit::rt {

/// The kernels, vendor calls and copies of a launch program, in its order, and
/// which of them read what others have written: for people to look at. Views,
/// loops and branches are no nodes; what one side of a branch writes, and what
/// another iteration has written, counts like anything in front.
struct DataFlow {
  enum class Kind : uint8_t { Kernel, Call, Copy };
  struct Node {
    Kind kind;
    std::string name;
    std::string location;        ///< the program's line, or empty
    std::vector<uint32_t> reads; ///< nodes in front of it, ascending
    bool readsInputs = false;    ///< of the call
    uint32_t weights = 0;        ///< parameters that it reads, packed or not
  };
  std::vector<Node> nodes;
  std::vector<uint32_t> results; ///< nodes that write what the program gives

  explicit DataFlow(const Program &program);
};

} // namespace pyjit::rt

#endif // PYJIT_RT_DATAFLOW_H
