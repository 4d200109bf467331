//===- KeepParts.cpp - Parts of inputs that the launch writes alone -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: in, functional tensor programs before kernels are made; out, the
// same with the part writes marked that kernels should not compute whole. What
// is marked may still be refused by `fusion-in-place`, which proves it.
//
//===----------------------------------------------------------------------===//

#include "Order.h"
#include "PartWrites.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Fusion/Passes.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;

namespace pyjit::fusion {
#define GEN_PASS_DEF_FUSIONKEEPPARTS
#include "lib/Fusion/Passes.h.inc"

namespace {

/// The number of elements, or nothing where it differs between calls.
std::optional<int64_t> countElements(RankedTensorType type) {
  int64_t count = 1;
  for (const tssa::Size &size : tssa::getSizes(type)) {
    if (!size.isConstant())
      return std::nullopt;
    count *= size.constant();
  }
  return count;
}

/// Whether a launch program can show what the assignment replaces.
bool canShow(tssa::AssignOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  if (!tssa::hasKnownSizes(type))
    return false;
  if (!op.getIndices().empty())
    return type.hasStaticShape();
  AffineMap map = tssa::getPathMap(op.getPath(), type);
  return map && succeeded(tssa::getFirstOffset(map, type));
}

class Keeper {
public:
  Keeper(func::FuncOp function) : block(function.front()) {
    for (auto pair : function->getAttrOfType<ArrayAttr>(attribute::kUpdates)
                         .getAsRange<DenseI64ArrayAttr>())
      consider(block.getTerminator()->getOperand(pair[0]),
               block.getArgument(pair[1]));
  }

  unsigned run();

private:
  using Writes = SmallVector<PartWrite>;

  void consider(Value contents, BlockArgument input);
  bool isWorthIt(ArrayRef<PartWrite> writes);
  bool canWait(const PartWrite &write);
  static void simplifySource(tssa::AssignOp op);

  Block &block;
  SmallVector<Writes> kept;
};

/// Whether all that is written is at most half of the whole: a part is computed
/// into a buffer, saved, and copied, where a kernel for the whole would read
/// and write each element once or twice.
bool Keeper::isWorthIt(ArrayRef<PartWrite> writes) {
  constexpr size_t kMost = 64;
  int64_t parts = 0;
  for (const PartWrite &write : writes)
    if (auto assign = dyn_cast<tssa::AssignOp>(write.op)) {
      if (!canShow(assign))
        return false;
      auto part = cast<RankedTensorType>(assign.getSource().getType());
      parts += countElements(part).value_or(0);
    }
  auto whole =
      countElements(cast<RankedTensorType>(writes.front().target.getType()));
  return writes.size() <= kMost && (!whole || parts <= *whole / 2);
}

/// Whether all who look at the old value can do so before the write.
bool Keeper::canWait(const PartWrite &write) {
  Readers readers = findReaders(write.target, write.op);
  if (readers.escapes || readers.ops.contains(block.getTerminator()) ||
      readers.ops.contains(write.op))
    return false;
  llvm::SmallPtrSet<Operation *, 16> behind{write.op};
  SmallVector<Operation *> ops{write.op};
  while (!ops.empty())
    for (Operation *user : ops.pop_back_val()->getUsers()) {
      Operation *top = block.findAncestorOpInBlock(*user);
      if (readers.ops.contains(top))
        return false;
      if (behind.insert(top).second)
        ops.push_back(top);
    }
  return true;
}

void Keeper::consider(Value contents, BlockArgument input) {
  auto writes = findPartWrites(contents, input);
  if (writes && isWorthIt(*writes) &&
      llvm::all_of(*writes,
                   [&](const PartWrite &write) { return canWait(write); }))
    kept.push_back(std::move(*writes));
}

/// `copy_` reads of its target no more than the type: where that is the
/// source's, the source itself is what is assigned.
void Keeper::simplifySource(tssa::AssignOp op) {
  auto copy = op.getSource().getDefiningOp<tssa::AtenOp>();
  if (!copy || copy.getOverload() != operators::aten::copy ||
      copy->hasAttr(attribute::kVendorCall) || copy.getInputs().size() != 2)
    return;
  auto from = cast<RankedTensorType>(copy.getInputs()[1].getType());
  auto to = cast<RankedTensorType>(op.getSource().getType());
  if (tssa::hasKnownSizes(from) && tssa::hasKnownSizes(to) &&
      tssa::getSizes(from) == tssa::getSizes(to) &&
      from.getElementType() == to.getElementType())
    op.getSourceMutable().assign(copy.getInputs()[1]);
}

unsigned Keeper::run() {
  auto mark = [&](const Writes &writes) {
    for (const PartWrite &write : writes)
      write.op->setAttr(attribute::kPart,
                        UnitAttr::get(write.op->getContext()));
  };
  auto unmark = [&](const Writes &writes) {
    for (const PartWrite &write : writes)
      write.op->removeAttr(attribute::kPart);
  };
  llvm::for_each(kept, mark);
  auto ordered = [&] { return orderBlock(block, {findReadsBefore(block)}); };
  auto order = ordered();
  // Some wait for one another: one after the other, as far as it goes.
  if (!order) {
    llvm::for_each(kept, unmark);
    SmallVector<Writes> candidates = std::move(kept);
    kept.clear();
    for (Writes &writes : candidates) {
      mark(writes);
      if (!ordered())
        unmark(writes);
      else
        kept.push_back(std::move(writes));
    }
    order = ordered();
  }
  if (order)
    applyOrder(block, *order);
  for (const Writes &writes : kept)
    for (const PartWrite &write : writes)
      if (auto assign = dyn_cast<tssa::AssignOp>(write.op))
        simplifySource(assign);
  return kept.size();
}

struct KeepPartsPass : impl::FusionKeepPartsBase<KeepPartsPass> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || !function.getBody().hasOneBlock() ||
        !function->hasAttr(attribute::kUpdates))
      return;
    numKept += Keeper(function).run();
  }
};

} // namespace
} // namespace pyjit::fusion
