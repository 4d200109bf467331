//===- WriteBarrier.cpp - Knowing that memory was not written -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "WriteBarrier.h"

#include <c10/core/impl/COW.h>

#include <unordered_map>

namespace pyjit::python {
namespace {

/// Storages belong to PyTorch and to no specialization in particular, so the
/// marks on them are process state; the GIL guards it.
struct Mark {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage; // pins the address
  const void *context;
  uint64_t number;
};
using Marks = std::unordered_map<const c10::StorageImpl *, Mark>;

Marks &marks() {
  static Marks *all = new Marks; // outlives the interpreter
  return *all;
}

void forgetDeadStorages() {
  static size_t limit = 1024;
  if (marks().size() < limit)
    return;
  for (auto mark = marks().begin(); mark != marks().end();)
    mark =
        mark->second.storage.expired() ? marks().erase(mark) : std::next(mark);
  limit = std::max<size_t>(1024, 2 * marks().size());
}

} // namespace

uint64_t WriteBarrier::count = 0;

bool WriteBarrier::confirmed(const c10::StorageImpl &storage) const {
  auto found = marks().find(&storage);
  return found != marks().end() && found->second.number == number &&
         intact(storage);
}

std::optional<WriteBarrier> WriteBarrier::arm(c10::TensorImpl &impl,
                                              const References &owned) {
  if (!impl.has_storage() || impl.is_python_dispatch())
    return std::nullopt;
  auto shared = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
      impl.unsafe_storage().unsafeGetStorageImpl());
  c10::StorageImpl &storage = *shared;
  if (auto found = marks().find(&storage); found != marks().end()) {
    WriteBarrier there(found->second.context, found->second.number);
    if (there.intact(storage))
      return there;
  }
  // `shared`, the tensor, and the storage's Python object once it has one.
  size_t owners =
      2 + owned.memory + (storage.pyobj_slot()->load_pyobj() != nullptr);
  if (!storage.resizable() || shared.use_count() > owners ||
      c10::raw::intrusive_ptr::use_count(&impl) > 1 + owned.tensor ||
      c10::impl::cow::is_cow_data_ptr(storage.data_ptr()) ||
      !c10::impl::cow::has_simple_data_ptr(storage) || !storage.data())
    return std::nullopt;
  // The clone dies at once and leaves a copy-on-write storage with one owner.
  if (!c10::impl::cow::lazy_clone_storage(storage))
    return std::nullopt;
  forgetDeadStorages();
  WriteBarrier barrier(storage.data_ptr().get_context(), ++count);
  marks().insert_or_assign(
      &storage, Mark{c10::weak_intrusive_ptr<c10::StorageImpl>(shared),
                     barrier.context, barrier.number});
  return barrier;
}

} // namespace pyjit::python
