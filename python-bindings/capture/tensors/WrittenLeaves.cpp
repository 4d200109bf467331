//===- WrittenLeaves.cpp - Leaves that the call writes and uses -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/WrittenLeaves.h"

#include "tensors/FreedGraphs.h"
#include "tensors/TensorImpl.h"
#include "tensors/TensorObject.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/python_variable.h>

#include <unordered_set>
#include <vector>

using namespace pyjit::capture;
namespace autograd = torch::autograd;

const WrittenLeaves::Leaf *
WrittenLeaves::find(const at::TensorBase &leaf) const {
  auto it = leaves.find(storageOf(leaf));
  bool known =
      it != leaves.end() && it->second.tensor == leaf.unsafeGetTensorImpl();
  return known ? &it->second : nullptr;
}

PyjitValue WrittenLeaves::unwritten(const at::TensorBase &leaf) const {
  const Leaf *known = find(leaf);
  return known ? known->unwritten : -1;
}

PyjitValue WrittenLeaves::written(const at::TensorBase &leaf) const {
  const Leaf *known = find(leaf);
  return known ? known->written : -1;
}

void WrittenLeaves::setWritten(const at::TensorBase &leaf, PyjitValue value) {
  leaves[storageOf(leaf)].written = value;
}

void WrittenLeaves::note(const at::Tensor &tensor, PyjitValue unwritten,
                         PyjitValue value) {
  leaves[storageOf(tensor)] = {tensor.unsafeGetTensorImpl(), unwritten,
                               /*written=*/-1, /*lastWrite=*/value};
  lastWrite = at::sequence_number::peek();
}

void WrittenLeaves::noteData(const at::Tensor &data) {
  uncounted[storageOf(data)] = at::sequence_number::peek();
}

bool WrittenLeaves::isReachedFrom(autograd::Node *node) const {
  std::vector<autograd::Node *> work{node};
  std::unordered_set<autograd::Node *> seen;
  while (!leaves.empty() && !work.empty()) {
    autograd::Node *now = work.back();
    work.pop_back();
    if (!now || !seen.insert(now).second)
      continue;
    if (auto *leaf = dynamic_cast<autograd::AccumulateGrad *>(now);
        leaf && find(leaf->variable))
      return true;
    for (const autograd::Edge &edge : now->next_edges())
      work.push_back(edge.function.get());
  }
  return false;
}

const char *WrittenLeaves::whyNotTaken(const at::TensorBase &tensor,
                                       const TensorInfo &info, bool writes,
                                       bool flows) const {
  auto it = leaves.find(storageOf(tensor));
  if (it == leaves.end() || it->second.tensor == tensor.unsafeGetTensorImpl())
    return nullptr;
  if (info.showsWritten && writes)
    return "it writes a view of a leaf that the call has written before";
  if (info.showsWritten ? info.value < it->second.lastWrite
                        : flows && tensor.requires_grad())
    return "it reads a view of a leaf that the call has written since the view "
           "was made";
  return nullptr;
}

bool WrittenLeaves::isOlder(const autograd::Node &node) const {
  return node.sequence_nr() < lastWrite;
}

bool WrittenLeaves::isUndermined(
    const std::shared_ptr<autograd::Node> &node) const {
  if (uncounted.empty())
    return false;
  bool found = false;
  auto look = [&](PyObject *saved) {
    if (!saved || !isTensorObject(saved))
      return;
    auto write = uncounted.find(storageOf(THPVariable_Unpack(saved)));
    found |= write != uncounted.end() && node->sequence_nr() < write->second;
  };
  visitSaved(node, [&](PyObject *saved) {
    look(saved);
    for (Py_ssize_t i = 0;
         saved && PyTuple_Check(saved) && i < PyTuple_GET_SIZE(saved); ++i)
      look(PyTuple_GET_ITEM(saved, i));
  });
  return found;
}
