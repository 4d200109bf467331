//===- TorchDevice.h - PyTorch's streams and memory of a device -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reached through c10's device-agnostic interfaces: nothing here is linked
// against PyTorch's CUDA libraries, which a CPU build does not have.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RUNTIME_TORCH_TORCHDEVICE_H
#define PYJIT_RUNTIME_TORCH_TORCHDEVICE_H

#include "pyjit-rt/cuda/Driver.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <memory>
#include <mutex>

namespace pyjit::rt {

class TorchDevice {
public:
  /// Null, with the reason in `error`, where the device cannot be used.
  /// `type` 0, the CPU, stands for a simulated device.
  static std::unique_ptr<TorchDevice> open(int type, int index,
                                           std::string &error);

  cuda::Driver &driver() const { return *driverApi; }
  std::shared_ptr<cuda::Driver> sharedDriver() const { return driverApi; }
  c10::Device device() const { return where; }

  /// The stream that PyTorch uses on this thread.
  cuda::Stream currentStream() const;
  static cuda::Stream currentStream(c10::Device device);
  at::Tensor empty(at::IntArrayRef sizes, at::IntArrayRef strides,
                   c10::ScalarType dtype) const;

  /// Makes the device and its context current for the scope.
  class Scope {
  public:
    explicit Scope(const TorchDevice &device);
    ~Scope();

  private:
    const TorchDevice &device;
    c10::Device before;
  };
  /// Makes `stream` PyTorch's current one for the scope.
  class StreamScope {
  public:
    StreamScope(const TorchDevice &device, cuda::Stream stream);
    ~StreamScope();

  private:
    const TorchDevice &device;
    c10::Stream before;
  };

private:
  TorchDevice(std::shared_ptr<cuda::Driver> driver, c10::Device where)
      : driverApi(std::move(driver)), where(where) {}

  std::shared_ptr<cuda::Driver> driverApi;
  c10::Device where;
};

/// Memory that a library's calls write on the way (cuBLAS: 32 MB). Graphs that
/// are replayed on one stream come one after the other: they share it.
struct LibraryWorkspace {
  /// Of the graphs that are replayed on `stream`.
  static std::shared_ptr<LibraryWorkspace> of(c10::Device device,
                                              cuda::Stream stream);

  LibraryWorkspace(cuda::Stream stream) : stream(stream) {}

  const cuda::Stream stream;
  std::mutex lock;
  at::DataPtr memory; ///< once a capture has asked for it
  size_t bytes = 0;
};

/// Captures vendor calls: what they allocate meanwhile comes from a pool that
/// belongs to the capture, as long as this object lives.
class CapturePool {
public:
  virtual ~CapturePool();
  /// Begins capturing on `stream`, which is PyTorch's current one.
  virtual void begin(cuda::Stream stream) = 0;
  /// Ends it. The graph belongs to the pool if `ownsGraph()`.
  virtual cuda::Graph end(cuda::Stream stream) = 0;
  virtual bool ownsGraph() const = 0;
  /// After a failure between `begin` and `end`: leaves no stream capturing.
  virtual void abandon(cuda::Stream stream) noexcept = 0;

  /// `vendorCalls`: whether any are captured; without them the driver's own
  /// capture does. `workspace`: theirs, which lives as long as this object.
  /// `sharing`: an ended capture whose pool is used again. Null, with the
  /// reason in `error`, where PyTorch's library has not what is needed.
  static std::unique_ptr<CapturePool>
  make(const TorchDevice &device, bool vendorCalls,
       std::shared_ptr<LibraryWorkspace> workspace, std::string &error,
       CapturePool *sharing = nullptr);
};

} // namespace pyjit::rt

#endif // PYJIT_RUNTIME_TORCH_TORCHDEVICE_H
