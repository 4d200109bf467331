//===- FrozenLeaves.cpp - `requires_grad` that the call changes -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/FrozenLeaves.h"

#include "tensors/Gradients.h"
#include "tensors/Wrappers.h"

#include <torch/csrc/autograd/python_variable.h>

using namespace pyjit::capture;

void FrozenLeaves::freeze(const at::TensorBase &tensor, PyObject *leaf,
                          PyjitValue value) {
  leaves[storageOf(tensor)] = {tensor.unsafeGetTensorImpl(), leaf, value};
  firstFrozen = firstFrozen ? firstFrozen : leaf;
}

PyjitValue FrozenLeaves::thaw(const at::TensorBase &tensor) {
  auto it = leaves.find(storageOf(tensor));
  PyjitValue value = it->second.value;
  leaves.erase(it);
  return value;
}

bool FrozenLeaves::is(const at::TensorBase &tensor) const {
  auto it = leaves.find(storageOf(tensor));
  return it != leaves.end() &&
         it->second.tensor == tensor.unsafeGetTensorImpl();
}

bool FrozenLeaves::has(const at::TensorBase &tensor) const {
  return leaves.count(storageOf(tensor));
}

PyObject *FrozenLeaves::frozen() const {
  return leaves.empty() ? nullptr : leaves.begin()->second.object;
}

bool pyjit::capture::hasFrozenLeaves(const Recording &recording) {
  return recording.tensors->impl->earlier.frozen.frozen();
}

/// Whether the trace can tell a leaf with its gradient from the same without.
static bool isKnownLeaf(const TensorRecorder::Impl &impl,
                        const TensorInfo &info, const at::Tensor &t) {
  return info.external && info.value >= 0 && t.is_leaf() && !t.is_view() &&
         storageOf(t) && impl.state.gradMode && !t.is_inference() &&
         !State::now().isInsideAutocast();
}

bool pyjit::capture::setRequiresGrad(Recording &recording, PyObject *object,
                                     bool on) {
  TensorRecorder::Impl &impl = *recording.tensors->impl;
  const at::Tensor &t = THPVariable_Unpack(object);
  TensorInfo *info = impl.find(t);
  if (!info)
    return false;
  if (t.requires_grad() == on)
    return true;    // the guards know
  if (isWrapper(t)) // `grad` of its own argument
    return on && isDifferentiated(t);
  recording.effects.changes.push_back(nullptr);
  bool isFrozen = impl.earlier.frozen.is(t);
  if (on && !isFrozen)
    return mayBecomeLeaf(recording, object);
  // Nor where another frozen leaf has the same memory.
  if (!isKnownLeaf(impl, *info, t) || recording.checkpoint.repeats() ||
      isFrozen != impl.earlier.frozen.has(t))
    return false;
  if (on) {
    info->value = impl.earlier.frozen.thaw(t);
    return true;
  }
  recording.objects.keep(object);
  recording.breaks.noteSite(object);
  impl.earlier.frozen.freeze(t, object, info->value);
  info->value = impl.addDetach(info->value, t, /*noGrad=*/true);
  return true;
}
