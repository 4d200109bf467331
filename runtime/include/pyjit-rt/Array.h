// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/*===- pyjit-rt/Array.h - Arrays across the runtime's C ABI --------*- C
-*-===*\
|*                                                                            *|
|* What a program without Python hands to an executor, and gets back.         *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef PYJIT_RT_ARRAY_H
#define PYJIT_RT_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PYJIT_RT_ABI_VERSION 2
#define PYJIT_RT_MAX_RANK 16

/* A strided array in host memory. `dtype` is a c10::ScalarType number; sizes
   and strides count elements. */
typedef struct {
  void *data;
  int32_t dtype;
  int32_t rank;
  int64_t sizes[PYJIT_RT_MAX_RANK];
  int64_t strides[PYJIT_RT_MAX_RANK];
} PyjitArray;

typedef void (*PyjitKernel)(void *const *buffers, int64_t begin, int64_t end);

/* A launch program and its kernels' machine code. `inputs` names, for a prepare
   program, the inputs of the main program that it reads, in order. */
typedef struct {
  const void *blob;
  size_t size;
  const PyjitKernel *kernels;
  size_t numKernels;
  const uint32_t *inputs;
  size_t numInputs;
} PyjitProgramImage;

/* The entry point of an executor library: runs a launch program once, after its
   prepare program if that is not null.
   `inputs` must have the dtype, sizes and strides that the program states.
   `outputs`: the caller allocates each entry's data, sized and laid out as the
   program states. Returns null, or a message for the caller to free(). */
typedef char *(*PyjitRunFn)(uint32_t abiVersion, const PyjitProgramImage *main,
                            const PyjitProgramImage *prepare,
                            const PyjitArray *inputs, size_t numInputs,
                            PyjitArray *outputs, size_t numOutputs);

/* Exported by libpyjit-rt-torch.so under this name. */
#define PYJIT_RT_TORCH_RUN "pyjitRtTorchRun"

#ifdef __cplusplus
}
#endif

#endif /* PYJIT_RT_ARRAY_H */
