//===- GuardProgram.h - refgraph.guards as a flat program -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_EXECUTABLE_GUARDPROGRAM_H
#define PYJIT_EXECUTABLE_GUARDPROGRAM_H

#include "pyjit/Executable/ProgramPools.h"

namespace pyjit::executable {

/// Owns a guard program; the C struct points into it and moves with it.
class GuardProgram {
public:
  GuardProgram() = default;
  GuardProgram(GuardProgram &&) = default;
  GuardProgram &operator=(GuardProgram &&) = default;

  const PyjitGuardProgram *get() const { return &program; }
  /// Registers with the objects that the mock needs beside the inputs; numbers
  /// that the guards computed are marked PYJIT_INPUT_NUMBER.
  llvm::ArrayRef<uint32_t> getKept() const { return kept; }

private:
  friend class GuardEncoder;
  std::vector<PyjitInst> watched, always;
  std::vector<PyjitWatch> watches;
  std::vector<uint32_t> inputs, kept;
  ProgramPools pools;
  PyjitGuardProgram program = {};
};

/// Fails, with an error at the op, for what a flat program cannot say.
llvm::LogicalResult encodeGuards(refgraph::GuardsOp guards,
                                 GuardProgram &program);

} // namespace pyjit::executable

#endif // PYJIT_EXECUTABLE_GUARDPROGRAM_H
