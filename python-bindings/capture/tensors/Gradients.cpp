//===- Gradients.cpp - Autograd, of tensors and operators -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/Gradients.h"

#include "pyjit-c/Operators.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

using namespace pyjit::capture;
namespace autograd = torch::autograd;

Gradient pyjit::capture::gradientOf(const at::TensorBase &t) {
  if (!t.requires_grad())
    return Gradient::None;
  // Asking any other view for its `grad_fn` raises once its base was written.
  auto *view = autograd::impl::get_view_autograd_meta(t);
  bool plain = !view || !view->has_bw_view() ||
               view->get_creation_meta() == autograd::CreationMeta::DEFAULT;
  bool computed = plain ? t.grad_fn() != nullptr : view->grad_fn_ != nullptr;
  return computed ? Gradient::Computed : Gradient::Leaf;
}

bool pyjit::capture::isOwnLeaf(const TensorInfo &info,
                               const at::TensorBase &t) {
  return !info.external && gradientOf(t) == Gradient::Leaf && t.is_leaf() &&
         !t.is_view() && t.has_storage() && t.is_non_overlapping_and_dense();
}

bool pyjit::capture::leadsToOwnLeavesAlone(TensorRecorder::Impl &impl,
                                           const at::Tensor &tensor) {
  std::unordered_set<autograd::Node *> seen;
  std::vector<autograd::Node *> work;
  auto meet = [&](autograd::Node *node) {
    if (node && seen.insert(node).second)
      work.push_back(node);
  };
  // What has a history already goes on to what is in front of the call.
  for (auto &entry : impl.tensors)
    if (at::TensorBase known(entry.second.impl);
        entry.second.external && gradientOf(known) == Gradient::Computed)
      return false;
  meet(tensor.grad_fn().get());
  bool found = false;
  while (!work.empty()) {
    autograd::Node *node = work.back();
    work.pop_back();
    if (auto *leaf = dynamic_cast<autograd::AccumulateGrad *>(node)) {
      TensorInfo *info = impl.find(leaf->variable);
      if (!info || !isOwnLeaf(*info, leaf->variable))
        return false;
      found = true;
    }
    for (const autograd::Edge &edge : node->next_edges())
      meet(edge.function.get());
  }
  return found;
}

const c10::TensorImpl *pyjit::capture::baseOf(const at::TensorBase &t) {
  return t.is_view() ? t._base().unsafeGetTensorImpl()
                     : t.unsafeGetTensorImpl();
}

bool TensorRecorder::Impl::hasStrangeHistory(const at::TensorBase &t) const {
  auto it = tensors.find(t.unsafeGetTensorImpl());
  return it != tensors.end() && !it->second.external &&
         !it->second.isComputed && gradientOf(t) == Gradient::Computed;
}

OperatorGradient::OperatorGradient(TensorRecorder::Impl &impl,
                                   const TensorOpArguments &arguments,
                                   const std::vector<at::Tensor> &fresh,
                                   const std::vector<size_t> &mutated)
    : impl(impl), arguments(arguments), fresh(fresh), mutated(mutated) {
  for (size_t j = 0; j < arguments.operands.size(); ++j)
    required |= arguments.infos[j] && arguments.operands[j].requires_grad();
  // Under no_grad a tensor keeps the `grad_fn` that it had.
  if (!required || !c10::GradMode::is_enabled())
    return;
  auto isComputed = [](const at::Tensor &t) {
    return gradientOf(t) == Gradient::Computed;
  };
  flow = std::any_of(fresh.begin(), fresh.end(), isComputed) ||
         std::any_of(mutated.begin(), mutated.end(), [&](size_t j) {
           return isComputed(arguments.operands[j]);
         });
}

bool OperatorGradient::isFreed() const {
  auto isFreed = [&](const at::Tensor &t) {
    return gradientOf(t) != Gradient::Computed ||
           impl.freed.endAll(t.grad_fn().get());
  };
  return std::all_of(fresh.begin(), fresh.end(), isFreed) &&
         std::all_of(mutated.begin(), mutated.end(),
                     [&](size_t j) { return isFreed(arguments.operands[j]); });
}

/// Those that somebody besides the recorder still holds.
template <typename Visit>
static void visitSharing(TensorRecorder::Impl &impl, const at::Tensor &t,
                         Visit visit) {
  if (!t.has_storage())
    return;
  for (auto &entry : impl.tensors)
    if (entry.second.impl.use_count() > 1 && entry.first->has_storage() &&
        entry.first->unsafe_storage().is_alias_of(t.storage()))
      visit(at::TensorBase(entry.second.impl), entry.second);
}

