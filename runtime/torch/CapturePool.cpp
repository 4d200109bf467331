//===- CapturePool.cpp - Capturing vendor calls ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PyTorch's allocator serves captured calls from a private pool, which only its
// class at::cuda::CUDAGraph can ask for. Its methods are exported by
// libtorch_cuda.so, whose headers need the CUDA toolkit; the declarations are
// therefore ours, for the very version of PyTorch that the package requires.
//
//===----------------------------------------------------------------------===//

#include "TorchDevice.h"

#include <ATen/Context.h>
#include <c10/util/ScopeExit.h>

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <tuple>
#include <utility>
#include <vector>

using namespace pyjit::rt;

CapturePool::~CapturePool() = default;

namespace {

/// For launches that allocate nothing.
class DriverCapture final : public CapturePool {
public:
  explicit DriverCapture(cuda::Driver &driver) : driver(driver) {}
  void begin(cuda::Stream stream) override {
    cuda::check(driver, driver.beginCapture(stream), "beginning a capture");
  }
  cuda::Graph end(cuda::Stream stream) override {
    cuda::Graph graph = nullptr;
    cuda::check(driver, driver.endCapture(stream, &graph), "ending a capture");
    return graph;
  }
  bool ownsGraph() const override { return false; }
  void abandon(cuda::Stream stream) noexcept override {
    cuda::Graph graph = nullptr;
    driver.endCapture(stream, &graph);
    if (graph)
      driver.destroyGraph(graph);
  }

private:
  cuda::Driver &driver;
};

using PoolId = std::pair<unsigned long long, unsigned long long>;

/// at::cuda::WorkspaceMapWithMutex: by handle and stream.
struct Workspaces {
  std::map<std::tuple<void *, void *>, at::DataPtr> map;
  std::shared_mutex mutex;
};

/// at::cuda::CUDAGraph's methods, `this` first.
struct GraphClass {
  void (*construct)(void *, bool keepGraph) = nullptr;
  void (*destroy)(void *) = nullptr;
  void (*begin)(void *, PoolId, int mode) = nullptr;
  void (*end)(void *) = nullptr;
  cuda::Graph (*raw)(void *) = nullptr;
  PoolId (*pool)(void *) = nullptr;
  Workspaces &(*workspaces)() = nullptr;
  Workspaces &(*lightWorkspaces)() = nullptr; // of cuBLASLt
  void *(*blasHandle)() = nullptr;            // this thread's
  size_t (*workspaceBytes)() = nullptr;
  std::string error;

  GraphClass() {
    // Loaded with PyTorch, or not there at all.
    void *library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    if (!library) {
      error = "libtorch_cuda.so is not loaded";
      return;
    }
    auto find = [&](auto &method, const char *symbol) {
      method = reinterpret_cast<std::decay_t<decltype(method)>>(
          dlsym(library, symbol));
      if (!method)
        error = std::string("this PyTorch has no ") + symbol;
    };
    find(construct, "_ZN2at4cuda9CUDAGraphC1Eb");
    find(destroy, "_ZN2at4cuda9CUDAGraphD1Ev");
    find(begin, "_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStream"
                "CaptureMode");
    find(end, "_ZN2at4cuda9CUDAGraph11capture_endEv");
    find(raw, "_ZN2at4cuda9CUDAGraph14raw_cuda_graphEv");
    find(pool, "_ZN2at4cuda9CUDAGraph4poolEv");
    find(workspaces, "_ZN2at4cuda33cublas_handle_stream_to_workspaceEv");
    find(lightWorkspaces, "_ZN2at4cuda35cublaslt_handle_stream_to_workspaceEv");
    find(blasHandle, "_ZN2at4cuda24getCurrentCUDABlasHandleEv");
    find(workspaceBytes, "_ZN2at4cuda22getChosenWorkspaceSizeEv");
  }

  /// Lets cuBLAS' calls on `stream` write `shared` until they are forgotten:
  /// else each capture would allocate a workspace in its own pool. Whoever
  /// clears PyTorch's workspaces does not free it.
  void lendWorkspace(const TorchDevice &device, LibraryWorkspace &shared,
                     cuda::Stream stream) const {
    void *handle = nullptr;
    std::lock_guard<std::mutex> guard(shared.lock);
    {
      // Asking for the handle may allocate for the stream that is current.
      TorchDevice::StreamScope scope(device, shared.stream);
      handle = blasHandle();
      if (!shared.memory) {
        shared.bytes = workspaceBytes();
        shared.memory =
            c10::GetAllocator(device.device().type())->allocate(shared.bytes);
      }
    }
    if (shared.bytes != workspaceBytes())
      return;
    Workspaces &known = workspaces();
    std::unique_lock<std::shared_mutex> lock(known.mutex);
    known.map.insert_or_assign(
        std::tuple(handle, static_cast<void *>(stream)),
        at::DataPtr(shared.memory.get(), device.device()));
  }

