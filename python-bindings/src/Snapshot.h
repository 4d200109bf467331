//===- Snapshot.h - What a passed check rested on ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The checks of each call read a few words each of some hundred objects that
// the work of the last call has swept from the caches. Once they have passed,
// what they depend on is known: these words of memory. While none of them has
// changed, the checks would pass again; to compare them needs no code but two
// short loops that ask for memory well ahead. A word that did change proves
// nothing: then the checks themselves decide.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_PYTHON_SNAPSHOT_H
#define PYJIT_PYTHON_SNAPSHOT_H

#include "Reference.h"

#include <Python.h>

#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <vector>

namespace torch::autograd {
struct AutogradMeta;
}

namespace pyjit::python {

/// The owner keeps alive whatever it names places of. All of this needs the
/// GIL.
class Snapshot {
public:
  /// Notes that the pointer at `place` is what it is. `owner`: for `changed`.
  template <typename T> void word(T *const *place, uint32_t owner) {
    words.push_back({reinterpret_cast<const uintptr_t *>(place), owner});
  }
  void word(const uintptr_t *place, uint32_t owner) {
    words.push_back({place, owner});
  }
  /// Notes all that a guard may ask of a tensor's metadata. False, noting
  /// nothing, where that does not lie in the tensor itself.
  bool tensor(PyObject *object, uint32_t owner);
  /// Keeps `object` alive, so that its address stays its own.
  void keep(PyObject *object) { kept.push_back(Reference::borrow(object)); }
  /// Once everything is noted.
  void seal();

  bool taken() const { return isTaken; }
  /// Whether nothing noted has changed.
  bool holds() const;
  /// Owners of what has changed.
  std::vector<uint32_t> changed() const;
  /// Forgets everything; what it kept goes to `dropped`.
  void clear(std::vector<Reference> &dropped);

private:
  struct Noted {
    const uintptr_t *place;
    uint32_t owner;
  };
  struct Word {
    const uintptr_t *place;
    uintptr_t value;
    bool same() const { return *place == value; }
  };
  struct Tensor {
    PyObject *object;
    PyTypeObject *type;
    const c10::TensorImpl *impl;
    const torch::autograd::AutogradMeta *autograd;
    const void *storage; ///< asked for ahead, for what follows the checks
    uint32_t image;      ///< into `images`
    uint8_t rank;
    bool requiresGrad;
    bool same(const uint64_t *images) const;
    void ask() const;
  };
  uint32_t imageOf(const c10::TensorImpl &impl);

  bool isTaken = false;
  std::vector<Noted> words;
  std::vector<Word> sealed;
  std::vector<Tensor> tensors;
  std::vector<uint32_t> tensorOwners;
  /// What tensors look like, each different look once: rank, sizes, strides,
  /// and what lies behind them in a TensorImpl.
  std::vector<uint64_t> images;
  std::vector<std::pair<uint32_t, uint32_t>> looks; ///< place and size
  std::vector<Reference> kept;
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_SNAPSHOT_H
