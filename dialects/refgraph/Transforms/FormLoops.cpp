//===- FormLoops.cpp - equal iterations become one loop -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: in, graphs; out, graphs in which the decisions of a loop that went
// round are a refgraph.while. A decision that stays says why (`unfolded`).
//
// Why a `while` of them is right for every number of iterations: what a
// decision's `state` and types say, with the tensors of `values` in their
// places, is all that the rest of the run depends on, data apart. Two decisions
// of one site that agree in it are followed by the same operators, up to the
// next decision. So one iteration between two such decisions would do; all that
// were recorded are compared all the same.
//
// Numbers that an iteration changes (a counter) are 0-dim tensors among the
// values. What Python decided by them, or by a second test of data, is a
// speculation (refgraph.speculate): the windows are what they are only where it
// holds. Where it follows from what the head hands over by little work, it is
// computed ahead, at the head, and the loop ends in front of an iteration that
// it does not hold for.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/refgraph/Transforms/TensorNodes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorNames.h"
#include "llvm/ADT/SetVector.h"

namespace pyjit::refgraph {
#define GEN_PASS_DEF_FORMLOOPSPASS
#include "dialects/refgraph/Transforms/Passes.h.inc"
} // namespace pyjit::refgraph

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

namespace {

/// The decisions of a graph as the heads of one loop's iterations. The window
/// of head `i` are the operators from there to head `i + 1`.
class DecidedLoop {
public:
  DecidedLoop(GraphOp graph, SmallVector<DecideOp> found)
      : heads(std::move(found)), nodes(graph.getBody().front()) {
    unsigned count = 0;
    for (Operation &op : graph.getBody().front())
      order[&op] = ++count;
  }

  /// Whether the windows are equal; if not, `reason` is set.
  bool analyse();
  void rewrite();
  std::string reason;

private:
  bool refuse(const Twine &why) {
    reason = why.str();
    return false;
  }
  unsigned slots() { return heads.front().getValues().size(); }
  Value slot(unsigned head, unsigned i) {
    return nodes.getNode(heads[head].getValues()[i]);
  }
  unsigned positionOf(Operation *op) const { return order.lookup(op); }
  unsigned positionOf(DecideOp head) const {
    return positionOf(head.getOperation());
  }
  /// Block arguments come first.
  unsigned definedAt(Value value) const {
    Operation *op = value.getDefiningOp();
    return op ? positionOf(op) : 0;
  }
  bool isBefore(Value value, unsigned head) {
    return definedAt(value) < positionOf(heads[head]);
  }
  SmallVector<Operation *> window(unsigned head) {
    SmallVector<Operation *> ops;
    for (Operation *op = heads[head]->getNextNode(); op != heads[head + 1];
         op = op->getNextNode())
      ops.push_back(op);
    return ops;
  }

  bool checkHeads();
  bool checkOperators();
  bool findCarried();
  bool compareWindows();
  bool compare(unsigned head);
  bool checkSharing();
  bool checkEscapes();
  bool checkSpeculations();
  Value makeCondition(OpBuilder &builder, Location loc, Value condition,
                      llvm::function_ref<Value(Value)> map);

