//===- Validator.h - Whether a launch program is well formed ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RT_HOST_VALIDATOR_H
#define PYJIT_RT_HOST_VALIDATOR_H

#include "pyjit-rt/Program.h"

#include <string>

namespace pyjit::rt {

/// Operands that may wait while an expression of sizes is evaluated.
inline constexpr unsigned kMaxExpressionDepth = 64;

/// Checks every index, every count and the nesting of loops, branches and
/// graphs, so that an executor can follow the program without a check. The
/// sections of the blob must have been checked already. On failure returns
/// false and says in `error` what does not hold.
bool validate(const Program &program, std::string &error);

/// Whether vendor calls alone meet the target of Copy step `index`, and no
/// copy in the rest of its graph writes its source: then the calls may read the
/// source itself.
bool isPatchable(const Program &program, uint32_t index);

} // namespace pyjit::rt

#endif // PYJIT_RT_HOST_VALIDATOR_H
