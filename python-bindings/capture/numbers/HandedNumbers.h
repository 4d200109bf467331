//===- HandedNumbers.h - Numbers that composites hand on --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cross_entropy` is recorded as its parts, which are given the class to ignore
// as Python gave it: a literal like any other. So is a batch norm's momentum. A
// number that differs between calls is followed into them by its place in the
// schemas (the fact `HandsOn`), not by its value: another one may have the
// same.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_NUMBERS_HANDEDNUMBERS_H
#define PYJIT_CAPTURE_NUMBERS_HANDEDNUMBERS_H

#include "pyjit-c/Operators.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace pyjit::capture {

class Recording;

/// A composite operator is about to run whose parts will be recorded. False:
/// the running instruction's numbers are not followed into them.
bool followHanded(Recording &recording, const PyjitOperatorFacts &facts,
                  const c10::FunctionSchema &schema,
                  const std::vector<c10::IValue> &inputs);

/// Argument `i` of a recorded part: the number that a composite handed on to
/// it, or null.
PyObject *findHandedNumber(Recording &recording,
                           const PyjitOperatorFacts &facts,
                           const c10::FunctionSchema &schema,
                           const std::vector<c10::IValue> &inputs, size_t i);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_NUMBERS_HANDEDNUMBERS_H
