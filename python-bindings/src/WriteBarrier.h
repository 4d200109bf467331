//===- WriteBarrier.h - Knowing that memory was not written -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PyTorch's version counter misses writes through `p.data`, NumPy views,
// DLPack, storages, `set_`, C++ extensions and whatever else reaches the same
// memory by another tensor. What none of them can avoid is to ask the storage
// for a mutable pointer, and a copy-on-write storage notices that: its first
// request turns it into an ordinary one. A barrier therefore makes a storage
// copy-on-write without a second owner. The first request for a mutable pointer
// then copies nothing and moves nothing, it only removes the mark, and to look
// for the mark is one comparison.
//
// What it cannot see are writes through a raw address that was taken before.
// `arm` refuses where such an address may be alive: memory that PyTorch's
// allocator did not hand out (from_numpy, shared memory, mapped files),
// storages that NumPy has seen (they are not resizable any more), and storages
// or tensors with further owners (a DLPack consumer is one). What is left is an
// address as a number, `p.data_ptr()`, kept by the program for later use with
// ctypes.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_PYTHON_WRITEBARRIER_H
#define PYJIT_PYTHON_WRITEBARRIER_H

#include "pyjit-rt/SavedInputs.h"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/COWDeleter.h>

#include <cstdint>
#include <optional>

namespace pyjit::python {

/// A mark on one storage. Marks are shared: whoever asks for one while it is
/// there gets the same. All of this needs the GIL.
class WriteBarrier {
public:
  using References = rt::SavedInputs::References;
  /// Marks the storage of `impl`. Beside the Python object's references there
  /// are `owned`, of those who write nothing. Returns nothing where writes
  /// could go unseen.
  static std::optional<WriteBarrier> arm(c10::TensorImpl &impl,
                                         const References &owned);

  /// Whether nobody has asked for a mutable pointer since, provided that
  /// `armings()` is what it was when the mark was set or last `confirmed`.
  bool intact(const c10::StorageImpl &storage) const {
    const c10::DataPtr &data = storage.data_ptr();
    return data.get_context() == context &&
           data.get_deleter() == &c10::impl::cow::cow_deleter;
  }
  /// The same, whatever was armed meanwhile: a storage that was written and
  /// then marked again may have been given a context at the same address.
  bool confirmed(const c10::StorageImpl &storage) const;

  /// Whether both are one mark.
  bool operator==(const WriteBarrier &other) const {
    return number == other.number;
  }

  /// Counts the marks set in this process.
  static uint64_t armings() { return count; }

private:
  WriteBarrier(const void *context, uint64_t number)
      : context(context), number(number) {}

  static uint64_t count;
  const void *context;
  uint64_t number; ///< of the arming
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_WRITEBARRIER_H
