//===- Simulator.h - A GPU's blocks and threads on the host -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every thread of a block is a fiber that runs until it meets others: at a
// barrier of the block, or at an exchange within its warp. Clusters of blocks
// run one after the other; each block of one has shared memory of its own. A
// vector access has to be aligned as its instruction says. What threads would
// do together out of step (an exchange that not the whole warp takes part in, a
// barrier that a thread never reaches) is an error.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_TEST_CODEGEN_PTX_SIMULATOR_H
#define PYJIT_TEST_CODEGEN_PTX_SIMULATOR_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pyjit::simulator {

/// What kernels call, by name.
std::vector<std::pair<const char *, void *>> symbols();

/// A launch: blocks, those of a cluster, and threads of a block.
struct Grid {
  uint32_t blocks, cluster, threads;
};

/// Runs all blocks; returns what went wrong, or nothing.
std::string run(void (*kernel)(void *const *), void *const *buffers, Grid grid);

} // namespace pyjit::simulator

#endif
