//===- ReplacedData.h - Tensors whose `.data` the call sets -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `p.data = t`: from then on the tensor `p` shows the memory of `t`, and keeps
// its identity, its history as a leaf and its version counter. The trace has
// the two memories of an input as two values: what was read before, which a
// tensor of the recorder's own stands for, and a view of `t`. That the input
// shows `t` is an effect, made behind all others.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_TENSORS_REPLACEDDATA_H
#define PYJIT_CAPTURE_TENSORS_REPLACEDDATA_H

#include <Python.h>

#include <map>
#include <set>

namespace at {
class TensorBase;
}
namespace c10 {
struct TensorImpl;
}

namespace pyjit::capture {

class Recording;

class ReplacedData {
public:
  /// `tensor` is an input; both objects are kept by the recording.
  void note(PyObject *tensor, PyObject *data);
  /// The input has shown this memory, which `tensor` stands for from now on.
  void noteMemory(const at::TensorBase &input, const at::TensorBase &tensor);
  /// What the input shows now, or null if it shows what it did.
  PyObject *find(PyObject *tensor) const;
  bool has(const at::TensorBase &tensor) const;
  /// The first input of them, or null.
  PyObject *first() const { return firstReplaced; }
  /// What stands for the memory that the input has shown, or null.
  c10::TensorImpl *before(const at::TensorBase &tensor) const;
  /// Whether an input has shown that memory.
  bool wasShown(const void *storage) const { return storages.count(storage); }

private:
  // By TensorImpl of the input.
  std::map<const void *, PyObject *> data;
  std::map<const void *, c10::TensorImpl *> memories;
  std::set<const void *> storages;
  PyObject *firstReplaced = nullptr;
};

/// The instruction sets the tensor's `.data`. False: that is not modelled.
bool setData(Recording &recording, PyObject *tensor, PyObject *data);
/// What the call has made an input show, or null.
PyObject *dataSet(const Recording &recording, PyObject *tensor);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSORS_REPLACEDDATA_H
