//===- LeavingTensors.cpp - What operators leave unsaid -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// At the end of a trace: how far the version counters of inputs and of what
// leaves the call went, which tensors require grad, and how autograd sees a
// tensor that shares memory with another one.
//
//===----------------------------------------------------------------------===//

#include "tensors/Gradients.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

using namespace pyjit::capture;

int64_t pyjit::capture::versionOf(const at::TensorBase &t) {
  return t.is_inference() ? 0 : t._version();
}

namespace {

using Impl = TensorRecorder::Impl;

/// What tells tensors of one memory from others.
const void *memoryOf(const TensorInfo &info) {
  if (!info.impl->has_storage())
    return info.impl.get();
  return info.impl->unsafe_storage().unsafeGetStorageImpl();
}

/// What has a version counter: memory, and each `.data` of it.
using Counter = std::pair<const void *, const c10::TensorImpl *>;

Counter counterOf(const TensorInfo &info) {
  return {memoryOf(info), info.data};
}

/// Tells which tensors share a version counter: moves one, and puts it back.
class VersionProbe {
public:
  explicit VersionProbe(const at::TensorBase &t)
      : tensor(t), before(t._version()) {}

  bool moves(const at::TensorBase &other) {
    int64_t version = other._version();
    tensor.unsafeGetTensorImpl()->bump_version();
    bool moved = other._version() != version;
    // A copy of a counter shares the count.
    c10::VariableVersion(tensor.unsafeGetTensorImpl()->version_counter())
        .set_version(before);
    return moved;
  }

private:
  const at::TensorBase tensor;
  const int64_t before;
};

/// How autograd sees a view; empty: as one like any that was made in
/// `gradMode`.
std::string viewShownAs(const at::TensorBase &t, bool gradMode) {
  using torch::autograd::CreationMeta;
  auto meta = torch::autograd::impl::get_view_autograd_meta(t);
  CreationMeta how = meta ? meta->get_creation_meta() : CreationMeta::DEFAULT;
  if (how == CreationMeta::MULTI_OUTPUT_NODE)
    return "one of several";
  bool made = how != CreationMeta::NO_GRAD_MODE;
  return made == gradMode ? "" : made ? "grad" : "no_grad";
}

/// How autograd sees a tensor that shares memory with `other`, which the call
/// was given.
std::string shownAsPart(const at::TensorBase &t, const at::TensorBase &other,
                        bool gradMode) {
  if (!t.is_view())
    return "detached";
  if (baseOf(t) != baseOf(other))
    return "view of detached";
  return viewShownAs(t, gradMode);
}

/// Whether two elements may lie at one place in memory (`expand`): not where
/// each stride steps over all that the smaller ones reach.
bool mayOverlap(const at::TensorBase &t) {
  std::vector<std::pair<int64_t, int64_t>> dims; // stride, size
  for (int64_t i = 0; i < t.dim(); ++i)
    if (t.size(i) > 1)
      dims.emplace_back(t.stride(i), t.size(i));
  std::sort(dims.begin(), dims.end());
  int64_t reached = 0;
  for (auto [stride, size] : dims) {
    if (stride <= reached)
      return true;
    reached += stride * (size - 1);
  }
  return false;
}

/// To ask for the node of one of several views raises behind a write to their
/// base.
bool hasNode(const at::Tensor &t) {
  try {
    (void)t.grad_fn();
    return true;
  } catch (const c10::Error &) {
    return false;
  }
}

class LeavingTensors {
public:
  explicit LeavingTensors(Impl &impl) : impl(impl), recording(impl.recording) {}

  void write() {
    if (PyObject *leaf = impl.earlier.frozen.frozen()) {
      recording.breaks.refused = leaf;
      return recording.end(ReasonKind::EarlierObject,
                           "setting the attribute requires_grad of a tensor, "
                           "which keeps it");
    }
    for (const at::Tensor &t : impl.leaving)
      if (!hasNode(t))
        return recording.end(ReasonKind::SharedMemory,
                             "it leaves one of several views, whose base was "
                             "written");
    findExternals();
    findDivided();
    for (const at::Tensor &t : impl.leaving)
      checkLeaf(t);
    for (const at::Tensor &t : impl.leaving)
      if (const TensorInfo *info = impl.find(t); info && !info->external)
        writeTensor(t, *info);
    writeCounts();
  }

private:
  void findExternals();
  void countParts(const std::vector<at::TensorBase> &tensors);
  void findDivided();
  const TensorInfo *findOwn(const c10::TensorImpl *impl) const;
  void checkLeaf(const at::Tensor &t);
  bool isReached(const at::Tensor &leaf) const;
  void writeTensor(const at::Tensor &t, const TensorInfo &info);
  void writeGradient(const at::Tensor &t, const TensorInfo &info);
  void endBeforeUse(const std::string &why);
  void writeCounts();
  bool isMadeAsView(const at::Tensor &t, const void *memory) const;
  bool requiresGrad(const at::Tensor &t, const void *memory) const;
  bool overlapsItself(const void *memory) const;
  const at::TensorBase *findBase(const at::Tensor &t, const void *memory) const;
  std::string shownAs(const at::Tensor &t, const TensorInfo &info) const;
  bool isOfItself(const at::Tensor &t, const TensorInfo &info) const;

