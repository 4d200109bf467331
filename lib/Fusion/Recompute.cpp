//===- Recompute.cpp - What is cheaper to compute again than to read ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A value that several kernels read has to be stored. Where it follows
// elementwise, in a few operations, from what is stored anyway, and reading
// that moves no more bits than to write the value and to read it, each of them
// computes it for itself instead. Conversions of half precision and distances
// from a mean are such values. Else what has fewer bits on the way is stored.
//
//===----------------------------------------------------------------------===//

#include "Planner.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Codegen/KernelGraph.h"

using namespace mlir;
using pyjit::codegen::KernelGraph;

namespace pyjit::fusion {

/// Scalar operations for an element, transcendental ones weighted.
constexpr unsigned kCheap = 12;
/// Operations on the way; bounds what is compiled again.
constexpr unsigned kShort = 6;
/// Fewer elements are not worth another operand.
constexpr int64_t kFew = 1 << 10;
/// An operand that is so many times smaller costs nothing.
constexpr int64_t kMuchLess = 16;

/// How a value is computed from what is stored, or from what is to be.
struct Planner::Way {
  Value result;
  /// Whether it ends at values that have fewer bits.
  bool isShort;
  Ops ops;
  /// Operands of the result's own size and layout.
  llvm::SetVector<Value> inputs;
};

/// The bits of an element in memory.
static unsigned bitsOf(Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  return element.isIntOrFloat() ? std::max(8u, element.getIntOrFloatBitWidth())
                                : 128;
}

bool Planner::addOperand(OpOperand *operand, Candidate &owner, Way &way) {
  auto op = cast<linalg::GenericOp>(operand->getOwner());
  Value value = operand->get();
  auto type = dyn_cast<RankedTensorType>(value.getType());
  auto whole = cast<RankedTensorType>(way.result.getType());
  if (!type)
    return false;
  Operation *producer = value.getDefiningOp();
  bool isOwn = producer && owner.owned.contains(producer);
  if (type.getShape() == whole.getShape() &&
      op.getMatchingIndexingMap(operand).isIdentity() &&
      !(producer && isView(producer) && !isOwn)) {
    if (isOwn && !isLiveOut(value, owner) &&
        !(way.isShort && bitsOf(value) < bitsOf(way.result)))
      return addToWay(producer, owner, way);
    way.inputs.insert(value);
    return type.getEncoding() == whole.getEncoding() &&
           !written.contains(value);
  }
  // What is spread over the elements.
  while (producer && isView(producer) && !owner.owned.contains(producer)) {
    value = producer->getOperand(0);
    producer = value.getDefiningOp();
  }
  type = cast<RankedTensorType>(value.getType());
  return (!producer || !owner.owned.contains(producer) ||
          isLiveOut(value, owner)) &&
         type.hasStaticShape() && whole.hasStaticShape() &&
         kMuchLess * type.getNumElements() <= whole.getNumElements() &&
         !written.contains(value);
}

bool Planner::addToWay(Operation *op, Candidate &owner, Way &way) {
  if (way.ops.contains(op))
    return true;
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic || generic->hasAttr(attribute::kPacked) ||
      generic->getNumResults() != 1 || generic.getNumReductionLoops() != 0 ||
      generic.hasIndexSemantics() || nextWrites.contains(op) ||
      !generic.getMatchingIndexingMap(generic.getDpsInitOperand(0))
           .isIdentity() ||
      way.ops.size() == kShort)
    return false;
  // A body that reads tensors itself.
  bool indexed = false;
  generic.walk([&](tensor::ExtractOp) { indexed = true; });
  way.ops.insert(op);
  return !indexed &&
         llvm::all_of(generic.getDpsInputOperands(), [&](OpOperand *operand) {
           Operation *producer = operand->get().getDefiningOp();
           return (producer && isFree(producer)) ||
                  addOperand(operand, owner, way);
         });
}

/// Whether it matters that a value is stored.
static bool isLarge(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() != 0 &&
         (!type.hasStaticShape() || type.getNumElements() >= kFew);
}

/// The kernels that read `result`, if no one else does.
std::optional<SmallVector<Planner::Candidate *>>
Planner::readersOf(Value result, Candidate &owner) {
  if (!isLarge(result))
    return std::nullopt;
  llvm::SetVector<Candidate *> readers;
  for (Operation *user : result.getUsers()) {
    Candidate *reader = groupOf.lookup(user);
    // Read through views, or by no kernel: it is stored anyway.
    if (!reader || isView(user))
      return std::nullopt;
    if (reader->isNeeded)
      readers.insert(reader);
    if (auto again = computedAgain.find(user); again != computedAgain.end())
      readers.insert(again->second.begin(), again->second.end());
  }
  readers.remove(&owner);
  return readers.takeVector();
}

/// Whether all readers of a value go its way themselves from now on.
bool Planner::goThemselves(ArrayRef<Candidate *> readers, Candidate &owner,
                           Way &&way) {
  if (!addToWay(way.result.getDefiningOp(), owner, way))
    return false;
  Candidate alone;
  alone.owned = way.ops;
  for (Operation *op : way.ops)
    addViews(op, alone);
  std::string reason;
  auto graph = KernelGraph::build(boundary(alone).inputs, {way.result}, reason);
  if (!graph || llvm::any_of(graph->nodes,
                             [](auto &node) { return node->cost > kCheap; }))
    return false;
  unsigned read = 0;
  std::vector<Candidate> changed;
  for (Candidate *reader : readers) {
    Group before = boundary(*reader);
    for (Value input : way.inputs)
      if (!llvm::is_contained(before.inputs, input))
        read += bitsOf(input);
    Candidate &with = changed.emplace_back(*reader);
    with.views.insert(way.ops.begin(), way.ops.end());
    with.views.insert(alone.views.begin(), alone.views.end());
    if (!worthwhile(with, *reader, alone))
      return false;
  }
  if (read > (readers.size() + 1) * bitsOf(way.result))
    return false;
  for (auto [reader, with] : llvm::zip(readers, changed)) {
    *reader = std::move(with);
    for (Operation *op : way.ops)
      computedAgain[op].insert(reader);
  }
  owner.isNeeded = !boundary(owner).results.empty();
  return true;
}

void Planner::recompute() {
  // The last first: what its readers compute again, they need of others.
  for (auto &candidate : llvm::reverse(candidates))
    if (!candidate->owned.empty())
      for (Value result : boundary(*candidate).results)
        if (auto readers = readersOf(result, *candidate);
            readers && !readers->empty() &&
            !goThemselves(*readers, *candidate, {result, false, {}, {}}))
          goThemselves(*readers, *candidate, {result, true, {}, {}});
}

} // namespace pyjit::fusion
