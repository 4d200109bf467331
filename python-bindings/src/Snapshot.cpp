//===- Snapshot.cpp - What a passed check rested on -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Snapshot.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace pyjit::python {
namespace {

// A TensorImpl holds up to five sizes and as many strides in itself, the number
// of dimensions before them; offset, number of elements, dtype, device, flags
// and dispatch keys come after and last. `imageOf` refuses a tensor that does
// not show this.
constexpr size_t kInlineDims = 5;
constexpr size_t kTailWords = 4;

const uint64_t *sizesOf(const c10::TensorImpl &impl) {
  // Not `sizes()`, which may be a virtual call: the place is the same for all.
  return reinterpret_cast<const uint64_t *>(&impl) +
         (sizeof(c10::TensorImpl) / 8 - kTailWords - 2 * kInlineDims);
}
const uint64_t *stridesOf(const c10::TensorImpl &impl) {
  return sizesOf(impl) + kInlineDims;
}
const uint64_t *tailOf(const c10::TensorImpl &impl) {
  return stridesOf(impl) + kInlineDims;
}

void askFor(const void *place) { __builtin_prefetch(place); }

} // namespace

uint32_t Snapshot::imageOf(const c10::TensorImpl &impl) {
  size_t rank = *(sizesOf(impl) - 1);
  std::vector<uint64_t> image{rank};
  image.insert(image.end(), sizesOf(impl), sizesOf(impl) + rank);
  image.insert(image.end(), stridesOf(impl), stridesOf(impl) + rank);
  image.insert(image.end(), tailOf(impl), tailOf(impl) + kTailWords);
  for (auto [place, size] : looks)
    if (size == image.size() &&
        std::equal(image.begin(), image.end(), images.begin() + place))
      return place;
  uint32_t place = images.size();
  looks.emplace_back(place, image.size());
  images.insert(images.end(), image.begin(), image.end());
  return place;
}

bool Snapshot::tensor(PyObject *object, uint32_t owner) {
  auto *variable = reinterpret_cast<THPVariable *>(object);
  const c10::TensorImpl *impl = variable->cdata.unsafeGetTensorImpl();
  size_t rank = impl->dim();
  bool asExpected = !impl->has_symbolic_sizes_strides() &&
                    rank <= kInlineDims && *(sizesOf(*impl) - 1) == rank &&
                    reinterpret_cast<const uint64_t *>(impl->sizes().data()) ==
                        sizesOf(*impl) &&
                    reinterpret_cast<const uint64_t *>(
                        impl->strides().data()) == stridesOf(*impl) &&
                    tailOf(*impl)[0] == uint64_t(impl->storage_offset()) &&
                    tailOf(*impl)[1] == uint64_t(impl->numel()) &&
                    tailOf(*impl)[3] == impl->key_set().raw_repr();
  if (!asExpected)
    return false;
  auto *autograd =
      static_cast<const torch::autograd::AutogradMeta *>(impl->autograd_meta());
  bool requiresGrad = autograd && autograd->requires_grad_;
  if (autograd && !requiresGrad && (autograd->is_view_ || autograd->grad_fn_))
    return false;
  const c10::StorageImpl *storage =
      impl->has_storage() ? impl->unsafe_storage().unsafeGetStorageImpl()
                          : nullptr;
  tensors.push_back({object, Py_TYPE(object), impl, autograd,
                     storage ? &storage->data_ptr() : nullptr, imageOf(*impl),
                     uint8_t(rank), requiresGrad});
  tensorOwners.push_back(owner);
  return true;
}

void Snapshot::seal() {
  for (const Noted &noted : words)
    sealed.push_back({noted.place, *noted.place});
  // By address: neighbours share pages and lines.
  std::sort(sealed.begin(), sealed.end(), [](const Word &a, const Word &b) {
    return std::less<>()(a.place, b.place);
  });
  sealed.erase(std::unique(sealed.begin(), sealed.end(),
                           [](const Word &a, const Word &b) {
                             return a.place == b.place;
                           }),
               sealed.end());
  isTaken = true;
}

inline void Snapshot::Tensor::ask() const {
  askFor(&object->ob_type);
  askFor(&reinterpret_cast<THPVariable *>(object)->cdata);
  const char *begin = reinterpret_cast<const char *>(impl);
  askFor(begin + 16); // storage, autograd's data
  askFor(sizesOf(*impl) - 1);
  askFor(stridesOf(*impl));
  askFor(tailOf(*impl) + kTailWords - 1);
  if (autograd)
    askFor(&autograd->requires_grad_);
  if (storage)
    askFor(storage);
}

inline bool Snapshot::Tensor::same(const uint64_t *images) const {
  if (object->ob_type != type ||
      reinterpret_cast<THPVariable *>(object)->cdata.unsafeGetTensorImpl() !=
          impl ||
      impl->autograd_meta() !=
          static_cast<const c10::AutogradMetaInterface *>(autograd))
    return false;
  const uint64_t *look = images + image;
  uint64_t differs = *(sizesOf(*impl) - 1) ^ *look++;
  for (unsigned d = 0; d < rank; ++d)
    differs |=
        (sizesOf(*impl)[d] ^ look[d]) | (stridesOf(*impl)[d] ^ look[rank + d]);
  look += 2 * rank;
  for (unsigned k = 0; k < kTailWords; ++k)
    differs |= tailOf(*impl)[k] ^ look[k];
  if (differs)
    return false;
  if (requiresGrad)
    return autograd->requires_grad_;
  return !autograd || (!autograd->requires_grad_ && !autograd->is_view_ &&
                       !autograd->grad_fn_);
}

bool Snapshot::holds() const {
  // As many lines in flight as a core can wait for.
  constexpr size_t kAheadTensors = 4, kAheadWords = 16;
  for (size_t i = 0; i < std::min(kAheadTensors, tensors.size()); ++i)
    tensors[i].ask();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i + kAheadTensors < tensors.size())
      tensors[i + kAheadTensors].ask();
    else if (size_t next = i + kAheadTensors - tensors.size();
             next < sealed.size())
      askFor(sealed[next].place);
    if (!tensors[i].same(images.data()))
      return false;
  }
  uintptr_t differs = 0;
  size_t count = sealed.size();
  for (size_t i = 0; i < count; ++i) {
    askFor(sealed[std::min(i + kAheadWords, count - 1)].place);
    differs |= *sealed[i].place ^ sealed[i].value;
  }
  return !differs;
}

std::vector<uint32_t> Snapshot::changed() const {
  std::vector<uint32_t> owners;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].same(images.data()))
      owners.push_back(tensorOwners[i]);
  for (const Noted &noted : words) {
    auto found = std::lower_bound(sealed.begin(), sealed.end(), noted.place,
                                  [](const Word &word, const uintptr_t *place) {
                                    return std::less<>()(word.place, place);
                                  });
    if (!found->same())
      owners.push_back(noted.owner);
  }
  return owners;
}

void Snapshot::clear(std::vector<Reference> &dropped) {
  std::move(kept.begin(), kept.end(), std::back_inserter(dropped));
  kept.clear();
  words.clear();
  sealed.clear();
  tensors.clear();
  tensorOwners.clear();
  images.clear();
  looks.clear();
  isTaken = false;
}

} // namespace pyjit::python
