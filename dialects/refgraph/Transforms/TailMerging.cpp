//===- TailMerging.cpp - sink the common end of two arms ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Three steps. *Matching* walks what the arms leave and write, and pairs the
// tensors of one arm with those of the other. *Splitting* looks for the longest
// common tail such that every tensor that crosses into it may be handed over
// by contents. *Rewriting* clones the tail behind a new branch.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/TailMerging.h"
#include "dialects/refgraph/Transforms/SegmentComposer.h"
#include "dialects/refgraph/Transforms/TensorNodes.h"
#include "dialects/refgraph/Transforms/VersionAdvances.h"

using namespace mlir;
using namespace pyjit::refgraph;

namespace {

/// A value of the true arm and its counterpart in the false arm.
using Pair = std::pair<Value, Value>;

Value getSide(const Pair &pair, unsigned side) {
  return side ? pair.second : pair.first;
}

/// A one-to-one relation between the values of the two arms.
class Matching {
public:
  enum Outcome { New, Known, Conflict };
  Outcome add(Value a, Value b) {
    auto [there, isNew] = forward.try_emplace(a, b);
    auto [back, isNewBack] = backward.try_emplace(b, a);
    if (there->second != b || back->second != a)
      return Conflict;
    return isNew ? New : Known;
  }

private:
  DenseMap<Value, Value> forward, backward;
};

/// Which tensors pass from the arms to a tail of `tailSize` operators.
struct Split {
  unsigned tailSize = 0;
  SmallVector<Pair> crossing;
  /// Those of `crossing` (by index) that the arms compute, so that the branch
  /// has to return them; the others are the same value on both sides.
  SmallVector<unsigned> results;
  /// Tensors of `crossing` whose identity or memory matters behind the branch:
  /// they are left, written or viewed there, not just read.
  DenseSet<Value> shown;
};

class TailMerger {
public:
  TailMerger(IfOp branch, SegmentComposer &composer)
      : branch(branch), composer(composer), block(branch->getBlock()) {
    for (unsigned side : {0, 1})
      for (Operation &op : branch->getRegion(side).front())
        if (isa<TensorOp, IfOp>(op))
          ops[side].push_back(&op);
  }

  FailureOr<ArmEnd> run(const ArmEnd (&arms)[2], ArrayRef<Value> seen);

private:
  // Matching.
  LogicalResult match(Value a, Value b);
  LogicalResult matchWrites(Operation *a, Operation *b);
  void matchOuter(Value value);

  // Splitting.
  unsigned countCommonTail() const;
  FailureOr<Split> split(unsigned tailSize);
  FailureOr<Split> findSplit();
  LogicalResult checkResults(unsigned side, const Split &split,
                             const TensorNodes &tensors);
  LogicalResult checkHeads(unsigned tailSize);

  // Rewriting.
  IfOp createBranch(const Split &split);
  void cloneTail(unsigned tailSize, OpBuilder &builder);
  Value getTensorBehind(Value tensor) const;
  Value rebuild(Value value, OpBuilder &builder);
  Operation *cloneWith(Operation *op, ArrayRef<Value> operands,
                       OpBuilder &builder);
  void cloneCounters(IfOp merged, const Split &split, OpBuilder &builder);
  void cloneShown(IfOp merged, OpBuilder &builder);
  void eraseLeftovers(IfOp merged, unsigned tailSize);

  ArrayRef<Operation *> getTail(unsigned side, unsigned size) const {
    return ArrayRef(ops[side]).take_back(size);
  }
  bool isOuter(Value value) const {
    return composer.getNode(value).getDefiningOp()->getBlock() == block;
  }
  LogicalResult refuse(const Twine &why) {
    reason = why.str();
    return failure();
  }

  IfOp branch;
  SegmentComposer &composer;
  Block *block;
  /// The tensor work of each arm, in order.
  SmallVector<Operation *> ops[2];
  /// Tensors that are one tensor behind the branch.
  SmallVector<Pair> tensors;
  Matching objects;
  DenseSet<Value> visited;
  /// Why the last attempt failed.
  std::string reason;

