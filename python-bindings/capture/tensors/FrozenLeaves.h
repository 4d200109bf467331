//===- FrozenLeaves.h - `requires_grad` that the call changes ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `for p in critic.parameters(): p.requires_grad = False`, and True again at
// the end: in between, what is computed of such a leaf has no history of it.
// In the trace it is a detached view then. The program changes no tensor's
// `requires_grad`: what does not have its own again where a segment ends is a
// graph break in front of the change.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_TENSORS_FROZENLEAVES_H
#define PYJIT_CAPTURE_TENSORS_FROZENLEAVES_H

#include "pyjit-c/Trace.h"

#include <Python.h>

#include <map>

namespace at {
class TensorBase;
}

namespace pyjit::capture {

class Recording;

class FrozenLeaves {
public:
  /// `leaf` is an input, of which the trace has had `value` until now.
  void freeze(const at::TensorBase &tensor, PyObject *leaf, PyjitValue value);
  /// Returns that value.
  PyjitValue thaw(const at::TensorBase &tensor);
  /// Whether the tensor is a frozen leaf, and whether its memory is one's.
  bool is(const at::TensorBase &tensor) const;
  bool has(const at::TensorBase &tensor) const;
  /// A leaf that is frozen now, or null.
  PyObject *frozen() const;
  /// The first leaf that ever was, or null.
  PyObject *first() const { return firstFrozen; }

private:
  struct Leaf {
    const void *tensor;
    PyObject *object; ///< borrowed; the recording keeps it
    PyjitValue value;
  };
  std::map<const void *, Leaf> leaves; ///< by storage
  PyObject *firstFrozen = nullptr;
};

/// Whether leaves are frozen now.
bool hasFrozenLeaves(const Recording &recording);
/// The instruction sets the tensor's `requires_grad`. False: that is not
/// modelled.
bool setRequiresGrad(Recording &recording, PyObject *tensor, bool on);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSORS_FROZENLEAVES_H
