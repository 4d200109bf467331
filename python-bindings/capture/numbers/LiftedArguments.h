//===- LiftedArguments.h - Lifted numbers in an operator's call -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dispatcher shows an operator's arguments as plain numbers. Which of them
// are numbers whose value may differ between calls (Scalars.h) is found here,
// from what the running instruction hands to its Python function: such a number
// is told by its keyword, by its place, or by being the only one of its value.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_LIFTEDARGUMENTS_H
#define PYJIT_CAPTURE_LIFTEDARGUMENTS_H

#include "numbers/Scalars.h"
#include "pyjit-c/Operators.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace pyjit::capture {

/// "add" of "aten::add_.Tensor": what it computes, in place or not.
std::string functionOf(const std::string &overload);

/// Of each argument the lifted number that it is, or null. To be asked once for
/// each operator: only an instruction's first one can be told.
std::vector<PyObject *>
findLiftedNumbers(Scalars &scalars, const std::string &overload,
                  const PyjitOperatorFacts &facts,
                  const c10::FunctionSchema &schema,
                  const std::vector<c10::IValue> &inputs);

/// Likewise of an operator on lists of tensors, whose Python function takes
/// what its schema says: of each argument the lifted numbers among its
/// elements, or the one that it is; none for the others.
std::vector<std::vector<PyObject *>>
findLiftedElements(Scalars &scalars, const c10::FunctionSchema &schema,
                   const std::vector<c10::IValue> &inputs);

/// Likewise for ints that are sizes, positions or numbers of elements: of each
/// argument the lifted numbers among its elements, null for the others. To be
/// asked after `findLiftedNumbers`, where sizes are followed.
std::vector<std::vector<PyObject *>>
findLiftedSizes(Scalars &scalars, const std::string &overload,
                const PyjitOperatorFacts &facts,
                const c10::FunctionSchema &schema,
                const std::vector<c10::IValue> &inputs);

/// A number becomes one of this type, which eager checks.
void keepWithin(Scalars &scalars, PyObject *number, at::ScalarType type);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_LIFTEDARGUMENTS_H
