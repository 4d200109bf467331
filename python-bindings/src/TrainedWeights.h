//===- TrainedWeights.h - Packed weights that require grad ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The main program of a call in grad mode packs weights that require grad
// anew, for a training loop has written them since the last call: whatever
// watches them for writes costs such a loop more than it gains. A program that
// runs in grad mode and does not train, because somebody forgot
// `torch.no_grad()`, pays for that in each call. So calls that find weights
// with the versions that they had are counted, and after some of them a second
// main program is compiled that takes packed weights from call to call, under
// the same write barriers as without gradients (Prepared.h). Versions only
// decide whether that is worth a try; no answer depends on them.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_PYTHON_TRAINEDWEIGHTS_H
#define PYJIT_PYTHON_TRAINEDWEIGHTS_H

#include "Prepared.h"

#include "pyjit-c/Compiler.h"
#include "pyjit-rt/BackwardProgram.h"

#include <memory>
#include <optional>
#include <vector>

namespace pyjit::python {

/// When packed weights are kept and when not, by what calls find.
class KeepingPolicy {
public:
  /// A call without kept weights. `version`: a number that differs when weights
  /// were written, in most cases. True: they are to be kept from now on.
  bool noteVersion(uint64_t version);
  /// Weights are packed for the first time, or again because somebody wrote
  /// them. False: that was so in too many calls, they are not to be kept.
  bool notePacking();
  /// A call for which nothing had to be packed.
  void noteUse() { ++uses; }
  /// They are not kept any more, or cannot be: the next try is to come later.
  void giveUp();

private:
  uint64_t last = 0;
  unsigned calm = 0; ///< calls that found the version of the call before
  unsigned wait = kFirstWait;
  unsigned uses = 0; ///< since they were packed
  unsigned vain = 0; ///< packings in a row that few calls used
  bool packed = false;

  /// Calls until weights are taken to stay as they are; twice as many after
  /// each time that they did not, up to the limit.
  static constexpr unsigned kFirstWait = 8, kLongestWait = 4096;
  /// Calls that make up for finding out that weights were written, and how
  /// often in a row there may be fewer.
  static constexpr unsigned kWorth = 2, kVain = 3;
};

/// The second main program of a specialization. Everything but the compilation
/// itself is done with the GIL.
class TrainedWeights {
public:
  /// Null where the main program packs no weights that require grad. `main`
  /// and `backward` outlive it.
  static std::unique_ptr<TrainedWeights>
  create(std::shared_ptr<PyjitExecutable> exe, rt::TorchExecutor &main,
         std::shared_ptr<const rt::BackwardProgram> backward);

  /// Whether this call takes packed weights that are kept, and which; nothing:
  /// it is the first main program's.
  std::optional<Prepared::Use> begin(const at::Tensor *inputs);
  /// With what `begin` gave.
  Prepared &values() { return *prepared; }
  rt::TorchExecutor &launch() { return *program; }

  /// Whether the second program is to be compiled, which takes about as long as
  /// the first one took: behind a call that is answered.
  bool wantsCompilation() const { return state == State::Wanted; }
  /// Lets other threads run meanwhile.
  void compile(rt::Interruption::Ask onInterrupt);

  /// Of the present state, for readers.
  size_t numPrepared() const {
    return state == State::Kept ? prepared->numSources() : 0;
  }
  /// Null while nothing is kept.
  const Prepared *kept() const {
    return state == State::Kept ? prepared.get() : nullptr;
  }

private:
  enum class State {
    Watched,   ///< each call packs; versions are looked at
    Wanted,    ///< the second program is to be compiled
    Compiling, ///< by some thread
    Kept,      ///< the second program answers
    None       ///< there is nothing to keep
  };
  uint64_t versionOf(const at::Tensor *inputs) const;

  std::shared_ptr<PyjitExecutable> exe, second;
  rt::TorchExecutor *main;
  std::shared_ptr<const rt::BackwardProgram> backward;
  std::unique_ptr<rt::TorchExecutor> program;
  std::unique_ptr<Prepared> prepared;
  KeepingPolicy policy;
  State state = State::Watched;
  uint32_t first = 0, last = 0; ///< inputs whose versions are looked at
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_TRAINEDWEIGHTS_H
