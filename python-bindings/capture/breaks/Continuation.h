//===- Continuation.h - Running the rest of a function ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function's rest, from some instruction on, is a function too: its code is
// the original bytecode behind a prologue that puts locals and operand stack in
// place and jumps. The package assembles it (pyjit/_continuation.py); a
// Continuation calls it. Its arguments are the values on the operand stack,
// bottom first, then the locals that are still needed.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_CONTINUATION_H
#define PYJIT_CAPTURE_CONTINUATION_H

#include <Python.h>

namespace pyjit::capture {

/// Adds the type `Continuation` and the function `_take` to `module`.
bool addContinuationType(PyObject *module);
bool isContinuation(PyObject *object);

/// Calls `function` (no parameters) whose prologue takes `state` (borrowed), a
/// tuple, from this thread by calling `_take`.
PyObject *callWithState(PyObject *function, PyObject *state);

/// Which function, code and shift of offsets stand behind a running frame:
/// those of the original if the frame runs a continuation.
struct Origin {
  PyObject *function;
  PyCodeObject *code;
  int shift;
};
Origin originOf(PyCodeObject *code, PyObject *function);

/// Code and byte offset at which a continuation's own work starts.
struct Entry {
  PyCodeObject *code;
  int offset;
};
Entry entryOf(PyObject *continuation);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_CONTINUATION_H
