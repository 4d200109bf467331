//===- OperatorTable.cpp - the generated table ----------------------------===//

#include "pyjit/Operators/OperatorInfo.h"
namespace pyjit::operators {
llvm::ArrayRef<OperatorInfo> getOperators() { return {}; }
} // namespace pyjit::operators
