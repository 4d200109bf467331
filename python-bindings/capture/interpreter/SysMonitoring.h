//===- SysMonitoring.h - The events of the interpreter ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_SYSMONITORING_H
#define PYJIT_CAPTURE_SYSMONITORING_H

#include <Python.h>

namespace pyjit::capture {

/// `sys.monitoring` calls `onStart` and `onInstruction` (methods of a code
/// object and an offset) for the life of this object, and no longer afterwards,
/// whatever happens in between. Other tools keep their events.
class SysMonitoring {
public:
  SysMonitoring(PyMethodDef *onStart, PyMethodDef *onInstruction);
  ~SysMonitoring();
  SysMonitoring(const SysMonitoring &) = delete;
  /// False if another tool has the slot.
  bool isActive() const { return active; }
  /// No more events.
  void end();

private:
  template <typename... Args>
  bool call(const char *method, const char *format, Args... args);

  PyObject *monitoring = nullptr;
  bool inUse = false, active = false;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_SYSMONITORING_H
