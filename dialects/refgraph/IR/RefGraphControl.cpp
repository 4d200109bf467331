//===- RefGraphControl.cpp - verifiers of decisions and loops -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/refgraph/IR/RefGraphSyntax.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace pyjit::refgraph {

ParseResult parseOutcome(OpAsmParser &parser, BoolAttr &outcome) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  if (!llvm::is_contained({"true", "false", "open"}, keyword))
    return parser.emitError(loc, "expected 'true', 'false' or 'open'");
  if (keyword != "open")
    outcome = parser.getBuilder().getBoolAttr(keyword == "true");
  return success();
}

void printOutcome(OpAsmPrinter &printer, Operation *, BoolAttr outcome) {
  printer << (!outcome ? "open" : outcome.getValue() ? "true" : "false");
}

/// Python's `bool` of a tensor with more than one element raises.
static LogicalResult verifyCondition(Operation *op, Value condition) {
  auto type = cast<TensorType>(condition.getType());
  std::optional<int64_t> count = type.getNumElements().getConstant();
  if (!count)
    return op->emitOpError("decides on ") << type;
  if (*count != 1)
    return op->emitOpError("decides on ") << *count << " elements of " << type;
  return success();
}

LogicalResult DecideOp::verify() {
  return verifyCondition(*this, getCondition());
}

LogicalResult SpeculateOp::verify() {
  return verifyCondition(*this, getFlag());
}

LogicalResult WhileOp::verifyRegions() {
  if (failed(verifyCondition(*this, getCondition())))
    return failure();
  Block &block = getBody().front();
  auto next =
      block.empty() ? NextOp() : dyn_cast<NextOp>(block.getTerminator());
  if (!next)
    return emitOpError("must end with 'refgraph.next'");
  for (Operation &op : block)
    if (!isa<TensorOp, WhileOp, IfOp, NextOp>(op))
      return op.emitOpError("does not belong in '")
             << getOperationName() << "'";
  if (failed(verifyCondition(next, next.getCondition())))
    return failure();
  if (next.getCondition().getType() != getCondition().getType())
    return next.emitOpError("has a condition of type ")
           << next.getCondition().getType() << ", not "
           << getCondition().getType();
  SmallVector<Type> types(getInits().getTypes());
  auto same = [&](TypeRange other, StringRef what) -> LogicalResult {
    if (llvm::equal(types, other))
      return success();
    return emitOpError("carries tensors of other types than its ") << what;
  };
  return failure(failed(same(block.getArgumentTypes(), "block arguments")) ||
                 failed(same(next.getValues().getTypes(), "next values")) ||
                 failed(same(getResultTypes(), "results")));
}

LogicalResult IfOp::verifyRegions() {
  if (failed(verifyCondition(*this, getCondition())))
    return failure();
  for (Region &arm : getOperation()->getRegions()) {
    Block &block = arm.front();
    auto yield =
        block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.getTerminator());
    if (!yield || block.getNumArguments())
      return emitOpError("has arms that take nothing and end with "
                         "'refgraph.yield'");
    for (Operation &op : block)
      if (!isa<TensorOp, WhileOp, IfOp, YieldOp>(op))
        return op.emitOpError("does not belong in '")
               << getOperationName() << "'";
    if (!llvm::equal(yield.getValues().getTypes(), getResultTypes()))
      return yield.emitOpError("hands out tensors of other types than the "
                               "results of 'refgraph.if'");
  }
  return success();
}

} // namespace pyjit::refgraph
