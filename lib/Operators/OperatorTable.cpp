//===- OperatorTable.cpp - the generated table ----------------------------===//

#include "pyjit/Operators/OperatorInfo.h"

namespace pyjit::operators {

namespace {
#include "lib/Operators/OperatorTable.inc"
} // namespace

llvm::ArrayRef<OperatorInfo> getOperators() { return operators; }

} // namespace pyjit::operators
