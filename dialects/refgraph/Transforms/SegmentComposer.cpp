//===- SegmentComposer.cpp - one recording after another ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/SegmentComposer.h"
#include "dialects/refgraph/IR/ObjectTypes.h"
#include "dialects/refgraph/IR/PythonValues.h"
#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;

namespace pyjit::refgraph {

SegmentComposer::SegmentComposer(TraceOp trace)
    : trace(trace),
      tensorClass(trace->getAttrOfType<IntegerAttr>(segment::kTensorClass)) {}

//===----------------------------------------------------------------------===//
// Which values are one object
//===----------------------------------------------------------------------===//

Value SegmentComposer::getNode(Value value) const {
  for (auto it = parent.find(value); it != parent.end();
       it = parent.find(value))
    value = it->second;
  return value;
}

void SegmentComposer::unite(Value a, Value b) {
  a = getNode(a);
  b = getNode(b);
  if (a != b)
    parent[b] = a;
}

void SegmentComposer::noteVersions(Operation *op) {
  if (auto call = dyn_cast<TensorOp>(op))
    for (auto [i, operand] : llvm::enumerate(call.getMutates()))
      unite(call.getInputs()[operand], call.getVersion(i));
}

/// A context variable is set by making its token, and reset by deleting that.
void SegmentComposer::noteVariable(Operation *op) {
  if (auto made = dyn_cast<CreateOp>(op)) {
    if (made.setsVariable())
      variables.push_back({getNode(made.getElements()[0]),
                           getNode(made.getResult()), made.getElements()[1]});
  } else if (auto reset = dyn_cast<DeleteOp>(op)) {
    Value token = getNode(reset.getHolder());
    size_t before = variables.size();
    llvm::erase_if(variables,
                   [&](const Variable &v) { return v.token == token; });
    resetsFromBefore |= isObject(token.getType(), "_contextvars.Token") &&
                        variables.size() == before;
  }
}

/// Whether a token takes back the last set of its variable, which nothing has
/// taken back.
bool SegmentComposer::isLastSet(CreateOp token) const {
  Value variable = getNode(token.getElements()[0]);
  for (const Variable &set : llvm::reverse(variables))
    if (set.variable == variable)
      return set.token == getNode(token.getResult());
  return false;
}

void SegmentComposer::note(Operation *op) {
  noteVariable(op);
  auto pin = [&](Value value, std::optional<int64_t> index) {
    if (!index)
      return;
    auto [it, isNew] = byIndex.try_emplace(*index, value);
    if (!isNew)
      unite(it->second, value);
  };
  if (auto object = dyn_cast<ObjectOp>(op)) {
    pin(object.getResult(), object.getIndex());
  } else if (auto get = dyn_cast<GetOp>(op)) {
    pin(get.getResult(), get.getIdentity());
    places.try_emplace({getNode(get.getHolder()),
                        static_cast<int>(get.getSelector()), get.getKeyAttr()},
                       get);
  } else if (auto same = dyn_cast<SameOp>(op)) {
    unite(same.getLhs(), same.getRhs());
  } else if (isa<ExternalOp>(op)) {
    if (external)
      unite(external, op->getResult(0));
    else
      external = op->getResult(0);
  } else if (isWrite(op)) {
    writes.push_back(op);
  } else {
    op->walk([&](TensorOp call) { noteVersions(call); });
  }
}

/// What stays as it is throughout a call, other than what segments may change.
static bool isOfTheCall(StateOp op) {
  static constexpr StringRef names[] = {
      "handles_exception", "autocast_nested", "saved_tensor_hooks",
      "sdp_flash",         "sdp_math",        "sdp_mem_efficient",
      "sdp_overrideable",  "sdp_cudnn"};
  return llvm::any_of(
      names, [&](StringRef name) { return op.getValues().contains(name); });
}

/// What no merged trace has.
static LogicalResult refuse(Operation &op) {
  if (isa<RequireGradOp, DifferentiableOp>(op))
    return op.emitError("stays a graph break: a segment leaves a tensor that "
                        "requires grad");
  return op.emitError("a decision that another segment would have to follow");
}

LogicalResult SegmentComposer::begin() {
  noteShared(trace);
  for (Operation &op : trace.getBody().front()) {
    if (isa<DecideOp, SymbolOp, RequireGradOp>(op))
      return refuse(op);
    if (auto found = dyn_cast<StateOp>(op); found && !isOfTheCall(found))
      state = found.getValues();
    note(&op);
    if (auto marked = dyn_cast<DifferentiableOp>(op))
      differentiable.insert(getNode(marked.getTensor()));
  }
  if (auto mode = trace->getAttrOfType<BoolAttr>(segment::kGradMode)) {
    NamedAttrList values(state);
    values.set("grad_mode", mode);
    state = values.getDictionary(trace.getContext());
  }
  followsSizes = trace->hasAttr(segment::kFollowsSizes);
  if (external)
    return success();
  OpBuilder front = OpBuilder::atBlockBegin(&trace.getBody().front());
  external = ExternalOp::create(front, trace.getLoc(),
                                ObjType::get(trace.getContext(), "external"));
  return success();
}

//===----------------------------------------------------------------------===//
// Objects known by identity
//===----------------------------------------------------------------------===//

/// The segment's object numbers become the trace's.
void SegmentComposer::renumber(TraceOp segment) {
  auto table = segment->getAttrOfType<DenseI64ArrayAttr>(segment::kObjects);
  if (!table)
    return;
  MLIRContext *context = segment.getContext();
  Builder builder(context);
  auto renumbered = [&](int64_t index) {
    return index < table.size() ? table[index] : index;
  };
  AttrTypeReplacer replacer;
  replacer.addReplacement(
      [&](DictionaryAttr value) -> std::optional<Attribute> {
        IntegerAttr object = getPyObject(value);
        if (!object)
          return std::nullopt;
        return DictionaryAttr::get(
            context,
            builder.getNamedAttr("object", builder.getI64IntegerAttr(
                                               renumbered(object.getInt()))));
      });
  segment.walk([&](Operation *op) {
    if (op == segment)
      return;
    replacer.replaceElementsIn(op);
    if (auto object = dyn_cast<ObjectOp>(op)) {
      object.setIndex(renumbered(object.getIndex()));
    } else if (auto get = dyn_cast<GetOp>(op)) {
      if (std::optional<int64_t> index = get.getExactType())
        get.setExactType(renumbered(*index));
      if (std::optional<int64_t> index = get.getIdentity())
        get.setIdentity(renumbered(*index));
    } else if (auto create = dyn_cast<CreateOp>(op)) {
      if (std::optional<int64_t> index = create.getExactType())
        create.setExactType(renumbered(*index));
    }
  });
}

Value SegmentComposer::getObject(IntegerAttr index, Type type, Location loc) {
  auto it = byIndex.find(index.getInt());
  if (it != byIndex.end())
    return it->second;
  auto object = ObjectOp::create(*reads, loc, type, index.getInt());
  note(object);
  return object.getResult();
}

/// An operator, or a branch with those in its arms.
LogicalResult SegmentComposer::appendOperators(Operation *op, OpBuilder &body,
                                               bool inArm) {
  WalkResult walked = op->walk([&](TensorOp call) {
    return failed(checkNumbers(call, inArm)) ? WalkResult::interrupt()
                                             : WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  Operation *copy = body.clone(*op, mapping);
  copy->walk([&](TensorOp call) {
    if (inArm)
      foldSizes(call);
    noteVersions(call);
  });
  return success();
}

/// What was there before the segment: the thread's state, and objects.
LogicalResult SegmentComposer::appendSource(Operation *op,
                                            ArrayRef<Value> arguments) {
  if (isa<ExternalOp>(op)) {
    mapping.map(op->getResult(0), external);
  } else if (auto found = dyn_cast<StateOp>(op)) {
    if (isOfTheCall(found))
      reads->clone(*op, mapping);
    else if (found.getValues() != state)
      return op->emitError("begins with another state of the thread than the "
                           "segment before leaves");
  } else if (auto object = dyn_cast<ObjectOp>(op)) {
    auto it = byIndex.find(object.getIndex());
    if (it != byIndex.end() &&
        it->second.getType() == object.getResult().getType())
      mapping.map(object.getResult(), it->second);
    else
      note(reads->clone(*op, mapping));
  } else if (auto get = dyn_cast<GetOp>(op)) {
    if (get.getSelector() != Selector::arg)
      return appendRead(get);
    size_t number = cast<IntegerAttr>(get.getKeyAttr()).getInt();
    if (number >= arguments.size())
      return get.emitError("an argument that nobody gives");
    return bind(get, arguments[number]);
  } else {
    return appendCheck(op);
  }
  return success();
}

/// What the segment computes and makes.
LogicalResult SegmentComposer::appendComputed(Operation *op, OpBuilder &body,
                                              bool inArm) {
  if (isa<TensorOp, IfOp>(op))
    return appendOperators(op, body, inArm);
  if (auto arith = dyn_cast<ArithOp>(op))
    return appendArith(arith);
  if (auto compare = dyn_cast<CompareOp>(op))
    return appendCompare(compare);
  if (auto marked = dyn_cast<DifferentiableOp>(op))
    return appendGradient(marked, body);
  if (isa<SizeOp, StrideOp, LayoutOp>(op)) {
    appendSize(op, body);
  } else if (isa<CreateOp, ConstantOp>(op)) {
    Operation *copy = body.clone(*op, mapping);
    if (auto made = dyn_cast<CreateOp>(copy); made && made.setsVariable()) {
      if (inArm)
        return op->emitError("sets a context variable in one arm");
      settings.push_back(copy);
    }
  } else if (isa<AdvanceOp, ShownOp>(op)) {
    body.clone(*op, mapping);
  } else if (isa<SpeculateOp>(op)) {
    if (inArm)
      return op->emitError("ends the specialization in one arm alone");
    body.clone(*op, mapping);
  } else {
    return refuse(*op);
  }
  return success();
}

FailureOr<Value>
SegmentComposer::append(TraceOp segment, ArrayRef<Value> arguments,
                        OpBuilder &readsAt, OpBuilder &body,
                        SmallVectorImpl<Operation *> &written) {
  // Operators of this segment would read the memory that it showed before.
  for (Operation *write : writes)
    if (auto set = dyn_cast<SetOp>(write);
        set && set.getSelector() == Selector::storage)
      return set.emitError("stays a graph break: a segment sets what a tensor "
                           "shows, and another one follows");
  renumber(segment);
  noteShared(segment);
  mapping.clear();
  fresh.clear();
  reads = &readsAt;
  for (Operation *op : settings)
    noteVariable(op);
  settings.clear();
  bool inArm = isa<IfOp>(body.getBlock()->getParentOp());
  beginSizes(segment);
  // What the segment itself writes, it has recorded its reads around.
  Value left;
  for (Operation &op : segment.getBody().front()) {
    LogicalResult done = success();
    if (isa<ExternalOp, StateOp, ObjectOp, GetOp, AbsentOp, HoldsOp, LengthOp,
            KeysOp, TableOp, OffsetOp, SameOp, DistinctOp>(op)) {
      done = appendSource(&op, arguments);
    } else if (isWrite(&op)) {
      written.push_back(body.clone(op, mapping));
      if (isa<DeleteOp>(op))
        settings.push_back(written.back());
    } else if (auto leave = dyn_cast<LeaveOp>(op)) {
      left = mapping.lookup(leave.getValue());
    } else {
      done = appendComputed(&op, body, inArm);
    }
    if (failed(done))
      return failure();
  }
  if (auto mode = segment->getAttrOfType<BoolAttr>(segment::kGradMode)) {
    NamedAttrList values(state);
    values.set("grad_mode", mode);
    state = values.getDictionary(trace.getContext());
  }
  return left;
}

} // namespace pyjit::refgraph
