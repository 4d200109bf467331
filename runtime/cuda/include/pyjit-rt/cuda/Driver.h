//===- Driver.h - The CUDA driver, or a stand-in for it ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declarations of our own: neither a toolkit nor its headers are needed, at
// build time or later. Names and numbers are the driver API's, which are
// stable.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_CUDA_DRIVER_H
#define PYJIT_RT_CUDA_DRIVER_H

#include "pyjit-rt/cuda/GraphPool.h"

#include "pyjit-rt/Launch.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pyjit::rt::cuda {

using DevicePtr = uint64_t;
using Context = struct ContextTag *;
using Module = struct ModuleTag *;
using Function = struct FunctionTag *;
using Stream = struct StreamTag *;
using Graph = struct GraphTag *;
using GraphNode = struct GraphNodeTag *;
using GraphExec = struct GraphExecTag *;

inline DevicePtr asAddress(const void *data) {
  return reinterpret_cast<DevicePtr>(data);
}

/// CUresult: the numbers that this code looks at.
enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotFound = 500,
  kMisaligned = 716,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
};

enum class NodeType : int {
  Kernel = 0,
  Memcpy = 1,
  Memset = 2,
  Graph = 4,
  Empty = 5,
  Conditional = 13,
  Other = 99,
};

/// CUgraphConditionalHandle: what a kernel gives to `cudaGraphSetConditional`.
/// On a simulated device the address of the 32-bit word that it sets.
using Condition = uint64_t;
enum class ConditionKind : int { If = 0, While = 1 };

/// CUDA_KERNEL_NODE_PARAMS_v2.
struct KernelNodeParams {
  Function func;
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  void **kernelParams;
  void **extra;
  void *kern;
  Context ctx;
};

struct CopyNodeParams {
  DevicePtr source, target;
  size_t bytes;
};

/// One memset node: `count` elements of `elementBytes` (1, 2 or 4) bytes.
struct FillNodeParams {
  DevicePtr target;
  unsigned value, elementBytes;
  size_t count;
};

struct LaunchShape {
  unsigned grid[3], block[3], sharedBytes;
};

/// A kernel node's parameters; `params` as in `launchKernel`.
inline KernelNodeParams kernelNodeParams(Function function,
                                         const LaunchShape &s, void **params) {
  return {function,   s.grid[0],  s.grid[1],  s.grid[2],
          s.block[0], s.block[1], s.block[2], s.sharedBytes,
          params,     nullptr,    nullptr,    nullptr};
}

/// A kernel of a simulated device: a function of the host.
struct HostKernel {
  std::string name;
  /// Called with the parameter block, one 8-byte word for each buffer, and with
  /// how it was launched.
  std::function<void(const uint64_t *params, const LaunchShape &shape)>
      function;
  unsigned params;
  /// What the code that a GPU would run relies on: each address is a multiple
  /// of that. Of those in `indirect`, the parameter is where the address
  /// stands.
  std::vector<uint32_t> align = {};
  uint64_t indirect = 0;
  /// A vendor library's call, which chooses its code by how its operands are
  /// aligned (up to kVendorAlign): a replay on lesser addresses than it was
  /// captured with is refused.
  bool library = false;
};

/// Whether a parameter is where an address stands, by the mask of a kernel's
/// indirect parameters. Those behind the mask's bits are addresses.
inline bool isIndirect(uint64_t mask, size_t param) {
  return param < 64 && mask >> param & 1;
}

/// The alignment that a simulated device's libraries look at, which is as much
/// as PyTorch's CPU allocator gives.
inline constexpr uint32_t kVendorAlign = 64;
/// Reserved addresses begin at a multiple of this: other wishes are moved up to
/// one (580.159 on an H200).
inline constexpr uint64_t kReservedAlign = 32 << 20;

/// What this project uses of the driver, one method per entry point. All
/// methods may be called from several threads.
/// What code generation is told of a device. 0: cannot be found out.
struct DeviceFacts {
  int capability = 0; ///< 90 for compute capability 9.0
  int multiprocessors = 0;
  int threadsPerMultiprocessor = 0;
};

class Driver {
public:
  virtual ~Driver();
  /// For the graphs of programs that have several sets of them.
  std::shared_ptr<GraphPool> graphPool() const { return pool; }
  /// Whether device memory is host memory and kernels are host functions.
  virtual bool isSimulated() const = 0;
  virtual std::string describe(Result result) const = 0;

  /// Makes the device's primary context current on this thread if none is.
  virtual Result enter(int device) = 0;
  virtual DeviceFacts factsOf(int device) = 0;

  /// Modules of PTX as machine code for the current context's device, made side
  /// by side; nothing where `loadModule` has to assemble them.
  virtual std::optional<std::vector<std::vector<char>>>
  assemble(const std::vector<const char *> &ptx) {
    return std::nullopt;
  }
  /// `image` is PTX or machine code; `log` receives what the assembler says
  /// about bad code.
  virtual Result loadModule(Module *module, const char *image,
                            std::string &log) = 0;
  virtual Result loadHostModule(Module *module,
                                std::vector<HostKernel> kernels) = 0;
  virtual Result unloadModule(Module module) = 0;
  virtual Result getFunction(Function *function, Module module,
                             const char *name) = 0;
  virtual Result allowShared(Function function, unsigned bytes) = 0;
  /// Offset and size of parameter `index` in the parameter block; fails past
  /// the last one.
  virtual Result paramInfo(Function function, size_t index, size_t *offset,
                           size_t *size) = 0;
  /// The same of a node's kernel, which may be given as `kern`.
  virtual Result paramInfo(const KernelNodeParams &node, size_t index,
                           size_t *offset, size_t *size) = 0;
  /// For readers; empty if nobody knows.
  virtual std::string nameOf(const KernelNodeParams &node) = 0;

