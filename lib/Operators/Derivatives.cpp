//===- Derivatives.cpp - the generated column -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Operators/Derivatives.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorInfo.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace pyjit::operators {

namespace {
#include "lib/Operators/OperatorDerivatives.inc"

struct ByOverload {
  bool operator()(const Derivative &a, StringRef b) const {
    return a.overload < b;
  }
  bool operator()(StringRef a, const Derivative &b) const {
    return a < b.overload;
  }
};
} // namespace

ArrayRef<Derivative> lookupDerivatives(StringRef overload) {
  auto [first, last] = std::equal_range(
      std::begin(derivatives), std::end(derivatives), overload, ByOverload());
  return {first, last};
}

ArrayRef<Derivative> getDerivatives() { return derivatives; }

bool isDifferentiable(StringRef overload, bool ofComplex) {
  const OperatorFacts &facts = lookupFacts(overload);
  if (!lookupDerivatives(overload).empty() ||
      facts.gradientRule != GradientRule::None)
    return !ofComplex || facts.complexGradient != ComplexGradient::None;
  const OperatorInfo *info = lookupOperator(overload);
  if (!info)
    return false;
  if (info->lowering == Lowering::InPlace)
    return isDifferentiable(info->functional, ofComplex);
  return info->lowering == Lowering::View;
}

} // namespace pyjit::operators
