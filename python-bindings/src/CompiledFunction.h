//===- CompiledFunction.h - What pyjit.compile returns ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_COMPILEDFUNCTION_H
#define PYJIT_PYTHON_COMPILEDFUNCTION_H

#include <Python.h>

#include <cstdint>

namespace pyjit::python {

/// Creates the type `pyjit._C.CompiledFunction` and adds it to `module`.
/// Returns false with a Python exception set.
///
/// An instance answers a call from the first of its specializations whose
/// guards pass, most recently hit first; otherwise it calls `miss(args,
/// kwargs)`.
bool addCompiledFunctionType(PyObject *module);

/// How often this thread has asked engines about calls that no specialization
/// answers.
uint64_t timesEnginesWereAsked();

} // namespace pyjit::python

#endif // PYJIT_PYTHON_COMPILEDFUNCTION_H
