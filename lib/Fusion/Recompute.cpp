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
#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Codegen/IndexMath.h"
#include "pyjit/Codegen/KernelGraph.h"

using namespace mlir;
using pyjit::codegen::KernelGraph;

namespace pyjit::fusion {

/// Operations on the way; bounds what is compiled again.
constexpr unsigned kShort = 12;
/// Fewer elements are not worth another operand.
constexpr int64_t kFew = 1 << 10;

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

/// Whether the elements of both lie in memory in one order, with gaps or not.
static bool liesAs(RankedTensorType type, RankedTensorType whole) {
  if (type.getShape() == whole.getShape() &&
      type.getEncoding() == whole.getEncoding())
    return true;
  if (!type.hasStaticShape() || !whole.hasStaticShape() ||
      type.getNumElements() != whole.getNumElements())
    return false;
  // Dims that stand in one order in both, of one shape; else row by row.
  bool alike = type.getShape() == whole.getShape();
  SmallVector<int64_t> strides = tssa::getStrides(type),
                       others = tssa::getStrides(whole);
  auto follows = [](RankedTensorType t, ArrayRef<int64_t> s, int64_t d,
                    int64_t e) {
    return t.getDimSize(d) == 1 || t.getDimSize(e) == 1 || s[d] <= s[e];
  };
  for (auto [t, own, other] :
       {std::tuple(type, ArrayRef(strides), ArrayRef(others)),
        std::tuple(whole, ArrayRef(others), ArrayRef(strides))})
    for (int64_t d = 0; d < t.getRank(); ++d)
      for (int64_t e = 0; e < d; ++e)
        if (follows(t, own, d, e) != (!alike || follows(t, other, d, e)))
          return false;
  return true;
}

/// Whether a view shows elements in the order in which they lie: a reshape, or
/// the first places along each dim.
static bool keepsOrder(Operation *view) {
  auto op = cast<linalg::GenericOp>(view);
  auto from = cast<RankedTensorType>(op.getInputs()[0].getType());
  auto to = cast<RankedTensorType>(op.getResult(0).getType());
  if (!from.hasStaticShape() || !to.hasStaticShape())
    return false;
  AffineExpr zero = getAffineConstantExpr(0, op.getContext());
  SmallVector<AffineExpr> loops;
  for (auto [d, extent] : llvm::enumerate(to.getShape()))
    loops.push_back(extent == 1 ? zero : getAffineDimExpr(d, op.getContext()));
  SmallVector<AffineExpr> read, made;
  for (auto [operand, exprs] : {std::pair(op.getDpsInputOperand(0), &read),
                                std::pair(op.getDpsInitOperand(0), &made)})
    for (AffineExpr index : op.getMatchingIndexingMap(operand).getResults())
      exprs->push_back(
          codegen::simplify(index.replaceDims(loops), to.getShape()));
  auto offset = [&](ArrayRef<AffineExpr> indices, RankedTensorType type) {
    AffineExpr sum = zero;
    for (auto [index, stride] : llvm::zip(indices, tssa::getStrides(type)))
      sum = sum + index * stride;
    return simplifyAffineExpr(sum, loops.size(), 0);
  };
  return read == made || offset(read, from) == offset(made, to);
}

bool Planner::addOperand(OpOperand *operand, Candidate &owner, Way &way) {
  auto op = cast<linalg::GenericOp>(operand->getOwner());
  Value value = operand->get();
  if (!isa<RankedTensorType>(value.getType()))
    return false;
  auto whole = cast<RankedTensorType>(way.result.getType());
  // What it shows, if that is all of it.
  bool isWhole = op.getMatchingIndexingMap(operand).isIdentity() &&
                 liesAs(cast<RankedTensorType>(value.getType()), whole);
  Operation *producer = value.getDefiningOp();
  while (producer && isView(producer) && !owner.owned.contains(producer)) {
    isWhole = isWhole && keepsOrder(producer);
    value = producer->getOperand(0);
    producer = value.getDefiningOp();
  }
  if (written.contains(value))
    return false;
  if (isWhole) {
    if (producer && owner.owned.contains(producer) &&
        !isLiveOut(value, owner) &&
        !(way.isShort && bitsOf(value) < bitsOf(way.result)))
      return addToWay(producer, owner, way);
    way.inputs.insert(value);
    return true;
  }
  auto type = cast<RankedTensorType>(value.getType());
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

/// Adds the kernels that read `value`, through views or not; returns whether
/// no one else does.
bool Planner::addReaders(Value value, llvm::SetVector<Candidate *> &readers) {
  for (Operation *user : value.getUsers()) {
    Candidate *reader = groupOf.lookup(user);
    if (isView(user)) {
      // A view that is copied.
      if (reader || user->getBlock() != &block ||
          !addReaders(user->getResult(0), readers))
        return false;
      continue;
    }
    if (!reader)
      return false;
    if (reader->isNeeded)
      readers.insert(reader);
    if (auto again = computedAgain.find(user); again != computedAgain.end())
      readers.insert(again->second.begin(), again->second.end());
  }
  return true;
}

/// The kernels that read `result`, if no one else does.
std::optional<SmallVector<Planner::Candidate *>>
Planner::readersOf(Value result, Candidate &owner) {
  llvm::SetVector<Candidate *> readers;
  if (!isLarge(result) || !addReaders(result, readers))
    return std::nullopt;
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
