//===- ReplacedData.cpp - Tensors whose `.data` the call sets -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/ReplacedData.h"

#include "tensors/Gradients.h"

#include <torch/csrc/autograd/python_variable.h>

using namespace pyjit::capture;

static const void *implOf(PyObject *tensor) {
  return THPVariable_Unpack(tensor).unsafeGetTensorImpl();
}

void ReplacedData::note(PyObject *tensor, PyObject *shown) {
  data[implOf(tensor)] = shown;
  firstReplaced = firstReplaced ? firstReplaced : tensor;
}

PyObject *ReplacedData::find(PyObject *tensor) const {
  auto it = data.find(implOf(tensor));
  return it == data.end() ? nullptr : it->second;
}

bool ReplacedData::has(const at::TensorBase &tensor) const {
  return data.count(tensor.unsafeGetTensorImpl());
}

void ReplacedData::noteMemory(const at::TensorBase &input,
                              const at::TensorBase &tensor) {
  memories[input.unsafeGetTensorImpl()] = tensor.unsafeGetTensorImpl();
  storages.insert(storageOf(tensor));
}

c10::TensorImpl *ReplacedData::before(const at::TensorBase &tensor) const {
  auto it = memories.find(tensor.unsafeGetTensorImpl());
  return it == memories.end() ? nullptr : it->second;
}

/// Whether the trace can tell all that shows the tensor's memory, or is to.
static bool isPlain(const TensorRecorder::Impl &impl, const at::Tensor &t) {
  return !unsupportedTensor(t) && storageOf(t) && !t.storage_offset() &&
         !t.is_inference() && !t.is_complex() &&
         t.is_non_overlapping_and_dense() && !impl.host.isWritten(t) &&
         !impl.casts.isMemoryOf(t) && !impl.earlier.frozen.has(t) &&
         !impl.earlier.leafStorages.count(storageOf(t)) &&
         !impl.retypedStorages.count(storageOf(t));
}

/// A tensor of the recorder's own, which nobody else sees, goes on to stand for
/// the memory that the input has shown, and for its version counter.
static void keepMemory(TensorRecorder::Impl &impl, const at::Tensor &t) {
  c10::TensorImpl *now = t.unsafeGetTensorImpl();
  TensorInfo before = *impl.find(t);
  before.impl = now->shallow_copy_and_detach(
      now->version_counter(), /*allow_tensor_metadata_change=*/false);
  impl.earlier.replaced.noteMemory(t, at::TensorBase(before.impl));
  impl.tensors[before.impl.get()] = before;
}

/// The trace knows the tensor as a view of `given` from here on, with a version
/// counter of its own.
static void show(TensorRecorder::Impl &impl, const at::Tensor &t,
                 const TensorInfo &given) {
  TensorInfo info;
  info.impl = t.getIntrusivePtr();
  info.value = impl.addDetach(given.value, t, impl.state.gradMode);
  info.type = impl.type(t);
  info.readOnly = given.readOnly;
  info.data = info.impl.get();
  info.isView = true;
  impl.tensors[info.impl.get()] = info;
}

bool pyjit::capture::setData(Recording &recording, PyObject *object,
                             PyObject *data) {
  TensorRecorder::Impl &impl = *recording.tensors->impl;
  if (!ObjectTable::isTensor(data) || recording.checkpoint.repeats() ||
      impl.state.inferenceMode || State::now().isInsideAutocast())
    return false;
  const at::Tensor &t = THPVariable_Unpack(object);
  const at::Tensor &given = THPVariable_Unpack(data);
  const TensorInfo *info = impl.find(t), *found = impl.find(given);
  if (!info || info->value < 0 || !found || found->value < 0 ||
      found->uninitialized || !isPlain(impl, t) || !isPlain(impl, given) ||
      !t.is_leaf() || t.is_view() || given.requires_grad() ||
      impl.type(t) != impl.type(given))
    return false;
  // `p.data -= x` sets what it has got.
  if (t.is_alias_of(given))
    return true;
  TensorInfo source = *found;
  Node *node = recording.objects.find(object);
  if (node && node->external) {
    recording.objects.keep(object);
    recording.objects.keep(data);
    recording.breaks.noteSite(object);
    if (!impl.earlier.replaced.has(t))
      keepMemory(impl, t);
    impl.earlier.replaced.note(object, data);
    recording.effects.noteStorage(node);
  } else if (info->external || t.requires_grad()) {
    return false;
  }
  recording.effects.changes.push_back(nullptr);
  // What has saved the tensor finds the new memory.
  impl.earlier.leaves.noteData(given);
  show(impl, t, source);
  return true;
}

PyObject *pyjit::capture::dataSet(const Recording &recording,
                                  PyObject *tensor) {
  return recording.tensors->impl->earlier.replaced.find(tensor);
}