  Impl &impl;
  Recording &recording;
  /// By memory: the external tensors, in the order of their values.
  std::map<const void *, std::vector<at::TensorBase>> externals;
  /// The memory of which a tensor leaves that was made with it, or several
  /// parts that autograd takes for tensors of their own.
  std::set<const void *> divided;
  /// Who was written most often.
  std::map<Counter, std::pair<const TensorInfo *, int64_t>> counts;
  /// By value: the same of inputs that are parts of one memory.
  std::map<int, std::pair<const TensorInfo *, int64_t>> parts;
};

void LeavingTensors::findExternals() {
  std::map<int, const TensorInfo *> inOrder;
  for (auto &entry : impl.tensors)
    if (entry.second.external && entry.second.value >= 0)
      inOrder[entry.second.value] = &entry.second;
  for (auto &entry : inOrder) {
    const TensorInfo &info = *entry.second;
    at::TensorBase t(info.impl);
    externals[memoryOf(info)].push_back(t);
    int64_t count = versionOf(t) - info.version;
    if (count ||
        (impl.writtenStorages.count(memoryOf(info)) && !t.is_inference()))
      counts[counterOf(info)] = {&info, count};
  }
  for (auto &[memory, tensors] : externals)
    if (tensors.size() > 1 && impl.writtenStorages.count(memory))
      countParts(tensors);
}

/// Inputs that are parts of one memory have counters of their own, or share
/// one, which goes on by each write of any of them.
void LeavingTensors::countParts(const std::vector<at::TensorBase> &tensors) {
  std::vector<const TensorInfo *> written;
  for (const at::TensorBase &t : tensors)
    if (impl.earlier.writtenInputs.count(t.unsafeGetTensorImpl()) &&
        !t.is_inference())
      written.push_back(impl.find(t));
  if (written.empty())
    return;
  counts.erase(counterOf(*written.front()));
  while (!written.empty()) {
    at::TensorBase first(written.front()->impl);
    std::vector<const TensorInfo *> others, sharing;
    VersionProbe probe(first);
    for (const TensorInfo *info : written)
      (probe.moves(at::TensorBase(info->impl)) ? sharing : others)
          .push_back(info);
    // One that the call came upon later had been written by way of another.
    int64_t before = sharing.front()->version;
    for (const TensorInfo *info : sharing)
      before = std::min(before, info->version);
    int64_t count = versionOf(first) - before;
    for (const TensorInfo *info : sharing) {
      bool last = info == sharing.back();
      parts[info->value] = {info, last ? count : 1};
      count -= !last;
    }
    written = std::move(others);
  }
}

void LeavingTensors::findDivided() {
  std::map<const void *, const c10::TensorImpl *> parts;
  for (const at::Tensor &t : impl.leaving) {
    const TensorInfo *info = impl.find(t);
    if (!info || info->external)
      continue;
    const void *memory = memoryOf(*info);
    if (!info->isView || info->isReshaped)
      divided.insert(memory);
    if (const TensorInfo *base = findOwn(baseOf(t));
        base && base->isPart &&
        parts.emplace(memory, baseOf(t)).first->second != baseOf(t))
      divided.insert(memory);
  }
}

const TensorInfo *LeavingTensors::findOwn(const c10::TensorImpl *impl) const {
  auto known = this->impl.tensors.find(const_cast<c10::TensorImpl *>(impl));
  return known == this->impl.tensors.end() ? nullptr : &known->second;
}

/// The external tensor of this memory that `t` is shown as a view of, or null:
/// of several, which may be views of each other or not, that of its base.
const at::TensorBase *LeavingTensors::findBase(const at::Tensor &t,
                                               const void *memory) const {
  auto known = externals.find(memory);
  if (known == externals.end())
    return nullptr;
  auto same = std::find_if(
      known->second.begin(), known->second.end(),
      [&](const at::TensorBase &other) { return baseOf(t) == baseOf(other); });
  return same == known->second.end() ? &known->second.front() : &*same;
}

/// How autograd sees a tensor that shares memory with the one that was made
/// with it.
std::string LeavingTensors::shownAs(const at::Tensor &t,
                                    const TensorInfo &info) const {
  if (t.is_inference())
    return "";
  const TensorInfo *base = findOwn(baseOf(t));
  // A part is a tensor of its own where nobody sees what it is a part of.
  bool detached = base && base->isView && !base->isReshaped &&
                  (!base->isPart || divided.count(memoryOf(info)));
  if (detached)
    return t.is_view() ? "view of detached" : "detached";
  if (!t.is_view() && info.isReshaped)
    return "reshaped";
  std::string how = t.is_view() ? viewShownAs(t, impl.state.gradMode) : "";
  return how.empty() && isOfItself(t, info) ? "view of itself" : how;
}

/// Whether it is the result of a composite that is recorded whole, and a view
/// of what that has made on its way (`linear` of three dimensions).
bool LeavingTensors::isOfItself(const at::Tensor &t,
                                const TensorInfo &info) const {
  return t.is_view() && !findOwn(baseOf(t)) &&
         (!info.isView || info.isReshaped) && impl.state.gradMode &&
         gradientOf(t) == Gradient::Computed;
}

/// Whether a backward behind the call could begin at something that leaves, and
/// would come to the leaf.
bool LeavingTensors::isReached(const at::Tensor &leaf) const {
  std::vector<torch::autograd::Node *> work;
  for (const at::Tensor &t : impl.leaving)
    if (gradientOf(t) == Gradient::Computed)
      work.push_back(t.grad_fn().get());
  std::set<torch::autograd::Node *> seen;
  while (!work.empty()) {
    torch::autograd::Node *node = work.back();
    work.pop_back();
    if (!node || !seen.insert(node).second)
      continue;
    if (auto *end = dynamic_cast<torch::autograd::AccumulateGrad *>(node);
        end && end->variable.is_same(leaf))
      return true;
    for (const torch::autograd::Edge &edge : node->next_edges())
      work.push_back(edge.function.get());
  }
  return false;
}

/// A leaf that the call made is no input, which gradients could come to behind
/// the call. Next time, there is a graph break before it becomes a leaf.
void LeavingTensors::checkLeaf(const at::Tensor &t) {
  const TensorInfo *info = impl.find(t);
  if (!info || info->external || !info->impl->has_storage())
    return;
  auto refuse = [&](const at::Tensor &leaf, const char *why) {
    PyObject *object = THPVariable_Wrap(leaf);
    recording.objects.keep(object);
    recording.breaks.refused = object;
    Py_DECREF(object);
    recording.end(ReasonKind::SharedMemory, why);
  };
  // As `autograd.Function` returns them under no_grad. Any view that is made
  // there has no history either, and says so.
  if (t.is_view() && gradientOf(t) == Gradient::Leaf &&
      externals.count(memoryOf(*info)) && viewShownAs(t, false) != "")
    return refuse(t, "a view of an input that is a leaf leaves the call");
  if (isOwnLeaf(*info, t)) {
    if (isMadeAsView(t, memoryOf(*info)))
      return refuse(t, "a leaf that shares memory leaves the call");
    if (t.grad().defined() || isReached(t))
      return refuse(t, "a leaf that the call made leaves with its history");
  }
  if (!impl.earlier.leafStorages.count(memoryOf(*info)))
    return;
  for (auto &entry : impl.tensors)
    if (entry.second.beginsHistory && hasStorage(entry.first, memoryOf(*info)))
      return refuse(at::Tensor(entry.second.impl),
                    "memory that a leaf of the call shares leaves it");
}

void LeavingTensors::writeTensor(const at::Tensor &t, const TensorInfo &info) {
  const void *memory = memoryOf(info);
  std::string how;
  const at::TensorBase *other = findBase(t, memory);
  if (info.data)
    how = "data";
  else if (!other)
    how = shownAs(t, info);
  else if (!t.is_inference())
    how = shownAsPart(t, *other, impl.state.gradMode);
  if (!how.empty())
    recording.add(PyjitShownOp{.tensor = info.value, .mode = view(how)});
  // What a view requires follows from its base, unless it is a detached one.
  bool detached =
      how == "detached" || how == "view of detached" || how == "data";
  if (impl.gradientFlows && isMadeAsView(t, memory) &&
      t.requires_grad() != (!detached && requiresGrad(t, memory)))
    return recording.end(ReasonKind::SharedMemory,
                         "it leaves tensors of one memory that autograd knows "
                         "as several tensors, and some require grad");
  if (impl.hasStrangeHistory(t))
    return recording.end(
        ReasonKind::SharedMemory,
        "it leaves a tensor whose history no recorded operator "
        "has made");
  if (info.isStale && t.requires_grad())
    return recording.end(ReasonKind::SharedMemory,
                         "it leaves a tensor whose memory was written as a "
                         "part that autograd knows as another tensor");
  if (info.showsWritten)
    return endBeforeUse("it leaves a view of a leaf that the call had written "
                        "before, made where grad mode is on");
  if (externals.count(memory) && !info.data) {
    // The mock makes the view by strides, whose gradient autograd divides by
    // how many elements share a place in memory.
    if (t.requires_grad() && !detached && overlapsItself(memory))
      recording.end(ReasonKind::SharedMemory,
                    "a view of an input that requires grad and whose elements "
                    "share memory leaves the call");
    return;
  }
  auto &count = counts[counterOf(info)];
  if (int64_t version = versionOf(t); version > count.second)
    count = {&info, version};
  writeGradient(t, info);
}

/// Next time, what uses a leaf that was written stands behind a graph break.
void LeavingTensors::endBeforeUse(const std::string &why) {
  if (PyObject *leaf = impl.earlier.leaves.firstUsed())
    recording.breaks.refused = leaf;
  recording.end(ReasonKind::SharedMemory, why);
}

void LeavingTensors::writeGradient(const at::Tensor &t,
                                   const TensorInfo &info) {
  if (!t.requires_grad())
    return;
  bool computed = impl.state.gradMode && gradientOf(t) == Gradient::Computed;
  if (computed && impl.freed.contains(t.grad_fn().get()))
    recording.add(PyjitRequireGradOp{.tensor = info.value, .freed = true});
  else if (computed && !impl.freed.empty())
    endBeforeUse("a backward within the call, and it leaves a tensor that "
                 "another one can begin at");
  else if (computed && impl.earlier.leaves.isReachedFrom(t.grad_fn().get()))
    endBeforeUse("it leaves a tensor that was computed from a leaf after a "
                 "write that autograd does not see");
  else if (PyObject *leaf = impl.earlier.replaced.first(); computed && leaf) {
    recording.breaks.refused = leaf;
    recording.end(ReasonKind::EarlierObject,
                  "setting the attribute data of a tensor, and it leaves a "
                  "tensor that a backward can begin at");
  } else if (PyObject *leaf = impl.earlier.frozen.first(); computed && leaf) {
    recording.breaks.refused = leaf;
    recording.end(ReasonKind::EarlierObject,
                  "setting the attribute requires_grad of a tensor, and it "
                  "leaves a tensor that a backward can begin at");
  } else if (computed)
    recording.add(PyjitDifferentiableOp{
        .tensor = info.value, .ownLeaves = leadsToOwnLeavesAlone(impl, t)});
  else
    recording.add(PyjitRequireGradOp{.tensor = info.value});
}

/// Whether the mock may have to make the tensor as a view of another one.
bool LeavingTensors::isMadeAsView(const at::Tensor &t,
                                  const void *memory) const {
  return externals.count(memory) ||
         std::any_of(impl.leaving.begin(), impl.leaving.end(),
                     [&](const at::Tensor &other) {
                       TensorInfo *info = impl.find(other);
                       return info && memoryOf(*info) == memory &&
                              !other.is_same(t);
                     });
}

/// Whether an input of this memory, or the tensor that it is a view of, shows
/// an element twice.
bool LeavingTensors::overlapsItself(const void *memory) const {
  for (auto &entry : impl.tensors) {
    const TensorInfo &info = entry.second;
    if (!info.external || memoryOf(info) != memory)
      continue;
    at::TensorBase t(info.impl);
    if (mayOverlap(t) || (t.is_view() && mayOverlap(t._base())))
      return true;
  }
  return false;
}

/// Of the tensor that the mock makes `t` a view of.
bool LeavingTensors::requiresGrad(const at::Tensor &t,
                                  const void *memory) const {
  if (externals.count(memory))
    return findBase(t, memory)->requires_grad();
  return std::any_of(
      impl.leaving.begin(), impl.leaving.end(), [&](const at::Tensor &t) {
        TensorInfo *info = impl.find(t);
        return info && memoryOf(*info) == memory && t.requires_grad();
      });
}

/// In the order of the trace, so that equal calls give equal traces.
void LeavingTensors::writeCounts() {
  std::map<int, std::pair<const TensorInfo *, int64_t>> inOrder = parts;
  for (auto &entry : counts)
    if (entry.second.first)
      inOrder[entry.second.first->value] = entry.second;
  for (auto &entry : inOrder)
    recording.add(PyjitAdvanceOp{.tensor = entry.second.first->value,
                                 .count = entry.second.second});
}

} // namespace

void TensorRecorder::writeCounters() { LeavingTensors(*impl).write(); }
