//===- PropagateBlocks.cpp - Written tensors through control flow ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// After this pass: an origin that a region writes and that lives outside of it
// is stored again right after the region's op, from one of its results.
//
//===----------------------------------------------------------------------===//

#include "dialects/tssa/Transforms/Passes.h"

#include "llvm/ADT/SetVector.h"

namespace pyjit::tssa {
#define GEN_PASS_DEF_PROPAGATEBLOCKSPASS
#include "dialects/tssa/Transforms/Passes.h.inc"
} // namespace pyjit::tssa

using namespace mlir;
using namespace pyjit::tssa;

namespace {

RankedTensorType contents(Value handle) {
  return cast<RefType>(handle.getType()).getTensor();
}

/// The origins that live outside of `op` and that its regions store to.
SetVector<Value> writtenOrigins(Operation *op) {
  SetVector<Value> written;
  op->walk([&](StoreOp store) {
    Operation *owner = store.getRef().getParentRegion()->getParentOp();
    if (!op->isAncestor(owner))
      written.insert(store.getRef());
  });
  return written;
}

SmallVector<Value> loadAll(OpBuilder &builder, Location loc,
                           ArrayRef<Value> origins) {
  SmallVector<Value> values;
  for (Value origin : origins)
    values.push_back(LoadOp::create(builder, loc, contents(origin), origin));
  return values;
}

void storeAll(OpBuilder &builder, Location loc, ValueRange values,
              ArrayRef<Value> origins) {
  for (auto [value, origin] : llvm::zip(values, origins))
    StoreOp::create(builder, loc, value, origin);
}

/// Lets `block` yield the origins' contents too.
void yieldContents(Block &block, ArrayRef<Value> origins) {
  Operation *yield = block.getTerminator();
  OpBuilder builder(yield);
  SmallVector<Value> operands(yield->getOperands());
  llvm::append_range(operands, loadAll(builder, yield->getLoc(), origins));
  yield->setOperands(operands);
}

void propagate(scf::IfOp op, ArrayRef<Value> origins) {
  OpBuilder builder(op);
  SmallVector<Type> types(op.getResultTypes());
  for (Value origin : origins)
    types.push_back(contents(origin));
  auto wider =
      scf::IfOp::create(builder, op.getLoc(), types, op.getCondition(),
                        /*addThenBlock=*/false, /*addElseBlock=*/false);
  wider->setAttrs(op->getAttrs());
  wider.getThenRegion().takeBody(op.getThenRegion());
  wider.getElseRegion().takeBody(op.getElseRegion());
  if (wider.getElseRegion().empty()) {
    builder.createBlock(&wider.getElseRegion());
    scf::YieldOp::create(builder, op.getLoc());
  }
  yieldContents(wider.getThenRegion().front(), origins);
  yieldContents(wider.getElseRegion().front(), origins);
  builder.setInsertionPointAfter(wider);
  storeAll(builder, op.getLoc(), wider.getResults().take_back(origins.size()),
           origins);
  op.replaceAllUsesWith(wider.getResults().drop_back(origins.size()));
  op.erase();
}

void propagate(scf::ForOp op, ArrayRef<Value> origins) {
  OpBuilder builder(op);
  SmallVector<Value> inits(op.getInitArgs());
  llvm::append_range(inits, loadAll(builder, op.getLoc(), origins));
  auto wider = scf::ForOp::create(builder, op.getLoc(), op.getLowerBound(),
                                  op.getUpperBound(), op.getStep(), inits);
  wider->setAttrs(op->getAttrs());
  Block &body = *wider.getBody(), &old = *op.getBody();
  body.clear(); // the terminator that the builder may have made
  builder.setInsertionPointToStart(&body);
  storeAll(builder, op.getLoc(), body.getArguments().take_back(origins.size()),
           origins);
  for (auto [before, after] : llvm::zip(
           old.getArguments(), body.getArguments().drop_back(origins.size())))
    before.replaceAllUsesWith(after);
  body.getOperations().splice(body.end(), old.getOperations());
  yieldContents(body, origins);
  builder.setInsertionPointAfter(wider);
  storeAll(builder, op.getLoc(), wider.getResults().take_back(origins.size()),
           origins);
  op.replaceAllUsesWith(wider.getResults().drop_back(origins.size()));
  op.erase();
}

/// Both regions of a loop see the contents as an argument, whichever of them
/// writes: `before` hands on what it leaves behind, `after` gives it back.
void propagate(scf::WhileOp op, ArrayRef<Value> origins) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  SmallVector<Value> inits(op.getInits());
  llvm::append_range(inits, loadAll(builder, loc, origins));
  SmallVector<Type> types(op.getResultTypes());
  for (Value origin : origins)
    types.push_back(contents(origin));
  auto wider = scf::WhileOp::create(builder, loc, types, inits);
  wider->setAttrs(op->getAttrs());
  for (auto [old, region] : llvm::zip(op->getRegions(), wider->getRegions())) {
    region.takeBody(old);
    Block &block = region.front();
    SmallVector<Value> arguments;
    for (Value origin : origins)
      arguments.push_back(block.addArgument(contents(origin), loc));
    builder.setInsertionPointToStart(&block);
    storeAll(builder, loc, arguments, origins);
    yieldContents(block, origins);
  }
  builder.setInsertionPointAfter(wider);
  storeAll(builder, loc, wider.getResults().take_back(origins.size()), origins);
  op.replaceAllUsesWith(wider.getResults().drop_back(origins.size()));
  op.erase();
}

struct PropagateBlocks
    : pyjit::tssa::impl::PropagateBlocksPassBase<PropagateBlocks> {
  void runOnOperation() override {
    // Inner ops first: what they store after themselves is a write of the op
    // around them.
    SmallVector<Operation *> ops;
    getOperation().walk<WalkOrder::PostOrder>([&](Operation *op) {
      if (op->getNumRegions() && op != getOperation())
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      SetVector<Value> written = writtenOrigins(op);
      if (written.empty())
        continue;
      if (auto branch = dyn_cast<scf::IfOp>(op)) {
        propagate(branch, written.getArrayRef());
      } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
        propagate(loop, written.getArrayRef());
      } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
        propagate(loop, written.getArrayRef());
      } else {
        op->emitError(
            "writes a tensor from inside its region, which "
            "functionalization follows through scf.if, scf.for and scf.while "
            "only");
        return signalPassFailure();
      }
    }
  }
};

} // namespace
