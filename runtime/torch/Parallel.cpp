//===- Parallel.cpp - Kernels on PyTorch's own thread pool ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// at::parallel_for is a header template that opens an OpenMP region in the
// including library. Built here with clang it would bring LLVM's OpenMP, a
// second pool beside the libgomp that ships inside torch. Calling libgomp's
// entry point itself reaches the pool that is already warm.
//
//===----------------------------------------------------------------------===//

#include "Parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>

extern "C" {
void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads,
                   unsigned flags);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
}

namespace pyjit::rt {
namespace {
struct Region {
  KernelFn function;
  void *const *buffers;
  int64_t work;
};

void runPart(void *data) {
  auto *region = static_cast<Region *>(data);
  int64_t threads = omp_get_num_threads();
  int64_t part = (region->work + threads - 1) / threads;
  int64_t begin = omp_get_thread_num() * part;
  int64_t end = std::min(begin + part, region->work);
  if (begin < end)
    region->function(region->buffers, begin, end);
}
} // namespace

void parallelFor(const Kernel &kernel, KernelFn function,
                 void *const *buffers) {
  int64_t parts = (kernel.work + kernel.grain - 1) / kernel.grain;
  int64_t threads = parts < 2 || at::in_parallel_region()
                        ? 1
                        : std::min<int64_t>(parts, at::get_num_threads());
  if (threads < 2) {
    if (kernel.work > 0)
      function(buffers, 0, kernel.work);
    return;
  }
  Region region{function, buffers, kernel.work};
  GOMP_parallel(runPart, &region, static_cast<unsigned>(threads), 0);
}

} // namespace pyjit::rt
