//===- VerifyFunctional.cpp - No handles after functionalization ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/tssa/Transforms/Passes.h"

namespace pyjit::tssa {
#define GEN_PASS_DEF_VERIFYFUNCTIONALPASS
#include "dialects/tssa/Transforms/Passes.h.inc"
} // namespace pyjit::tssa

using namespace mlir;
using namespace pyjit::tssa;

namespace {

struct VerifyFunctional
    : pyjit::tssa::impl::VerifyFunctionalPassBase<VerifyFunctional> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    for (Type type : function.getArgumentTypes())
      if (isa<RefType>(type)) {
        function.emitError("still takes a handle").attachNote()
            << "tssa-rename should have made it a tensor";
        return signalPassFailure();
      }
    WalkResult result = function.walk([](Operation *op) {
      StringRef pass;
      if (isa<ViewOp>(op))
        pass = "tssa-rewrite-mutation";
      else if (isa<LoadOp, StoreOp, RefOp>(op))
        pass = "tssa-rename";
      else
        return WalkResult::advance();
      op->emitError("is left after functionalization").attachNote()
          << pass << " should have removed it";
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
