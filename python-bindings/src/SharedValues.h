//===- SharedValues.h - Prepared values that several keep -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A packed weight takes the memory of the weight again, so specializations of
// one model (one for a size and one for all sizes, a prompt's and a step's, or
// those of two compiled functions) share theirs. Values are the same where the
// same operations computed them from the same memory, and nobody has written
// that memory in between: the compiler says the former by a digest, write
// barriers or hashes the latter. Values of equal weights in different memory
// are not shared, for one of the two may be written alone.
//
// The values belong to those who keep them (Prepared.h): here are only weak
// references, so that a value dies with its last user.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_PYTHON_SHAREDVALUES_H
#define PYJIT_PYTHON_SHAREDVALUES_H

#include "WriteBarrier.h"

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pyjit::python {

/// A parameter's memory as somebody found it.
struct SeenMemory {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage{
      c10::intrusive_ptr<c10::StorageImpl>()}; ///< pins the address
  const void *data = nullptr;
  c10::DispatchKeySet keys;            ///< whether it shows conjugates, say
  std::optional<WriteBarrier> barrier; ///< nothing: hashed
  std::optional<uint64_t> hash;

  /// Whether later contents can be told from these.
  bool isWatched() const { return data && (barrier || hash); }
  /// Whether it was found with the same contents as `other`, for certain.
  bool isSame(const SeenMemory &other) const;
};

/// Safe on several threads, without the GIL.
class SharedValues {
public:
  /// What a value is by. Sizes and strides of its sources are the digest's.
  struct Origin {
    std::string digest;
    std::vector<SeenMemory> sources;
    /// What operators look at besides their operands.
    struct Settings {
      uint64_t included, excluded; ///< dispatch keys of the thread
      uint32_t vendors;            ///< how vendor libraries compute
      static Settings now();
      bool operator==(const Settings &other) const {
        return included == other.included && excluded == other.excluded &&
               vendors == other.vendors;
      }
    } settings;

    bool isWatched() const;
    bool isSame(const Origin &other) const;
    size_t hash() const;
  };

  /// A value of this origin that somebody keeps, or an undefined tensor.
  static at::Tensor find(const Origin &origin);
  /// Makes known a value that the caller keeps. Where somebody else was faster,
  /// that one's is the answer, else `value`.
  static at::Tensor offer(Origin origin, at::Tensor value);
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_SHAREDVALUES_H
