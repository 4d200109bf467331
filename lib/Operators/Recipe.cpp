//===- Recipe.cpp - how one call computes its result ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that a call is one that the operator table speaks of, and has the walk
// over its expression (Resolver.h) write the steps.
//
//===----------------------------------------------------------------------===//

#include "pyjit/Operators/Recipe.h"
#include "Resolver.h"
#include "pyjit/Operators/ElementTypes.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace pyjit::operators {

static bool isComplex(Type type) { return isa<ComplexType>(type); }

FailureOr<Recipe> Resolver::run() {
  for (Type operand : operands) {
    auto tensor = dyn_cast<RankedTensorType>(operand);
    if (!tensor || isComplex(tensor.getElementType()))
      return failure();
  }
  if (isComplex(result.getElementType()))
    return failure();
  // The rule and the call must agree on the result's type: eager's word counts,
  // and where the two differ we have misunderstood something.
  Type byRule = inferResultElementType(info, args, operands, defaultFloat);
  if (byRule && byRule != result.getElementType())
    return failure();

  switch (info.compute) {
  case ComputeRule::Result:
    common = result.getElementType();
    break;
  case ComputeRule::Promote:
    common = getCommonType(info, args, operands, defaultFloat);
    break;
  case ComputeRule::Self:
    if (!operands.empty())
      common = cast<RankedTensorType>(operands[0]).getElementType();
    break;
  }
  if (!common)
    return failure();
  compute = getComputeType(common);

  FailureOr<Value> value = eval(compute);
  if (failed(value) || failed(finish(*value)))
    return failure();
  return recipe;
}

FailureOr<Recipe> resolveRecipe(StringRef overload, ArrayAttr args,
                                TypeRange operands, RankedTensorType result,
                                const CallPlace &place) {
  const OperatorInfo *info = lookupOperator(overload);
  if (!info || info->lowering != Lowering::Recipe ||
      info->arguments.size() != args.size())
    return failure();
  return Resolver(*info, args, operands, result, place).run();
}

void print(llvm::raw_ostream &os, const Recipe &recipe) {
  for (auto [i, step] : llvm::enumerate(recipe.steps)) {
    os << "step " << i << " [";
    llvm::interleaveComma(step.shape, os);
    os << "]";
    if (step.isReduction) {
      os << " " << stringify(step.combine) << " over [";
      llvm::interleaveComma(step.reducedDims, os);
      os << "] from " << step.init;
    }
    os << ": ";
    print(os, step.expr);
    os << "\n";
    for (auto [j, input] : llvm::enumerate(step.inputs))
      os << "  " << j << " = " << (input.isStep ? "step " : "operand ")
         << input.number << " " << input.map << "\n";
  }
}

} // namespace pyjit::operators