  SmallVector<DecideOp> heads;
  TensorNodes nodes;
  DenseMap<Operation *, unsigned> order;
  /// The slots whose tensor is another one at each head.
  SmallVector<unsigned> carried;
  /// What an iteration relies on, and the operators that compute it.
  SmallVector<SpeculateOp> speculations;
  SmallVector<TensorOp> ahead;
};

bool DecidedLoop::checkHeads() {
  if (heads.size() < 3)
    return refuse("fewer than two iterations to compare");
  DecideOp first = heads.front();
  if (!first.getOutcome())
    return refuse("a decision that nobody made");
  for (auto [i, head] : llvm::enumerate(heads)) {
    if (head.getSiteAttr() != first.getSiteAttr())
      return refuse("decisions of several places");
    if (head.getStateAttr() != first.getStateAttr() ||
        !llvm::equal(head->getOperandTypes(), first->getOperandTypes()))
      return refuse("iteration " + Twine(i + 1) +
                    " begins in another state than the first");
    bool last = i + 1 == heads.size();
    if (head.getOutcomeAttr() != (last ? BoolAttr() : first.getOutcomeAttr()))
      return refuse("decisions of other outcomes");
  }
  return true;
}

/// What an iteration does has to be its operators' results.
bool DecidedLoop::checkOperators() {
  for (unsigned i = 0; i + 1 < heads.size(); ++i)
    for (Operation *op : window(i)) {
      auto call = dyn_cast<TensorOp>(op);
      if (call && (call.hasOperatorTrait("random") ||
                   !call.hasOperatorTrait("as-op-node")))
        return refuse("'" + call.getOverload() +
                      "' has effects beyond its results");
    }
  return true;
}

bool DecidedLoop::findCarried() {
  for (unsigned i = 0; i < slots(); ++i) {
    Value first = slot(0, i);
    bool moves = false;
    for (unsigned head = 1; head < heads.size(); ++head)
      moves |= slot(head, i) != first;
    if (moves)
      carried.push_back(i);
  }
  return true;
}

/// Compares the windows of `head` and `head + 1` under the renaming that takes
/// the former's values to the latter's.
bool DecidedLoop::compare(unsigned head) {
  DenseMap<Value, Value> renamed;
  auto rename = [&](Value from, Value to) {
    auto [it, isNew] = renamed.try_emplace(from, to);
    return isNew || it->second == to;
  };
  auto differ = [&](Operation *op) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << "iterations " << head + 1 << " and " << head + 2 << " differ";
    if (auto call = dyn_cast_or_null<TensorOp>(op))
      os << " at '" << call.getOverload() << "'";
    return refuse(text);
  };
  for (unsigned i : carried)
    if (!rename(slot(head, i), slot(head + 1, i)))
      return differ(nullptr);
  auto equal = [&](Value a, Value b) {
    a = nodes.getNode(a);
    b = nodes.getNode(b);
    auto it = renamed.find(a);
    if (it != renamed.end())
      return it->second == b;
    return isBefore(a, 0) && a == b;
  };
  SmallVector<Operation *> left = window(head), right = window(head + 1);
  for (auto [a, b] : llvm::zip(left, right)) {
    if (a->getName() != b->getName() || a->getNumRegions() ||
        a->getAttrDictionary() != b->getAttrDictionary() ||
        !llvm::equal(a->getResultTypes(), b->getResultTypes()) ||
        a->getNumOperands() != b->getNumOperands())
      return differ(a);
    for (auto [x, y] : llvm::zip(a->getOperands(), b->getOperands()))
      if (!equal(x, y))
        return differ(a);
    for (auto [x, y] : llvm::zip(a->getResults(), b->getResults()))
      if (nodes.getNode(x) == x && (nodes.getNode(y) != y || !rename(x, y)))
        return differ(a);
  }
  if (left.size() != right.size())
    return differ(left.size() > right.size() ? left[right.size()]
                                             : right[left.size()]);
  if (head + 2 >= heads.size())
    return true;
  // What they hand on.
  if (!equal(heads[head + 1].getCondition(), heads[head + 2].getCondition()))
    return differ(nullptr);
  for (unsigned i = 0; i < slots(); ++i)
    if (!equal(slot(head + 1, i), slot(head + 2, i)))
      return differ(nullptr);
  return true;
}

bool DecidedLoop::compareWindows() {
  for (unsigned head = 0; head + 2 < heads.size(); ++head)
    if (!compare(head))
      return false;
  return true;
}

/// Carried tensors are handed on by contents, into memory of their own. Nobody
/// may notice: memory that is written from the first head on is reached through
/// one loop-carried tensor only, and what shares memory does so at each head.
bool DecidedLoop::checkSharing() {
  for (unsigned i = 0; i < slots(); ++i)
    for (unsigned j = 0; j < i; ++j)
      for (unsigned head = 1; head < heads.size(); ++head)
        if ((nodes.getGroup(slot(head, i)) == nodes.getGroup(slot(head, j))) !=
            (nodes.getGroup(slot(0, i)) == nodes.getGroup(slot(0, j))))
          return refuse("tensors that share memory at some iterations only");
  for (unsigned i : carried) {
    for (unsigned head = 0; head < heads.size(); ++head) {
      Value tensor = slot(head, i);
      // The specialization's effects were planned from the last head.
      auto external = [&](Value value) {
        for (Value member : nodes.getMembers(value))
          if (isa<BlockArgument>(member))
            return member;
        return Value();
      };
      if (external(tensor) != external(slot(0, i)))
        return refuse("a tensor that shares an input's memory at some "
                      "iterations only");
      if (llvm::none_of(nodes.getWriters(tensor), [&](Operation *writer) {
            return positionOf(writer) > positionOf(heads.front());
          }))
        continue;
      unsigned ways = 0;
      for (unsigned h = 0; h < heads.size(); ++h)
        for (unsigned j = 0; j < slots(); ++j)
          ways += nodes.getGroup(slot(h, j)) == nodes.getGroup(tensor);
      bool alone = ways == 1;
      for (Value member : nodes.getMembers(tensor)) {
        alone &= !isa<BlockArgument>(member);
        if (member == tensor || !isBefore(member, head))
          continue;
        for (Operation *user : member.getUsers())
          alone &= positionOf(user) < positionOf(heads[head]);
      }
      if (!alone)
        return refuse(
            "a loop-carried tensor is written, and its memory can be seen "
            "by another way");
    }
  }
  return true;
}

