//===- VerifyInitialized.cpp - No read of memory that nobody wrote --------===//

#include "dialects/tssa/IR/TSSA.h"
#include "pyjit/Conversion/TSSAToLinalg/Passes.h"

using namespace mlir;

namespace pyjit {
#define GEN_PASS_DEF_VERIFYINITIALIZED
#include "lib/Conversion/TSSAToLinalg/Passes.h.inc"

namespace {

bool allocates(StringRef overload) {
  return overload.starts_with("aten::empty") ||
         overload.starts_with("aten::new_empty");
}

/// Whether a user replaces the value, or only asks for its type.
bool overwrites(OpOperand &use) {
  Operation *user = use.getOwner();
  if (isa<tssa::AssignOp>(user))
    return use.getOperandNumber() == 0;
  auto call = dyn_cast<tssa::AtenOp>(user);
  if (!call || use.getOperandNumber() != 0)
    return false;
  StringRef name = call.getOverload();
  name = name.take_front(name.find('.'));
  return name == "aten::fill" || name == "aten::zero" || name == "aten::copy" ||
         name.ends_with("_like") || name.starts_with("aten::new_") ||
         // Random fills, functional or on a copy.
         name == "aten::normal_functional" || name == "aten::uniform" ||
         name == "aten::normal_" || name == "aten::uniform_" ||
         name == "aten::bernoulli_" || name == "aten::random_" ||
         name == "aten::exponential_";
}

struct VerifyInitializedPass
    : impl::VerifyInitializedBase<VerifyInitializedPass> {
  void runOnOperation() override {
    bool failed = false;
    getOperation().walk([&](tssa::AtenOp op) {
      if (!allocates(op.getOverload()))
        return;
      SmallVector<Value> values(op.getResults());
      while (!values.empty()) {
        Value value = values.pop_back_val();
        if (cast<RankedTensorType>(value.getType()).getNumElements() == 0)
          continue;
        for (OpOperand &use : value.getUses()) {
          if (auto access = dyn_cast<tssa::AccessOp>(use.getOwner())) {
            values.push_back(access.getResult());
            continue;
          }
          if (overwrites(use))
            continue;
          InFlightDiagnostic error =
              op.emitError("uninitialised memory is read: an operator wrote "
                           "it out of the dispatcher's sight");
          error.attachNote(use.getOwner()->getLoc()) << "read here";
          failed = true;
          return;
        }
      }
    });
    if (failed)
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace pyjit
