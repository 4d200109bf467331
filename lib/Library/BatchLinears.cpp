//===- BatchLinears.cpp - Matmuls that share a weight ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: values equal up to rounding.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Library/Passes.h"

#include "Calls.h"

#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorNames.h"

#include "mlir/Analysis/TopologicalSortUtils.h"

#include "llvm/ADT/MapVector.h"

namespace pyjit::library {
#define GEN_PASS_DEF_BATCHLINEARSPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

struct BatchLinears : pyjit::library::impl::BatchLinearsPassBase<BatchLinears> {
  using BatchLinearsPassBase::BatchLinearsPassBase;

  static bool isLinear(tssa::AtenOp op) {
    return op.getOverload() == operators::aten::linear;
  }

  /// Null for a matmul that has none.
  static Value biasOf(tssa::AtenOp op) {
    return isLinear(op) ? tensorArgument(op, 2) : Value();
  }

  bool isCandidate(tssa::AtenOp op) {
    if ((!isLinear(op) && op.getOverload() != operators::aten::mm) ||
        op->hasAttr(attribute::kVendorCall) ||
        op->getBlock() != &getOperation().front())
      return false;
    Value input = tensorArgument(op, 0), weight = tensorArgument(op, 1);
    Value bias = biasOf(op);
    return input && weight && typeOf(input).getRank() == 2 &&
           typeOf(input).hasStaticShape() && typeOf(weight).getRank() == 2 &&
           isFromParameters(weight) && (!bias || isFromParameters(bias)) &&
           !isFromParameters(input) && !typeOf(op.getResult(0)).getEncoding() &&
           typeOf(input).getDimSize(0) > 0 &&
           typeOf(input).getDimSize(0) <= maxRows;
  }

  /// Splits calls, in order, into groups none of whose inputs needs another
  /// one's result.
  SmallVector<SmallVector<tssa::AtenOp>>
  independent(ArrayRef<tssa::AtenOp> calls) {
    SmallVector<SmallVector<tssa::AtenOp>> groups(1);
    llvm::SmallPtrSet<Operation *, 16> members(calls.begin(), calls.end());
    llvm::DenseSet<Value> needing;
    for (Operation &op : getOperation().front()) {
      bool needs = false;
      op.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          needs |= needing.contains(operand);
      });
      if (members.contains(&op)) {
        if (needs) {
          groups.emplace_back();
          needing.clear();
        }
        groups.back().push_back(cast<tssa::AtenOp>(op));
        needs = true;
      }
      if (needs)
        needing.insert(op.getResults().begin(), op.getResults().end());
    }
    return groups;
  }

  void batch(ArrayRef<tssa::AtenOp> group) {
    SmallVector<Value> inputs;
    SmallVector<Location> locations;
    int64_t rows = 0;
    for (tssa::AtenOp op : group) {
      inputs.push_back(tensorArgument(op, 0));
      locations.push_back(op->getLoc());
      rows += typeOf(inputs.back()).getDimSize(0);
    }
    tssa::AtenOp first = group.front();
    auto result = typeOf(first.getResult(0));
    MLIRContext *context = &getContext();
    // Behind every input; what needs the results is put behind it afterwards.
    OpBuilder builder(group.back());
    Location loc = FusedLoc::get(context, locations);
    CallBuilder calls(builder, loc);
    SmallVector<Argument> arguments{calls.concatenate(inputs, 0),
                                    tensorArgument(first, 1)};
    if (isLinear(first))
      arguments.push_back(calls.optional(tensorArgument(first, 2)));
    Value product =
        calls.call(first.getOverload(), arguments,
                   RankedTensorType::get({rows, result.getDimSize(1)},
                                         result.getElementType()));
    int64_t start = 0;
    for (tssa::AtenOp op : group) {
      int64_t length = typeOf(op.getResult(0)).getDimSize(0);
      auto slice = tssa::ViewAttr::get(context, tssa::ViewKind::slice,
                                       {0, start, length, 1});
      // Whole rows lie as they lay.
      Value part = tssa::AccessOp::create(
          builder, op->getLoc(), op.getResult(0).getType(), product,
          builder.getArrayAttr(slice), ValueRange());
      op.getResult(0).replaceAllUsesWith(part);
      start += length;
    }
    for (tssa::AtenOp op : group)
      op->erase();
    sortTopologically(&getOperation().front());
    ++numBatched;
  }

  void runOnOperation() override {
    if (!getOperation().getBody().hasOneBlock())
      return;
    // Operations that have effects stay in their order.
    for (Operation &op : getOperation().front().without_terminator())
      if (!tssa::mayMove(&op))
        return;
    llvm::MapVector<std::tuple<StringRef, Value, Value>,
                    SmallVector<tssa::AtenOp>>
        groups;
    for (auto op : getOperation().front().getOps<tssa::AtenOp>())
      if (isCandidate(op))
        groups[{op.getOverload(), tensorArgument(op, 1), biasOf(op)}].push_back(
            op);
    for (auto &[weight, calls] : groups) {
      if (calls.size() < 2)
        continue;
      // The order may have changed since they were collected.
      llvm::sort(calls, [](tssa::AtenOp a, tssa::AtenOp b) {
        return a->isBeforeInBlock(b);
      });
      for (SmallVector<tssa::AtenOp> &group : independent(calls))
        if (group.size() > 1)
          batch(group);
    }
  }
};

} // namespace
