//===- SimulatedDriver.cpp - A simulated driver ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SimulatedGraph.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

using namespace pyjit::rt;
using namespace pyjit::rt::cuda;

namespace {

struct SoftStream {
  std::unique_ptr<SoftGraph> capture; // while capturing
  bool invalid = false;               // an illegal call was made meanwhile
};

template <class T, class Handle> T *as(Handle handle) {
  return reinterpret_cast<T *>(handle);
}

class SimulatedDriver final : public Driver {
public:
  bool isSimulated() const override { return true; }

  std::string describe(Result result) const override {
    switch (result) {
    case kSuccess:
      return "success";
    case kInvalidValue:
      return "invalid value (simulated driver)";
    case kOutOfMemory:
      return "out of memory (simulated driver)";
    case kCaptureUnsupported:
      return "not permitted while a stream is captured (simulated driver)";
    case kCaptureInvalidated:
      return "the capture was invalidated (simulated driver)";
    case kNotFound:
      return "not found (simulated driver)";
    case kMisaligned:
      return "misaligned address (simulated driver)";
    case kNotSupported:
      return "not supported (simulated driver)";
    }
    return "error " + std::to_string(int(result)) + " (simulated driver)";
  }

  // Device and modules.

  Result enter(int) override { return kSuccess; }
  DeviceFacts factsOf(int) override { return {}; }

  Result loadModule(Module *, const char *, std::string &log) override {
    log = "a simulated driver runs host functions, not PTX";
    return kNotSupported;
  }
  Result loadHostModule(Module *module,
                        std::vector<HostKernel> kernels) override {
    std::lock_guard<std::mutex> guard(lock);
    if (invalidateCaptures())
      return kCaptureUnsupported;
    auto *made = new SoftModule;
    for (HostKernel &kernel : kernels)
      made->functions.push_back(
          std::make_unique<SoftFunction>(SoftFunction{std::move(kernel)}));
    *module = as<ModuleTag>(made);
    return kSuccess;
  }
  Result unloadModule(Module module) override {
    delete as<SoftModule>(module);
    return kSuccess;
  }
  Result getFunction(Function *function, Module module,
                     const char *name) override {
    for (auto &candidate : as<SoftModule>(module)->functions)
      if (candidate->kernel.name == name) {
        *function = as<FunctionTag>(candidate.get());
        return kSuccess;
      }
    return kInvalidValue;
  }
  Result allowShared(Function, unsigned) override { return kSuccess; }
  Result paramInfo(Function function, size_t index, size_t *offset,
                   size_t *size) override {
    if (index >= as<SoftFunction>(function)->kernel.params)
      return kInvalidValue;
    *offset = 8 * index;
    *size = 8;
    return kSuccess;
  }
  Result paramInfo(const KernelNodeParams &node, size_t index, size_t *offset,
                   size_t *size) override {
    return paramInfo(node.func, index, offset, size);
  }
  std::string nameOf(const KernelNodeParams &node) override {
    return as<SoftFunction>(node.func)->kernel.name;
  }

  // Work on a stream.

  Result launchKernel(Function function, const LaunchShape &shape,
                      Stream stream, void **params, bool) override {
    SoftNode node;
    if (Result result = SoftNode::makeKernel(node, function, shape, params))
      return result;
    return submit(stream, std::move(node));
  }
  Result copyAsync(DevicePtr target, DevicePtr source, size_t bytes,
                   Stream stream) override {
    // Memory that nobody has allocated: what can be told of it here.
    if (!target || !source)
      return kInvalidValue;
    return submit(stream, SoftNode::makeCopy({source, target, bytes}));
  }
  Result copyFromHostAsync(DevicePtr target, const void *source, size_t bytes,
                           Stream stream) override {
    std::lock_guard<std::mutex> guard(lock);
    SoftStream &state = streams[stream];
    if (state.capture) {
      // The real driver would record the host address, which nobody keeps.
      state.invalid = true;
      return kCaptureUnsupported;
    }
    std::memcpy(reinterpret_cast<void *>(target), source, bytes);
    return kSuccess;
  }
  Result copyToHostAsync(void *target, DevicePtr source, size_t bytes,
                         Stream stream) override {
    std::lock_guard<std::mutex> guard(lock);
    SoftStream &state = streams[stream];
    if (state.capture) {
      state.invalid = true;
      return kCaptureUnsupported;
    }
    std::memcpy(target, reinterpret_cast<const void *>(source), bytes);
    return kSuccess;
  }
  Result copyToHost(void *target, DevicePtr source, size_t bytes) override {
    std::lock_guard<std::mutex> guard(lock);
    if (invalidateCaptures())
      return kCaptureUnsupported;
    std::memcpy(target, reinterpret_cast<const void *>(source), bytes);
    return kSuccess;
  }
  Result fillAsync(const FillNodeParams &fill, Stream stream) override {
    SoftNode node;
    if (Result result = SoftNode::makeFill(node, fill))
      return result;
    return submit(stream, std::move(node));
  }
  // Memory.

