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

/// Whether leaving Copy step `index` out makes no difference where the launches
/// of its graph use the external buffer instead of what stands in for it:
/// vendor calls alone meet the target, and no copy in the rest of the graph
/// writes the source; or the target is an output, and its graph alone meets the
/// source.
bool isPatchable(const Program &program, uint32_t index);

} // namespace pyjit::rt

#endif // PYJIT_RT_HOST_VALIDATOR_H