  // From values of the true arm to values behind the branch.
  IRMapping cloned;
  DenseMap<Value, Value> branchResults;
};

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

/// Whatever an object from before the branch holds is visible behind it.
void TailMerger::matchOuter(Value value) {
  value = composer.getNode(value);
  if (!visited.insert(value).second)
    return;
  if (isa<pyjit::refgraph::TensorType>(value.getType()))
    tensors.push_back({value, value});
  else if (auto created = value.getDefiningOp<CreateOp>())
    for (Value operand : created->getOperands())
      matchOuter(operand);
}

/// One value behind the branch stands for `a` or `b`, depending on the arm.
LogicalResult TailMerger::match(Value a, Value b) {
  Value first = composer.getNode(a), second = composer.getNode(b);
  if (first == second && isOuter(first)) {
    matchOuter(first);
    return success();
  }
  if (first.getType() != second.getType()) {
    std::string text;
    llvm::raw_string_ostream(text)
        << "the arms leave " << first.getType() << " and " << second.getType();
    return refuse(text);
  }
  if (isa<pyjit::refgraph::TensorType>(first.getType())) {
    tensors.push_back({a, b});
    return success();
  }
  switch (objects.add(first, second)) {
  case Matching::Conflict:
    return refuse("an object is one in one arm and two in the other");
  case Matching::Known:
    return success();
  case Matching::New:
    break;
  }
  Operation *left = first.getDefiningOp(), *right = second.getDefiningOp();
  bool alike = left->getName() == right->getName() &&
               left->getAttrDictionary() == right->getAttrDictionary() &&
               left->getNumOperands() == right->getNumOperands();
  if (!alike || !isa<CreateOp, ConstantOp>(left) ||
      (isa<CreateOp>(left) && (isOuter(first) || isOuter(second))))
    return refuse("the arms leave different objects");
  for (auto [x, y] : llvm::zip(left->getOperands(), right->getOperands()))
    if (failed(match(x, y)))
      return failure();
  return success();
}

LogicalResult TailMerger::matchWrites(Operation *a, Operation *b) {
  if (a->getName() != b->getName() ||
      a->getAttrDictionary() != b->getAttrDictionary() ||
      a->getNumOperands() != b->getNumOperands())
    return refuse("the arms write to objects in different ways");
  for (auto [x, y] : llvm::zip(a->getOperands(), b->getOperands()))
    if (failed(match(x, y)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Splitting
//===----------------------------------------------------------------------===//

/// The number of operators, from the end, that differ only in their operands.
unsigned TailMerger::countCommonTail() const {
  unsigned count = 0;
  for (auto [a, b] : llvm::zip(llvm::reverse(ops[0]), llvm::reverse(ops[1]))) {
    if (!isa<TensorOp>(a) || a->getName() != b->getName() ||
        a->getAttrDictionary() != b->getAttrDictionary() ||
        !llvm::equal(a->getResultTypes(), b->getResultTypes()) ||
        !llvm::equal(a->getOperandTypes(), b->getOperandTypes()))
      break;
    ++count;
  }
  return count;
}

/// Takes the last `tailSize` operators of both arms as the tail, if it can.
FailureOr<Split> TailMerger::split(unsigned tailSize) {
  Split split;
  split.tailSize = tailSize;
  // Positions count from the end, and from 1: 0 stands for an op of the head.
  DenseMap<Operation *, unsigned> position[2];
  for (unsigned side : {0, 1})
    for (auto [i, op] : llvm::enumerate(llvm::reverse(ops[side])))
      if (i < tailSize)
        position[side][op] = i + 1;

  Matching matching;
  auto visit = [&](Value a, Value b, bool isShown) {
    a = composer.getNode(a);
    b = composer.getNode(b);
    // Numbers stand in front of the arms.
    if (!isa<pyjit::refgraph::TensorType>(a.getType()))
      return a == b ? success() : refuse("the arms end with different numbers");
    if (isShown) {
      split.shown.insert(a);
      split.shown.insert(b);
    }
    switch (matching.add(a, b)) {
    case Matching::Conflict:
      return refuse("a tensor is one in one arm and two in the other");
    case Matching::Known:
      return success();
    case Matching::New:
      break;
    }
    unsigned inA = position[0].lookup(a.getDefiningOp()),
             inB = position[1].lookup(b.getDefiningOp());
    if (inA || inB) {
      if (inA != inB || cast<OpResult>(a).getResultNumber() !=
                            cast<OpResult>(b).getResultNumber())
        return refuse("the arms end with different operators");
      return success();
    }
    if (a.getType() != b.getType())
      return refuse("the arms leave tensors of different layouts");
    if (a != b)
      split.results.push_back(split.crossing.size());
    split.crossing.push_back({a, b});
    return success();
  };

  for (auto [a, b] : tensors)
    if (failed(visit(a, b, /*isShown=*/true)))
      return failure();
  for (unsigned i = 0; i < tailSize; ++i) {
    auto call = cast<TensorOp>(ops[0][ops[0].size() - 1 - i]);
    Operation *other = ops[1][ops[1].size() - 1 - i];
    for (auto [number, operand] : llvm::enumerate(call->getOperands())) {
      bool isShown = llvm::is_contained(call.getAliases(), number) ||
                     llvm::is_contained(call.getMutates(), number);
      if (failed(visit(operand, other->getOperand(number), isShown)))
        return failure();
    }
  }

  TensorNodes nodes(*block);
  if (failed(checkResults(0, split, nodes)) ||
      failed(checkResults(1, split, nodes)) || failed(checkHeads(tailSize)))
    return failure();
  return split;
}

/// The branch returns copies of what the arms computed. This must be invisible.
LogicalResult TailMerger::checkResults(unsigned side, const Split &split,
                                       const TensorNodes &nodes) {
  DenseMap<Value, unsigned> crossingsOfGroup;
  for (const Pair &pair : split.crossing)
    ++crossingsOfGroup[nodes.getGroup(getSide(pair, side))];
  for (unsigned i : split.results) {
    Value tensor = getSide(split.crossing[i], side);
    auto type = cast<pyjit::refgraph::TensorType>(tensor.getType());
    if (type.isSymbolic() || !type.isDense())
      return refuse("an arm leaves a tensor with gaps in its memory");
    // A tensor that the tail only reads has no memory that anybody sees.
    auto tail = getTail(side, split.tailSize);
    if (!split.shown.contains(split.crossing[i].first) &&
        !split.shown.contains(split.crossing[i].second) &&
        llvm::none_of(nodes.getWriters(tensor), [&](Operation *writer) {
          return llvm::is_contained(tail, writer);
        }))
      continue;
    for (Value member : nodes.getMembers(tensor))
      if (isa<GetOp, ObjectOp>(member.getDefiningOp()))
        return refuse("an arm leaves a tensor that lives outside of the call, "
                      "or a view of one, and the other does not");
    if (crossingsOfGroup[nodes.getGroup(tensor)] > 1)
      return refuse(
          "an arm leaves a tensor whose memory can be seen by another "
          "way");
  }
  return success();
}

/// What stays in the arms has to be plain tensor work.
LogicalResult TailMerger::checkHeads(unsigned tailSize) {
  for (unsigned side : {0, 1})
    for (Operation *op : ArrayRef(ops[side]).drop_back(tailSize))
      if (auto call = dyn_cast<TensorOp>(op);
          call && (call.hasOperatorTrait("random") ||
                   !call.hasOperatorTrait("as-op-node")))
        return refuse("'" + call.getOverload() +
                      "' of one arm has effects beyond its results");
  return success();
}

/// The split with the longest tail.
FailureOr<Split> TailMerger::findSplit() {
  // With a shorter tail, more tensors have to cross: the reason of the first
  // attempt says most.
  std::string firstReason;
  for (unsigned size = countCommonTail();; --size) {
    FailureOr<Split> found = split(size);
    if (succeeded(found))
      return found;
    if (firstReason.empty())
      firstReason = reason;
    if (size == 0)
      return refuse(firstReason);
  }
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

Value TailMerger::getTensorBehind(Value tensor) const {
  if (Value copy = cloned.lookupOrNull(tensor))
    return copy;
  Value node = composer.getNode(tensor);
  if (Value copy = cloned.lookupOrNull(node))
    return copy;
  Value result = branchResults.lookup(node);
  return result ? result : node;
}

Operation *TailMerger::cloneWith(Operation *op, ArrayRef<Value> operands,
                                 OpBuilder &builder) {
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  cloned.map(op->getResults(), copy->getResults());
  return copy;
}

/// A value that the true arm leaves, behind the branch.
Value TailMerger::rebuild(Value value, OpBuilder &builder) {
  if (isa<pyjit::refgraph::TensorType>(value.getType()))
    return getTensorBehind(value);
  if (isOuter(value))
    return value;
  if (Value copy = cloned.lookupOrNull(value))
    return copy;
  Operation *op = value.getDefiningOp();
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(rebuild(operand, builder));
  return cloneWith(op, operands, builder)->getResult(0);
}

/// Moves the arms into a branch that returns what crosses.
IfOp TailMerger::createBranch(const Split &split) {
  SmallVector<Type> types;
  for (unsigned i : split.results)
    types.push_back(split.crossing[i].first.getType());
  OpBuilder builder(branch);
  auto merged =
      IfOp::create(builder, branch.getLoc(), types, branch.getCondition());
  for (unsigned side : {0, 1}) {
    Region &region = merged->getRegion(side);
    region.takeBody(branch->getRegion(side));
    builder.setInsertionPointToEnd(&region.front());
    SmallVector<Value> values;
    for (unsigned i : split.results)
      values.push_back(getSide(split.crossing[i], side));
    YieldOp::create(builder, branch.getLoc(), values);
  }
  for (auto [result, i] : llvm::zip(merged.getResults(), split.results))
    branchResults[split.crossing[i].first] = result;
  return merged;
}

void TailMerger::cloneTail(unsigned tailSize, OpBuilder &builder) {
  for (Operation *op : getTail(0, tailSize)) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(getTensorBehind(operand));
    composer.noteVersions(cloneWith(op, operands, builder));
  }
}

/// What the arms said of counters of tensors that are visible behind them.
void TailMerger::cloneCounters(IfOp merged, const Split &split,
                               OpBuilder &builder) {
  auto emit = [&](Value tensor, Advance advance) {
    if (advance.most)
      AdvanceOp::create(builder, merged.getLoc(), tensor, advance.most,
                        advance.least == advance.most
                            ? IntegerAttr()
                            : builder.getI64IntegerAttr(advance.least));
  };
  Counters counters(*block);
  auto before = sumAdvances({block->begin(), merged->getIterator()}, counters);
  llvm::MapVector<Value, Advance> arms[2];
  for (unsigned side : {0, 1}) {
    Block &arm = merged->getRegion(side).front();
    arms[side] = sumAdvances({arm.begin(), arm.end()}, counters);
  }
  // What was there before the branch.
  auto isOuterGroup = [&](Value group) {
    return group.getParentBlock() == block;
  };
  llvm::SetVector<Value> outer;
  for (auto &arm : arms)
    for (auto [group, advance] : arm)
      if (isOuterGroup(group))
        outer.insert(group);
  // Statistics of a batch norm are written and not counted: that is said, too.
  for (Value group : outer)
    emit(group, arms[0].lookup(group).either(arms[1].lookup(group)));
  // Copies that the branch returns stand for the arms' tensors.
  DenseSet<Value> crossing;
  for (auto [number, pair] : llvm::enumerate(split.crossing)) {
    Advance ends[2];
    for (unsigned side : {0, 1}) {
      Value group = counters.getCounter(getSide(pair, side));
      ends[side] = arms[side].lookup(group);
      if (isOuterGroup(group))
        ends[side] = ends[side] + before.lookup(group);
      else
        crossing.insert(group);
    }
    Advance end = ends[0].either(ends[1]);
    if (end.most && llvm::is_contained(split.results, number))
      emit(getTensorBehind(pair.first), end);
  }
  // What the tail makes, it makes in both arms.
  for (auto [group, advance] : arms[0])
    if (Value copy = cloned.lookupOrNull(group); copy && advance.most &&
                                                 !isOuterGroup(group) &&
                                                 !crossing.contains(group))
      emit(copy, advance);
}

/// How autograd sees what is visible behind the arms.
void TailMerger::cloneShown(IfOp merged, OpBuilder &builder) {
  for (auto shown : merged->getRegion(0).front().getOps<ShownOp>()) {
    Value node = composer.getNode(shown.getTensor());
    if (Value copy = cloned.lookupOrNull(node))
      node = copy;
    if (node.getParentBlock() == block)
      ShownOp::create(builder, shown.getLoc(), node, shown.getModeAttr());
  }
}

/// Drops the arms' own objects and writes, and the two originals of the tail.
void TailMerger::eraseLeftovers(IfOp merged, unsigned tailSize) {
  SmallVector<Operation *> dead;
  for (Region &region : merged->getRegions())
    for (Operation &op : region.front().without_terminator())
      if (!isa<TensorOp, IfOp>(op))
        dead.push_back(&op);
  for (unsigned side : {0, 1})
    llvm::append_range(dead, getTail(side, tailSize));
  for (Operation *op : dead)
    op->dropAllUses();
  for (Operation *op : dead)
    op->erase();
  branch.erase();
  auto isEmpty = [](Region &region) {
    return llvm::hasSingleElement(region.front());
  };
  if (merged.getNumResults() == 0 &&
      llvm::all_of(merged->getRegions(), isEmpty))
    merged.erase();
}

FailureOr<ArmEnd> TailMerger::run(const ArmEnd (&arms)[2],
                                  ArrayRef<Value> seen) {
  auto report = [&]() -> LogicalResult {
    return branch.emitError("stays a graph break: ") << reason;
  };
  for (Value value : seen)
    matchOuter(value);
  if (arms[0].writes.size() != arms[1].writes.size()) {
    (void)refuse("the arms write to objects in different ways");
    return report();
  }
  for (auto [a, b] : llvm::zip(arms[0].writes, arms[1].writes))
    if (failed(matchWrites(a, b)))
      return report();
  if (failed(match(arms[0].left, arms[1].left)))
    return report();
  FailureOr<Split> split = findSplit();
  if (failed(split))
    return report();

  IfOp merged = createBranch(*split);
  OpBuilder builder(branch);
  cloneTail(split->tailSize, builder);
  ArmEnd end;
  for (Operation *write : arms[0].writes) {
    SmallVector<Value> operands;
    for (Value operand : write->getOperands())
      operands.push_back(rebuild(operand, builder));
    end.writes.push_back(cloneWith(write, operands, builder));
  }
  end.left = rebuild(arms[0].left, builder);
  cloneCounters(merged, *split, builder);
  cloneShown(merged, builder);
  eraseLeftovers(merged, split->tailSize);
  return end;
}

} // namespace

namespace pyjit::refgraph {

FailureOr<ArmEnd> mergeTails(IfOp branch, const ArmEnd (&arms)[2],
                             ArrayRef<Value> seen, SegmentComposer &composer) {
  return TailMerger(branch, composer).run(arms, seen);
}

} // namespace pyjit::refgraph
