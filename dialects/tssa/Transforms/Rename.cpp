//===- Rename.cpp - Each load becomes the value stored last ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// After this pass: no handles. Relies on propagate-blocks: a region's stores to
// an outer origin are followed by a store after the region's op, so the value
// that holds at a point is the last one stored before it in its own block or in
// one around it.
//
//===----------------------------------------------------------------------===//

#include "dialects/tssa/Transforms/Passes.h"

#include "llvm/ADT/ScopedHashTable.h"

namespace pyjit::tssa {
#define GEN_PASS_DEF_RENAMEPASS
#include "dialects/tssa/Transforms/Passes.h.inc"
} // namespace pyjit::tssa

using namespace mlir;
using namespace pyjit::tssa;

namespace {

using Contents = llvm::ScopedHashTable<Value, Value>;

/// The renaming of one function.
struct Renamer {
  Contents current;
  SmallVector<Operation *> dead;

  LogicalResult visit(Operation &op) {
    if (auto ref = dyn_cast<RefOp>(op)) {
      current.insert(ref.getResult(), ref.getValue());
      dead.push_back(&op);
    } else if (auto store = dyn_cast<StoreOp>(op)) {
      current.insert(store.getRef(), store.getValue());
      dead.push_back(&op);
    } else if (auto load = dyn_cast<LoadOp>(op)) {
      Value value = current.lookup(load.getRef());
      if (!value)
        return op.emitError("loads a handle whose origin is unknown; "
                            "tssa-rewrite-mutation should have found it");
      load.replaceAllUsesWith(value);
      dead.push_back(&op);
    }
    for (Region &region : op.getRegions())
      for (Block &block : region)
        if (failed(visit(block)))
          return failure();
    return success();
  }

  LogicalResult visit(Block &block) {
    Contents::ScopeTy scope(current);
    for (Operation &op : block)
      if (failed(visit(op)))
        return failure();
    return success();
  }

  LogicalResult run(func::FuncOp function) {
    if (!function.getBody().hasOneBlock()) {
      return function.emitError("has control flow that is not structured");
    }
    Contents::ScopeTy scope(current);
    // A handle that is an argument stands for the tensor that it then is.
    SmallVector<BlockArgument> handles;
    for (BlockArgument arg : function.getArguments())
      if (isa<RefType>(arg.getType()))
        handles.push_back(arg);
    Block &entry = function.front();
    SmallVector<Value> contents;
    for (BlockArgument handle : handles) {
      Value value = entry.addArgument(
          cast<RefType>(handle.getType()).getTensor(), handle.getLoc());
      contents.push_back(value);
      current.insert(handle, value);
    }
    if (failed(visit(entry)))
      return failure();
    for (Operation *op : llvm::reverse(dead)) {
      if (!op->use_empty()) {
        op->emitError(
            "is used by an operation that functionalization does not know");
        return failure();
      }
      op->erase();
    }
    for (auto [handle, value] : llvm::zip(handles, contents)) {
      if (!handle.use_empty()) {
        function.emitError(
            "uses a handle in a way that functionalization does not know");
        return failure();
      }
      handle.setType(value.getType());
      value.replaceAllUsesWith(handle);
    }
    entry.eraseArguments(entry.getNumArguments() - handles.size(),
                         handles.size());
    function.setFunctionType(FunctionType::get(function.getContext(),
                                               entry.getArgumentTypes(),
                                               function.getResultTypes()));
    return success();
  }
};

struct Rename : pyjit::tssa::impl::RenamePassBase<Rename> {
  void runOnOperation() override {
    if (!getOperation().isExternal() && failed(Renamer().run(getOperation())))
      signalPassFailure();
  }
};

} // namespace
