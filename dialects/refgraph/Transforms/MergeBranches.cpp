//===- MergeBranches.cpp - both sides of a branch in one trace ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: in, the segments of one call with a graph break at a branch on a
// tensor's data: what came before (`prefix`), what follows on either side
// (`true`, `false`), and what the frames below go on with (`rest`, innermost
// first). Out, one trace, in which the sides are the arms of a refgraph.if,
// followed by what both end with (TailMerging.h). Fails where somebody could
// tell the one trace from the segments.
//
// If only one side was recorded, the trace goes on with that side behind a
// refgraph.speculate: the launch checks which way the branch goes.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/refgraph/Transforms/SegmentComposer.h"
#include "dialects/refgraph/Transforms/SpecializationPlan.h"
#include "dialects/refgraph/Transforms/TailMerging.h"
#include "mlir/IR/BuiltinOps.h"

namespace pyjit::refgraph {
#define GEN_PASS_DEF_MERGEBRANCHESPASS
#include "dialects/refgraph/Transforms/Passes.h.inc"
} // namespace pyjit::refgraph

using namespace mlir;
using namespace pyjit::refgraph;
namespace segment = pyjit::refgraph::segment;

namespace {

/// The values of one Python frame: its operand stack, then its locals.
using Frame = SmallVector<Value>;

/// Makes one trace of the segments around one branch.
class Merger {
public:
  Merger(TraceOp prefix, ArrayRef<TraceOp> segments)
      : prefix(prefix), segments(segments), composer(prefix) {}
  LogicalResult run();

private:
  LogicalResult readFrames(Value value, SmallVectorImpl<Frame> &into);
  FailureOr<SmallVector<Value>> getArguments(TraceOp segment,
                                             const Frame &frame, Value result);
  FailureOr<Value> getCondition(const Frame &frame);
  LogicalResult mergeArms(TraceOp side[2]);
  LogicalResult goOneWay(TraceOp side, bool outcome);
  LogicalResult goOn(TraceOp segment, const Frame &frame, Value found);
  FailureOr<TraceOp> appendCallers(TraceOp last);
  LogicalResult leaveFrames();
  LogicalResult checkCounters();
  void cleanUp();
  TraceOp find(StringRef role) {
    for (TraceOp trace : segments)
      if (auto name = trace->getAttrOfType<StringAttr>(segment::kRole))
        if (name.getValue() == role)
          return trace;
    return {};
  }

