//===- HandedInts.cpp - Ints that composites hand on ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "numbers/HandedInts.h"

#include "Recording.h"
#include "numbers/LiftedArguments.h"

using namespace pyjit;
using namespace pyjit::capture;

/// With smoothed labels a loss compares its labels with the int itself.
static bool smoothsLabels(const c10::FunctionSchema &schema,
                          const std::vector<c10::IValue> &inputs) {
  auto place = schema.argumentIndexWithName("label_smoothing");
  return place &&
         (!inputs[*place].isDouble() || inputs[*place].toDouble() != 0);
}

bool pyjit::capture::followInt(Recording &recording,
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
  if (!place || !inputs[*place].isInt())
    return false;
  use->handed = use->findGiven(recording.scalars, schema, *place,
                               rt::Number::of(inputs[*place].toInt()));
  return use->handed;
}

PyObject *pyjit::capture::findHandedInt(Recording &recording,
                                        const PyjitOperatorFacts &facts,
                                        const c10::FunctionSchema &schema,
                                        const std::vector<c10::IValue> &inputs,
                                        size_t i) {
  OperatorUse *use = recording.scalars.use();
  if (!use || !use->handed || use->composite || !facts.handsOn ||
      schema.arguments()[i].name() != facts.handsOn || !inputs[i].isInt())
    return nullptr;
  use->handed->used = true;
  return use->handed->number;
}