  /// The libraries' workspaces are kept by handle and stream, whoever allocated
  /// them. A capture that met another one's would write memory that goes with
  /// that one. Those of other streams stay: another thread may be about to
  /// launch a matmul that writes one.
  void forgetWorkspaces(cuda::Stream stream) const {
    std::vector<at::DataPtr> dropped; // freed without the lock
    for (auto *get : {workspaces, lightWorkspaces}) {
      Workspaces &known = get();
      std::unique_lock<std::shared_mutex> lock(known.mutex);
      for (auto it = known.map.begin(); it != known.map.end();) {
        if (std::get<1>(it->first) != stream) {
          ++it;
          continue;
        }
        dropped.push_back(std::move(it->second));
        it = known.map.erase(it);
      }
    }
  }
};

const GraphClass &graphClass() {
  static const GraphClass found;
  return found;
}

/// A capture makes the device's default generator its own: until it ends,
/// random numbers outside of it (another thread's, on another stream) raise.
/// What we capture draws none. So the capture gets a copy of the state, and the
/// generator is itself again as soon as the capture has begun.
void beginWithoutGenerator(void *object, PoolId pool, int mode,
                           c10::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  // Who draws numbers holds the lock.
  std::lock_guard<std::mutex> lock(generator.mutex());
  c10::intrusive_ptr<c10::GeneratorImpl> kept =
      generator.unsafeGetGeneratorImpl()->graphsafe_get_state();
  generator.unsafeGetGeneratorImpl()->graphsafe_set_state(
      generator.clone().getIntrusivePtr());
  auto restore = c10::make_scope_exit(
      [&] { generator.unsafeGetGeneratorImpl()->graphsafe_set_state(kept); });
  graphClass().begin(object, pool, mode);
}

class PoolCapture final : public CapturePool {
public:
  PoolCapture(const TorchDevice &device,
              std::shared_ptr<LibraryWorkspace> workspace, PoolCapture *sharing)
      : device(device), workspace(std::move(workspace)) {
    if (sharing)
      pool = graphClass().pool(sharing->object);
    graphClass().construct(object, /*keepGraph=*/true);
  }
  ~PoolCapture() override { graphClass().destroy(object); }

  void begin(cuda::Stream stream) override {
    constexpr int kThreadLocal = 1;
    graphClass().forgetWorkspaces(stream);
    graphClass().lendWorkspace(device, *workspace, stream);
    beginWithoutGenerator(object, pool, kThreadLocal, device.device());
  }
  cuda::Graph end(cuda::Stream stream) override {
    graphClass().end(object);
    // The lent one, and what else went to the capture's own pool; both live as
    // long as this object.
    graphClass().forgetWorkspaces(stream);
    return graphClass().raw(object);
  }
  bool ownsGraph() const override { return true; }
  void abandon(cuda::Stream stream) noexcept override {
    try {
      graphClass().end(object); // gives the pool back, too
      graphClass().forgetWorkspaces(stream);
    } catch (const std::exception &) {
      bool capturing = false;
      cuda::Graph graph = nullptr;
      cuda::Driver &driver = device.driver();
      if (!driver.isCapturing(stream, &capturing) && capturing)
        driver.endCapture(stream, &graph);
    }
  }

private:
  const TorchDevice &device; ///< its executor's, which outlives its graphs
  std::shared_ptr<LibraryWorkspace> workspace;
  PoolId pool{0, 0}; ///< one of its own
  // The class takes less than 256 bytes; its exact size is its library's
  // affair.
  alignas(64) unsigned char object[4096] = {};
};

} // namespace

std::shared_ptr<LibraryWorkspace> LibraryWorkspace::of(c10::Device device,
                                                       cuda::Stream stream) {
  using Known =
      std::map<std::pair<int, cuda::Stream>, std::weak_ptr<LibraryWorkspace>>;
  static std::pair<std::mutex, Known> all;
  std::lock_guard<std::mutex> guard(all.first);
  std::weak_ptr<LibraryWorkspace> &entry = all.second[{device.index(), stream}];
  std::shared_ptr<LibraryWorkspace> shared = entry.lock();
  if (!shared)
    entry = shared = std::make_shared<LibraryWorkspace>(stream);
  return shared;
}

std::unique_ptr<CapturePool>
CapturePool::make(const TorchDevice &device, bool vendorCalls,
                  std::shared_ptr<LibraryWorkspace> workspace,
                  std::string &error, CapturePool *sharing) {
  if (!vendorCalls || device.driver().isSimulated())
    return std::make_unique<DriverCapture>(device.driver());
  if (!graphClass().error.empty()) {
    error = graphClass().error;
    return nullptr;
  }
  return std::make_unique<PoolCapture>(device, std::move(workspace),
                                       static_cast<PoolCapture *>(sharing));
}
