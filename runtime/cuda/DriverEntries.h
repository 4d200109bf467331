//===- DriverEntries.h - The driver's entry points --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What `cuda.h` declares of the functions that we call, and the structures that
// they take: the driver is opened at run time, and no CUDA toolkit is needed to
// build. `static_assert`s hold the sizes to the driver's.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RUNTIME_CUDA_DRIVERENTRIES_H
#define PYJIT_RUNTIME_CUDA_DRIVERENTRIES_H

#include "pyjit-rt/cuda/Driver.h"

namespace pyjit::rt::cuda {

/// CUDA_MEMCPY3D_v2.
struct Memcpy3D {
  size_t srcX, srcY, srcZ, srcLod;
  int srcMemoryType;
  const void *srcHost;
  DevicePtr srcDevice;
  void *srcArray, *reserved0;
  size_t srcPitch, srcHeight;
  size_t dstX, dstY, dstZ, dstLod;
  int dstMemoryType;
  void *dstHost;
  DevicePtr dstDevice;
  void *dstArray, *reserved1;
  size_t dstPitch, dstHeight;
  size_t width, height, depth;
};
constexpr int kMemoryTypeDevice = 2;

/// CUDA_MEMSET_NODE_PARAMS_v1.
struct MemsetNodeParams {
  DevicePtr dst;
  size_t pitch;
  unsigned value, elementSize;
  size_t width, height;
};

/// CUmemLocation, CUmemAllocationProp and CUmemAccessDesc.
struct MemoryLocation {
  int type, id;
};
struct MemoryProperties {
  int type, handleTypes;
  MemoryLocation location;
  void *windows;
  unsigned char flags[8];
};
struct MemoryAccess {
  MemoryLocation location;
  int flags;
};
static_assert(sizeof(MemoryProperties) == 32 && sizeof(MemoryAccess) == 12);

/// CUgraphNodeParams, of a conditional node.
struct ConditionNodeParams {
  int type, reserved0[3];
  uint64_t handle;
  int kind;
  unsigned size;
  Graph *bodies; // the driver's own array
  Context context;
  char unused[232 - 32];
  int64_t reserved2;
};
static_assert(sizeof(ConditionNodeParams) == 256);

/// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  /// CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.
  static constexpr int kProgrammatic = 6;
  int id, unused;
  union {
    int allowed;
    char bytes[64];
  };
};
struct LaunchConfig {
  unsigned grid[3], block[3], sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned count;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);

