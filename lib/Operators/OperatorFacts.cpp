//===- OperatorFacts.cpp - the generated facts ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorInfo.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace pyjit::operators;

namespace {

/// Of an overload, of all overloads of an operator, or of all operators of a
/// library; each includes what holds of those that it belongs to.
struct FactRow {
  StringRef name;
  OperatorFacts facts;
};

#include "lib/Operators/OperatorFacts.inc"

const OperatorFacts *findRow(ArrayRef<FactRow> rows, StringRef name) {
  const FactRow *found =
      llvm::lower_bound(rows, name, [](const FactRow &row, StringRef name) {
        return row.name < name;
      });
  return found != rows.end() && found->name == name ? &found->facts : nullptr;
}

} // namespace

const OperatorFacts &pyjit::operators::lookupFacts(StringRef overload) {
  static constexpr OperatorFacts none;
  if (const OperatorFacts *facts = findRow(factsOfOverloads, overload))
    return *facts;
  // The dot behind the namespace begins the overload's own name.
  if (const OperatorFacts *facts =
          findRow(factsOfOperators, overload.split('.').first))
    return *facts;
  const OperatorFacts *facts =
      findRow(factsOfLibraries, overload.split("::").first);
  return facts ? *facts : none;
}

ArrayRef<FactStatement> pyjit::operators::getFactStatements() {
  return factStatements;
}

bool pyjit::operators::isCostly(StringRef overload) {
  return lookupFacts(overload).costly;
}
