//===- HandedNumbers.cpp - Numbers that composites hand on ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "numbers/HandedNumbers.h"

#include "Recording.h"
#include "numbers/LiftedArguments.h"

#include <ATen/core/Tensor.h>

#include <optional>

using namespace pyjit;
using namespace pyjit::capture;

/// With smoothed labels a loss compares its labels with the int itself.
static bool smoothsLabels(const c10::FunctionSchema &schema,
                          const std::vector<c10::IValue> &inputs) {
  auto place = schema.argumentIndexWithName("label_smoothing");
  return place &&
         (!inputs[*place].isDouble() || inputs[*place].toDouble() != 0);
}

/// What the parts may be given as a number of each call: an int, or a float
/// where they are the CPU's.
static std::optional<rt::Number>
numberAt(const std::vector<c10::IValue> &inputs, size_t place) {
  const c10::IValue &input = inputs[place];
  if (input.isInt())
    return rt::Number::of(int64_t(input.toInt()));
  if (input.isDouble() && inputs[0].isTensor() && inputs[0].toTensor().is_cpu())
    return rt::Number::of(input.toDouble());
  return std::nullopt;
}

bool pyjit::capture::followHanded(Recording &recording,
                                  const PyjitOperatorFacts &facts,
                                  const c10::FunctionSchema &schema,
                                  const std::vector<c10::IValue> &inputs) {
  OperatorUse *use = recording.scalars.use();
  if (!use || use->composite)
    return false;
  if (use->handed)
    return true; // on the way to the part
  if (!facts.handsOn || use->name != functionOf(schema.name()) ||
      smoothsLabels(schema, inputs))
    return false;
  auto place = schema.argumentIndexWithName(facts.handsOn);
  auto number = place ? numberAt(inputs, *place) : std::nullopt;
  if (!number)
    return false;
  use->handed = use->findGiven(recording.scalars, schema, *place, *number);
  return use->handed;
}

PyObject *pyjit::capture::findHandedNumber(
    Recording &recording, const PyjitOperatorFacts &facts,
    const c10::FunctionSchema &schema, const std::vector<c10::IValue> &inputs,
    size_t i) {
  OperatorUse *use = recording.scalars.use();
  if (!use || !use->handed || use->composite || !facts.handsOn ||
      i >= schema.arguments().size() ||
      schema.arguments()[i].name() != facts.handsOn)
    return nullptr;
  auto number = numberAt(inputs, i);
  // An int has its place among the sizes.
  if (!number || (!number->isFloat && !recording.sizes.followed) ||
      number->bits() != recording.scalars.numberOf(use->handed->number)->bits())
    return nullptr;
  use->handed->used = true;
  return use->handed->number;
}