/// Entry points: name in the library, result and parameters.
#define PYJIT_DRIVER_ENTRIES(X)                                                \
  X(cuInit, (unsigned))                                                        \
  X(cuDriverGetVersion, (int *))                                               \
  X(cuGetErrorName, (int, const char **))                                      \
  X(cuGetErrorString, (int, const char **))                                    \
  X(cuDeviceGet, (int *, int))                                                 \
  X(cuDeviceGetAttribute, (int *, int, int))                                   \
  X(cuDevicePrimaryCtxRetain, (Context *, int))                                \
  X(cuCtxGetCurrent, (Context *))                                              \
  X(cuCtxSetCurrent, (Context))                                                \
  X(cuModuleLoadDataEx, (Module *, const void *, unsigned, int *, void **))    \
  X(cuModuleUnload, (Module))                                                  \
  X(cuModuleGetFunction, (Function *, Module, const char *))                   \
  X(cuFuncSetAttribute, (Function, int, int))                                  \
  X(cuLaunchKernel, (Function, unsigned, unsigned, unsigned, unsigned,         \
                     unsigned, unsigned, unsigned, Stream, void **, void **))  \
  X(cuMemcpyDtoDAsync_v2, (DevicePtr, DevicePtr, size_t, Stream))              \
  X(cuMemcpyHtoDAsync_v2, (DevicePtr, const void *, size_t, Stream))           \
  X(cuMemcpyDtoH_v2, (void *, DevicePtr, size_t))                              \
  X(cuMemcpyDtoHAsync_v2, (void *, DevicePtr, size_t, Stream))                 \
  X(cuMemsetD8Async, (DevicePtr, unsigned char, size_t, Stream))               \
  X(cuMemsetD16Async, (DevicePtr, unsigned short, size_t, Stream))             \
  X(cuMemsetD32Async, (DevicePtr, unsigned, size_t, Stream))                   \
  X(cuMemAlloc_v2, (DevicePtr *, size_t))                                      \
  X(cuMemFree_v2, (DevicePtr))                                                 \
  X(cuStreamCreate, (Stream *, unsigned))                                      \
  X(cuStreamDestroy_v2, (Stream))                                              \
  X(cuStreamSynchronize, (Stream))                                             \
  X(cuStreamIsCapturing, (Stream, int *))                                      \
  X(cuStreamBeginCapture_v2, (Stream, int))                                    \
  X(cuStreamEndCapture, (Stream, Graph *))                                     \
  X(cuStreamGetCaptureInfo_v2,                                                 \
    (Stream, int *, uint64_t *, Graph *, const GraphNode **, size_t *))        \
  X(cuGraphGetNodes, (Graph, GraphNode *, size_t *))                           \
  X(cuGraphNodeGetType, (GraphNode, int *))                                    \
  X(cuGraphKernelNodeGetParams_v2, (GraphNode, KernelNodeParams *))            \
  X(cuGraphMemcpyNodeGetParams, (GraphNode, Memcpy3D *))                       \
  X(cuGraphMemcpyNodeSetParams, (GraphNode, const Memcpy3D *))                 \
  X(cuGraphMemsetNodeGetParams, (GraphNode, MemsetNodeParams *))               \
  X(cuGraphInstantiateWithFlags, (GraphExec *, Graph, uint64_t))               \
  X(cuGraphLaunch, (GraphExec, Stream))                                        \
  X(cuGraphExecKernelNodeSetParams_v2,                                         \
    (GraphExec, GraphNode, const KernelNodeParams *))                          \
  X(cuGraphExecMemcpyNodeSetParams,                                            \
    (GraphExec, GraphNode, const Memcpy3D *, Context))                         \
  X(cuGraphCreate, (Graph *, unsigned))                                        \
  X(cuGraphAddKernelNode_v2,                                                   \
    (GraphNode *, Graph, const GraphNode *, size_t, const KernelNodeParams *)) \
  X(cuGraphAddMemcpyNode, (GraphNode *, Graph, const GraphNode *, size_t,      \
                           const Memcpy3D *, Context))                         \
  X(cuGraphAddEmptyNode, (GraphNode *, Graph, const GraphNode *, size_t))      \
  X(cuGraphAddChildGraphNode,                                                  \
    (GraphNode *, Graph, const GraphNode *, size_t, Graph))                    \
  X(cuGraphExecDestroy, (GraphExec))                                           \
  X(cuGraphDestroy, (Graph))

/// Entry points that an older driver may lack.
#define PYJIT_DRIVER_OPTIONAL(X)                                               \
  X(cuLaunchKernelEx, (const LaunchConfig *, Function, void **, void **))      \
  X(cuFuncGetParamInfo, (Function, size_t, size_t *, size_t *))                \
  X(cuKernelGetParamInfo, (void *, size_t, size_t *, size_t *))                \
  X(cuFuncGetName, (const char **, Function))                                  \
  X(cuKernelGetName, (const char **, void *))                                  \
  X(cuCtxGetDevice, (int *))                                                   \
  X(cuMemGetAllocationGranularity, (size_t *, const MemoryProperties *, int))  \
  X(cuMemAddressReserve, (DevicePtr *, size_t, size_t, DevicePtr, uint64_t))   \
  X(cuMemAddressFree, (DevicePtr, size_t))                                     \
  X(cuMemCreate, (uint64_t *, size_t, const MemoryProperties *, uint64_t))     \
  X(cuMemRelease, (uint64_t))                                                  \
  X(cuMemMap, (DevicePtr, size_t, size_t, uint64_t, uint64_t))                 \
  X(cuMemUnmap, (DevicePtr, size_t))                                           \
  X(cuMemSetAccess, (DevicePtr, size_t, const MemoryAccess *, size_t))         \
  X(cuGraphConditionalHandleCreate,                                            \
    (uint64_t *, Graph, Context, unsigned, unsigned))                          \
  X(cuGraphAddNode_v2, (GraphNode *, Graph, const GraphNode *, const void *,   \
                        size_t, ConditionNodeParams *))

} // namespace pyjit::rt::cuda

#endif // PYJIT_RUNTIME_CUDA_DRIVERENTRIES_H
