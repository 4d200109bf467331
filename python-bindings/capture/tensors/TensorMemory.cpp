//===- TensorMemory.cpp - Which tensors share elements --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/TensorImpl.h"

#include <algorithm>

using namespace pyjit::capture;

bool pyjit::capture::mayOverlap(const at::TensorBase &t) {
  std::vector<std::pair<int64_t, int64_t>> dims; // stride, size
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.size(d) == 0)
      return false; // nothing is there to be written
    if (t.size(d) > 1)
      dims.emplace_back(t.stride(d), t.size(d));
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (auto [stride, size] : dims) {
    if (stride <= reach)
      return true;
    reach += stride * (size - 1);
  }
  return false;
}

namespace {
/// The bytes that a tensor spans.
struct Span {
  const char *begin, *end;
  explicit Span(const at::TensorBase &t)
      : begin(static_cast<const char *>(t.const_data_ptr())), end(begin) {
    if (!t.numel())
      return;
    for (int64_t d = 0; d < t.dim(); ++d)
      end += (t.size(d) - 1) * t.stride(d) * int64_t(t.element_size());
    end += t.element_size();
  }
};

/// Calls `visit` with the address of each element; false if that was enough.
template <typename Visit>
bool visitElements(const at::TensorBase &t, const char *at, int64_t dim,
                   Visit visit) {
  if (dim == t.dim())
    return visit(at);
  for (int64_t i = 0; i < t.size(dim); ++i)
    if (!visitElements(t, at + i * t.stride(dim) * int64_t(t.element_size()),
                       dim + 1, visit))
      return false;
  return true;
}
} // namespace

bool pyjit::capture::mayShareElements(const at::TensorBase &a,
                                      const at::TensorBase &b) {
  if (!a.has_storage() || !b.has_storage() ||
      !a.storage().is_alias_of(b.storage()) || !a.numel() || !b.numel())
    return false;
  Span first(a), second(b);
  if (first.end <= second.begin || second.end <= first.begin)
    return false;
  // Interleaved (columns of a matrix): every byte is looked at once.
  constexpr int64_t kMost = 1 << 24;
  const char *begin = std::min(first.begin, second.begin);
  int64_t bytes = std::max(first.end, second.end) - begin;
  if (bytes > kMost || a.numel() > kMost || b.numel() > kMost)
    return true;
  std::vector<bool> taken(bytes);
  visitElements(a, first.begin, 0, [&](const char *at) {
    std::fill_n(taken.begin() + (at - begin), a.element_size(), true);
    return true;
  });
  return !visitElements(b, second.begin, 0, [&](const char *at) {
    auto from = taken.begin() + (at - begin);
    return std::find(from, from + b.element_size(), true) ==
           from + b.element_size();
  });
}

/// Whether the inputs in this memory lie one behind the other, as the weights
/// of a recurrent layer do that cuDNN wants in one piece: what each of them
/// reaches over is its own, and nothing else shows it. Guards ask where they
/// lie in each call (DisjointMemory).
static bool areApart(const TensorRecorder::Impl &impl, const void *storage) {
  if (impl.earlier.shownAndWritten.count(storage))
    return false;
  std::vector<Span> spans;
  for (const auto &[tensor, info] : impl.tensors) {
    if (!hasStorage(tensor, storage))
      continue;
    if (!info.external) {
      auto leaves = [tensor = tensor](const at::Tensor &t) {
        return t.unsafeGetTensorImpl() == tensor;
      };
      if (std::any_of(impl.leaving.begin(), impl.leaving.end(), leaves))
        return false;
      continue;
    }
    spans.emplace_back(at::TensorBase(info.impl));
  }
  std::sort(spans.begin(), spans.end(), [](const Span &a, const Span &b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  return std::adjacent_find(spans.begin(), spans.end(),
                            [](const Span &a, const Span &b) {
                              return a.end > b.begin;
                            }) == spans.end();
}

std::string TensorRecorder::finalConflict() {
  for (auto &entry : impl->tensors) {
    TensorInfo &info = entry.second;
    if (info.external && impl->type(at::TensorBase(info.impl)) != info.type)
      return "an input whose shape the call changed";
  }
  if (impl->writtenStorages.empty() && !impl->earlier.replaced.first())
    return "";
  std::map<const void *, int> externals;
  for (auto &entry : impl->tensors)
    if (entry.second.external && entry.first->has_storage())
      ++externals[entry.first->unsafe_storage().unsafeGetStorageImpl()];
  for (auto [storage, count] : externals)
    if (count > 1 && impl->earlier.replaced.wasShown(storage))
      return "setting the attribute data of an input that shares memory with "
             "another input";
  // The new contents are copied back as a whole, which such a tensor refuses.
  for (auto &entry : impl->tensors)
    if (entry.second.external && entry.first->has_storage() &&
        mayOverlap(at::TensorBase(entry.second.impl)))
      if (auto written = impl->writtenStorages.find(
              entry.first->unsafe_storage().unsafeGetStorageImpl());
          written != impl->writtenStorages.end())
        return "an in-place operator (" + written->second +
               ") on an input whose elements share memory";
  for (auto &entry : impl->writtenStorages)
    if (externals[entry.first] > 1 && !areApart(*impl, entry.first))
      return "an in-place operator (" + entry.second +
             ") on an input that shares memory with another input";
  return "";
}
