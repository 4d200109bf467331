//===- WrittenLeaves.h - Leaves that the call writes and uses ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An optimizer's update writes leaves out of autograd's sight: in eager, what
// is computed from such a leaf afterwards reads the new contents, and its
// gradient goes to the leaf as before. The trace says so by two operators. In
// front of the first write, `pyjit::unwritten` stands for the leaf as gradients
// know it; each later use that has a gradient reads `pyjit::written(leaf,
// unwritten)`, which has the leaf's contents and passes gradients on to the
// other.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_TENSORS_WRITTENLEAVES_H
#define PYJIT_CAPTURE_TENSORS_WRITTENLEAVES_H

#include "Recording.h"

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>

namespace torch::autograd {
struct Node;
}

namespace pyjit::capture {

struct TensorInfo;

class WrittenLeaves {
public:
  /// What `pyjit::unwritten` of the leaf is, or -1.
  PyjitValue unwritten(const at::TensorBase &leaf) const;
  /// An operator that appends `value` has written the leaf.
  void note(const at::Tensor &leaf, PyjitValue unwritten, PyjitValue value);
  /// An operator has written a tensor by way of its `.data`.
  void noteData(const at::Tensor &data);
  /// What `pyjit::written` of the leaf is since the last write, or -1.
  PyjitValue written(const at::TensorBase &leaf) const;
  void setWritten(const at::TensorBase &leaf, PyjitValue value);

  /// The leaf, as an object, is used. `firstUsed`: the first of them, or null.
  void noteUse(PyObject *leaf) { used = used ? used : leaf; }
  PyObject *firstUsed() const { return used; }
  /// Whether a graph that begins at the node ends at one of the leaves.
  bool isReachedFrom(torch::autograd::Node *node) const;

  /// Why an operator must not take the tensor, or null. `writes`: it writes it;
  /// `flows`: a gradient flows from it.
  const char *whyNotTaken(const at::TensorBase &tensor, const TensorInfo &info,
                          bool writes, bool flows) const;
  /// Whether a leaf was written since the node was made.
  bool isOlder(const torch::autograd::Node &node) const;
  /// Whether the node has saved memory that was written without a version's
  /// telling (`.data`): eager computes with what it finds there.
  bool isUndermined(const std::shared_ptr<torch::autograd::Node> &node) const;

private:
  struct Leaf {
    c10::TensorImpl *tensor = nullptr;
    PyjitValue unwritten = -1, written = -1;
    PyjitValue lastWrite = -1;
  };
  const Leaf *find(const at::TensorBase &leaf) const;
  /// By storage.
  std::map<const void *, Leaf> leaves;
  PyObject *used = nullptr;
  uint64_t lastWrite = 0; ///< autograd's count of nodes then
  /// Storages that `.data` has written, and autograd's count of nodes then.
  std::map<const void *, uint64_t> uncounted;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSORS_WRITTENLEAVES_H
