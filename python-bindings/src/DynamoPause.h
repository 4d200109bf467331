//===- DynamoPause.h - Calls that torch.compile does not see ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function that `torch.compile` runs may call a compiled one: a program that
// compiles a part by itself, or a library that does so for it (transformers
// with a static cache). Dynamo looks at every frame beneath, the engine's own
// included. Within calls of compiled functions it is off, as the function asks
// for beneath `torch.compiler.disable`.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_PYTHON_DYNAMOPAUSE_H
#define PYJIT_PYTHON_DYNAMOPAUSE_H

#include "Reference.h"

namespace pyjit::python {

/// Whether somebody evaluates frames in another way than CPython, on whatever
/// thread.
inline bool areFramesReplaced() {
  return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) !=
         _PyEval_EvalFrameDefault;
}

/// While it lives, Dynamo does not see its thread's frames.
class DynamoPause {
public:
  DynamoPause();
  ~DynamoPause();
  DynamoPause(const DynamoPause &) = delete;

private:
  Reference before; ///< what it is set to again; null: nothing is
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_DYNAMOPAUSE_H
