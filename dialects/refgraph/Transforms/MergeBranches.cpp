//===- MergeBranches.cpp - both sides of a branch in one trace ------------===//
//
// Contract: in, the parts of one call that was cut at a branch on a tensor's
// data: what came before (`prefix`), what follows on either side (`true`,
// `false`), and what the frames below go on with (`rest`, innermost first).
// Out, one trace, in which the sides are the arms of a refgraph.if. Fails where
// the one trace could be told from the parts.
//
// The sides run to the end of the function, or to the next cut, so that their
// ends are equal as a rule: what both end with, operator by operator, is taken
// behind the refgraph.if. What crosses from the arms to there are its results.
// They are handed out by contents, into memory of their own; so each has to be
// memory that nobody else sees from there on, in both arms.
//
// Where only one side is there, the trace goes on with that, and a
// refgraph.expect says so.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/PartComposer.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/refgraph/Transforms/TensorNodes.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SetVector.h"

namespace pyjit::refgraph {
#define GEN_PASS_DEF_MERGEBRANCHESPASS
#include "dialects/refgraph/Transforms/Passes.h.inc"
} // namespace pyjit::refgraph

using namespace mlir;
using namespace pyjit::refgraph;
namespace part = pyjit::refgraph::part;

namespace {

using Frame = SmallVector<Value>;

/// Finds out what two arms have in common, and takes it behind them.
class ArmJoin {
public:
  ArmJoin(IfOp branch, PartComposer &composer)
      : branch(branch), composer(composer), block(branch->getBlock()) {
    for (unsigned side : {0, 1})
      for (Operation &op : branch->getRegion(side).front())
        if (isa<TensorOp, IfOp>(op))
          ops[side].push_back(&op);
  }

  /// `seen`: what the frames below can see of the prefix.
  LogicalResult join(Value left[2], ArrayRef<Operation *> writes[2],
                     ArrayRef<Value> seen);
  /// What the arms left, behind them.
  Value result;
  SmallVector<Operation *> written;

private:
  using Pair = std::pair<Value, Value>;
  LogicalResult refuse(const Twine &why) {
    reason = why.str();
    return failure();
  }
  bool isOuter(Value value) const {
    return composer.getNode(value).getDefiningOp()->getBlock() == block;
  }
  LogicalResult equate(Value a, Value b);
  void see(Value value);
  LogicalResult equateWrites(Operation *a, Operation *b);
  unsigned countEqualEnds();
  LogicalResult split(unsigned count);
  LogicalResult checkOwn(unsigned side, unsigned count,
                         const TensorNodes &nodes);
  LogicalResult checkArms(unsigned count);
  void rewrite(unsigned count);
  Value build(Value value, OpBuilder &builder);
  Value moved(Value value);

