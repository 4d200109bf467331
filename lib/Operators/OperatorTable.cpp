//===- OperatorTable.cpp - the generated table ----------------------------===//

#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/Raises.h"

#include <algorithm>

namespace pyjit::operators {

namespace {
#include "lib/Operators/OperatorTable.inc"
} // namespace

llvm::ArrayRef<OperatorInfo> getOperators() { return operators; }

bool mayRaise(llvm::StringRef overload) {
  return std::binary_search(std::begin(raising), std::end(raising), overload);
}

} // namespace pyjit::operators
