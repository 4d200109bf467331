//===- TorchDevice.cpp - PyTorch's streams and memory of a device ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "TorchDevice.h"

#include "pyjit-rt/TorchExecutor.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

using namespace pyjit::rt;

cuda::DeviceFacts pyjit::rt::describeCudaDevice(int device) {
  std::string error;
  auto driver = cuda::openDriver(error);
  return driver ? driver->factsOf(device) : cuda::DeviceFacts();
}

std::unique_ptr<TorchDevice> TorchDevice::open(int type, int index,
                                               std::string &error) {
  if (type == 0)
    return std::unique_ptr<TorchDevice>(
        new TorchDevice(cuda::makeSimulatedDriver(), c10::Device(c10::kCPU)));
  if (type != int(c10::DeviceType::CUDA)) {
    error = "no driver for devices of type " + std::to_string(type);
    return nullptr;
  }
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA) ||
      !c10::GetAllocator(c10::DeviceType::CUDA)) {
    error = "this build of PyTorch has no CUDA";
    return nullptr;
  }
  auto driver = cuda::openDriver(error);
  if (!driver)
    return nullptr;
  return std::unique_ptr<TorchDevice>(new TorchDevice(
      std::move(driver), c10::Device(c10::DeviceType::CUDA, index)));
}

cuda::Stream TorchDevice::currentStream() const {
  return driverApi->isSimulated() ? nullptr : currentStream(where);
}

cuda::Stream TorchDevice::currentStream(c10::Device device) {
  c10::impl::VirtualGuardImpl guard(device.type());
  return static_cast<cuda::Stream>(
      guard.getStreamNativeHandle(guard.getStream(device)));
}

at::Tensor TorchDevice::empty(at::IntArrayRef sizes, at::IntArrayRef strides,
                              c10::ScalarType dtype) const {
  if (driverApi->isSimulated())
    return at::detail::empty_strided_cpu(sizes, strides, dtype);
  return at::detail::empty_strided_generic(
      sizes, strides, c10::GetAllocator(where.type()),
      c10::DispatchKeySet(c10::DispatchKey::CUDA), dtype);
}

TorchDevice::Scope::Scope(const TorchDevice &device)
    : device(device), before(device.where) {
  if (device.driver().isSimulated())
    return;
  before = c10::impl::VirtualGuardImpl(device.where.type())
               .exchangeDevice(device.where);
  cuda::check(device.driver(), device.driver().enter(device.where.index()),
              "making the device current");
}

TorchDevice::Scope::~Scope() {
  if (!device.driver().isSimulated())
    c10::impl::VirtualGuardImpl(device.where.type()).uncheckedSetDevice(before);
}

TorchDevice::StreamScope::StreamScope(const TorchDevice &device,
                                      cuda::Stream stream)
    : device(device), before(c10::Stream(c10::Stream::DEFAULT, device.where)) {
  if (device.driver().isSimulated())
    return;
  // PyTorch's number for a stream made elsewhere is its address.
  c10::Stream external(c10::Stream::UNSAFE, device.where,
                       reinterpret_cast<c10::StreamId>(stream));
  before =
      c10::impl::VirtualGuardImpl(device.where.type()).exchangeStream(external);
}

TorchDevice::StreamScope::~StreamScope() {
  if (!device.driver().isSimulated())
    c10::impl::VirtualGuardImpl(device.where.type()).exchangeStream(before);
}
