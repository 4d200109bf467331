//===- Operators.cpp - Facts about operators, behind a C API --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-c/Operators.h"

#include "Objects.h"

#include "pyjit/Operators/Derivatives.h"
#include "pyjit/Operators/OperatorFacts.h"

using namespace pyjit;

PyjitOperatorFacts pyjitOperatorFacts(PyjitString overload) {
  const operators::OperatorFacts &facts =
      operators::lookupFacts(toStringRef(overload));
  PyjitOperatorFacts result;
  result.overwrites = facts.overwrites;
#define PYJIT_CHOICE(Name, name) result.name = Pyjit##Name(facts.name);
#define PYJIT_TEXT(Name, name) result.name = facts.name;
#define PYJIT_FLAG(Name, name) result.name = facts.name;
#include "pyjit-c/OperatorFacts.h.inc"
  return result;
}

bool pyjitOperatorDifferentiable(PyjitString overload, bool ofComplex) {
  return operators::isDifferentiable(toStringRef(overload), ofComplex);
}