  Result allocate(DevicePtr *memory, size_t bytes) override {
    std::lock_guard<std::mutex> guard(lock);
    if (invalidateCaptures())
      return kCaptureUnsupported;
    *memory = reinterpret_cast<DevicePtr>(new char[bytes + 1]);
    return kSuccess;
  }
  Result release(DevicePtr memory) override {
    std::lock_guard<std::mutex> guard(lock);
    if (invalidateCaptures())
      return kCaptureUnsupported;
    delete[] reinterpret_cast<char *>(memory);
    return kSuccess;
  }
  Result reserve(DevicePtr *begin, size_t bytes, DevicePtr wish) override {
    std::lock_guard<std::mutex> guard(lock);
    if (invalidateCaptures())
      return kCaptureUnsupported;
    // More than was asked for, so that some of it begins where it has to.
    void *found = mmap(reinterpret_cast<void *>(wish), bytes + kReservedAlign,
                       PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED)
      return kOutOfMemory;
    auto whole = reinterpret_cast<DevicePtr>(found);
    *begin = (whole + kReservedAlign - 1) / kReservedAlign * kReservedAlign;
    reserved[*begin] = {whole, bytes};
    return kSuccess;
  }
  Result unreserve(DevicePtr begin, size_t bytes) override {
    std::lock_guard<std::mutex> guard(lock);
    auto found = reserved.find(begin);
    if (found == reserved.end())
      return kInvalidValue;
    munmap(reinterpret_cast<void *>(found->second.mapping),
           bytes + kReservedAlign);
    reserved.erase(found);
    return kSuccess;
  }

  // Streams and captures.

  Result createStream(Stream *stream) override {
    *stream = as<StreamTag>(new char);
    return kSuccess;
  }
  Result destroyStream(Stream stream) override {
    std::lock_guard<std::mutex> guard(lock);
    streams.erase(stream);
    delete as<char>(stream);
    return kSuccess;
  }
  Result synchronize(Stream stream) override {
    std::lock_guard<std::mutex> guard(lock);
    SoftStream &state = streams[stream];
    if (!state.capture)
      return kSuccess;
    state.invalid = true;
    return kCaptureUnsupported;
  }
  Result isCapturing(Stream stream, bool *capturing) override {
    std::lock_guard<std::mutex> guard(lock);
    *capturing = streams[stream].capture != nullptr;
    return kSuccess;
  }
  Result beginCapture(Stream stream) override {
    std::lock_guard<std::mutex> guard(lock);
    SoftStream &state = streams[stream];
    // The legacy default stream cannot be captured.
    if (!stream || state.capture)
      return kCaptureUnsupported;
    state.capture = std::make_unique<SoftGraph>();
    state.invalid = false;
    return kSuccess;
  }
  Result endCapture(Stream stream, Graph *graph) override {
    std::lock_guard<std::mutex> guard(lock);
    SoftStream &state = streams[stream];
    *graph = nullptr;
    if (!state.capture)
      return kInvalidValue;
    std::unique_ptr<SoftGraph> done = std::move(state.capture);
    if (state.invalid)
      return kCaptureInvalidated;
    *graph = as<GraphTag>(done.release());
    return kSuccess;
  }
  Result lastCaptured(Stream stream, GraphNode *node) override {
    std::lock_guard<std::mutex> guard(lock);
    SoftStream &state = streams[stream];
    *node = state.capture && !state.capture->nodes.empty()
                ? as<GraphNodeTag>(state.capture->nodes.back().get())
                : nullptr;
    return kSuccess;
  }

  // Graphs made node by node.

