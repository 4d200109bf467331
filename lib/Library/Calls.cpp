//===- Calls.cpp - Building and matching vendor calls ---------------------===//

#include "Calls.h"
#include "dialects/pyjit/IR/Attributes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace pyjit;

bool library::isFromParameters(Value value) {
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    auto function = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
    return function &&
           function.getArgAttr(arg.getArgNumber(), attribute::kParam);
  }
  Operation *op = value.getDefiningOp();
  return tssa::mayMove(op) && op->getNumRegions() == 0 &&
         llvm::all_of(op->getOperands(), isFromParameters);
}
