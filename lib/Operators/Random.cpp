//===- Random.cpp - Calls of random operators that draw nothing -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Operators/Random.h"

#include "mlir/IR/BuiltinTypes.h"
#include "pyjit/Operators/OperatorFacts.h"

using namespace mlir;
using namespace pyjit::operators;

bool pyjit::operators::drawsNothing(const OperatorInfo &info, ArrayAttr args) {
  const OperatorFacts &facts = lookupFacts(info.name);
  auto getArgument = [&](const char *name) -> Attribute {
    int index = name ? info.findArgument(name) : -1;
    return index < 0 || index >= int(args.size()) ? Attribute() : args[index];
  };
  if (auto number =
          dyn_cast_or_null<FloatAttr>(getArgument(facts.drawsByProbability)))
    if (number.getValue().isZero())
      return true;
  if (auto flag = dyn_cast_or_null<BoolAttr>(getArgument(facts.drawsByFlag)))
    return !flag.getValue();
  return false;
}
