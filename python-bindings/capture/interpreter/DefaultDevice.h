//===- DefaultDevice.h - torch.set_default_device -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `torch.set_default_device(d)` and `with torch.device(d):` put a mode on the
// thread's stack, a DeviceContext, whose `__torch_function__` gives factory
// functions their device. Each call of Torch's from Python goes through it,
// with the mode off meanwhile. While a recording runs, an object that does the
// same in native code stands in its place: Torch and Python find a stack as it
// is in eager, and no Python code runs that is not the program's.
//
// docs/decisions/2026-11-27-default-devices.md
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_INTERPRETER_DEFAULTDEVICE_H
#define PYJIT_CAPTURE_INTERPRETER_DEFAULTDEVICE_H

#include "CPython.h"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace pyjit::capture {

class Recording;

/// What stands on the thread's stack of `__torch_function__` modes.
struct FunctionModes {
  enum Kind : uint8_t {
    None,
    Device, ///< a DeviceContext alone
    Other
  } kind = None;
  int8_t device = -1; ///< c10::DeviceType
  int8_t index = -1;  ///< of the device; -1: none is named
  bool operator==(const FunctionModes &) const = default;

  static FunctionModes now();
  /// As Torch writes the device: "cuda:0".
  std::string text() const;
};

/// The stack of one monitored run's thread.
class DefaultDevice {
public:
  DefaultDevice();
  ~DefaultDevice();
  DefaultDevice(const DefaultDevice &) = delete;

  /// In front of an event of the run.
  void onEvent(PyjitFrame *frame, int offset, bool starts);
  /// Behind it: whether a recording goes on.
  void settle(bool recording);
  /// The run is over.
  void end();

  /// The running instruction calls a `has_torch_function`. Where that is
  /// `if has_torch_function(…): return handle_torch_function(f, …)` of Torch's,
  /// eager calls the function once more with the mode off: from here on it is
  /// off until the function returns.
  void asks(Recording &recording, PyObject *function, PyObject *const *args,
            size_t nargs);
  /// The running instruction calls an operator that Torch would look up as a
  /// Python function, to call that with the mode off.
  void callsOperator(Recording &recording);
  /// What Torch's own code may be handed where it looks among all modes for
  /// those of a class (autocast, vmap), borrowed; null where somebody else
  /// looks.
  PyObject *shownToTorch(const Recording &recording) const;
  /// The index, among the recording's frames, of the one that calls the
  /// function for which the mode is off; -1: it is on.
  int caller(const Recording &recording) const;

private:
  struct Mode;
  /// What stands in a mode's place, and the mode.
  std::vector<std::pair<PyObject *, PyObject *>> pairs;
  void turnOff(PyjitFrame *frame, std::set<int> returns);
  void turnOn();

  /// What was taken off the stack, and until when: the frame's next event, one
  /// of the instructions `returns`, or its end.
  std::unique_ptr<Mode> off;
  PyjitFrame *frame = nullptr;
  std::set<int> returns;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_INTERPRETER_DEFAULTDEVICE_H