/// What follows the loop may use what its state hands over, and nothing else of
/// the iterations.
bool DecidedLoop::checkEscapes() {
  DecideOp last = heads.back();
  auto known = [&](Value value) {
    value = nodes.getNode(value);
    if (isBefore(value, 0) || definedAt(value) > positionOf(last))
      return true;
    return llvm::any_of(carried, [&](unsigned i) {
      return slot(heads.size() - 1, i) == value;
    });
  };
  for (Operation *op = last->getNextNode(); op; op = op->getNextNode())
    for (Value operand : op->getOperands())
      if (!known(operand))
        return refuse("a value of an iteration is used after the loop");
  if (!known(last.getCondition()))
    return refuse("the condition is not handed over");
  return true;
}

/// Speculations have to follow from what the head hands over and what no
/// iteration writes, by operators that may run ahead.
bool DecidedLoop::checkSpeculations() {
  constexpr unsigned kMost = 48, kMostLarge = 6;
  unsigned large = 0;
  llvm::SmallSetVector<Operation *, 16> needed;
  SmallVector<Value> work;
  for (Operation *op : window(0))
    if (auto speculate = dyn_cast<SpeculateOp>(op)) {
      auto flag =
          cast<pyjit::refgraph::TensorType>(speculate.getFlag().getType());
      if (flag.getRank() || !flag.getElementType().isInteger(1))
        return refuse("a second test that is no bool of no dimension");
      speculations.push_back(speculate);
      work.push_back(speculate.getFlag());
    }
  if (speculations.empty())
    return true;
  auto type =
      cast<pyjit::refgraph::TensorType>(heads.front().getCondition().getType());
  if (type.getRank() || !type.getElementType().isInteger(1))
    return refuse("a counted loop whose condition is no bool of no dimension");
  while (!work.empty()) {
    Value node = nodes.getNode(work.pop_back_val());
    bool given =
        llvm::any_of(carried, [&](unsigned i) { return slot(0, i) == node; });
    if (llvm::any_of(nodes.getWriters(node), [&](Operation *writer) {
          return positionOf(writer) > positionOf(heads.front());
        }))
      return refuse("a number that an iteration relies on is written in place");
    if (given || isBefore(node, 0))
      continue;
    auto call = dyn_cast<TensorOp>(node.getDefiningOp());
    if (!call || !call.getMutates().empty() || !call.getAliases().empty() ||
        !call.hasOperatorTrait("pure"))
      return refuse("what an iteration relies on cannot be computed ahead");
    if (needed.insert(call)) {
      llvm::append_range(work, call.getInputs());
      large += llvm::any_of(call->getOperandTypes(), [](Type type) {
        auto tensor = dyn_cast<pyjit::refgraph::TensorType>(type);
        return tensor && tensor.getRank();
      });
    }
    if (needed.size() > kMost || large > kMostLarge)
      return refuse("what an iteration relies on takes long to compute");
  }
  for (Operation *op : window(0))
    if (needed.contains(op))
      ahead.push_back(cast<TensorOp>(op));
  return true;
}

/// Whether the next iteration is one of the loop's: `condition` decides so, and
/// what it relies on holds. `map` gives what the head has of a value of the
/// first window.
Value DecidedLoop::makeCondition(OpBuilder &builder, Location loc,
                                 Value condition,
                                 llvm::function_ref<Value(Value)> map) {
  if (speculations.empty())
    return condition;
  auto call = [&](StringRef overload, ArrayRef<Value> operands,
                  Type type) -> Value {
    SmallVector<Attribute> args(
        operands.size(),
        pyjit::operators::getOperandPlaceholder(builder.getContext()));
    return TensorOp::create(
               builder, loc, TypeRange{type}, builder.getStringAttr(overload),
               operands, builder.getArrayAttr(args),
               builder.getDenseI64ArrayAttr({}),
               builder.getDenseI64ArrayAttr({}), DenseI64ArrayAttr(),
               ArrayAttr(), ArrayAttr(), UnitAttr(), StringAttr())
        .getResult(0);
  };
  IRMapping mapping;
  for (TensorOp op : ahead) {
    for (Value operand : op.getInputs())
      if (!mapping.contains(operand))
        mapping.map(operand, map(operand));
    builder.clone(*op, mapping);
  }
  auto is = [&](Value flag, bool outcome) {
    return outcome ? flag
                   : call(operators::aten::logical_not, {flag}, flag.getType());
  };
  Value all = is(condition, *heads.front().getOutcome());
  for (SpeculateOp speculate : speculations) {
    Value flag = speculate.getFlag();
    Value known = mapping.contains(flag) ? mapping.lookup(flag) : map(flag);
    all = call(operators::aten::logical_and,
               {all, is(known, speculate.getOutcome())}, condition.getType());
  }
  return all;
}

