//===- Prepared.h - Values computed from parameters alone -------*- C++ -*-===//

#ifndef PYJIT_PYTHON_PREPARED_H
#define PYJIT_PYTHON_PREPARED_H

#include "pyjit-rt/TorchExecutor.h"

#include <memory>
#include <vector>

namespace pyjit::python {

/// The results of a record's prepare program (folded and packed weights), kept
/// until a parameter that they were computed from changes.
///
/// A change shows as another storage, another address, another version or other
/// elements at a few places of the tensor: the places catch dense writes that
/// bypass the version counter (`p.data.mul_(2)`). Tensors made in inference
/// mode have no counter, and their values are not kept.
class Prepared {
public:
  /// `sources`: indices into the record's inputs, in the order of the
  /// program's.
  Prepared(std::unique_ptr<rt::TorchExecutor> program,
           std::vector<uint32_t> sources);

  /// The prepared values for these inputs; recomputed if need be. Throws what
  /// the program throws.
  const at::Tensor *values(const std::vector<at::Tensor> &inputs);

private:
  struct Seen {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage; // pins the address
    const void *data = nullptr;
    uint32_t version = 0;
    uint64_t sample = 0;
    bool tracked = false;
  };
  bool fresh(const std::vector<at::Tensor> &inputs) const;

  std::unique_ptr<rt::TorchExecutor> program;
  std::vector<uint32_t> sources;
  bool computed = false;
  std::vector<Seen> seen;
  std::vector<at::Tensor> outputs;
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_PREPARED_H
