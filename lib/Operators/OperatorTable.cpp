//===- OperatorTable.cpp - the generated table ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/Raises.h"

#include <algorithm>

namespace pyjit::operators {

namespace {
#include "lib/Operators/OperatorTable.inc"
} // namespace

llvm::ArrayRef<OperatorInfo> getOperators() { return operators; }

Raising lookupRaising(llvm::StringRef overload) {
  const auto *found =
      std::lower_bound(std::begin(raising), std::end(raising), overload,
                       [](const auto &entry, llvm::StringRef name) {
                         return entry.first < name;
                       });
  bool known = found != std::end(raising) && found->first == overload;
  return known ? found->second : Raising::Never;
}

bool mayRaise(llvm::StringRef overload, mlir::Type element) {
  switch (lookupRaising(overload)) {
  case Raising::Never:
    return false;
  case Raising::WithIntegers:
    return element.isIntOrIndex();
  case Raising::Always:
    return true;
  }
  llvm_unreachable("unknown kind");
}

} // namespace pyjit::operators
