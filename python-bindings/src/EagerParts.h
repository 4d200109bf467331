//===- EagerParts.h - Modules in the eager parts of calls -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What of a compiled call runs in eager (a call that eager answers, the
// instruction of a graph break) may call modules. The outermost of them run
// compiled. Nothing is written to them for it: `Module.__call__`, through which
// all modules are called, asks which part its thread is in.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_PYTHON_EAGERPARTS_H
#define PYJIT_PYTHON_EAGERPARTS_H

#include "Reference.h"

#include "CPython.h"

namespace pyjit::python {

/// While it lives, its thread is in an eager part of a compiled call.
class EagerPart {
public:
  /// `modules`: the `ModuleCalls` that modules are called through, or null: as
  /// in eager. `target`: what eager calls, which may be a module; that call
  /// itself is not the part's.
  explicit EagerPart(PyObject *modules, PyObject *target = nullptr);
  ~EagerPart();
  EagerPart(const EagerPart &) = delete;

private:
  friend struct ModuleCallsAccess;
  Reference modules;
  PyObject *own; ///< borrowed: the module whose next call is as in eager
  PyjitFrame *base;
  EagerPart *outer;
};

/// Adds the type `ModuleCalls` to `module`, and
/// `follow_module_calls(function)`: from now on, calls of `function`, which is
/// `torch.nn.Module.__call__`, look at the part that their thread is in.
bool addModuleCallsType(PyObject *module);
bool isModuleCalls(PyObject *object);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_EAGERPARTS_H