  /// `early`: the device may begin while the kernel in front on the stream
  /// still runs. Its code has to wait.
  virtual Result launchKernel(Function function, const LaunchShape &shape,
                              Stream stream, void **params,
                              bool early = false) = 0;
  virtual Result copyAsync(DevicePtr target, DevicePtr source, size_t bytes,
                           Stream stream) = 0;
  virtual Result copyFromHostAsync(DevicePtr target, const void *source,
                                   size_t bytes, Stream stream) = 0;
  /// The target may be written only once the stream is waited for.
  virtual Result copyToHostAsync(void *target, DevicePtr source, size_t bytes,
                                 Stream stream) = 0;
  /// Waits.
  virtual Result copyToHost(void *target, DevicePtr source, size_t bytes) = 0;
  virtual Result fillAsync(const FillNodeParams &fill, Stream stream) = 0;
  virtual Result allocate(DevicePtr *memory, size_t bytes) = 0;
  virtual Result release(DevicePtr memory) = 0;
  /// Addresses that may be used, from `wish` on (a multiple of kReservedAlign)
  /// if these are free. On a device all of them may show the same few bytes:
  /// nothing is kept there. Only the simulated driver gives memory.
  virtual Result reserve(DevicePtr *begin, size_t bytes, DevicePtr wish) = 0;
  virtual Result unreserve(DevicePtr begin, size_t bytes) = 0;

  virtual Result createStream(Stream *stream) = 0;
  virtual Result destroyStream(Stream stream) = 0;
  virtual Result synchronize(Stream stream) = 0;
  virtual Result isCapturing(Stream stream, bool *capturing) = 0;
  virtual Result beginCapture(Stream stream) = 0;
  virtual Result endCapture(Stream stream, Graph *graph) = 0;
  /// The node that the stream's next one would depend on; null if there is
  /// none, or several.
  virtual Result lastCaptured(Stream stream, GraphNode *node) = 0;

  // Graphs that are made node by node. Each node depends on `after`, a node of
  // the same graph, or on none.
  virtual Result createGraph(Graph *graph) = 0;
  virtual Result addKernelNode(GraphNode *node, Graph graph, GraphNode after,
                               Function function, const LaunchShape &shape,
                               void **params) = 0;
  virtual Result addCopyNode(GraphNode *node, Graph graph, GraphNode after,
                             const CopyNodeParams &params) = 0;
  virtual Result addEmptyNode(GraphNode *node, Graph graph,
                              GraphNode after) = 0;
  /// A copy of `child` as one node.
  virtual Result addGraphNode(GraphNode *node, Graph graph, GraphNode after,
                              Graph child) = 0;
  /// A condition that one node of `graph` may ask for. Its value is not defined
  /// before a kernel sets it. kNotSupported on drivers older than 12.3.
  virtual Result createCondition(Condition *condition, Graph graph) = 0;
  /// `body` belongs to the node.
  virtual Result addConditionNode(GraphNode *node, Graph graph, GraphNode after,
                                  Condition condition, ConditionKind kind,
                                  Graph *body) = 0;

  virtual Result getNodes(Graph graph, std::vector<GraphNode> *nodes) = 0;
  virtual Result getType(GraphNode node, NodeType *type) = 0;
  virtual Result getKernelParams(GraphNode node, KernelNodeParams *params) = 0;
  /// Fails for anything but a row of bytes between two places of the device.
  virtual Result getCopyParams(GraphNode node, CopyNodeParams *params) = 0;
  virtual Result getFillParams(GraphNode node, FillNodeParams *params) = 0;
  virtual Result instantiate(GraphExec *exec, Graph graph) = 0;
  virtual Result launchGraph(GraphExec exec, Stream stream) = 0;
  virtual Result setKernelParams(GraphExec exec, GraphNode node,
                                 const KernelNodeParams &params) = 0;
  /// Of a graph that is instantiated afterwards.
  virtual Result setCopyParams(GraphNode node,
                               const CopyNodeParams &params) = 0;
  /// kInvalidValue, too, where the memory that the node was instantiated with
  /// is not mapped any more.
  virtual Result setCopyParams(GraphExec exec, GraphNode node,
                               const CopyNodeParams &params) = 0;
  virtual Result destroyExec(GraphExec exec) = 0;
  virtual Result destroyGraph(Graph graph) = 0;

private:
  static constexpr size_t kGraphs = 32;
  std::shared_ptr<GraphPool> pool = std::make_shared<GraphPool>(kGraphs);
};

/// The driver of this machine, opened once per process; null, with the reason
/// in `error`, where there is none.
std::shared_ptr<Driver> openDriver(std::string &error);

/// A simulated driver. It records streams, graphs and parameters as the
/// real one does and refuses what the real one refuses: allocation, waiting and
/// loading while a stream is captured, parameters of the wrong kind of node,
/// nodes of another graph, conditions of another graph, asked for twice, or
/// never set.
std::shared_ptr<Driver> makeSimulatedDriver();

/// Throws std::runtime_error saying what was tried, unless `result` is success.
void check(const Driver &driver, Result result, const char *what);

/// The same for a copy; the message has both addresses, by
/// which an operand of the host, or one that has no memory, is seen.
void checkCopy(const Driver &driver, Result result, const CopyNodeParams &copy);

} // namespace pyjit::rt::cuda

#endif // PYJIT_RT_CUDA_DRIVER_H
