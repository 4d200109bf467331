//===- RepetitionProof.h - Proves that iterations are equal -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_DIALECTS_TSSA_TRANSFORMS_REPETITIONPROOF_H
#define PYJIT_DIALECTS_TSSA_TRANSFORMS_REPETITIONPROOF_H

#include "Repetition.h"

namespace pyjit::tssa {

/// Fewer iterations are no loop.
constexpr int kMinTrips = 4;

/// Compares windows of a sequence operand by operand.
class RepetitionProver {
public:
  RepetitionProver(Sequence &sequence, int minSaved);

  /// Fills in the rest of `found`, of which start and period are given. False
  /// if fewer than `kMinTrips` of `trips` windows are iterations, if a loop of
  /// them would leave out fewer than `minSaved` operations, or if their values
  /// cannot be handed on.
  bool prove(Repetition &found, int trips);

private:
  int compareWindows(Repetition &found, int trips);
  bool checkIndices(const Repetition &found) const;
  bool resolveChains(Repetition &found);
  bool resolveResults(Repetition &found);
  bool collect(Repetition &found, unsigned at, unsigned number);
  bool matchJoin(Repetition &found, const Item &item,
                 llvm::function_ref<mlir::Value(int)> valueOf,
                 Collection &made);
  bool leadsOut(mlir::Value value, const Repetition &found,
                mlir::Operation *except = nullptr);

  std::vector<Item> &items;
  int minSaved;
  llvm::DenseMap<mlir::Operation *, int> position;
};

} // namespace pyjit::tssa

#endif // PYJIT_DIALECTS_TSSA_TRANSFORMS_REPETITIONPROOF_H
