//===- HostExecutor.h - Runs launch programs without Torch ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RT_HOSTEXECUTOR_H
#define PYJIT_RT_HOSTEXECUTOR_H

#include "pyjit-rt/Array.h"
#include "pyjit-rt/Program.h"

#include <string>
#include <vector>

namespace pyjit::rt {

/// Whether the program makes vendor calls, which need an executor library.
bool needsVendorCalls(const Program &program);

/// Fills in dtype, sizes and strides of what the program takes and returns; the
/// data pointers are left null. What differs between calls is -1.
void describe(const Program &program, std::vector<PyjitArray> &inputs,
              std::vector<PyjitArray> &outputs);

/// The values of a program's symbols for these inputs.
bool readSymbols(const Program &program, const std::vector<PyjitArray> &inputs,
                 std::vector<int64_t> &symbols, std::string &error);

/// The bytes that an array's elements span.
size_t extentBytes(const PyjitArray &array);

/// Runs a program of kernels and views, serially. Fails, saying why, where it
/// makes a vendor call.
bool runOnHost(const Program &program, const std::vector<KernelFn> &kernels,
               const std::vector<PyjitArray> &inputs,
               std::vector<PyjitArray> &outputs, std::string &error);

} // namespace pyjit::rt

#endif // PYJIT_RT_HOSTEXECUTOR_H
