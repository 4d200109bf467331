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

/// Operations on the way; bounds what is compiled again.
constexpr unsigned kShort = 12;
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

/// Whether the elements of both lie in memory in one order.
static bool liesAs(RankedTensorType type, RankedTensorType whole) {
  if (type.getShape() == whole.getShape())
    return type.getEncoding() == whole.getEncoding();
  return type.hasStaticShape() && whole.hasStaticShape() &&
         type.getNumElements() == whole.getNumElements() &&
         !type.getEncoding() && !whole.getEncoding();
}

/// Whether a view of row-major elements shows them in their order: a reshape.
static bool keepsOrder(Operation *view) {
  auto op = cast<linalg::GenericOp>(view);
  auto from = cast<RankedTensorType>(op.getInputs()[0].getType());
  auto to = cast<RankedTensorType>(op.getResult(0).getType());
  if (!liesAs(from, to) || !from.hasStaticShape() || from.getEncoding())
    return false;
  AffineExpr zero = getAffineConstantExpr(0, op.getContext());
  SmallVector<AffineExpr> loops;
  for (auto [d, extent] : llvm::enumerate(to.getShape()))
    loops.push_back(extent == 1 ? zero : getAffineDimExpr(d, op.getContext()));
  auto offset = [&](OpOperand *operand, ArrayRef<int64_t> shape) {
    AffineExpr sum = zero;
    for (auto [index, size] :
         llvm::zip(op.getMatchingIndexingMap(operand).getResults(), shape))
      sum = sum * size + index.replaceDims(loops);
    return simplifyAffineExpr(sum, loops.size(), 0);
  };
  return offset(op.getDpsInputOperand(0), from.getShape()) ==
         offset(op.getDpsInitOperand(0), to.getShape());
}

bool Planner::addOperand(OpOperand *operand, Candidate &owner, Way &way) {
  auto op = cast<linalg::GenericOp>(operand->getOwner());
  Value value = operand->get();
  if (!isa<RankedTensorType>(value.getType()))
    return false;
  auto whole = cast<RankedTensorType>(way.result.getType());
  // What it shows, if that is all of it.
  bool isWhole = op.getMatchingIndexingMap(operand).isIdentity();
  Operation *producer = value.getDefiningOp();
  while (producer && isView(producer) && !owner.owned.contains(producer)) {
    isWhole = isWhole && keepsOrder(producer);
    value = producer->getOperand(0);
    producer = value.getDefiningOp();
  }
  if (written.contains(value))
    return false;
  auto type = cast<RankedTensorType>(value.getType());
  if (isWhole && liesAs(type, whole)) {
    if (producer && owner.owned.contains(producer) &&
        !isLiveOut(value, owner) &&
        !(way.isShort && bitsOf(value) < bitsOf(way.result)))
      return addToWay(producer, owner, way);
    way.inputs.insert(value);
    return true;
  }
  // What is spread over the elements.
  return type.hasStaticShape() && whole.hasStaticShape() &&
         kMuchLess * type.getNumElements() <= whole.getNumElements();
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

/// What an element of a kernel costs, each value once.
static unsigned costOf(const KernelGraph &graph) {
  unsigned cost = 0;
  for (auto &node : graph.nodes) {
    cost += node->cost; // with its inputs'
    for (codegen::Node *input : node->inputs)
      cost -= input ? input->cost : 0;
  }
  return cost;
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
  if (!graph || costOf(*graph) > options.maxRecomputeCost)
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
  auto swap = [&] {
    for (auto [reader, with] : llvm::zip(readers, changed)) {
      std::swap(*reader, with);
      for (Operation *op : way.ops)
        if (reader->views.contains(op))
          computedAgain[op].insert(reader);
        else
          computedAgain[op].remove(reader);
    }
  };
  swap();
  // What the way begins with is stored now.
  Group left = boundary(owner);
  owner.isNeeded = !left.results.empty();
  if (!owner.isNeeded || KernelGraph::build(left.inputs, left.results, reason))
    return true;
  swap();
  return false;
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