void pyjit::capture::beginHistory(TensorRecorder::Impl &impl,
                                  const at::Tensor &leaf) {
  TensorInfo *info = impl.find(leaf);
  if (!info || info->beginsHistory || !isOwnLeaf(*info, leaf))
    return;
  visitSharing(impl, leaf,
               [&](const at::TensorBase &other, const TensorInfo &) {
                 if (!other.is_same(leaf))
                   impl.earlier.leafStorages.insert(
                       leaf.storage().unsafeGetStorageImpl());
               });
  PyjitAttribute operand = impl.recording.writer.operand();
  PyjitValue value = impl.add({operators::aten::clone,
                               {info->value},
                               {operand, impl.recording.writer.none()},
                               {},
                               {},
                               /*noGrad=*/true},
                              {leaf});
  impl.bind(leaf, value).beginsHistory = true;
  noteSite(impl.recording, leaf);
}

/// Whether autograd takes the tensor for memory of its own that only parts of
/// other tensors share.
static bool isPart(TensorRecorder::Impl &impl, const at::Tensor &t) {
  const TensorInfo *info = impl.find(t.is_view() ? t._base() : t);
  return info && info->isPart;
}

/// Autograd has to know all of the memory as parts of one tensor, as the
/// compiler does. What `unsafe_split` has divided is no longer read as a whole:
/// where it is all the same, the recording ends.
const char *OperatorGradient::whyNotWritten(const at::Tensor &t) const {
  if (!t.requires_grad())
    return "it writes a tensor that does not require grad, and its results do";
  bool external = false, others = false, part = isPart(impl, t);
  visitSharing(impl, t, [&](const at::TensorBase &other, TensorInfo &info) {
    external |= info.external;
    if (baseOf(other) == baseOf(t) || (part && !mayShareElements(other, t)))
      return;
    if (part && other.requires_grad())
      info.isStale = true;
    else
      others = true;
  });
  if (external)
    return "it writes an input that requires grad then";
  if (others || gradientOf(t) != Gradient::Computed)
    return "it writes memory that autograd knows as several tensors";
  return nullptr;
}

const char *OperatorGradient::whyNotAsEager() const {
  if (!flow)
    return nullptr;
  for (size_t j = 0; j < arguments.operands.size(); ++j) {
    const TensorInfo *info = arguments.infos[j];
    const at::Tensor &t = arguments.operands[j];
    if (!info)
      continue; // a number
    if (info->isStale)
      return "it reads a tensor whose memory was written as a part that "
             "autograd knows as another tensor";
    if (t.is_inference())
      return "a tensor of inference mode where grad mode is on";
    if (!info->external && gradientOf(t) == Gradient::Leaf &&
        !isOwnLeaf(*info, t))
      return "gradients end at a view that the call made under no_grad";
  }
  for (size_t j : mutated)
    if (const char *why = whyNotWritten(arguments.operands[j]))
      return why;
  return nullptr;
}

bool OperatorGradient::isOfComplex() const {
  auto isComplex = [](const at::Tensor &t) { return t.is_complex(); };
  return std::any_of(fresh.begin(), fresh.end(), isComplex) ||
         std::any_of(arguments.operands.begin(), arguments.operands.end(),
                     isComplex);
}

bool OperatorGradient::writesUnseen() const {
  bool shared = false;
  for (size_t j : mutated)
    visitSharing(impl, arguments.operands[j],
                 [&](const at::TensorBase &other, const TensorInfo &) {
                   shared |= other.requires_grad();
                 });
  return !flow && shared;
}

bool OperatorGradient::replacesUnseen() const {
  if (mutated.size() != 1 || !fresh.empty() || !impl.state.gradMode)
    return false;
  const at::Tensor &t = arguments.operands[mutated[0]];
  const TensorInfo *info = arguments.infos[mutated[0]];
  if (!info || info->external || info->uninitialized || t.is_complex() ||
      t.is_view() || gradientOf(t) != Gradient::Computed)
    return false;
  bool shared = false;
  visitSharing(impl, t, [&](const at::TensorBase &other, const TensorInfo &) {
    shared |= !other.is_same(t);
  });
  return !shared;
}

/// The only input that shows the tensor's memory, if it is a leaf.
at::Tensor OperatorGradient::leafOf(const at::Tensor &t) const {
  at::Tensor leaf;
  bool others = false;
  visitSharing(impl, t,
               [&](const at::TensorBase &other, const TensorInfo &info) {
                 if (!info.external)
                   return;
                 others |= leaf.defined();
                 leaf = at::Tensor(other);
               });
  bool known = leaf.defined() && !others && leaf.requires_grad() &&
               leaf.is_leaf() && !leaf.is_view() && !leaf.is_complex() &&
               leaf.storage_offset() == 0 &&
               leaf.is_non_overlapping_and_dense() &&
               leaf.scalar_type() == t.scalar_type();
  return known ? leaf : at::Tensor();
}

std::vector<at::Tensor> OperatorGradient::leavesWritten() const {
  std::vector<at::Tensor> leaves;
  for (size_t j : mutated) {
    leaves.push_back(leafOf(arguments.operands[j]));
    if (!leaves.back().defined())
      return {};
  }
  return leaves;
}
