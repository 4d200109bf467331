//===- ChannelsLast.cpp - Handing a layout on -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ChannelsLast.h"

#include "Calls.h"

#include "dialects/tssa/IR/Views.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

RankedTensorType library::channelsLast(RankedTensorType type) {
  ArrayRef<int64_t> s = type.getShape();
  return tssa::getTensorType(s, {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]},
                             type.getElementType());
}

namespace {

bool keepsLayout(tssa::AtenOp op) {
  return op->getNumResults() == 1 &&
         operators::lookupFacts(functionalName(op)).keepsLayout;
}

bool takesAnyLayout(Operation *op) {
  // A matmul of our own.
  if (isa<linalg::GenericOp>(op))
    return true;
  auto call = dyn_cast<tssa::AtenOp>(op);
  if (!call)
    return false;
  // 2: torch.channels_last, whatever it is a copy of.
  if (call.getOverload() == operators::aten::clone)
    return numberArgument(call, 1) == 2.0;
  return operators::lookupFacts(call.getOverload()).givesChannelsLast;
}

} // namespace

void library::handOnLayout(Value value, RankedTensorType recorded) {
  Value copy;
  for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
    Operation *user = use.getOwner();
    if (takesAnyLayout(user))
      continue;
    auto call = dyn_cast<tssa::AtenOp>(user);
    if (call && keepsLayout(call)) {
      auto type = cast<RankedTensorType>(call.getResult(0).getType());
      if (type.getRank() == 4 && type != channelsLast(type)) {
        call.getResult(0).setType(channelsLast(type));
        handOnLayout(call.getResult(0), type);
      }
      continue;
    }
    if (!copy) {
      OpBuilder builder(value.getContext());
      builder.setInsertionPointAfterValue(value);
      CallBuilder calls(builder, value.getLoc());
      // 0: torch.contiguous_format. The recorded layout is row-major, or the
      // runtime's check of vendor results restores it.
      copy = calls.call(operators::aten::clone, {value, calls.integer(0)},
                        recorded);
    }
    use.set(copy);
  }
}