bool DecidedLoop::analyse() {
  return checkHeads() && checkOperators() && findCarried() &&
         compareWindows() && checkSharing() && checkEscapes() &&
         checkSpeculations();
}

void DecidedLoop::rewrite() {
  DecideOp first = heads[0], second = heads[1], last = heads.back();
  OpBuilder builder(first);
  SmallVector<Value> inits;
  SmallVector<Location> locs;
  for (unsigned i : carried) {
    inits.push_back(first.getValues()[i]);
    locs.push_back(inits.back().getLoc());
  }
  SmallVector<Type> types(ValueRange(inits).getTypes());
  Value condition = makeCondition(builder, first.getLoc(), first.getCondition(),
                                  [](Value value) { return value; });
  BoolAttr outcome =
      speculations.empty() ? first.getOutcomeAttr() : builder.getBoolAttr(true);
  auto loop = WhileOp::create(builder, first.getLoc(), types, condition,
                              outcome, inits);
  Block *body = builder.createBlock(&loop.getBody(), {}, types, locs);

  IRMapping mapping;
  auto inside = [&](Value value) {
    if (Value copy = mapping.lookupOrNull(value))
      return copy;
    // An older version of a tensor that is carried, or that lives outside.
    if (Value copy = mapping.lookupOrNull(nodes.getNode(value)))
      return copy;
    return value;
  };
  for (auto [number, i] : llvm::enumerate(carried))
    mapping.map(slot(0, i), body->getArgument(number));
  for (Operation *op : window(0)) {
    if (isa<SpeculateOp>(op))
      continue;
    for (Value operand : op->getOperands())
      mapping.map(operand, inside(operand));
    builder.clone(*op, mapping);
  }
  SmallVector<Value> values;
  for (unsigned i : carried)
    values.push_back(inside(second.getValues()[i]));
  // Of the iteration that would be next.
  auto ofNext = [&](Value value) {
    Value node = nodes.getNode(value);
    for (auto [number, i] : llvm::enumerate(carried))
      if (slot(0, i) == node)
        return values[number];
    return value;
  };
  NextOp::create(builder, second.getLoc(),
                 makeCondition(builder, second.getLoc(),
                               inside(second.getCondition()), ofNext),
                 values);

  // What the last head hands over is what the loop leaves; a tensor that lives
  // outside is itself, whatever was written to it.
  DenseMap<Value, Value> left;
  for (auto [number, i] : llvm::enumerate(carried))
    left[slot(heads.size() - 1, i)] = loop.getResult(number);
  for (Operation *op = last->getNextNode(); op; op = op->getNextNode())
    for (OpOperand &operand : op->getOpOperands()) {
      Value node = nodes.getNode(operand.get());
      if (Value result = left.lookup(node))
        operand.set(result);
      else if (isBefore(node, 0) &&
               definedAt(operand.get()) > positionOf(first) &&
               definedAt(operand.get()) < positionOf(last))
        operand.set(node);
    }
  SmallVector<Operation *> done;
  for (Operation *op = first; op != last; op = op->getNextNode())
    done.push_back(op);
  done.push_back(last);
  for (Operation *op : llvm::reverse(done))
    op->erase();
}

struct FormLoops : public pyjit::refgraph::impl::FormLoopsPassBase<FormLoops> {
  void runOnOperation() override {
    for (GraphOp graph : getOperation().getOps<GraphOp>()) {
      SmallVector<DecideOp> heads(graph.getBody().getOps<DecideOp>());
      if (heads.empty())
        continue;
      DecidedLoop loop(graph, heads);
      if (loop.analyse()) {
        loop.rewrite();
        ++numWhiles;
        continue;
      }
      ++numUnfolded;
      for (DecideOp head : heads)
        head.setUnfolded(loop.reason);
    }
  }
};

} // namespace
