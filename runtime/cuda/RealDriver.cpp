//===- RealDriver.cpp - libcuda, opened at run time -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Assembler.h"
#include "DriverEntries.h"

#include <dlfcn.h>

#include <algorithm>
#include <mutex>

using namespace pyjit::rt;
using namespace pyjit::rt::cuda;

namespace {

struct Table {
#define X(NAME, PARAMS) int(*NAME) PARAMS = nullptr;
  PYJIT_DRIVER_ENTRIES(X)
  PYJIT_DRIVER_OPTIONAL(X)
#undef X

  bool load(void *library, std::string &error) {
#define X(NAME, PARAMS)                                                        \
  NAME = reinterpret_cast<int(*) PARAMS>(dlsym(library, #NAME));               \
  if (!NAME) {                                                                 \
    error = "the CUDA driver is too old: it has no " #NAME;                    \
    return false;                                                              \
  }
    PYJIT_DRIVER_ENTRIES(X)
#undef X
#define X(NAME, PARAMS)                                                        \
  NAME = reinterpret_cast<int(*) PARAMS>(dlsym(library, #NAME));
    PYJIT_DRIVER_OPTIONAL(X)
#undef X
    return true;
  }
};

Result as(int result) { return static_cast<Result>(result); }

class RealDriver final : public Driver {
public:
  Table t;

  bool isSimulated() const override { return false; }

  std::string describe(Result result) const override {
    const char *name = nullptr, *text = nullptr;
    t.cuGetErrorName(result, &name);
    t.cuGetErrorString(result, &text);
    return std::string(name ? name : "unknown error") + " (" +
           (text ? text : std::to_string(int(result))) + ")";
  }

  Result enter(int device) override {
    Context context = nullptr;
    if (int failed = t.cuCtxGetCurrent(&context))
      return as(failed);
    if (context)
      return kSuccess;
    int handle = 0;
    if (int failed = t.cuDeviceGet(&handle, device))
      return as(failed);
    if (int failed = t.cuDevicePrimaryCtxRetain(&context, handle))
      return as(failed);
    return as(t.cuCtxSetCurrent(context));
  }

  DeviceFacts factsOf(int device) override {
    constexpr int kMultiprocessors = 16, kThreadsPerMultiprocessor = 39,
                  kMajor = 75, kMinor = 76;
    int handle = 0;
    if (t.cuDeviceGet(&handle, device))
      return {};
    auto ask = [&](int attribute) {
      int value = 0;
      return t.cuDeviceGetAttribute(&value, attribute, handle) ? 0 : value;
    };
    int major = ask(kMajor);
    return {major ? 10 * major + ask(kMinor) : 0, ask(kMultiprocessors),
            ask(kThreadsPerMultiprocessor)};
  }

  std::optional<std::vector<std::vector<char>>>
  assemble(const std::vector<const char *> &ptx) override {
    const Assembler *assembler = Assembler::get();
    int device = 0;
    if (!assembler || !t.cuCtxGetDevice || t.cuCtxGetDevice(&device))
      return std::nullopt;
    int capability = factsOf(device).capability;
    return capability ? assembler->assemble(ptx, capability) : std::nullopt;
  }
  Result loadModule(Module *module, const char *image,
                    std::string &log) override {
    constexpr int kErrorLog = 5, kErrorLogBytes = 6;
    char text[8192] = "";
    int options[] = {kErrorLog, kErrorLogBytes};
    void *values[] = {text, reinterpret_cast<void *>(sizeof text)};
    int result = t.cuModuleLoadDataEx(module, image, 2, options, values);
    log = text;
    return as(result);
  }
  Result loadHostModule(Module *, std::vector<HostKernel>) override {
    return kNotSupported;
  }
  Result unloadModule(Module module) override {
    return as(t.cuModuleUnload(module));
  }
  Result getFunction(Function *function, Module module,
                     const char *name) override {
    return as(t.cuModuleGetFunction(function, module, name));
  }
  Result allowShared(Function function, unsigned bytes) override {
    constexpr int kMaxDynamicShared = 8;
    return as(t.cuFuncSetAttribute(function, kMaxDynamicShared, bytes));
  }
  Result paramInfo(Function function, size_t index, size_t *offset,
                   size_t *size) override {
    if (!t.cuFuncGetParamInfo)
      return kNotSupported;
    return as(t.cuFuncGetParamInfo(function, index, offset, size));
  }
  Result paramInfo(const KernelNodeParams &node, size_t index, size_t *offset,
                   size_t *size) override {
    if (node.func)
      return paramInfo(node.func, index, offset, size);
    if (!t.cuKernelGetParamInfo || !node.kern)
      return kNotSupported;
    return as(t.cuKernelGetParamInfo(node.kern, index, offset, size));
  }
  std::string nameOf(const KernelNodeParams &node) override {
    const char *name = nullptr;
    if (node.func && t.cuFuncGetName)
      t.cuFuncGetName(&name, node.func);
    else if (!node.func && node.kern && t.cuKernelGetName)
      t.cuKernelGetName(&name, node.kern);
    return name ? name : "";
  }

  Result launchKernel(Function function, const LaunchShape &s, Stream stream,
                      void **params, bool early) override {
    if (early && t.cuLaunchKernelEx) {
      LaunchAttribute attribute{LaunchAttribute::kProgrammatic, 0, {1}};
      LaunchConfig config{{s.grid[0], s.grid[1], s.grid[2]},
                          {s.block[0], s.block[1], s.block[2]},
                          s.sharedBytes,
                          stream,
                          &attribute,
                          1};
      return as(t.cuLaunchKernelEx(&config, function, params, nullptr));
    }
    return as(t.cuLaunchKernel(function, s.grid[0], s.grid[1], s.grid[2],
                               s.block[0], s.block[1], s.block[2],
                               s.sharedBytes, stream, params, nullptr));
  }
  Result copyAsync(DevicePtr target, DevicePtr source, size_t bytes,
                   Stream stream) override {
    return as(t.cuMemcpyDtoDAsync_v2(target, source, bytes, stream));
  }
  Result copyFromHostAsync(DevicePtr target, const void *source, size_t bytes,
                           Stream stream) override {
    return as(t.cuMemcpyHtoDAsync_v2(target, source, bytes, stream));
  }
  Result copyToHost(void *target, DevicePtr source, size_t bytes) override {
    return as(t.cuMemcpyDtoH_v2(target, source, bytes));
  }
  Result copyToHostAsync(void *target, DevicePtr source, size_t bytes,
                         Stream stream) override {
    return as(t.cuMemcpyDtoHAsync_v2(target, source, bytes, stream));
  }
  Result fillAsync(const FillNodeParams &f, Stream stream) override {
    switch (f.elementBytes) {
    case 1:
      return as(t.cuMemsetD8Async(f.target, f.value, f.count, stream));
    case 2:
      return as(t.cuMemsetD16Async(f.target, f.value, f.count, stream));
    case 4:
      return as(t.cuMemsetD32Async(f.target, f.value, f.count, stream));
    }
    return kInvalidValue;
  }
  Result allocate(DevicePtr *memory, size_t bytes) override {
    return as(t.cuMemAlloc_v2(memory, bytes));
  }
  Result release(DevicePtr memory) override {
    return as(t.cuMemFree_v2(memory));
  }
  Result reserve(DevicePtr *begin, size_t bytes, DevicePtr wish) override {
    Window window;
    if (Result failed = window.find(t, bytes))
      return failed;
    if (int failed =
            t.cuMemAddressReserve(begin, window.range, kReservedAlign, wish, 0))
      return as(failed);
    // One piece of memory is shown again and again.
    uint64_t piece = 0;
    size_t mapped = 0;
    int failed = t.cuMemCreate(&piece, window.piece, &window.properties, 0);
    while (!failed && mapped < window.bytes) {
      failed = t.cuMemMap(*begin + mapped, window.piece, 0, piece, 0);
      mapped += failed ? 0 : window.piece;
    }
    if (piece)
      t.cuMemRelease(piece); // goes with the last place that shows it
    constexpr int kReadWrite = 3;
    MemoryAccess access{window.properties.location, kReadWrite};
    if (!failed)
      failed = t.cuMemSetAccess(*begin, window.bytes, &access, 1);
    if (failed)
      window.drop(t, *begin, mapped);
    return as(failed);
  }
  Result unreserve(DevicePtr begin, size_t bytes) override {
    Window window;
    if (Result failed = window.find(t, bytes))
      return failed;
    return window.drop(t, begin, window.bytes);
  }

  Result createStream(Stream *stream) override {
    constexpr unsigned kNonBlocking = 1;
    return as(t.cuStreamCreate(stream, kNonBlocking));
  }
  Result destroyStream(Stream stream) override {
    return as(t.cuStreamDestroy_v2(stream));
  }
  Result synchronize(Stream stream) override {
    return as(t.cuStreamSynchronize(stream));
  }
  Result isCapturing(Stream stream, bool *capturing) override {
    int status = 0;
    int result = t.cuStreamIsCapturing(stream, &status);
    *capturing = status != 0;
    return as(result);
  }
  Result beginCapture(Stream stream) override {
    // Other threads go on allocating meanwhile.
    constexpr int kThreadLocal = 1;
    return as(t.cuStreamBeginCapture_v2(stream, kThreadLocal));
  }
  Result endCapture(Stream stream, Graph *graph) override {
    return as(t.cuStreamEndCapture(stream, graph));
  }
  Result lastCaptured(Stream stream, GraphNode *node) override {
    int status = 0;
    uint64_t id = 0;
    Graph graph = nullptr;
    const GraphNode *nodes = nullptr;
    size_t count = 0;
    int result = t.cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph,
                                             &nodes, &count);
    *node = result == 0 && count == 1 ? nodes[0] : nullptr;
    return as(result);
  }

  Result createGraph(Graph *graph) override {
    return as(t.cuGraphCreate(graph, 0));
  }
  Result addKernelNode(GraphNode *node, Graph graph, GraphNode after,
                       Function function, const LaunchShape &s,
                       void **params) override {
    KernelNodeParams kernel = kernelNodeParams(function, s, params);
    return as(t.cuGraphAddKernelNode_v2(node, graph, &after, after != nullptr,
                                        &kernel));
  }
  Result addCopyNode(GraphNode *node, Graph graph, GraphNode after,
                     const CopyNodeParams &params) override {
    Memcpy3D copy = copyOf(params);
    return as(t.cuGraphAddMemcpyNode(node, graph, &after, after != nullptr,
                                     &copy, context()));
  }
  Result addEmptyNode(GraphNode *node, Graph graph, GraphNode after) override {
    return as(t.cuGraphAddEmptyNode(node, graph, &after, after != nullptr));
  }
  Result addGraphNode(GraphNode *node, Graph graph, GraphNode after,
                      Graph child) override {
    return as(t.cuGraphAddChildGraphNode(node, graph, &after, after != nullptr,
                                         child));
  }
  Result createCondition(Condition *condition, Graph graph) override {
    if (!t.cuGraphConditionalHandleCreate || !t.cuGraphAddNode_v2)
      return kNotSupported;
    return as(
        t.cuGraphConditionalHandleCreate(condition, graph, context(), 0, 0));
  }
  Result addConditionNode(GraphNode *node, Graph graph, GraphNode after,
                          Condition condition, ConditionKind kind,
                          Graph *body) override {
    if (!t.cuGraphAddNode_v2)
      return kNotSupported;
    ConditionNodeParams params{};
    params.type = int(NodeType::Conditional);
    params.handle = condition;
    params.kind = int(kind);
    params.size = 1;
    params.context = context();
    int result = t.cuGraphAddNode_v2(node, graph, &after, nullptr,
                                     after != nullptr, &params);
    *body = result == 0 && params.bodies ? params.bodies[0] : nullptr;
    return as(result);
  }

  Result getNodes(Graph graph, std::vector<GraphNode> *nodes) override {
    size_t count = 0;
    if (int failed = t.cuGraphGetNodes(graph, nullptr, &count))
      return as(failed);
    nodes->resize(count);
    return count ? as(t.cuGraphGetNodes(graph, nodes->data(), &count))
                 : kSuccess;
  }
  Result getType(GraphNode node, NodeType *type) override {
    int number = 0;
    int result = t.cuGraphNodeGetType(node, &number);
    bool known = (number >= 0 && number <= 2) || number == 4 || number == 5 ||
                 number == int(NodeType::Conditional);
    *type = known ? NodeType(number) : NodeType::Other;
    return as(result);
  }
  Result getKernelParams(GraphNode node, KernelNodeParams *params) override {
    return as(t.cuGraphKernelNodeGetParams_v2(node, params));
  }
  Result getCopyParams(GraphNode node, CopyNodeParams *params) override {
    Memcpy3D copy{};
    if (int failed = t.cuGraphMemcpyNodeGetParams(node, &copy))
      return as(failed);
    if (copy.height != 1 || copy.depth != 1 ||
        copy.srcMemoryType != kMemoryTypeDevice ||
        copy.dstMemoryType != kMemoryTypeDevice)
      return kInvalidValue;
    *params = {copy.srcDevice + copy.srcX, copy.dstDevice + copy.dstX,
               copy.width};
    return kSuccess;
  }
  Result getFillParams(GraphNode node, FillNodeParams *params) override {
    MemsetNodeParams fill{};
    if (int failed = t.cuGraphMemsetNodeGetParams(node, &fill))
      return as(failed);
    if (fill.height != 1)
      return kInvalidValue;
    *params = {fill.dst, fill.value, fill.elementSize, fill.width};
    return kSuccess;
  }
  Result instantiate(GraphExec *exec, Graph graph) override {
    return as(t.cuGraphInstantiateWithFlags(exec, graph, 0));
  }
  Result launchGraph(GraphExec exec, Stream stream) override {
    return as(t.cuGraphLaunch(exec, stream));
  }
  Result setKernelParams(GraphExec exec, GraphNode node,
                         const KernelNodeParams &params) override {
    return as(t.cuGraphExecKernelNodeSetParams_v2(exec, node, &params));
  }
  Result setCopyParams(GraphNode node, const CopyNodeParams &params) override {
    Memcpy3D copy = copyOf(params);
    return as(t.cuGraphMemcpyNodeSetParams(node, &copy));
  }
  Result setCopyParams(GraphExec exec, GraphNode node,
                       const CopyNodeParams &params) override {
    Memcpy3D copy = copyOf(params);
    return as(t.cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context()));
  }
  Result destroyExec(GraphExec exec) override {
    return as(t.cuGraphExecDestroy(exec));
  }
  Result destroyGraph(Graph graph) override {
    return as(t.cuGraphDestroy(graph));
  }

private:
  /// Addresses and the memory that they show.
  struct Window {
    MemoryProperties properties{};
    size_t piece = 0, bytes = 0; // mapped at a time, and in all
    size_t range = 0;            // addresses

    Result find(const Table &t, size_t wanted) {
      if (!t.cuCtxGetDevice || !t.cuMemGetAllocationGranularity ||
          !t.cuMemAddressReserve || !t.cuMemAddressFree || !t.cuMemCreate ||
          !t.cuMemRelease || !t.cuMemMap || !t.cuMemUnmap || !t.cuMemSetAccess)
        return kNotSupported;
      constexpr int kPinned = 1, kOnDevice = 1;
      properties.type = kPinned;
      properties.location.type = kOnDevice;
      if (int failed = t.cuCtxGetDevice(&properties.location.id))
        return as(failed);
      size_t granule = 0;
      if (int failed =
              t.cuMemGetAllocationGranularity(&granule, &properties, 0))
        return as(failed);
      constexpr size_t kPiece = 32 << 20;
      auto round = [](size_t bytes, size_t to) {
        return (bytes + to - 1) / to * to;
      };
      piece = round(std::min(wanted, kPiece), granule);
      bytes = round(wanted, piece);
      // The driver may take smaller ranges out of larger ones that it has,
      // whatever the wish (580.159 on an H200). Addresses cost nothing.
      constexpr size_t kTakesWishes = size_t(1) << 30;
      range = round(bytes, kTakesWishes);
      return kSuccess;
    }
    Result drop(const Table &t, DevicePtr begin, size_t mapped) {
      int failed = 0;
      for (size_t at = 0; at < mapped; at += piece)
        if (int result = t.cuMemUnmap(begin + at, piece))
          failed = result;
      int result = t.cuMemAddressFree(begin, range);
      return as(failed ? failed : result);
    }
  };

  static Memcpy3D copyOf(const CopyNodeParams &params) {
    Memcpy3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = kMemoryTypeDevice;
    copy.srcDevice = params.source;
    copy.dstDevice = params.target;
    copy.srcPitch = copy.dstPitch = copy.width = params.bytes;
    copy.height = copy.depth = copy.srcHeight = copy.dstHeight = 1;
    return copy;
  }
  Context context() const {
    Context current = nullptr;
    t.cuCtxGetCurrent(&current);
    return current;
  }
};

std::shared_ptr<Driver> open(std::string &error) {
  // By its soname: where a program uses CUDA, this very library is loaded.
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    error = "no CUDA driver (libcuda.so.1) on this machine";
    return nullptr;
  }
  auto driver = std::make_shared<RealDriver>();
  if (!driver->t.load(library, error))
    return nullptr;
  if (int failed = driver->t.cuInit(0)) {
    error = "the CUDA driver does not start: " + driver->describe(as(failed));
    return nullptr;
  }
  int version = 0;
  driver->t.cuDriverGetVersion(&version);
  constexpr int kOldest = 12000;
  if (version < kOldest) {
    error = "the CUDA driver is too old: version " + std::to_string(version) +
            ", needed is " + std::to_string(kOldest);
    return nullptr;
  }
  return driver;
}

} // namespace

std::shared_ptr<Driver> cuda::openDriver(std::string &error) {
  // A handle of a library that is never unloaded; opening it twice would be no
  // error, only slower.
  struct Opened {
    std::shared_ptr<Driver> driver;
    std::string error;
    Opened() { driver = open(error); }
  };
  static const Opened opened;
  error = opened.error;
  return opened.driver;
}