  Result createGraph(Graph *graph) override {
    *graph = as<GraphTag>(new SoftGraph);
    return kSuccess;
  }
  Result addKernelNode(GraphNode *node, Graph graph, GraphNode after,
                       Function function, const LaunchShape &shape,
                       void **params) override {
    SoftNode made;
    if (Result result = SoftNode::makeKernel(made, function, shape, params))
      return result;
    return add(node, graph, after, std::move(made));
  }
  Result addCopyNode(GraphNode *node, Graph graph, GraphNode after,
                     const CopyNodeParams &params) override {
    return add(node, graph, after, SoftNode::makeCopy(params));
  }
  Result addEmptyNode(GraphNode *node, Graph graph, GraphNode after) override {
    SoftNode made;
    made.type = NodeType::Empty;
    return add(node, graph, after, std::move(made));
  }
  Result addGraphNode(GraphNode *node, Graph graph, GraphNode after,
                      Graph child) override {
    if (!child || child == graph || as<SoftGraph>(child)->isBody)
      return kInvalidValue;
    SoftNode made;
    made.type = NodeType::Graph;
    made.body = as<SoftGraph>(child)->clone();
    return add(node, graph, after, std::move(made));
  }
  Result createCondition(Condition *condition, Graph graph) override {
    std::lock_guard<std::mutex> guard(lock);
    auto &list = as<SoftGraph>(graph)->conditions;
    list.push_back(std::make_shared<uint32_t>(kUnset));
    *condition = reinterpret_cast<Condition>(list.back().get());
    return kSuccess;
  }
  Result addConditionNode(GraphNode *node, Graph graph, GraphNode after,
                          Condition condition, ConditionKind kind,
                          Graph *body) override {
    SoftNode made;
    made.type = NodeType::Conditional;
    made.kind = kind;
    *body = nullptr;
    {
      std::lock_guard<std::mutex> guard(lock);
      auto &list = as<SoftGraph>(graph)->conditions;
      auto found = std::find_if(list.begin(), list.end(), [&](auto &word) {
        return reinterpret_cast<Condition>(word.get()) == condition;
      });
      // Of another graph, or another node's.
      if (found == list.end())
        return kInvalidValue;
      made.condition = *found;
      list.erase(found);
    }
    made.body = std::make_shared<SoftGraph>();
    made.body->isBody = true;
    SoftGraph *inside = made.body.get();
    if (Result result = add(node, graph, after, std::move(made)))
      return result;
    *body = as<GraphTag>(inside);
    return kSuccess;
  }

  // What a graph holds.

  Result getNodes(Graph graph, std::vector<GraphNode> *nodes) override {
    nodes->clear();
    for (auto &node : as<SoftGraph>(graph)->nodes)
      nodes->push_back(as<GraphNodeTag>(node.get()));
    return kSuccess;
  }
  Result getType(GraphNode node, NodeType *type) override {
    *type = as<SoftNode>(node)->type;
    return kSuccess;
  }
  Result getKernelParams(GraphNode handle, KernelNodeParams *params) override {
    auto *node = as<SoftNode>(handle);
    if (node->type != NodeType::Kernel)
      return kInvalidValue;
    node->pointers.clear();
    for (uint64_t &word : node->params)
      node->pointers.push_back(&word);
    *params = kernelNodeParams(
        as<FunctionTag>(const_cast<SoftFunction *>(node->function)),
        node->shape, node->pointers.data());
    return kSuccess;
  }
  Result getCopyParams(GraphNode handle, CopyNodeParams *params) override {
    auto *node = as<SoftNode>(handle);
    if (node->type != NodeType::Memcpy)
      return kInvalidValue;
    *params = node->copy;
    return kSuccess;
  }
  Result getFillParams(GraphNode handle, FillNodeParams *params) override {
    auto *node = as<SoftNode>(handle);
    if (node->type != NodeType::Memset)
      return kInvalidValue;
    *params = node->fill;
    return kSuccess;
  }
  // Graphs that are launched.

