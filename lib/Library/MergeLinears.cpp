//===- MergeLinears.cpp - Matmuls that share an input ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Library/Passes.h"

#include "Calls.h"
#include "Parts.h"

#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/ElementTypes.h"
#include "pyjit/Operators/OperatorNames.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace pyjit::library {
#define GEN_PASS_DEF_MERGELINEARSPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

/// Whether two of the calls' results meet in one elementwise operator, as gate
/// and up do: fusion makes one kernel of them, with all that lies between.
bool meetElementwise(ArrayRef<tssa::AtenOp> calls) {
  constexpr unsigned kMostSteps = 16;
  llvm::SmallPtrSet<Operation *, 16> reached;
  for (tssa::AtenOp call : calls) {
    Type type = call.getResult(0).getType();
    llvm::SetVector<Operation *> mine;
    mine.insert(call);
    for (unsigned i = 0; i < mine.size() && i < kMostSteps; ++i)
      for (Operation *user : mine[i]->getUsers())
        if (user->getNumResults() == 1 && user->getResult(0).getType() == type)
          mine.insert(user);
    for (Operation *op : mine)
      if (!reached.insert(op).second)
        return true;
  }
  return false;
}

struct MergeLinears : pyjit::library::impl::MergeLinearsPassBase<MergeLinears> {
  using MergeLinearsPassBase::MergeLinearsPassBase;

  bool isCandidate(tssa::AtenOp op) {
    if (op.getOverload() != operators::aten::linear ||
        op->hasAttr(attribute::kVendorCall))
      return false;
    Value input = tensorArgument(op, 0), weight = tensorArgument(op, 1);
    Value bias = tensorArgument(op, 2);
    if (!input || !weight || typeOf(weight).getRank() != 2 ||
        typeOf(weight).getEncoding() || !isFromParameters(weight) ||
        (bias && !isFromParameters(bias)) ||
        typeOf(op.getResult(0)).getEncoding() ||
        !typeOf(input).hasStaticShape())
      return false;
    return typeOf(weight).getDimSize(1) && countRows(op) <= maxRows;
  }

  static int64_t countRows(tssa::AtenOp linear) {
    return typeOf(tensorArgument(linear, 0)).getNumElements() /
           typeOf(tensorArgument(linear, 1)).getDimSize(1);
  }

  /// `readThrough`: nobody makes a copy.
  Value join(OpBuilder &builder, Location loc, ArrayRef<Value> parts,
             bool readThrough) {
    Value joined = CallBuilder(builder, loc).concatenate(parts, 0);
    if (readThrough)
      joined.getDefiningOp()->setAttr(attribute::kReadThrough,
                                      builder.getUnitAttr());
    return joined;
  }

  /// A matmul of one row is a kernel of ours (`library-plan-matvecs`), which
  /// reads each weight once, wherever it lies.
  bool mayReadThrough(ArrayRef<tssa::AtenOp> group) {
    auto input = typeOf(tensorArgument(group.front(), 0));
    return readsThrough && input.getNumElements() == input.getShape().back() &&
           llvm::all_of(group, [](tssa::AtenOp op) {
             return operators::getComputeType(
                        typeOf(tensorArgument(op, 1)).getElementType())
                 .isF32();
           });
  }

  /// Of calls whose weights are too large together, the smallest ones: keys and
  /// values of heads that share them, whose calls are too short for the device
  /// where there are few rows.
  void mergeSmallest(ArrayRef<tssa::AtenOp> group) {
    constexpr int64_t kFewRows = 16;
    if (countRows(group.front()) > kFewRows)
      return;
    auto bytesOf = [](tssa::AtenOp op) {
      auto weight = typeOf(tensorArgument(op, 1));
      return weight.getNumElements() * (weight.getElementTypeBitWidth() / 8);
    };
    SmallVector<tssa::AtenOp> sorted(group);
    llvm::stable_sort(sorted, [&](tssa::AtenOp a, tssa::AtenOp b) {
      return bytesOf(a) < bytesOf(b);
    });
    llvm::SmallPtrSet<Operation *, 4> taken;
    int64_t total = 0;
    for (tssa::AtenOp op : sorted)
      if ((total += bytesOf(op)) <= maxBytes)
        taken.insert(op);
    SmallVector<tssa::AtenOp> small;
    for (tssa::AtenOp op : group) // in the order of the program
      if (taken.contains(op))
        small.push_back(op);
    if (small.size() > 1)
      merge(small);
  }