  TraceOp prefix;
  ArrayRef<TraceOp> segments;
  SegmentComposer composer;
  LeaveOp leave;
  /// Those that no segment has gone on with yet, innermost last.
  SmallVector<Frame> frames;
  /// What the last segment returned.
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
Merger::getArguments(TraceOp segment, const Frame &frame, Value result) {
  auto takes = segment->getAttrOfType<DenseI64ArrayAttr>(segment::kTakes);
  SmallVector<Value> arguments;
  for (int64_t number : takes ? takes.asArrayRef() : ArrayRef<int64_t>()) {
    if (number >= int64_t(frame.size()) || (number < 0 && !result))
      return segment.emitError("takes a value that nobody leaves");
    arguments.push_back(number < 0 ? result : frame[number]);
  }
  return arguments;
}

/// The tensor that is asked: on top of the operand stack, in front of the
/// locals.
FailureOr<Value> Merger::getCondition(const Frame &frame) {
  auto number = prefix->getAttrOfType<IntegerAttr>(segment::kCondition);
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

/// The trace goes on with `segment`, which begins with values of `frame`.
LogicalResult Merger::goOn(TraceOp segment, const Frame &frame, Value found) {
  FailureOr<SmallVector<Value>> arguments = getArguments(segment, frame, found);
  if (failed(arguments))
    return failure();
  OpBuilder builder(leave);
  SmallVector<Operation *> written;
  FailureOr<Value> value =
      composer.append(segment, *arguments, builder, builder, written);
  if (failed(value))
    return failure();
  for (Operation *write : written)
    composer.noteWrite(write);
  result = *value;
  return success();
}

LogicalResult Merger::goOneWay(TraceOp side, bool outcome) {
  // If the launch finds that the branch goes the other way, the call starts
  // again elsewhere: nothing may have happened by then. Random numbers that
  // were drawn are put back by the executor.
  WalkResult walked = prefix.walk([&](TensorOp call) {
    if (call.hasOperatorTrait("as-op-node"))
      return WalkResult::advance();
    call.emitError("stays a graph break: '")
        << call.getOverload()
        << "' before the branch has effects beyond its results";
    return WalkResult::interrupt();
  });
  if (walked.wasInterrupted())
    return failure();
  Frame frame = frames.pop_back_val();
  FailureOr<Value> condition = getCondition(frame);
  if (failed(condition))
    return failure();
  OpBuilder builder(leave);
  SpeculateOp::create(builder, leave.getLoc(), *condition, outcome);
  return goOn(side, frame, Value());
}

LogicalResult Merger::mergeArms(TraceOp side[2]) {
  if (composer.hasGradients())
    return prefix.emitError("stays a graph break: a segment leaves a tensor "
                            "that requires grad");
  composer.endGradients();
  for (TraceOp recorded : {prefix, side[0], side[1]})
    for (auto get : recorded.getBody().getOps<GetOp>())
      if (get.liftsLayout())
        return get.emitError(
            "stays a graph break: sizes that differ between calls");
  Frame frame = frames.pop_back_val();
  FailureOr<Value> condition = getCondition(frame);
  if (failed(condition))
    return failure();
  OpBuilder builder(leave);
  auto branch = IfOp::create(builder, leave.getLoc(), TypeRange(), *condition);
  OpBuilder reads(branch);
  DictionaryAttr state = composer.state, leftState;
  ArmEnd arms[2];
  for (unsigned i : {0, 1}) {
    OpBuilder body =
        OpBuilder::atBlockEnd(&branch->getRegion(i).emplaceBlock());
    FailureOr<SmallVector<Value>> arguments =
        getArguments(side[i], frame, Value());
    if (failed(arguments))
      return failure();
    composer.state = state;
    FailureOr<Value> value =
        composer.append(side[i], *arguments, reads, body, arms[i].writes);
    if (failed(value))
      return failure();
    arms[i].left = *value;
    if (i && composer.state != leftState)
      return branch.emitError(
          "stays a graph break: the arms leave different states of "
          "the thread");
    leftState = composer.state;
  }
  // What the frames below and older objects see of the prefix.
  SmallVector<Value> seen;
  for (const Frame &below : frames)
    llvm::append_range(seen, below);
  for (Operation *write : composer.getWrites())
    llvm::append_range(seen, write->getOperands());
  FailureOr<ArmEnd> end = mergeTails(branch, arms, seen, composer);
  if (failed(end))
    return failure();
  for (Operation *write : end->writes)
    composer.noteWrite(write);
  result = end->left;
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
  FailureOr<TraceOp> end = appendCallers(last);
  if (failed(end))
    return failure();
  if ((*end)->hasAttr(segment::kGraphBreak)) {
    if (failed(leaveFrames()))
      return failure();
  } else if (!frames.empty()) {
    return prefix.emitError("leaves frames that nothing goes on with");
  }
  leave.getValueMutable().assign(result);
  cleanUp();
  return success(succeeded(composer.checkGradients()) &&
                 succeeded(checkCounters()));
}

/// Each caller's frame goes on with what the frame above it returned. Returns
/// the last segment.
FailureOr<TraceOp> Merger::appendCallers(TraceOp last) {
  for (TraceOp rest : segments) {
    auto role = rest->getAttrOfType<StringAttr>(segment::kRole);
    if (!role || role.getValue() != "rest")
      continue;
    if (frames.empty() || last->hasAttr(segment::kGraphBreak))
      return rest.emitError("goes on with a frame that is not there");
    if (failed(goOn(rest, frames.pop_back_val(), result)))
      return failure();
    last = rest;
  }
  return last;
}

/// The last segment ends with a graph break: its frames lie above those that
/// are left.
LogicalResult Merger::leaveFrames() {
  if (failed(readFrames(result, frames)))
    return failure();
  OpBuilder builder(leave);
  auto tuple = [&](ArrayRef<Value> elements) -> Value {
    return CreateOp::create(
        builder, leave.getLoc(), ObjType::get(prefix.getContext(), "tuple"),
        builder.getStringAttr("tuple"), IntegerAttr(), builder.getArrayAttr({}),
        builder.getArrayAttr({}), elements, ValueRange(), ValueRange());
  };
  SmallVector<Value> tuples;
  for (const Frame &frame : frames)
    tuples.push_back(tuple(frame));
  result = tuple(tuples);
  return success();
}

/// A counter that the arms advance differently far is nobody's to see.
LogicalResult Merger::checkCounters() {
  bool differ = llvm::any_of(
      prefix.getBody().front().getOps<AdvanceOp>(),
      [](AdvanceOp advance) { return advance.getLeast().has_value(); });
  return success(!differ || succeeded(SpecializationPlan::compute(prefix)));
}

/// Erases the frames that the prefix left for the segments, and its attributes.
void Merger::cleanUp() {
  for (Operation &op : llvm::make_early_inc_range(
           llvm::reverse(prefix.getBody().front().getOperations())))
    if (auto made = dyn_cast<CreateOp>(op);
        op.use_empty() && (made ? !made.setsVariable() : isa<ConstantOp>(op)))
      op.erase();
  for (StringRef name :
       {StringRef(segment::kRole), StringRef(segment::kGradMode),
        StringRef(segment::kTensorClass), StringRef(segment::kCondition)})
    prefix->removeAttr(name);
}

struct MergeBranches
    : public pyjit::refgraph::impl::MergeBranchesPassBase<MergeBranches> {
  void runOnOperation() override {
    SmallVector<TraceOp> segments(getOperation().getOps<TraceOp>());
    for (TraceOp trace : segments) {
      auto role = trace->getAttrOfType<StringAttr>(segment::kRole);
      if (!role || role.getValue() != "prefix")
        continue;
      if (failed(Merger(trace, segments).run()))
        return signalPassFailure();
      ++numBranches;
    }
    for (TraceOp trace : segments)
      if (trace->hasAttr(segment::kRole))
        trace.erase();
  }
};

} // namespace