  Result instantiate(GraphExec *exec, Graph graph) override {
    std::lock_guard<std::mutex> guard(lock);
    if (invalidateCaptures())
      return kCaptureUnsupported;
    if (as<SoftGraph>(graph)->isBody)
      return kInvalidValue;
    auto made = std::make_unique<SoftExec>(*as<SoftGraph>(graph));
    for (SoftNode &node : made->nodes)
      if (node.type == NodeType::Memcpy)
        node.window = windowOf(node.copy);
    *exec = as<GraphExecTag>(made.release());
    return kSuccess;
  }
  Result launchGraph(GraphExec exec, Stream stream) override {
    {
      std::lock_guard<std::mutex> guard(lock);
      if (streams[stream].capture) {
        streams[stream].invalid = true;
        return kCaptureUnsupported;
      }
    }
    return as<SoftExec>(exec)->launch();
  }
  Result setKernelParams(GraphExec exec, GraphNode origin,
                         const KernelNodeParams &params) override {
    SoftNode *node = as<SoftExec>(exec)->find(as<SoftNode>(origin));
    if (!node || node->type != NodeType::Kernel || !params.kernelParams ||
        params.func !=
            as<FunctionTag>(const_cast<SoftFunction *>(node->function)))
      return kInvalidValue;
    if (!params.gridX || !params.gridY || !params.gridZ)
      return kInvalidValue;
    node->shape = {{params.gridX, params.gridY, params.gridZ},
                   {params.blockX, params.blockY, params.blockZ},
                   params.sharedBytes};
    for (unsigned i = 0; i < node->params.size(); ++i)
      node->params[i] = *static_cast<uint64_t *>(params.kernelParams[i]);
    return kSuccess;
  }
  Result setCopyParams(GraphExec exec, GraphNode origin,
                       const CopyNodeParams &params) override {
    SoftNode *node = as<SoftExec>(exec)->find(as<SoftNode>(origin));
    if (!node || node->type != NodeType::Memcpy)
      return kInvalidValue;
    std::lock_guard<std::mutex> guard(lock);
    if (node->window && !reserved.count(node->window))
      return kInvalidValue;
    node->copy = params;
    return kSuccess;
  }
  Result setCopyParams(GraphNode node, const CopyNodeParams &params) override {
    if (as<SoftNode>(node)->type != NodeType::Memcpy)
      return kInvalidValue;
    as<SoftNode>(node)->copy = params;
    return kSuccess;
  }
  Result destroyExec(GraphExec exec) override {
    delete as<SoftExec>(exec);
    return kSuccess;
  }
  Result destroyGraph(Graph graph) override {
    if (as<SoftGraph>(graph)->isBody)
      return kInvalidValue; // its node's
    delete as<SoftGraph>(graph);
    return kSuccess;
  }

private:
  /// Carries a node out, or records it.
  Result submit(Stream stream, SoftNode node) {
    {
      std::lock_guard<std::mutex> guard(lock);
      SoftStream &state = streams[stream];
      if (state.capture) {
        state.capture->nodes.push_back(std::make_unique<SoftNode>(node));
        return kSuccess;
      }
    }
    return node.run();
  }
  /// Adds a node to a graph that is made by hand.
  Result add(GraphNode *handle, Graph to, GraphNode after, SoftNode node) {
    std::lock_guard<std::mutex> guard(lock);
    auto *graph = as<SoftGraph>(to);
    *handle = nullptr;
    if (!graph || (after && as<SoftNode>(after)->graph != graph))
      return kInvalidValue;
    node.graph = graph;
    graph->nodes.push_back(std::make_unique<SoftNode>(std::move(node)));
    *handle = as<GraphNodeTag>(graph->nodes.back().get());
    return kSuccess;
  }
  /// What must not happen while any stream is captured ends that capture.
  bool invalidateCaptures() {
    bool any = false;
    for (auto &[stream, state] : streams)
      if (state.capture)
        any = state.invalid = true;
    return any;
  }

  /// Where the reserved memory begins that an operand of the copy lies in, or
  /// 0.
  DevicePtr windowOf(const CopyNodeParams &copy) const {
    for (DevicePtr address : {copy.source, copy.target}) {
      auto next = reserved.upper_bound(address);
      if (next == reserved.begin())
        continue;
      auto window = std::prev(next);
      if (address - window->first < window->second.bytes)
        return window->first;
    }
    return 0;
  }

  struct Reserved {
    DevicePtr mapping;
    size_t bytes;
  };

  std::mutex lock;
  std::map<Stream, SoftStream> streams;
  std::map<DevicePtr, Reserved> reserved; // by where they begin
};

} // namespace

std::shared_ptr<Driver> cuda::makeSimulatedDriver() {
  return std::make_shared<SimulatedDriver>();
}