  void merge(ArrayRef<tssa::AtenOp> group) {
    SmallVector<Value> weights, biases;
    int64_t total = 0;
    for (tssa::AtenOp op : group) {
      weights.push_back(tensorArgument(op, 1));
      if (Value bias = tensorArgument(op, 2))
        biases.push_back(bias);
      total += typeOf(weights.back()).getDimSize(0);
    }
    auto result = typeOf(group.front()->getResult(0));
    int64_t bytes = total * typeOf(weights.front()).getDimSize(1) *
                    (result.getElementTypeBitWidth() / 8);
    bool readThrough = bytes > maxBytes;
    if (readThrough && (!mayReadThrough(group) || meetElementwise(group)))
      return mergeSmallest(group);
    // What each result is of the merged one, and whether its readers mind.
    SmallVector<int64_t> shape(result.getShape());
    shape.back() = total;
    auto merged = RankedTensorType::get(shape, result.getElementType());
    SmallVector<ArrayAttr> paths;
    Retyping changes;
    int64_t start = 0;
    for (tssa::AtenOp op : group) {
      int64_t length = typeOf(op.getResult(0)).getShape().back();
      auto slice =
          tssa::ViewAttr::get(&getContext(), tssa::ViewKind::slice,
                              {merged.getRank() - 1, start, length, 1});
      paths.push_back(ArrayAttr::get(&getContext(), {slice}));
      RankedTensorType part = tssa::inferPathType(
          paths.back(), merged, [&] { return op->emitError(); });
      start += length;
      if (!part || !canLieElsewhere(op.getResult(0), part, changes))
        return;
    }
    // What computes the parameters may lie between the calls.
    SmallVector<Value> parts(weights);
    llvm::append_range(parts, biases);
    IRRewriter builder(group.front());
    if (failed(moveValueDefinitions(builder, parts, group.front())))
      return;
    retype(changes);

    SmallVector<Location> locations;
    for (tssa::AtenOp op : group)
      locations.push_back(op->getLoc());
    Location loc = FusedLoc::get(&getContext(), locations);
    CallBuilder calls(builder, loc);
    Value weight = join(builder, loc, weights, readThrough);
    Value bias = biases.empty() ? Value() : join(builder, loc, biases, false);
    Value whole = calls.call(
        operators::aten::linear,
        {tensorArgument(group.front(), 0), weight, calls.optional(bias)},
        merged);
    for (auto [op, path] : llvm::zip(group, paths)) {
      tssa::AtenOp linear = op;
      Value part = tssa::AccessOp::create(builder, linear->getLoc(),
                                          linear.getResult(0).getType(), whole,
                                          path, ValueRange());
      linear.getResult(0).replaceAllUsesWith(part);
    }
    // Not before: the first one is where the others were inserted.
    for (tssa::AtenOp op : group)
      op->erase();
  }

  void runOnOperation() override {
    // By input, element type, and whether there is a bias.
    llvm::MapVector<std::tuple<Value, Block *, int>, SmallVector<tssa::AtenOp>>
        groups;
    getOperation().walk([&](tssa::AtenOp op) {
      if (isCandidate(op))
        groups[{tensorArgument(op, 0), op->getBlock(),
                int(bool(tensorArgument(op, 2)))}]
            .push_back(op);
    });
    for (auto &[key, group] : groups)
      if (group.size() > 1)
        merge(group);
  }
};

} // namespace
