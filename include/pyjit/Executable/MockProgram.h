//===- MockProgram.h - refgraph.mock as a flat program ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_EXECUTABLE_MOCKPROGRAM_H
#define PYJIT_EXECUTABLE_MOCKPROGRAM_H

#include "pyjit/Executable/GuardProgram.h"

namespace pyjit::executable {

/// Owns a mock program; the C struct points into it and moves with it.
class MockProgram {
public:
  MockProgram() = default;
  MockProgram(MockProgram &&) = default;
  MockProgram &operator=(MockProgram &&) = default;

  const PyjitMockProgram *get() const { return &program; }

private:
  friend class MockEncoder;
  std::vector<PyjitInst> insts;
  ProgramPools pools;
  PyjitMockProgram program = {};
};

/// Encodes the mock over the register file of `guards`, its specialization's
/// guards.
llvm::LogicalResult encodeMock(refgraph::MockOp mock,
                               const GuardProgram &guards,
                               MockProgram &program);

/// Both programs of a specialization.
llvm::LogicalResult encodeSpecialization(refgraph::GuardsOp guards,
                                         refgraph::MockOp mock,
                                         GuardProgram &guardProgram,
                                         MockProgram &mockProgram);

} // namespace pyjit::executable

#endif // PYJIT_EXECUTABLE_MOCKPROGRAM_H
