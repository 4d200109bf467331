//===- SegmentGradients.cpp - Gradients from one segment to the next ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors that require grad pass from one segment to the next where these go
// one way. Gradients do not flow through arms.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/SegmentComposer.h"
#include "dialects/refgraph/Transforms/TensorNodes.h"

using namespace mlir;

namespace pyjit::refgraph {

/// Looks for writes to memory that other segments, or others still, share.
void SegmentComposer::noteShared(TraceOp segment) {
  DenseSet<Value> own;
  segment.walk([&](TensorOp call) {
    auto isOwn = [&](int64_t i) { return own.contains(call.getInputs()[i]); };
    if (!llvm::all_of(call.getMutates(), isOwn))
      sharedWrite = call;
    if (llvm::all_of(call.getAliases(), isOwn) &&
        llvm::all_of(call.getMutates(), isOwn))
      own.insert(call.getResults().begin(), call.getResults().end());
  });
}

/// Views of what requires grad do, too, where they are made with grad mode on
/// and are of numbers that have gradients. (Else no operator says that
/// gradients end at it.)
bool SegmentComposer::requiresGrad(Value tensor) const {
  auto mode = state ? state.getAs<BoolAttr>("grad_mode") : BoolAttr();
  bool gradMode = mode && mode.getValue();
  for (Value value = getNode(tensor); !differentiable.contains(value);) {
    if (auto get = value.getDefiningOp<GetOp>())
      return gradMode && get.getRequiresGrad().value_or(false);
    Value source = getGradientSource(value);
    if (!source)
      return false;
    value = getNode(source);
  }
  return true;
}

/// What a segment leaves, the next begins with as a tensor that requires grad:
/// of the trace it is a tensor like any others.
LogicalResult SegmentComposer::appendGradient(DifferentiableOp op,
                                              OpBuilder &body) {
  if (gradientsEnded || isa<IfOp>(body.getBlock()->getParentOp()))
    return op.emitError("stays a graph break: a segment leaves a tensor that "
                        "requires grad");
  auto copy = cast<DifferentiableOp>(body.clone(*op, mapping));
  differentiable.insert(getNode(copy.getTensor()));
  return success();
}

LogicalResult SegmentComposer::checkGradients() {
  if (hasGradients() && sharedWrite)
    return trace.emitError(
        "stays a graph break: a segment leaves a tensor that "
        "requires grad, and one writes memory that it has "
        "not made");
  return success();
}

} // namespace pyjit::refgraph