  IfOp branch; ///< with all that the arms did
  IfOp made;   ///< with what stays in them
  PartComposer &composer;
  Block *block;
  SmallVector<Operation *> ops[2];
  /// Pairs of tensors that what comes behind takes for one.
  SmallVector<Pair> pairs;
  /// Objects that the arms made: which of the one is which of the other.
  DenseMap<Value, Value> objects, objectsBack;
  DenseSet<Value> visited;
  std::string reason;
  // Of the split that is tried.
  SmallVector<Pair> crossing;
  SmallVector<unsigned> results; // of `crossing`
  DenseSet<Value> shown;         // of `crossing`, for more than being read
  // Of the split that is taken, by values of the first arm.
  IRMapping mapping;
  DenseMap<Value, Value> nodes;
};

/// All tensors that an object of the prefix holds can be seen behind the arms.
void ArmJoin::see(Value value) {
  value = composer.getNode(value);
  if (!visited.insert(value).second)
    return;
  if (isa<pyjit::refgraph::TensorType>(value.getType()))
    pairs.push_back({value, value});
  else if (auto created = value.getDefiningOp<CreateOp>())
    for (Value operand : created->getOperands())
      see(operand);
}

/// What is `a` if the one arm ran, and `b` if the other did.
LogicalResult ArmJoin::equate(Value a, Value b) {
  Value first = composer.getNode(a), second = composer.getNode(b);
  if (first == second && isOuter(first)) {
    see(first);
    return success();
  }
  if (first.getType() != second.getType()) {
    std::string text;
    llvm::raw_string_ostream(text)
        << "the arms leave " << first.getType() << " and " << second.getType();
    return refuse(text);
  }
  if (isa<pyjit::refgraph::TensorType>(first.getType())) {
    pairs.push_back({a, b});
    return success();
  }
  auto [there, isNew] = objects.try_emplace(first, second);
  auto [back, isNewBack] = objectsBack.try_emplace(second, first);
  if (there->second != second || back->second != first)
    return refuse("an object is one in one arm and two in the other");
  if (!isNew)
    return success();
  Operation *left = first.getDefiningOp(), *right = second.getDefiningOp();
  bool alike = left->getName() == right->getName() &&
               left->getAttrDictionary() == right->getAttrDictionary() &&
               left->getNumOperands() == right->getNumOperands();
  if (!alike || !isa<CreateOp, ConstantOp>(left) ||
      (isa<CreateOp>(left) && (isOuter(first) || isOuter(second))))
    return refuse("the arms leave different objects");
  for (auto [x, y] : llvm::zip(left->getOperands(), right->getOperands()))
    if (failed(equate(x, y)))
      return failure();
  return success();
}

LogicalResult ArmJoin::equateWrites(Operation *a, Operation *b) {
  if (a->getName() != b->getName() ||
      a->getAttrDictionary() != b->getAttrDictionary() ||
      a->getNumOperands() != b->getNumOperands())
    return refuse("the arms write to objects in different ways");
  for (auto [x, y] : llvm::zip(a->getOperands(), b->getOperands()))
    if (failed(equate(x, y)))
      return failure();
  return success();
}

/// So many operators at the end differ in nothing but what they take.
unsigned ArmJoin::countEqualEnds() {
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

/// Whether the last `count` operators of both can go behind the arms.
LogicalResult ArmJoin::split(unsigned count) {
  DenseMap<Operation *, unsigned> place[2];
  for (unsigned side : {0, 1})
    for (auto [i, op] : llvm::enumerate(llvm::reverse(ops[side])))
      if (i < count)
        place[side][op] = i + 1;
  crossing.clear();
  results.clear();
  shown.clear();
  DenseMap<Value, Value> there, back;
  auto visit = [&](Value a, Value b, bool isShown) {
    a = composer.getNode(a);
    b = composer.getNode(b);
    if (isShown) {
      shown.insert(a);
      shown.insert(b);
    }
    auto [it, isNew] = there.try_emplace(a, b);
    auto [other, isNewOther] = back.try_emplace(b, a);
    if (it->second != b || other->second != a)
      return refuse("a tensor is one in one arm and two in the other");
    if (!isNew)
      return success();
    unsigned inA = place[0].lookup(a.getDefiningOp()),
             inB = place[1].lookup(b.getDefiningOp());
    if (inA || inB) {
      if (inA != inB || cast<OpResult>(a).getResultNumber() !=
                            cast<OpResult>(b).getResultNumber())
        return refuse("the arms end with different operators");
      return success();
    }
    if (a.getType() != b.getType())
      return refuse("the arms leave tensors of different layouts");
    if (a != b)
      results.push_back(crossing.size());
    crossing.push_back({a, b});
    return success();
  };
  for (auto [a, b] : pairs)
    if (failed(visit(a, b, true)))
      return failure();
  for (unsigned i = 0; i < count; ++i) {
    auto call = cast<TensorOp>(ops[0][ops[0].size() - 1 - i]);
    Operation *other = ops[1][ops[1].size() - 1 - i];
    for (auto [number, x] : llvm::enumerate(call->getOperands())) {
      bool isShown = llvm::is_contained(call.getAliases(), number) ||
                     llvm::is_contained(call.getMutates(), number);
      if (failed(visit(x, other->getOperand(number), isShown)))
        return failure();
    }
  }
  TensorNodes nodes(*block);
  return failure(failed(checkOwn(0, count, nodes)) ||
                 failed(checkOwn(1, count, nodes)) || failed(checkArms(count)));
}

/// Results are handed out by contents. Nobody may notice.
LogicalResult ArmJoin::checkOwn(unsigned side, unsigned count,
                                const TensorNodes &nodes) {
  auto of = [&](const Pair &pair) { return side ? pair.second : pair.first; };
  DenseMap<Value, unsigned> ways;
  for (const Pair &pair : crossing)
    ++ways[nodes.getGroup(of(pair))];
  for (unsigned i : results) {
    Value tensor = of(crossing[i]);
    auto type = cast<pyjit::refgraph::TensorType>(tensor.getType());
    if (type.isSymbolic() || !type.isDense())
      return refuse("an arm leaves a tensor with gaps in its memory");
    // What is only read behind the arms has no memory that anybody sees.
    auto behind = ArrayRef(ops[side]).take_back(count);
    if (!shown.contains(crossing[i].first) &&
        !shown.contains(crossing[i].second) &&
        llvm::none_of(nodes.getWriters(tensor), [&](Operation *writer) {
          return llvm::is_contained(behind, writer);
        }))
      continue;
    for (Value member : nodes.getMembers(tensor))
      if (isa<GetOp, ObjectOp>(member.getDefiningOp()))
        return refuse("an arm leaves a tensor that lives outside of the call, "
                      "or a view of one, and the other does not");
    if (ways[nodes.getGroup(tensor)] > 1)
      return refuse(
          "an arm leaves a tensor whose memory can be seen by another "
          "way");
  }
  return success();
}

/// What stays in the arms has to be plain tensor work.
LogicalResult ArmJoin::checkArms(unsigned count) {
  for (unsigned side : {0, 1})
    for (Operation *op : ArrayRef(ops[side]).drop_back(count))
      if (auto call = dyn_cast<TensorOp>(op);
          call && (call.hasOperatorTrait("random") ||
                   !call.hasOperatorTrait("as-op-node")))
        return refuse("'" + call.getOverload() +
                      "' of one arm has effects "
                      "beyond its results");
  return success();
}

/// A tensor behind the arms.
Value ArmJoin::moved(Value value) {
  if (Value copy = mapping.lookupOrNull(value))
    return copy;
  Value node = composer.getNode(value);
  if (Value copy = mapping.lookupOrNull(node))
    return copy;
  return nodes.lookup(node) ? nodes.lookup(node) : node;
}

Value ArmJoin::build(Value value, OpBuilder &builder) {
  if (isa<pyjit::refgraph::TensorType>(value.getType()))
    return moved(value);
  if (isOuter(value))
    return value;
  if (Value copy = mapping.lookupOrNull(value))
    return copy;
  Operation *op = value.getDefiningOp();
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(build(operand, builder));
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  mapping.map(value, copy->getResult(0));
  return copy->getResult(0);
}

void ArmJoin::rewrite(unsigned count) {
  SmallVector<Type> types;
  for (unsigned i : results)
    types.push_back(crossing[i].first.getType());
  OpBuilder builder(branch);
  made = IfOp::create(builder, branch.getLoc(), types, branch.getCondition());
  for (unsigned side : {0, 1}) {
    Region &region = made->getRegion(side);
    region.takeBody(branch->getRegion(side));
    Block &arm = region.front();
    builder.setInsertionPointToEnd(&arm);
    SmallVector<Value> values;
    for (unsigned i : results)
      values.push_back(side ? crossing[i].second : crossing[i].first);
    YieldOp::create(builder, branch.getLoc(), values);
  }
  for (auto [result, i] : llvm::zip(made.getResults(), results))
    nodes[crossing[i].first] = result;
  builder.setInsertionPointAfter(made);
  for (Operation *op : ArrayRef(ops[0]).take_back(count)) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(moved(operand));
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    composer.noteVersions(copy);
    mapping.map(op->getResults(), copy->getResults());
  }
}

LogicalResult ArmJoin::join(Value left[2], ArrayRef<Operation *> writes[2],
                            ArrayRef<Value> seen) {
  auto give = [&]() -> LogicalResult {
    return branch.emitError("stays a cut: ") << reason;
  };
  for (Value value : seen)
    see(value);
  if (writes[0].size() != writes[1].size()) {
    (void)refuse("the arms write to objects in different ways");
    return give();
  }
  for (auto [a, b] : llvm::zip(writes[0], writes[1]))
    if (failed(equateWrites(a, b)))
      return give();
  if (failed(equate(left[0], left[1])))
    return give();
  unsigned equal = countEqualEnds(), count = equal;
  std::string first;
  while (failed(split(count))) {
    if (first.empty())
      first = reason;
    if (count == 0) {
      reason = first;
      return give();
    }
    --count;
  }
  rewrite(count);
  OpBuilder builder(branch);
  for (Operation *write : writes[0]) {
    SmallVector<Value> operands;
    for (Value operand : write->getOperands())
      operands.push_back(build(operand, builder));
    Operation *copy = builder.clone(*write);
    copy->setOperands(operands);
    written.push_back(copy);
  }
  result = build(left[0], builder);
  // What is left of the arms' own objects and writes, and of what went behind.
  SmallVector<Operation *> dead;
  for (Region &region : made->getRegions())
    for (Operation &op : region.front().without_terminator())
      if (!isa<TensorOp, IfOp>(op))
        dead.push_back(&op);
  for (unsigned side : {0, 1})
    llvm::append_range(dead, ArrayRef(ops[side]).take_back(count));
  for (Operation *op : dead)
    op->dropAllUses();
  for (Operation *op : dead)
    op->erase();
  branch.erase();
  if (made.getNumResults() == 0 &&
      llvm::all_of(made->getRegions(), [](Region &region) {
        return llvm::hasSingleElement(region.front());
      }))
    made.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// The parts of a call
//===----------------------------------------------------------------------===//

class Merger {
public:
  Merger(TraceOp prefix, ArrayRef<TraceOp> parts)
      : prefix(prefix), parts(parts), composer(prefix) {}
  LogicalResult run();

private:
  LogicalResult readFrames(Value value, SmallVectorImpl<Frame> &into);
  FailureOr<SmallVector<Value>> getArguments(TraceOp part, const Frame &frame,
                                             Value result);
  FailureOr<Value> getCondition(const Frame &frame);
  LogicalResult mergeArms(TraceOp side[2]);
  LogicalResult goOneWay(TraceOp side, bool outcome);
  LogicalResult goOn(TraceOp part, const Frame &frame, Value found);
  TraceOp find(StringRef role) {
    for (TraceOp trace : parts)
      if (auto name = trace->getAttrOfType<StringAttr>(part::kRole))
        if (name.getValue() == role)
          return trace;
    return {};
  }

  TraceOp prefix;
  ArrayRef<TraceOp> parts;
  PartComposer composer;
  LeaveOp leave;
  SmallVector<Frame> frames;
  Value result;
};

LogicalResult Merger::readFrames(Value value, SmallVectorImpl<Frame> &into) {
  auto outer = value.getDefiningOp<CreateOp>();
  if (!outer || outer.getKind() != "tuple")
    return prefix.emitError("leaves no frames");
  for (Value element : outer.getElements()) {
    auto inner = element.getDefiningOp<CreateOp>();
    if (!inner || inner.getKind() != "tuple")
      return prefix.emitError("leaves no frames");
    into.emplace_back(inner.getElements());
  }
  return success();
}

FailureOr<SmallVector<Value>>
Merger::getArguments(TraceOp part, const Frame &frame, Value result) {
  auto takes = part->getAttrOfType<DenseI64ArrayAttr>(part::kTakes);
  SmallVector<Value> arguments;
  for (int64_t number : takes ? takes.asArrayRef() : ArrayRef<int64_t>()) {
    if (number >= int64_t(frame.size()) || (number < 0 && !result))
      return part.emitError("takes a value that nobody leaves");
    arguments.push_back(number < 0 ? result : frame[number]);
  }
  return arguments;
}

/// The tensor that is asked: on top of the operand stack, in front of the
/// locals.
FailureOr<Value> Merger::getCondition(const Frame &frame) {
  auto number = prefix->getAttrOfType<IntegerAttr>(part::kCondition);
  if (!number || number.getInt() < 0 ||
      number.getInt() >= int64_t(frame.size()))
    return prefix.emitError("leaves no condition");
  Value condition = frame[number.getInt()];
  // True or False is what the tensor that it was made of says.
  if (auto made = condition.getDefiningOp<CreateOp>();
      made && made.getKind() == "number")
    condition = made.getElements().front();
  auto type = dyn_cast<pyjit::refgraph::TensorType>(condition.getType());
  if (!type || type.isSymbolic() || *type.getNumElements().getConstant() != 1)
    return prefix.emitError("branches on ")
           << condition.getType() << ", which is no tensor of one element";
  return condition;
}

/// The trace goes on with `part`, which begins with values of `frame`.
LogicalResult Merger::goOn(TraceOp part, const Frame &frame, Value found) {
  FailureOr<SmallVector<Value>> arguments = getArguments(part, frame, found);
  if (failed(arguments))
    return failure();
  OpBuilder builder(leave);
  SmallVector<Operation *> written;
  FailureOr<Value> value =
      composer.append(part, *arguments, builder, builder, written);
  if (failed(value))
    return failure();
  for (Operation *write : written)
    composer.noteWrite(write);
  result = *value;
  return success();
}

LogicalResult Merger::goOneWay(TraceOp side, bool outcome) {
  // Where the launch finds out that it is the other way, somebody else answers
  // the call from its beginning.
  WalkResult walked = prefix.walk([&](TensorOp call) {
    if (!call.hasOperatorTrait("random") && call.hasOperatorTrait("as-op-node"))
      return WalkResult::advance();
    call.emitError("stays a cut: '")
        << call.getOverload()
        << "' in front of the branch has effects beyond its results";
    return WalkResult::interrupt();
  });
  if (walked.wasInterrupted())
    return failure();
  Frame frame = frames.pop_back_val();
  FailureOr<Value> condition = getCondition(frame);
  if (failed(condition))
    return failure();
  OpBuilder builder(leave);
  ExpectOp::create(builder, leave.getLoc(), *condition, outcome);
  return goOn(side, frame, Value());
}

LogicalResult Merger::mergeArms(TraceOp side[2]) {
  Frame frame = frames.pop_back_val();
  FailureOr<Value> condition = getCondition(frame);
  if (failed(condition))
    return failure();
  OpBuilder builder(leave);
  auto branch = IfOp::create(builder, leave.getLoc(), TypeRange(), *condition);
  OpBuilder reads(branch);
  DictionaryAttr state = composer.state, leftState;
  Value left[2];
  SmallVector<Operation *> writes[2];
  for (unsigned i : {0, 1}) {
    OpBuilder body =
        OpBuilder::atBlockEnd(&branch->getRegion(i).emplaceBlock());
    FailureOr<SmallVector<Value>> arguments =
        getArguments(side[i], frame, Value());
    if (failed(arguments))
      return failure();
    composer.state = state;
    FailureOr<Value> value =
        composer.append(side[i], *arguments, reads, body, writes[i]);
    if (failed(value))
      return failure();
    left[i] = *value;
    if (i && composer.state != leftState)
      return branch.emitError("stays a cut: the arms leave different states of "
                              "the thread");
    leftState = composer.state;
  }
  // What the frames below and older objects see of the prefix.
  SmallVector<Value> seen;
  for (const Frame &below : frames)
    llvm::append_range(seen, below);
  for (Operation *write : composer.getWrites())
    llvm::append_range(seen, write->getOperands());
  ArmJoin join(branch, composer);
  ArrayRef<Operation *> written[2] = {writes[0], writes[1]};
  if (failed(join.join(left, written, seen)))
    return failure();
  for (Operation *write : join.written)
    composer.noteWrite(write);
  result = join.result;
  return success();
}

LogicalResult Merger::run() {
  leave = cast<LeaveOp>(prefix.getBody().front().getTerminator());
  TraceOp sides[2] = {find("true"), find("false")};
  TraceOp last = sides[0] ? sides[0] : sides[1];
  if (!last)
    return prefix.emitError("has no side of a branch");
  if (failed(composer.begin()) || failed(readFrames(leave.getValue(), frames)))
    return failure();
  if (frames.empty())
    return prefix.emitError("leaves no frames");
  if (failed(sides[0] && sides[1] ? mergeArms(sides)
                                  : goOneWay(last, last == sides[0])))
    return failure();
  for (TraceOp rest : parts) {
    auto role = rest->getAttrOfType<StringAttr>(part::kRole);
    if (!role || role.getValue() != "rest")
      continue;
    if (frames.empty() || last->hasAttr(part::kCut))
      return rest.emitError("goes on with a frame that is not there");
    if (failed(goOn(rest, frames.pop_back_val(), result)))
      return failure();
    last = rest;
  }
  OpBuilder builder(leave);
  if (last->hasAttr(part::kCut)) {
    if (failed(readFrames(result, frames)))
      return failure();
    auto tuple = [&](ArrayRef<Value> elements) -> Value {
      return CreateOp::create(
          builder, leave.getLoc(), ObjType::get(prefix.getContext(), "tuple"),
          builder.getStringAttr("tuple"), IntegerAttr(),
          builder.getArrayAttr({}), builder.getArrayAttr({}), elements,
          ValueRange(), ValueRange());
    };
    SmallVector<Value> tuples;
    for (const Frame &frame : frames)
      tuples.push_back(tuple(frame));
    result = tuple(tuples);
  } else if (!frames.empty()) {
    return prefix.emitError("leaves frames that nothing goes on with");
  }
  leave.getValueMutable().assign(result);
  // The frames that went on.
  for (Operation &op : llvm::make_early_inc_range(
           llvm::reverse(prefix.getBody().front().getOperations())))
    if (isa<CreateOp, ConstantOp>(op) && op.use_empty())
      op.erase();
  for (StringRef name :
       {StringRef(part::kRole), StringRef(part::kGradMode),
        StringRef(part::kTensorClass), StringRef(part::kCondition)})
    prefix->removeAttr(name);
  return success();
}

struct MergeBranches
    : public pyjit::refgraph::impl::MergeBranchesPassBase<MergeBranches> {
  void runOnOperation() override {
    SmallVector<TraceOp> parts(getOperation().getOps<TraceOp>());
    for (TraceOp trace : parts) {
      auto role = trace->getAttrOfType<StringAttr>(part::kRole);
      if (!role || role.getValue() != "prefix")
        continue;
      if (failed(Merger(trace, parts).run()))
        return signalPassFailure();
      ++numBranches;
    }
    for (TraceOp trace : parts)
      if (trace->hasAttr(part::kRole))
        trace.erase();
  }
};

} // namespace
