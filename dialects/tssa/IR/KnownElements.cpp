//===- KnownElements.cpp - Tensors whose elements are known ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/tssa/IR/KnownElements.h"
#include "dialects/pyjit/IR/Attributes.h"

#include "dialects/tssa/IR/TSSA.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;

/// The same integers elsewhere, or of another width that holds an index.
static bool isCopy(tssa::AtenOp op) {
  if (op.getOverload() != operators::aten::clone &&
      op.getOverload() != operators::aten::_to_copy)
    return false;
  if (op.getInputs().empty()) // of a number
    return false;
  Type element =
      cast<RankedTensorType>(op.getResult(0).getType()).getElementType();
  return element.isSignlessInteger(64) ||
         element == cast<RankedTensorType>(op.getInputs()[0].getType())
                        .getElementType();
}

DenseI64ArrayAttr tssa::getKnownElements(Value tensor) {
  while (Operation *op = tensor.getDefiningOp()) {
    auto call = dyn_cast<AtenOp>(op);
    if (call && isCopy(call))
      tensor = call.getInputs()[0];
    else if (auto access = dyn_cast<AccessOp>(op))
      tensor = access.getSource();
    else
      return {};
  }
  auto argument = cast<BlockArgument>(tensor);
  auto function =
      dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return function ? function.getArgAttrOfType<DenseI64ArrayAttr>(
                        argument.getArgNumber(), attribute::kElements)
                  : DenseI64ArrayAttr();
}
