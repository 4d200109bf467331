//===- TorchState.h - PyTorch's thread and process state --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_TORCHSTATE_H
#define PYJIT_PYTHON_TORCHSTATE_H

#include "pyjit-c/Programs.h"

#include <Python.h>

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace pyjit::python {

/// Whether grad mode, autocast, default dtype, ... are as recorded.
bool stateMatches(const PyjitState &state);

/// The dispatcher's thread state: functorch transforms, Python dispatch modes,
/// inference mode and the like all show here. A compiled call belongs to the
/// one that it was captured under.
struct DispatchState {
  uint64_t included = 0, excluded = 0;
  bool forwardMode = false; ///< tensors may have tangents
  static DispatchState current();
  bool operator==(const DispatchState &other) const {
    return included == other.included && excluded == other.excluded &&
           forwardMode == other.forwardMode;
  }
};

/// Grad mode and the dispatcher's state as one word: a call that runs in eager
/// without a look at any guard is expected to run under the same.
uint64_t modesNow();
enum class Sizes { Exact, Octaves };
/// Those modes, the number and types of the arguments, and the sizes of tensors
/// among them; never 0. What was measured of one call holds for calls of the
/// same signature; by octaves, sizes of four and more between two powers of two
/// are alike: a cache that grows gives each call other ones.
uint64_t signatureOf(PyObject *const *args, Py_ssize_t nargs, uint64_t modes,
                     Sizes sizes = Sizes::Exact);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_TORCHSTATE_H
