//===- CastBatch.cpp - Weights' casts, made together ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/CastBatch.h"
#include "tensors/AutocastCache.h"

#include "pyjit-rt/Hooks.h"

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <utility>

using namespace pyjit::capture;
namespace autograd = torch::autograd;

namespace {

/// Whether the tensor is memory, and nothing that another layer of PyTorch's
/// has wrapped.
bool isPlain(const at::Tensor &tensor) {
  constexpr c10::DispatchKeySet ignored =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView |
      c10::autocast_dispatch_keyset;
  return (tensor.key_set() - ignored).highestFunctionalityKey() ==
             c10::DispatchKey::Dense &&
         tensor.is_non_overlapping_and_dense() &&
         !autograd::isFwGradDefined(tensor);
}

/// Copies with a change of type; of tensors of one device and two types in one
/// launch there.
void copyAll(std::vector<at::Tensor> &targets,
             const std::vector<at::Tensor> &sources) {
  std::vector<bool> done(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    std::vector<at::Tensor> to, from;
    for (size_t k = i; k < targets.size(); ++k) {
      if (done[k] || targets[k].device() != targets[i].device() ||
          targets[k].scalar_type() != targets[i].scalar_type())
        continue;
      done[k] = true;
      to.push_back(targets[k]);
      from.push_back(sources[k]);
    }
    if (!to.empty())
      at::_foreach_copy_(to, from);
  }
}

at::Tensor emptyLike(const at::Tensor &tensor, at::ScalarType type) {
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().dtype(type));
}

/// Takes the gradients of casts to their weights: eager's `ToCopyBackward0` of
/// each, together.
class CastsBackward final : public autograd::Node {
public:
  autograd::variable_list apply(autograd::variable_list &&gradients) override {
    autograd::variable_list results(gradients.size());
    std::vector<at::Tensor> targets, sources;
    for (size_t i = 0; i < gradients.size(); ++i) {
      const at::Tensor &gradient = gradients[i];
      if (!gradient.defined() || !task_should_compute_output(i))
        continue;
      if (c10::GradMode::is_enabled() || !isPlain(gradient)) {
        results[i] = gradient.to(at::kFloat);
        continue;
      }
      at::AutoDispatchBelowADInplaceOrView below;
      results[i] = emptyLike(gradient, at::kFloat);
      targets.push_back(results[i]);
      sources.push_back(gradient);
    }
    at::AutoDispatchBelowADInplaceOrView below;
    copyAll(targets, sources);
    return results;
  }
  std::string name() const override { return "PyjitCastsBackward"; }
};

/// What autocast keeps a cast of in a weight's place.
const at::Tensor &standIn() {
  static const at::Tensor *tensor =
      new at::Tensor(at::empty({}).requires_grad_());
  return *tensor;
}

/// The batch that what the thread casts goes to.
thread_local CastBatch *current = nullptr;

/// Autocast of a device that this process does not have: its place in front of
/// autograd's is ours while a batch asks. (Outside of regions the thread's
/// state excludes all such places.)
constexpr c10::DispatchKey kInFront = c10::DispatchKey::AutocastMPS;

class BeInFront {
  c10::impl::LocalDispatchKeySet state =
      c10::impl::tls_local_dispatch_key_set();
  c10::impl::ForceDispatchKeyGuard guard{state.included_.add(kInFront),
                                         state.excluded_.remove(kInFront)};
};

} // namespace

/// Stands in front of `aten::_to_copy`.
struct CastBatch::Kernel {
  static at::Tensor call(const at::Tensor &weight,
                         std::optional<at::ScalarType> type,
                         std::optional<at::Layout> layout,
                         std::optional<at::Device> device,
                         std::optional<bool> pinned, bool nonBlocking,
                         std::optional<at::MemoryFormat> format) {
    c10::impl::ExcludeDispatchKeyGuard behind(kInFront);
    CastBatch *batch = current;
    Wanted *cast = batch ? &batch->wanted[batch->asked] : nullptr;
    if (!cast || !cast->weight.is_same(weight))
      return at::_to_copy(weight, type, layout, device, pinned, nonBlocking,
                          format);
    if (!std::exchange(batch->hasMade, true))
      batch->makeFrom(batch->asked);
    if (!cast->made.defined()) {
      cast->made = at::_to_copy(weight, type, layout, device, pinned,
                                nonBlocking, format);
      cast->isWhole = true;
    }
    batch->finish(*cast);
    if (batch->isKeeping)
      return std::move(cast->made);
    // Autocast has been given a reference, and looks through it once more when
    // it enters the cast. (If it did not, it would keep the cast at once.)
    batch->asking = standIn();
    return cast->made;
  }

  static void install() {
    static const torch::Library library = [] {
      torch::Library made(torch::Library::IMPL, "aten", kInFront, __FILE__,
                          __LINE__);
      made.impl("_to_copy", TORCH_FN(call));
      return made;
    }();
    (void)library;
  }
};

/// Hooks of weights are called in the order of their nodes, anomaly mode wants
/// to know where each was made.
static bool mayJoin(const at::Tensor &weight) {
  return isCastKept(weight) && isPlain(weight) &&
         !pyjit::rt::isHookedAt(weight) && !autograd::AnomalyMode::is_enabled();
}

void CastBatch::makeFrom(size_t first) {
  at::AutoDispatchBelowADInplaceOrView below;
  std::vector<at::Tensor> targets, sources;
  for (size_t i = first; i < wanted.size(); ++i) {
    Wanted &cast = wanted[i];
    if (!mayJoin(cast.weight))
      continue;
    cast.made = emptyLike(cast.weight, cast.type);
    targets.push_back(cast.made);
    sources.push_back(cast.weight);
  }
  copyAll(targets, sources);
  node =
      std::shared_ptr<autograd::Node>(new CastsBackward, autograd::deleteNode);
}

/// The node has an edge to the weight from now on.
void CastBatch::finish(Wanted &cast) {
  if (std::exchange(cast.isWhole, true))
    return;
  node->add_next_edge(autograd::impl::gradient_edge(cast.weight));
  autograd::set_history(cast.made, node);
}

at::Tensor CastBatch::take(size_t i) {
  Kernel::install();
  asked = i;
  asking = wanted[i].weight;
  BeInFront guard;
  current = this;
  at::Tensor cast = keptCast(asking, wanted[i].type);
  current = nullptr;
  asking.reset();
  return cast;
}

void CastBatch::keep() {
  isKeeping = true;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i].isWhole && wanted[i].made.defined())
      take(i);
}

bool pyjit::capture::isCastOf(const at::Tensor &cast,
                              const at::Tensor &weight) {
  auto made = cast.grad_fn();
  if (!made || (made->name() != "ToCopyBackward0" &&
                !dynamic_cast<CastsBackward *>(made.get())))
    return false;
  if (cast.output_nr() >= made->num_outputs())
    return false;
  auto *leaf = dynamic_cast<autograd::AccumulateGrad *>(
      made->next_edge(cast.output_nr()).function.get());
  return leaf && leaf->variable.is_same(weight);
}
