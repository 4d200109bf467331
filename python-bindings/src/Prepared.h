//===- Prepared.h - Values computed from parameters alone -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_PREPARED_H
#define PYJIT_PYTHON_PREPARED_H

#include "SharedValues.h"
#include "WriteBarrier.h"

#include "pyjit-c/Compiler.h"
#include "pyjit-rt/TorchExecutor.h"

#include <memory>
#include <unordered_map>
#include <vector>

namespace pyjit::python {

/// The results of a specialization's prepare program (folded and packed
/// weights), kept while the parameters that they were computed from are what
/// they were.
///
/// A parameter shows a change as another storage, another address, or a write
/// barrier that somebody has crossed. One that no barrier can stand on (see
/// WriteBarrier.h), or whose barrier is crossed again and again without need,
/// is hashed whole at each call instead.
///
/// A value that another specialization keeps already, computed by the same
/// operations from the same memory, is taken from there (SharedValues.h); on
/// the CPU only, for captured graphs hold the addresses of what is on a device.
///
/// A call asks in three steps: `begin` and `end` with the GIL, `values` without
/// it. Calls on several threads may overlap.
class Prepared {
public:
  /// Of `exe`, which has a prepare program; null and `error` where that does
  /// not load.
  /// `hashes`: what no barrier can stand on is hashed. Else such a state does
  /// not hold (`Use::holds`), and the caller does without prepared values.
  static std::unique_ptr<Prepared> load(const PyjitExecutable *exe, bool hashes,
                                        std::string &error);

  struct State;
  /// What one call uses.
  struct Use {
    std::shared_ptr<State> state;
    std::shared_ptr<State> last; ///< what `state` replaces, or null
    bool observed;     ///< `state` is new: its values are still to be found
    bool holds = true; ///< a write to any source will be seen, or looked for
  };

  /// Whether the kept values are those of these inputs, as far as barriers
  /// tell.
  bool isFresh(const at::Tensor *inputs) const {
    return current && fresh(*current, inputs);
  }

  Use begin(const at::Tensor *inputs);
  /// The prepared values; computes them if need be. Throws what the program
  /// throws.
  const at::Tensor *values(const Use &use, const at::Tensor *inputs);
  /// Keeps what the call computed for later calls.
  void end(Use use);
  /// Drops what is kept.
  void forget() { current.reset(); }

  size_t numSources() const { return sources.size(); }
  /// Sources that were hashed at the last call.
  size_t numHashed() const;
  /// The memory that values take: address, or that of an opaque one's object,
  /// and bytes.
  void collectMemory(std::unordered_map<const void *, size_t> &bytes) const;
  /// Bytes of values that others had computed.
  size_t sharedBytes() const;

private:
  struct Source;
  /// What is known of a result of the program. Without a digest it is nobody
  /// else's.
  struct Value {
    std::string digest;
    std::vector<uint32_t> sources; ///< of the program
  };

  Prepared(std::unique_ptr<rt::TorchExecutor> program,
           std::vector<uint32_t> sources, std::vector<Value> known,
           bool hashes);
  bool fresh(State &state, const at::Tensor *inputs) const;
  std::unordered_map<const c10::TensorImpl *, rt::SavedInputs::References>
  countReaders(const at::Tensor *inputs) const;
  bool wantsBarrier(size_t i, const Source *last, const Source &source);
  std::shared_ptr<State> observe(const at::Tensor *inputs);
  void compute(State &state, const at::Tensor *inputs, const State *last);
  /// `last`: values that the new ones may overwrite, or null.
  std::vector<at::Tensor> run(State &state, const std::vector<bool> &wanted,
                              const at::Tensor *inputs,
                              const std::vector<at::Tensor> *last);
  bool isShared(size_t i) const { return !known[i].digest.empty(); }
  SharedValues::Origin originOf(size_t i, const State &state) const;
  bool fits(size_t i, const at::Tensor &value) const;
  void offer(State &state) const;

  std::unique_ptr<rt::TorchExecutor> program;
  /// Indices into the specialization's inputs, in the order of the program's.
  std::vector<uint32_t> sources;
  std::vector<Value> known; ///< by result
  bool hashes;
  /// How often a source's barrier was crossed lately, and for how many calls
  /// its hash has stayed the same.
  struct History {
    uint8_t crossings = 0, calm = 0;
  };
  std::vector<History> histories;
  std::shared_ptr<State> current;
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_PREPARED_H
