//===- Prepared.cpp - Values computed from parameters alone ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Prepared.h"

#include "ContentHash.h"

#include "pyjit-rt/SavedInputs.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace pyjit::python {
namespace {

/// A barrier that is crossed more often than this in a row is not set again for
/// a while: to compute the values each time costs more than to hash.
constexpr unsigned kCrossings = 3;
/// After this many hashed calls without a change a barrier is tried again, and
/// after this many calls under a barrier earlier crossings are forgotten.
constexpr unsigned kCalm = 16;

c10::StorageImpl *storageOf(const at::Tensor &tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

/// The first element, without asking for a mutable pointer.
const char *dataOf(const at::Tensor &tensor) {
  const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  return static_cast<const char *>(storageOf(tensor)->data()) +
         impl->storage_offset() * impl->itemsize();
}

size_t extentOf(const at::Tensor &tensor) {
  if (!tensor.numel())
    return 0;
  int64_t last = 1;
  for (int64_t i = 0; i < tensor.dim(); ++i)
    last += (tensor.size(i) - 1) * tensor.stride(i);
  return last * tensor.element_size();
}

/// The same elements in a storage of their own: library functions that ask for
/// mutable pointers just to read (oneDNN's reorders) cross no barrier there.
at::Tensor readOnlyAlias(const at::Tensor &tensor) {
  if (!storageOf(tensor))
    return tensor;
  c10::Storage storage(
      c10::Storage::use_byte_size_t(), extentOf(tensor),
      at::DataPtr(const_cast<char *>(dataOf(tensor)), tensor.device()));
  at::Tensor alias = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), tensor.key_set(), tensor.dtype());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(),
                                                     tensor.strides());
  return alias;
}

bool liesLike(const at::Tensor &a, const at::Tensor &b) {
  return a.defined() && a.device() == b.device() &&
         a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

} // namespace

struct Prepared::Source {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage{
      c10::intrusive_ptr<c10::StorageImpl>()}; ///< pins the address
  const void *data = nullptr;
  std::optional<WriteBarrier> barrier; ///< nothing: hashed
  /// Whether it holds what it held in the state before this one; where `hash`
  /// is set, provided that it still is the hash.
  bool unchanged = false;
  std::optional<uint64_t> hash;
};

struct Prepared::State {
  std::vector<Source> sources;
  /// What each call compares, close together; empty while some source has no
  /// barrier.
  struct Standing {
    const c10::StorageImpl *storage; ///< pinned by its source
    const void *data;
    WriteBarrier barrier;
  };
  std::vector<Standing> standing;
  bool hashes = false;  ///< some source has no barrier
  uint64_t armings = 0; ///< when the barriers were last confirmed
  unsigned calls = 0;   ///< answered
  std::shared_ptr<const std::vector<at::Tensor>> outputs;
};

Prepared::Prepared(std::unique_ptr<rt::TorchExecutor> executor,
                   std::vector<uint32_t> indices, bool hashes)
    : program(std::move(executor)), sources(std::move(indices)), hashes(hashes),
      histories(sources.size()) {}

size_t Prepared::numHashed() const {
  return current
             ? std::count_if(current->sources.begin(), current->sources.end(),
                             [](const auto &s) { return !s.barrier; })
             : 0;
}

bool Prepared::fresh(State &state, const at::Tensor *inputs) const {
  if (state.hashes)
    return false;
  bool confirm = state.armings != WriteBarrier::armings();
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (i + kAhead < sources.size())
      __builtin_prefetch(&state.standing[i + kAhead].storage->data_ptr());
    const at::Tensor &input = inputs[sources[i]];
    const State::Standing &source = state.standing[i];
    const c10::StorageImpl *storage = storageOf(input);
    if (storage != source.storage || dataOf(input) != source.data ||
        !(confirm ? source.barrier.confirmed(*storage)
                  : source.barrier.intact(*storage)))
      return false;
  }
  state.armings = WriteBarrier::armings();
  return true;
}

Prepared::Use Prepared::begin(const at::Tensor *inputs) {
  if (current && fresh(*current, inputs)) {
    ++current->calls;
    return {current, nullptr, false};
  }
  std::shared_ptr<State> state = observe(inputs);
  bool holds = hashes || !state->hashes;
  return {std::move(state), current, true, holds};
}

/// Whether to try a barrier on source `i`, whose present state is `source`.
bool Prepared::wantsBarrier(size_t i, const Source *last,
                            const Source &source) {
  History &history = histories[i];
  if (!last || !hashes)
    return true;
  if (last->barrier && !source.unchanged) {
    if (current->calls >= kCalm)
      history.crossings = 0;
    history.calm = 0;
    return ++history.crossings <= kCrossings;
  }
  if (last->barrier)
    return true;
  if (history.calm < kCalm)
    return false;
  history = {kCrossings, 0};
  return true;
}

