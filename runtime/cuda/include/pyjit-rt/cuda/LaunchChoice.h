//===- LaunchChoice.h - Which way to launch is the fastest ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides it from the times of the program's own calls. Each call is launched
// once, in the way that is asked for here: a program may have effects that
// nobody knows of (an operator of the user's with a counter in it).
//
// A device is busy with other processes at times, so a way is not judged by
// calls that stand next to each other: a *look* takes a call of each way, then
// leaves calls out, more after each round, and compares the lower quartiles.
// Later it looks again, at distances that grow and that keep the cost of
// looking small.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_CUDA_LAUNCHCHOICE_H
#define PYJIT_RT_CUDA_LAUNCHCHOICE_H

#include "pyjit-rt/Launch.h"

#include <array>
#include <string>
#include <vector>

namespace pyjit::rt::cuda {

class LaunchChoice {
public:
  /// `candidates`: a bit for each variant that the program offers; Plain always
  /// is one. `dropSlow`: some may be hundreds of times slower than others: one
  /// time is enough to leave them out of a look.
  LaunchChoice(uint32_t candidates, bool dropSlow);

  /// How the next call is to be launched.
  Variant next() const;
  /// Whether its time is wanted. If not, or where it cannot be taken, `passed`.
  bool wantsTime() const { return looking && gap == 0; }
  /// A call of `next()` took so long, waiting for the device included.
  void timed(double seconds);
  /// A call of `next()` prepared later ones (it captured graphs, say).
  void prepared(double seconds);
  /// A call of any variant that nothing is known of.
  void passed();
  /// `next()` cannot be had, as far as this look is concerned.
  void failed(std::string why);
  /// Until the first look, which is later then: as a program of its kind chose.
  void assume(Variant variant);
  /// From now on, without measuring.
  void fix(Variant variant);

  /// The best so far.
  Variant chosen() const { return best; }
  /// Whether no other way will be asked for until the next look.
  bool decided() const { return !looking; }
  /// Whether `next` may be this one before the next look.
  bool mayAskFor(Variant variant) const;
  bool isFixed() const { return fixed; }
  /// Seconds, of the last look; 0: not measured.
  double figure(Variant variant) const { return figures[unsigned(variant)]; }
  /// Why a way could not be had; empty: it could.
  const std::string &failure(Variant variant) const {
    return failures[unsigned(variant)];
  }
  unsigned numLooks() const { return looks; }

private:
  void beginLook();
  void goOn();
  void compare();
  void endLook();

  uint32_t offered;
  bool dropSlow;
  bool looking = true, fixed = false;
  Variant best = Variant::Plain;
  std::vector<Variant> candidates; ///< of this look
  size_t turn = 0;                 ///< into candidates
  unsigned round = 0, looks = 0;
  uint64_t gap = 0; ///< calls until the next round or look
  double spent = 0; ///< seconds, on this look
  std::array<std::vector<double>, kNumVariants> times;
  std::array<double, kNumVariants> figures{};
  std::array<std::string, kNumVariants> failures;
};

} // namespace pyjit::rt::cuda

#endif // PYJIT_RT_CUDA_LAUNCHCHOICE_H
