//===- OnlineSum.cpp - A maximum and the exponentials below it ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/OnlineSum.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
namespace pyjit::codegen {
namespace {

/// A value of a generic's body at a node's point, or the node's own value.
struct Place {
  Node *node;
  Value value;

  static Place of(Node *node) {
    return {node, node->kind == Node::Kind::Compute ? node->element : Value()};
  }
  /// Through block arguments to what computes it.
  Place resolved() const {
    Place place = *this;
    while (auto argument = dyn_cast_or_null<BlockArgument>(place.value)) {
      if (argument.getOwner() != place.node->op.getBody())
        break;
      place = of(place.node->inputs[argument.getArgNumber()]);
    }
    return place;
  }
};

/// Whether both are the same function of the same elements.
bool isSame(Place x, Place y) {
  x = x.resolved();
  y = y.resolved();
  if (!x.value || !y.value)
    return !x.value && !y.value &&
           (x.node == y.node ||
            (x.node->kind == Node::Kind::Load &&
             y.node->kind == Node::Kind::Load && x.node->type == y.node->type &&
             x.node->buffer == y.node->buffer &&
             x.node->offset == y.node->offset));
  Operation *first = x.value.getDefiningOp();
  Operation *second = y.value.getDefiningOp();
  if (isa_and_nonnull<arith::ConstantOp>(first))
    return isa_and_nonnull<arith::ConstantOp>(second) &&
           first->getAttrDictionary() == second->getAttrDictionary();
  // What asks for a position or reads by one is compared by nobody here.
  if (!first || !second || first->getNumOperands() == 0 ||
      first->getDialect()->getNamespace() != "arith")
    return false;
  if (first->getName() != second->getName() ||
      first->getAttrDictionary() != second->getAttrDictionary() ||
      first->getResultTypes() != second->getResultTypes() ||
      first->getNumOperands() != second->getNumOperands())
    return false;
  for (auto [a, b] : llvm::zip(first->getOperands(), second->getOperands()))
    if (!isSame({x.node, a}, {y.node, b}))
      return false;
  return true;
}

/// Whether a value of the node's body follows from `source` and constants.
bool followsFrom(const Node *source, Node *node, Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return node->inputs[argument.getArgNumber()] == source;
  Operation *op = value.getDefiningOp();
  if (isa<arith::ConstantOp>(op))
    return true;
  if (op->getNumOperands() == 0 || op->getNumRegions() != 0 ||
      op->getBlock() != node->op.getBody() || !isPure(op))
    return false;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return followsFrom(source, node, operand);
  });
}

/// Whether `value` of the node's body is `source`, as it is.
bool isValueOf(const Node *source, Node *node, Value value) {
  Place place = Place{node, value}.resolved();
  return !place.value && place.node == source;
}

/// Whether the place says whether `maximum` is minus infinity.
bool isUnbounded(const Node *maximum, Place place) {
  place = place.resolved();
  auto compare = place.value ? place.value.getDefiningOp<arith::CmpFOp>()
                             : arith::CmpFOp();
  return compare && compare.getPredicate() == arith::CmpFPredicate::OEQ &&
         isValueOf(maximum, place.node, compare.getLhs()) &&
         matchPattern(compare.getRhs(), m_NegInfFloat());
}

} // namespace

std::optional<OnlineSum> findOnlineSum(const KernelGraph &graph,
                                       unsigned number,
                                       const llvm::SmallBitVector &reduced) {
  Node *found[2] = {nullptr, nullptr};
  for (auto &node : graph.nodes) {
    if (node->kind != Node::Kind::Reduce)
      continue;
    unsigned stage = node->inputs[0]->stage;
    if (stage != number && stage != number + 1)
      continue;
    if (found[stage - number] || !node->type.isF32())
      return std::nullopt;
    found[stage - number] = node.get();
  }
  for (const Store &store : graph.stores)
    if (store.dims.anyCommon(reduced) &&
        (store.node->stage == number || store.node->stage == number + 1))
      return std::nullopt;
  auto [maximum, sum] = found;
  if (!maximum || !sum || !isa<arith::MaximumFOp>(maximum->combiner) ||
      !isa<arith::AddFOp>(sum->combiner))
    return std::nullopt;

  Node *exponential = sum->inputs[0];
  if (exponential->kind != Node::Kind::Compute)
    return std::nullopt;
  Place place = Place::of(exponential).resolved();
  auto exp =
      place.value ? place.value.getDefiningOp<math::ExpOp>() : math::ExpOp();
  auto difference =
      exp ? exp.getOperand().getDefiningOp<arith::SubFOp>() : arith::SubFOp();
  if (!difference ||
      !isSame({place.node, difference.getLhs()}, Place::of(maximum->inputs[0])))
    return std::nullopt;
  if (!followsFrom(maximum, place.node, difference.getRhs()))
    return std::nullopt;
  return OnlineSum{maximum, sum, place.node, difference.getRhs()};
}

std::optional<Softmax> asSoftmax(const KernelGraph &graph) {
  llvm::SmallBitVector reduced(graph.dims.size());
  for (auto [d, dim] : llvm::enumerate(graph.dims))
    reduced[d] = dim.reduction;
  if (graph.numStages != 3 || graph.stores.size() != 1)
    return std::nullopt;
  std::optional<OnlineSum> online = findOnlineSum(graph, 0, reduced);
  if (!online ||
      !isValueOf(online->maximum, online->exponential, online->bound))
    return std::nullopt;
  Place result = Place::of(graph.stores.front().node).resolved();
  Softmax softmax;
  if (auto select = result.value ? result.value.getDefiningOp<arith::SelectOp>()
                                 : arith::SelectOp()) {
    if (!isUnbounded(online->maximum, {result.node, select.getCondition()}) ||
        !matchPattern(select.getTrueValue(), m_AnyZeroFloat()))
      return std::nullopt;
    softmax.safe = true;
    result = Place{result.node, select.getFalseValue()}.resolved();
  }
  auto division = result.value ? result.value.getDefiningOp<arith::DivFOp>()
                               : arith::DivFOp();
  if (!division)
    return std::nullopt;
  Place dividend = Place{result.node, division.getLhs()}.resolved();
  Place whole = Place::of(online->sum->inputs[0]).resolved();
  if (dividend.node != whole.node || dividend.value != whole.value ||
      !isValueOf(online->sum, result.node, division.getRhs()))
    return std::nullopt;
  return softmax;
}

} // namespace pyjit::codegen
