//===- DropRates.h - Probabilities that composites hand on ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `dropout` is recorded as its parts, and what these are given ATen computes of
// the probability, in C++ (`noise.bernoulli_(1 - p).div_(1 - p)`): literals
// like any other. A probability that differs between calls is followed into
// them.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_NUMBERS_DROPRATES_H
#define PYJIT_CAPTURE_NUMBERS_DROPRATES_H

#include "pyjit-c/Operators.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace pyjit::capture {

class Recording;

/// A composite operator is about to run whose parts will be recorded. False:
/// the running instruction's numbers are not followed into them.
bool followRate(Recording &recording, const PyjitOperatorFacts &facts,
                const c10::FunctionSchema &schema,
                const std::vector<c10::IValue> &inputs);

/// Argument `i` of a recorded part: the value that is computed of the
/// probability, or -1.
int findOfRate(Recording &recording, const std::string &overload,
               const std::vector<c10::IValue> &inputs, size_t i);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_NUMBERS_DROPRATES_H
