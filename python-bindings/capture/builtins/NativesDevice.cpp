//===- NativesDevice.cpp - What Python asks of CUDA's devices -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Autocast's constructor, optimizers and users ask which device is the current
// one and what it can do. The first may differ in the next call, so it becomes
// a guard; the second never changes.
//
//===----------------------------------------------------------------------===//

#include "builtins/Natives.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

using namespace pyjit::capture;

static void guardCurrentDevice(Recording &s) {
  s.add(PyjitStateOp{
      .values = s.writer.currentDevice(
          c10::impl::getDeviceGuardImpl(c10::kCUDA)->getDevice().index())});
}

static ResultKind currentDevice(Recording &s, const Call &c) {
  if (!c.args.empty() || !c10::impl::hasDeviceGuardImpl(c10::kCUDA))
    return s.calls.unknownNative(c);
  guardCurrentDevice(s);
  return ResultKind::Fresh;
}

/// Of properties that the call itself asked for: what others hold is found by
/// its type alone.
static ResultKind deviceProperty(Recording &s, const Call &c) {
  if (c.args.size() != 1 || s.objects.isExternal(c.args[0]))
    return s.calls.unknownNative(c);
  return ResultKind::Fresh;
}

static bool isInitialized() {
  PyObject *flag = findObject("torch.cuda:_initialized");
  bool initialized = flag && PyObject_IsTrue(flag) == 1;
  Py_XDECREF(flag);
  PyErr_Clear();
  return initialized;
}

/// The class, and what makes its objects, exist once CUDA is initialized.
static void addProperties(NativeTable &t) {
  t.add("torch.cuda:_get_device_properties", nativePure);
  PyObject *type = findObject("torch._C:_CudaDeviceProperties");
  if (type && PyType_Check(type)) {
    PyObject *dict = PyType_GetDict(reinterpret_cast<PyTypeObject *>(type));
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict, &position, &key, &value))
      if (isProperty(value))
        if (PyObject *getter = pyjitPropertyGetter(value))
          t.add(getter, deviceProperty);
    Py_DECREF(dict);
  }
  Py_XDECREF(type);
}

void pyjit::capture::prepareDevices(PyObject *function) {
  static PyObject *properties = findObject("torch.cuda:get_device_properties"),
                  *count = findObject("torch.cuda:device_count");
  if ((function != properties && function != count) || !isInitialized())
    return;
  if (function == properties)
    return NativeTable::extend(addProperties);
  Py_XDECREF(PyObject_CallNoArgs(function)); // keeps the count
  PyErr_Clear();
}

/// Of an object of the stack its class alone matters to Torch's own code, and
/// guards know that.
static ResultKind modeAt(Recording &s, const Call &c) {
  PyObject *mode = s.run.device->shownToTorch(s);
  if (!mode)
    return s.calls.unknownNative(c);
  s.objects.pin(mode);
  return ResultKind::Known;
}

bool pyjit::capture::asksDefaultDevice(Recording &s, const Call &c) {
  static PyObject *function = findObject("torch:get_default_device");
  FunctionModes modes = FunctionModes::now();
  // With the mode off it asks what the thread has set.
  if (c.callable != function || !c.args.empty() ||
      modes.kind != FunctionModes::Device)
    return false;
  if (modes.device == int8_t(c10::kCUDA) && modes.index < 0 &&
      c10::impl::hasDeviceGuardImpl(c10::kCUDA))
    guardCurrentDevice(s);
  return true;
}

void pyjit::capture::addDevices(NativeTable &t) {
  t.add("torch._C:_cuda_getDevice", currentDevice);
  t.add("torch._C:_get_function_stack_at", modeAt);
}
