//===- Calls.cpp - Building and matching vendor calls ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Calls.h"
#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Operators/ElementTypes.h"
#include "pyjit/Operators/OperatorNames.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace pyjit;

/// Whether the program itself writes the input.
static bool isUpdated(func::FuncOp function, unsigned input) {
  auto updates = function->getAttrOfType<ArrayAttr>(attribute::kUpdates);
  return updates &&
         llvm::any_of(updates.getAsRange<DenseI64ArrayAttr>(),
                      [&](auto update) { return update[1] == input; });
}

bool library::isRowMajorF32(Value value) {
  return typeOf(value).getElementType().isF32() && !typeOf(value).getEncoding();
}

Value library::transposedBy(Value value) {
  auto access = value.getDefiningOp<tssa::AccessOp>();
  if (!access || access.getPath().size() != 1 ||
      typeOf(access.getSource()).getRank() != 2 ||
      typeOf(access.getSource()).getEncoding())
    return nullptr;
  auto view = cast<tssa::ViewAttr>(access.getPath()[0]);
  return view.getKind() == tssa::ViewKind::permute &&
                 view.getParams() == ArrayRef<int64_t>{1, 0}
             ? access.getSource()
             : nullptr;
}

Value library::toDtype(CallBuilder &calls, Value value, RankedTensorType type) {
  return calls.call(
      operators::aten::to_dtype,
      {value, calls.integer(operators::getScalarType(type.getElementType())),
       calls.boolean(false), calls.boolean(false), calls.none()},
      type);
}

bool library::isLastingParameter(BlockArgument arg) {
  auto function = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
  unsigned number = arg.getArgNumber();
  return function && function.getArgAttr(number, attribute::kParam) &&
         !function.getArgAttr(number, attribute::kTrained) &&
         !isUpdated(function, number);
}

bool library::isWorthPacking(Value value) {
  // So often a packed weight is used in one call that it pays to pack it in
  // each call.
  constexpr unsigned kUses = 4;
  if (auto arg = dyn_cast<BlockArgument>(value))
    return isLastingParameter(arg) ||
           (isFromParameters(arg) && arg.hasNUsesOrMore(kUses));
  return isFromParameters(value) &&
         llvm::all_of(value.getDefiningOp()->getOperands(), isWorthPacking);
}

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
