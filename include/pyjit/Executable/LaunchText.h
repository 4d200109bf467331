//===- LaunchText.h - Launch programs for readers ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_EXECUTABLE_LAUNCHTEXT_H
#define PYJIT_EXECUTABLE_LAUNCHTEXT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace pyjit::executable {

/// Writes a launch program (`LaunchProgram::blob`) as text: one line per slot,
/// then one per step, loops and branches indented. A blob of another version
/// is said to be one.
void printLaunch(llvm::StringRef blob, llvm::raw_ostream &os);

} // namespace pyjit::executable

#endif // PYJIT_EXECUTABLE_LAUNCHTEXT_H
