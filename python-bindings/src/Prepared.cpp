//===- Prepared.cpp - Values computed from parameters alone ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Prepared.h"

#include "BackwardPrograms.h"
#include "ContentHash.h"
#include "UnversionedWrites.h"

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

/// Of a GPU's tensor, whose lists of weights are written through pointers that
/// were asked for as constant ones (multi_tensor_apply: `_foreach_add_`, fused
/// optimizers): how often it was written, or may have been. Such a write
/// crosses no barrier.
std::optional<uint64_t> versionOf(const at::Tensor &tensor) {
  const c10::VariableVersion &counter =
      tensor.unsafeGetTensorImpl()->version_counter();
  if (tensor.is_cpu() || !counter.enabled())
    return std::nullopt;
  return uint64_t(UnversionedWrites::count()) << 32 | counter.current_version();
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

struct Prepared::Source : SeenMemory {
  /// Whether it holds what it held in the state before this one; where `hash`
  /// is set, provided that it still is the hash.
  bool unchanged = false;
  std::optional<uint64_t> version; ///< of a GPU's tensor
};

struct Prepared::State {
  std::vector<Source> sources;
  /// What each call compares, close together; empty while some source has no
  /// barrier.
  struct Standing {
    const c10::StorageImpl *storage; ///< pinned by its source
    const void *data;
    WriteBarrier barrier;
    std::optional<uint64_t> version;
  };
  std::vector<Standing> standing;
  bool hashes = false;  ///< some source has no barrier
  uint64_t armings = 0; ///< when the barriers were last confirmed
  unsigned calls = 0;   ///< answered
  std::shared_ptr<const std::vector<at::Tensor>> outputs;
  std::vector<bool> others; ///< by output: others had computed it
};

Prepared::Prepared(std::unique_ptr<rt::TorchExecutor> executor,
                   std::vector<uint32_t> indices, std::vector<Value> values,
                   bool hashes)
    : program(std::move(executor)), sources(std::move(indices)),
      known(std::move(values)), hashes(hashes), histories(sources.size()) {}

std::unique_ptr<Prepared> Prepared::load(const PyjitExecutable *exe,
                                         bool hashes, std::string &error) {
  auto program = makeExecutor(exe, PyjitProgramPrepare, error);
  if (!program)
    return nullptr;
  const uint32_t *inputs = nullptr;
  size_t count = pyjitExecutablePrepareInputs(exe, &inputs);
  std::vector<Value> known(program->numOutputs());
  for (size_t i = 0; i < known.size() && !program->onDevice(); ++i)
    if (PyjitPreparedValue value; pyjitExecutablePreparedValue(exe, i, &value))
      known[i] = {std::string(value.digest.data, value.digest.size),
                  {value.sources, value.sources + value.numSources}};
  return std::unique_ptr<Prepared>(new Prepared(
      std::move(program), {inputs, inputs + count}, std::move(known), hashes));
}

static size_t bytesOf(const at::Tensor &value) {
  return value.has_storage() ? value.storage().nbytes()
                             : value.numel() * value.itemsize();
}

void Prepared::collectMemory(
    std::unordered_map<const void *, size_t> &bytes) const {
  if (current && current->outputs)
    for (const at::Tensor &value : *current->outputs)
      bytes[value.has_storage() ? value.storage().data()
                                : value.unsafeGetTensorImpl()] = bytesOf(value);
}

size_t Prepared::sharedBytes() const {
  size_t bytes = 0;
  for (size_t i = 0; current && i < current->others.size(); ++i)
    bytes += current->others[i] ? bytesOf((*current->outputs)[i]) : 0;
  return bytes;
}

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
                  : source.barrier.intact(*storage)) ||
        (source.version && source.version != versionOf(input)))
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
    source.keys = input.key_set();
    source.version = versionOf(input);
    const Source *last = current ? &current->sources[i] : nullptr;
    if (last && last->storage._unsafe_get_target() == storage &&
        last->data == source.data) {
      if (!last->barrier)
        source.hash = last->hash;
      source.unchanged =
          (!last->barrier || last->barrier->confirmed(*storage)) &&
          last->version == source.version;
    }
    bool seesWrites = input.is_cpu() || source.version;
    if (seesWrites && wantsBarrier(i, last, source))
      source.barrier = WriteBarrier::arm(*input.unsafeGetTensorImpl(),
                                         owned[input.unsafeGetTensorImpl()]);
    state->hashes |= !source.barrier;
    if (!state->hashes)
      state->standing.push_back(
          {storage, source.data, *source.barrier, source.version});
  }
  state->armings = WriteBarrier::armings();
  return state;
}

