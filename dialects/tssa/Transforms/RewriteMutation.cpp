//===- RewriteMutation.cpp - From views to their origins ------------------===//
//
// After this pass: no `tssa.view`; loads and stores name origins only.
//
//===----------------------------------------------------------------------===//

#include "dialects/tssa/Transforms/Passes.h"

#include "dialects/tssa/IR/Views.h"

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

Chain chainOf(Value handle) {
  SmallVector<ViewOp> views;
  while (auto view = handle.getDefiningOp<ViewOp>()) {
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
  LogicalResult rewrite(LoadOp load) {
    Chain chain = chainOf(load.getRef());
    if (chain.path.empty())
      return success();
    OpBuilder builder(load);
    Value whole = LoadOp::create(builder, load.getLoc(), contents(chain.origin),
                                 chain.origin);
    Value part =
        AccessOp::create(builder, load.getLoc(), load.getType(), whole,
                         builder.getArrayAttr(chain.path), chain.indices);
    load.replaceAllUsesWith(part);
    load.erase();
    return success();
  }

  LogicalResult rewrite(StoreOp store) {
    Chain chain = chainOf(store.getRef());
    if (chain.path.empty())
      return success();
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
    StoreOp::create(builder, store.getLoc(), changed, chain.origin);
    store.erase();
    return success();
  }

  void runOnOperation() override {
    SmallVector<Operation *> accesses;
    SmallVector<ViewOp> views;
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
};

} // namespace
