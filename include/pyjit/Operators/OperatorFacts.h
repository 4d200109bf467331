//===- OperatorFacts.h - what no schema states of operators -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generated from lib/Operators/Facts.td; each fact's meaning is with its class
// in lib/Operators/OperatorBase.td.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_OPERATORS_OPERATORFACTS_H
#define PYJIT_OPERATORS_OPERATORFACTS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace pyjit::operators {

// Facts that are one of several: `SizeRule::Pointwise`.
#define PYJIT_BEGIN(Kind) enum class Kind : uint8_t { None,
#define PYJIT_VALUE(Kind, Value) Value,
#define PYJIT_END(Kind)                                                        \
  }                                                                            \
  ;
#include "pyjit-c/OperatorFacts.h.inc"

/// A field for each kind of fact: `sizeRule`, `pythonName`, `keptWhole`.
struct OperatorFacts {
  /// The operand whose contents the call does not read, or -1.
  int8_t overwrites = -1;
#define PYJIT_CHOICE(Name, name) Name name = Name::None;
#define PYJIT_TEXT(Name, name) const char *name = nullptr; ///< null: none
#define PYJIT_FLAG(Name, name) bool name = false;
#include "pyjit-c/OperatorFacts.h.inc"
};

/// Of an overload ("aten::add.Tensor"), which needs no record in the table.
const OperatorFacts &lookupFacts(llvm::StringRef overload);

/// As Facts.td has it.
struct FactStatement {
  llvm::StringRef kind;
  llvm::StringRef value;     ///< empty where the fact is a flag
  llvm::StringRef operators; ///< with spaces between
};
llvm::ArrayRef<FactStatement> getFactStatements();

} // namespace pyjit::operators

#endif // PYJIT_OPERATORS_OPERATORFACTS_H
