//===- OperatorInfo.cpp - what is known of each ATen overload -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Operators/OperatorInfo.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;
namespace pyjit::operators {

const OperatorInfo *lookupOperator(StringRef name) {
  ArrayRef<OperatorInfo> operators = getOperators();
  const OperatorInfo *found = llvm::lower_bound(
      operators, name, [](const OperatorInfo &info, StringRef name) {
        return info.name < name;
      });
  return found != operators.end() && found->name == name ? found : nullptr;
}

} // namespace pyjit::operators