/// References to the sources that write nothing: the caller's, those of
/// accumulators, which write gradients, and of nodes that saved them.
std::unordered_map<const c10::TensorImpl *, rt::SavedInputs::References>
Prepared::countReaders(const at::Tensor *inputs) const {
  std::unordered_map<const c10::TensorImpl *, rt::SavedInputs::References>
      owned;
  bool saved = false;
  for (uint32_t source : sources) {
    size_t &count = owned[inputs[source].unsafeGetTensorImpl()].tensor;
    bool isLeaf = inputs[source].requires_grad() && inputs[source].is_leaf();
    if (isLeaf && !count &&
        torch::autograd::impl::try_get_grad_accumulator(inputs[source]))
      ++count;
    saved |= isLeaf;
    ++count;
  }
  if (saved)
    rt::SavedInputs::count(owned);
  return owned;
}

/// The sources as they are now, with barriers where they can and should be.
std::shared_ptr<Prepared::State> Prepared::observe(const at::Tensor *inputs) {
  auto owned = countReaders(inputs);
  auto state = std::make_shared<State>();
  for (size_t i = 0; i < sources.size(); ++i) {
    const at::Tensor &input = inputs[sources[i]];
    Source &source = state->sources.emplace_back();
    c10::StorageImpl *storage = storageOf(input);
    if (!storage) { // opaque: nothing can be known of it
      state->hashes = true;
      continue;
    }
    source.storage = c10::weak_intrusive_ptr<c10::StorageImpl>(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
    source.data = dataOf(input);
    const Source *last = current ? &current->sources[i] : nullptr;
    if (last && last->storage._unsafe_get_target() == storage &&
        last->data == source.data) {
      if (!last->barrier)
        source.hash = last->hash;
      source.unchanged = !last->barrier || last->barrier->confirmed(*storage);
    }
    if (wantsBarrier(i, last, source))
      source.barrier = WriteBarrier::arm(*input.unsafeGetTensorImpl(),
                                         owned[input.unsafeGetTensorImpl()]);
    state->hashes |= !source.barrier;
    if (!state->hashes)
      state->standing.push_back({storage, source.data, *source.barrier});
  }
  state->armings = WriteBarrier::armings();
  return state;
}

const at::Tensor *Prepared::values(const Use &use, const at::Tensor *inputs) {
  State &state = *use.state;
  if (!use.observed)
    return state.outputs->data();
  bool changed = !use.last;
  for (size_t i = 0; i < sources.size(); ++i) {
    Source &source = state.sources[i];
    const at::Tensor &input = inputs[sources[i]];
    if (source.data && input.is_cpu() && (!source.barrier || source.hash)) {
      uint64_t hash = contentHash(source.data, extentOf(input));
      source.unchanged &= source.hash == hash;
      source.hash = hash;
    } else if (!source.barrier) {
      source.unchanged = false;
    }
    changed |= !source.unchanged;
  }
  if (changed)
    compute(state, inputs, use.last ? use.last->outputs.get() : nullptr);
  else
    state.outputs = use.last->outputs;
  return state.outputs->data();
}

void Prepared::compute(State &state, const at::Tensor *inputs,
                       const std::vector<at::Tensor> *last) {
  std::vector<at::Tensor> arguments;
  for (uint32_t source : sources)
    arguments.push_back(readOnlyAlias(inputs[source]));
  std::vector<at::Tensor> outputs(program->numOutputs());
  program->run(arguments.data(), nullptr, outputs.data());
  // What a vendor call hands through must not outlive the parameter.
  for (at::Tensor &output : outputs)
    if (output.has_storage())
      for (const at::Tensor &argument : arguments)
        if (argument.has_storage() &&
            output.storage().unsafeGetStorageImpl() ==
                argument.storage().unsafeGetStorageImpl()) {
          output = output.clone();
          break;
        }
  // Captured graphs hold the addresses of what is on a device: new values go
  // where the old ones were. Other streams use them at once, too.
  std::optional<c10::Device> device;
  for (size_t i = 0; i < outputs.size(); ++i) {
    at::Tensor &output = outputs[i];
    if (!output.has_storage() || output.is_cpu())
      continue;
    device = output.device();
    if (last && liesLike((*last)[i], output)) {
      at::AutoDispatchBelowADInplaceOrView belowAutograd;
      (*last)[i].copy_(output);
      output = (*last)[i];
    }
  }
  if (device)
    c10::impl::VirtualGuardImpl(device->type())
        .getStream(*device)
        .synchronize();
  state.outputs =
      std::make_shared<const std::vector<at::Tensor>>(std::move(outputs));
}

void Prepared::end(Use use) {
  if (!use.observed)
    return;
  for (size_t i = 0; i < sources.size(); ++i) {
    const Source &source = use.state->sources[i];
    if (source.barrier)
      continue;
    History &history = histories[i];
    history.calm = source.unchanged ? std::min(history.calm + 1u, kCalm) : 0;
  }
  current = std::move(use.state);
}

} // namespace pyjit::python