const at::Tensor *Prepared::values(const Use &use, const at::Tensor *inputs) {
  State &state = *use.state;
  if (!use.observed)
    return state.outputs->data();
  bool changed = !use.last, renewed = false;
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
    renewed |= source.barrier && source.hash;
  }
  if (changed) {
    compute(state, inputs, use.last.get());
    return state.outputs->data();
  }
  state.outputs = use.last->outputs;
  state.others = use.last->others;
  if (renewed) // others know of new barriers, and of no hash
    offer(state);
  return state.outputs->data();
}

/// What result `i` is by, as the sources are in `state`.
SharedValues::Origin Prepared::originOf(size_t i, const State &state) const {
  SharedValues::Origin origin;
  origin.digest = known[i].digest;
  for (uint32_t source : known[i].sources)
    origin.sources.push_back(state.sources[source]);
  origin.settings = SharedValues::Origin::Settings::now();
  return origin;
}

/// Whether a value lies as the main program reads result `i`.
bool Prepared::fits(size_t i, const at::Tensor &value) const {
  if (!value.has_storage())
    return true;
  auto dims = program->outputDims(i);
  return dims && value.scalar_type() == dims->type &&
         value.sizes() == dims->sizes && value.strides() == dims->strides;
}

/// Lets others take the values, and takes theirs where they were faster.
void Prepared::offer(State &state) const {
  std::vector<at::Tensor> values = *state.outputs;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!isShared(i) || !values[i].is_cpu())
      continue;
    at::Tensor kept = SharedValues::offer(originOf(i, state), values[i]);
    if (kept.is_same(values[i]) || !fits(i, kept))
      continue;
    values[i] = std::move(kept);
    state.others[i] = true;
  }
  state.outputs =
      std::make_shared<const std::vector<at::Tensor>>(std::move(values));
}

/// Finds values, the ones of `last` whose sources have not changed among them,
/// and computes the others. `last`: the state before, or null.
void Prepared::compute(State &state, const at::Tensor *inputs,
                       const State *last) {
  std::vector<at::Tensor> values(program->numOutputs());
  std::vector<bool> wanted(values.size(), true);
  state.others.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    at::Tensor found =
        isShared(i) ? SharedValues::find(originOf(i, state)) : at::Tensor();
    if (!found.defined() || !fits(i, found))
      continue;
    bool own = last && found.is_same((*last->outputs)[i]);
    state.others[i] = !own || last->others[i];
    values[i] = std::move(found);
    wanted[i] = false;
  }
  bool complete = std::find(wanted.begin(), wanted.end(), true) == wanted.end();
  if (!complete) {
    std::vector<at::Tensor> made =
        run(state, wanted, inputs, last ? last->outputs.get() : nullptr);
    for (size_t i = 0; i < values.size(); ++i)
      if (wanted[i])
        values[i] = std::move(made[i]);
  }
  state.outputs =
      std::make_shared<const std::vector<at::Tensor>>(std::move(values));
  if (!complete)
    offer(state);
}

/// Runs the program for some of its results.
std::vector<at::Tensor> Prepared::run(State &state,
                                      const std::vector<bool> &wanted,
                                      const at::Tensor *inputs,
                                      const std::vector<at::Tensor> *last) {
  std::vector<at::Tensor> arguments;
  for (uint32_t source : sources)
    arguments.push_back(readOnlyAlias(inputs[source]));
  std::vector<at::Tensor> outputs(program->numOutputs());
  program->runFor(wanted, arguments.data(), outputs.data());
  // It does not run again soon.
  if (!program->onDevice())
    program->dropIdleMemory();
  // What was written meanwhile, by another thread, is not what was hashed.
  for (size_t i = 0; i < sources.size(); ++i)
    if (Source &source = state.sources[i];
        source.hash && !source.barrier &&
        contentHash(source.data, extentOf(inputs[sources[i]])) != source.hash)
      source.hash.reset();
  // What a vendor call hands through must not outlive the parameter.
  for (at::Tensor &output : outputs)
    if (output.defined() && output.has_storage())
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
    if (!output.defined() || !output.has_storage() || output.is_cpu())
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
  return outputs;
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
