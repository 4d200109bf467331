//===- VerifyInitialized.cpp - No read of memory that nobody wrote --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/tssa/IR/TSSA.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "pyjit/Conversion/TSSAToLinalg/Passes.h"
#include "pyjit/Operators/OperatorFacts.h"

using namespace mlir;

namespace pyjit {
#define GEN_PASS_DEF_VERIFYINITIALIZED
#include "lib/Conversion/TSSAToLinalg/Passes.h.inc"

namespace {

/// Whether an overload computes into memory that it is given, all of it.
bool isOut(StringRef overload) {
  StringRef variant = overload.split('.').second;
  return variant == "out" || variant.ends_with("_out");
}

/// Whether a user replaces the value, or only asks for its type.
bool overwrites(OpOperand &use) {
  Operation *user = use.getOwner();
  if (isa<tssa::AssignOp>(user))
    return use.getOperandNumber() == 0;
  auto call = dyn_cast<tssa::AtenOp>(user);
  if (call && isOut(call.getOverload()) && call.getMutates() &&
      llvm::is_contained(*call.getMutates(), int64_t(use.getOperandNumber())))
    return true;
  if (!call)
    return false;
  return operators::lookupFacts(call.getOverload()).overwrites ==
         static_cast<int>(use.getOperandNumber());
}

/// The values that stand for a use's operand elsewhere: what a view shows, what
/// a loop carries or leaves behind, what a branch returns.
SmallVector<Value> otherNames(OpOperand &use) {
  Operation *user = use.getOwner();
  unsigned number = use.getOperandNumber();
  if (isa<tssa::AccessOp>(user))
    return {user->getResult(0)};
  // A loop that does not run returns what it got; so does eager's.
  if (auto loop = dyn_cast<LoopLikeOpInterface>(user)) {
    if (BlockArgument argument = loop.getTiedLoopRegionIterArg(&use))
      return {argument};
    return {};
  }
  Operation *parent = user->getParentOp();
  if (isa<scf::ConditionOp>(user) && number > 0) {
    auto loop = cast<scf::WhileOp>(parent);
    return {loop.getAfterArguments()[number - 1], loop.getResult(number - 1)};
  }
  if (isa<scf::YieldOp>(user)) {
    if (auto loop = dyn_cast<scf::WhileOp>(parent))
      return {loop.getBeforeArguments()[number]};
    if (auto loop = dyn_cast<scf::ForOp>(parent))
      return {loop.getRegionIterArg(number), loop.getResult(number)};
    if (isa<scf::IfOp>(parent))
      return {parent->getResult(number)};
  }
  return {};
}

struct VerifyInitializedPass
    : impl::VerifyInitializedBase<VerifyInitializedPass> {
  void runOnOperation() override {
    bool failed = false;
    getOperation().walk([&](tssa::AtenOp op) {
      if (!operators::lookupFacts(op.getOverload()).allocates)
        return;
      SmallVector<Value> values(op.getResults());
      llvm::SmallPtrSet<Value, 8> seen;
      while (!values.empty()) {
        Value value = values.pop_back_val();
        if (!seen.insert(value).second)
          continue;
        if (llvm::is_contained(
                cast<RankedTensorType>(value.getType()).getShape(), 0))
          continue;
        for (OpOperand &use : value.getUses()) {
          if (auto names = otherNames(use); !names.empty()) {
            llvm::append_range(values, names);
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
