//===- ParallelizeLoops.cpp - Loops whose iterations do not meet ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: functional tssa in; out, the same with `tssa.parallel` on loops
// whose iterations may run in any order. In doubt a loop is left as it is.
//
//===----------------------------------------------------------------------===//

#include "dialects/tssa/Transforms/Passes.h"

#include "dialects/tssa/IR/Views.h"

#include "mlir/IR/Matchers.h"

namespace pyjit::tssa {
#define GEN_PASS_DEF_PARALLELIZELOOPSPASS
#include "dialects/tssa/Transforms/Passes.h.inc"
} // namespace pyjit::tssa

using namespace mlir;
using namespace pyjit::tssa;

namespace {

/// Whether the parts that a path shows for two values of `index` never meet:
/// its first step, before anything reorders elements, selects that index.
template <typename Op> bool isAt(Op op, Value index) {
  if (op.getPath().empty() || op.getIndices().empty() ||
      op.getIndices().front() != index)
    return false;
  auto first = cast<ViewAttr>(op.getPath()[0]);
  return first.getKind() == ViewKind::select && first.getNumDynamic() == 1;
}

/// Whether each iteration reads and replaces only its own part of `carried`.
bool isOwnPart(scf::ForOp loop, BlockArgument carried, Value yielded) {
  auto assign = yielded.getDefiningOp<AssignOp>();
  Value index = loop.getInductionVar();
  if (!assign || assign->getBlock() != loop.getBody() ||
      assign.getTarget() != carried || !yielded.hasOneUse() ||
      !isAt(assign, index))
    return false;
  auto dim = [](ArrayAttr path) {
    return cast<ViewAttr>(path[0]).getParams().front();
  };
  for (OpOperand &use : carried.getUses()) {
    if (use.getOwner() == assign) {
      if (use.getOperandNumber() != 0)
        return false; // as its own source
      continue;
    }
    auto access = dyn_cast<AccessOp>(use.getOwner());
    if (!access || !isAt(access, index) ||
        dim(access.getPath()) != dim(assign.getPath()))
      return false;
  }
  return true;
}

bool isParallel(scf::ForOp loop) {
  if (loop.getInitArgs().empty())
    return false;
  APInt step;
  if (!matchPattern(loop.getStep(), m_ConstantInt(&step)) || step.isZero())
    return false;
  // A call that draws random numbers, or that nothing is known of, keeps its
  // place in the order.
  WalkResult ordered = loop.getBody()->walk([](Operation *op) {
    bool fine = op->hasTrait<OpTrait::IsTerminator>() ||
                op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
                mayMove(op);
    return fine ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (ordered.wasInterrupted())
    return false;
  for (auto [carried, yielded] :
       llvm::zip(loop.getRegionIterArgs(), loop.getYieldedValues()))
    if (!isOwnPart(loop, carried, yielded))
      return false;
  return true;
}

struct ParallelizeLoops
    : pyjit::tssa::impl::ParallelizeLoopsPassBase<ParallelizeLoops> {
  void runOnOperation() override {
    getOperation().walk([&](scf::ForOp loop) {
      if (!isParallel(loop))
        return;
      loop->setAttr("tssa.parallel", UnitAttr::get(&getContext()));
      ++numParallel;
    });
  }
};

} // namespace
