//===- RewriteMutation.cpp - From views to their origins ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// After this pass: no `tssa.view`; loads and stores name origins only.
//
//===----------------------------------------------------------------------===//

#include "dialects/tssa/Transforms/Passes.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Views.h"

#include "llvm/ADT/MapVector.h"

namespace pyjit::tssa {
#define GEN_PASS_DEF_REWRITEMUTATIONPASS
#include "dialects/tssa/Transforms/Passes.h.inc"
} // namespace pyjit::tssa

using namespace mlir;
using namespace pyjit::tssa;

namespace {

/// A handle as a path from its origin.
struct Chain {
  Value origin;
  SmallVector<Attribute> path;
  SmallVector<Value> indices;
};

/// `stops`: takes the source of such a view for an origin.
Chain chainOf(
    Value handle,
    llvm::function_ref<bool(ViewOp)> stops = [](ViewOp) { return false; }) {
  SmallVector<ViewOp> views;
  while (auto view = handle.getDefiningOp<ViewOp>()) {
    if (!views.empty() && stops(views.back()))
      break;
    views.push_back(view);
    handle = view.getSource();
  }
  Chain chain{handle, {}, {}};
  for (ViewOp view : llvm::reverse(views)) {
    llvm::append_range(chain.path, view.getPath());
    llvm::append_range(chain.indices, view.getIndices());
  }
  return chain;
}

RankedTensorType contents(Value handle) {
  return cast<RefType>(handle.getType()).getTensor();
}

struct RewriteMutation
    : pyjit::tssa::impl::RewriteMutationPassBase<RewriteMutation> {
  /// To autograd, a view that leaves the call is a tensor: what is computed of
  /// it, or of a view of it, is computed of that one. So all that the function
  /// reads of it between two writes is one value.
  void findShown() {
    func::FuncOp function = getOperation();
    shown.clear();
    known.clear();
    written.clear();
    if (function.isExternal() ||
        !function->hasAttr(pyjit::attribute::kGradientResults))
      return;
    for (Value result : function.front().getTerminator()->getOperands())
      if (auto load = result.getDefiningOp<LoadOp>();
          load && load.getRef().getDefiningOp<ViewOp>())
        shown.insert(load.getRef());
  }

  /// What the handle shows where the builder stands.
  Value read(OpBuilder &builder, Location loc, Value handle) {
    // What a region reads is not there behind it, and may be written in it.
    bool isOutside = builder.getBlock() == &getOperation().front();
    if (Value value = known.lookup(handle); value && isOutside)
      return value;
    Chain chain = chainOf(handle, [&](ViewOp view) {
      return shown.contains(view.getSource()) && !isOlderThanWrite(view);
    });
    if (chain.path.empty())
      return LoadOp::create(builder, loc, contents(handle), handle);
    Value value = AccessOp::create(
        builder, loc, contents(handle), read(builder, loc, chain.origin),
        builder.getArrayAttr(chain.path), chain.indices);
    if (isOutside && shown.contains(handle))
      known[handle] = value;
    return value;
  }

  /// Behind a write, autograd makes the views that are there once more, of the
  /// tensor that has the memory.
  bool isOlderThanWrite(ViewOp view) const {
    auto write = written.find(chainOf(view.getResult()).origin);
    return write != written.end() &&
           view->getBlock() == write->second->getBlock() &&
           view->isBeforeInBlock(write->second);
  }

  LogicalResult rewrite(LoadOp load) {
    if (!load.getRef().getDefiningOp<ViewOp>())
      return success();
    OpBuilder builder(load);
    load.replaceAllUsesWith(read(builder, load.getLoc(), load.getRef()));
    load.erase();
    return success();
  }

  LogicalResult rewrite(StoreOp store) {
    Chain chain = chainOf(store.getRef());
    known.remove_if([&](auto &entry) {
      return chainOf(entry.first).origin == chain.origin;
    });
    Block &block = getOperation().front();
    if (chain.path.empty()) {
      written[chain.origin] = block.findAncestorOpInBlock(*store);
      return success();
    }
    OpBuilder builder(store);
    ArrayAttr path = builder.getArrayAttr(chain.path);
    RankedTensorType type = contents(chain.origin);
    // Which of the values written to one element stays is not defined.
    if (!isInjective(path, type))
      return store.emitError(
          "writes through a view that shows an element more than once");
    Value whole = LoadOp::create(builder, store.getLoc(), type, chain.origin);
    Value changed = AssignOp::create(builder, store.getLoc(), type, whole,
                                     store.getValue(), path, chain.indices);
    auto all = StoreOp::create(builder, store.getLoc(), changed, chain.origin);
    written[chain.origin] = block.findAncestorOpInBlock(*all);
    store.erase();
    return success();
  }

  void runOnOperation() override {
    SmallVector<Operation *> accesses;
    SmallVector<ViewOp> views;
    findShown();
    getOperation().walk([&](Operation *op) {
      if (isa<LoadOp, StoreOp>(op))
        accesses.push_back(op);
      else if (auto view = dyn_cast<ViewOp>(op))
        views.push_back(view);
    });
    for (Operation *op : accesses) {
      auto load = dyn_cast<LoadOp>(op);
      if (failed(load ? rewrite(load) : rewrite(cast<StoreOp>(op))))
        return signalPassFailure();
    }
    for (ViewOp view : llvm::reverse(views)) {
      if (!view->use_empty()) {
        view.emitError(
            "is used by an operation that functionalization does not know: ")
            << (*view->user_begin())->getName();
        return signalPassFailure();
      }
      view.erase();
    }
  }

  llvm::DenseSet<Value> shown; ///< handles of views that leave
  /// Of each origin, an operation that stands where the last write does.
  llvm::DenseMap<Value, Operation *> written;
  /// What the program has read of these and not written since.
  llvm::MapVector<Value, Value> known;
};

} // namespace
