//===- ProgramText.h - flat programs for readers ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_EXECUTABLE_PROGRAMTEXT_H
#define PYJIT_EXECUTABLE_PROGRAMTEXT_H

#include "pyjit-c/Programs.h"
#include "llvm/Support/raw_ostream.h"

namespace pyjit::executable {

/// One instruction per line: `r2 = KEY r0 "relu"`.
void printProgram(const PyjitGuardProgram &program, llvm::raw_ostream &os);
void printProgram(const PyjitMockProgram &program, llvm::raw_ostream &os);

} // namespace pyjit::executable

#endif // PYJIT_EXECUTABLE_PROGRAMTEXT_H
