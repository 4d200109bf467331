//===- Parallel.h - Kernels on PyTorch's own thread pool --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RUNTIME_TORCH_PARALLEL_H
#define PYJIT_RUNTIME_TORCH_PARALLEL_H

#include "pyjit-rt/Launch.h"

namespace pyjit::rt {

/// Splits [0, kernel.work) over at::get_num_threads() threads of the OpenMP
/// pool that ATen uses, in parts of at least kernel.grain; serial inside a
/// parallel region, as at::parallel_for is.
void parallelFor(const Kernel &kernel, KernelFn function, void *const *buffers);

} // namespace pyjit::rt

#endif // PYJIT_RUNTIME_TORCH_PARALLEL_H
