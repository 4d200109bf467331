//===- GenerateGuards.cpp - refgraph.guards from a trace ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: in, traces; out, one refgraph.guards per trace before it, which
// stays. Every external read of the trace is guarded: dropped are only those
// that others imply.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/GuardReads.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/refgraph/Transforms/SpecializationPlan.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorNames.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/TypeSwitch.h"
#include <functional>

namespace pyjit::refgraph {
#define GEN_PASS_DEF_GENERATEGUARDSPASS
#include "dialects/refgraph/Transforms/Passes.h.inc"
} // namespace pyjit::refgraph

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

namespace {

class GuardBuilder {
public:
  GuardBuilder(TraceOp trace, const SpecializationPlan &plan,
               const GuardReads &reads)
      : trace(trace), plan(plan), reads(reads), builder(trace) {}

  void build();

private:
  bool isWatched(const GuardCondition &condition) const;
  void buildWatched();
  void buildWatch();
  void buildAlways();
  void buildNumbers();
  void buildRechecks();
  void buildAliasGuards();
  void buildDistinct();
  void buildKeptCasts();

  Value getExternal(Location loc);
  Value emit(GuardRead *read);
  Value emitDict(GuardRead *holder);
  Value emitNumber(Value number);
  void emit(const GuardCondition &condition);
  GetOp createGet(GuardRead *read, Value holder, Selector selector,
                  bool unchecked);
  void watch(GuardRead *holder, Selector selector);
  void findOffsetReads();
  IntegerAttr getOffset(GuardRead *read);

  /// Whether `read`'s exact type is looked at when it is read.
  static bool checksTypeWhenRead(const GuardRead *read) {
    return !read->stable || read->hasStaticType();
  }

  TraceOp trace;
  const SpecializationPlan &plan;
  const GuardReads &reads;
  OpBuilder builder;
  Value external;
  llvm::DenseMap<GuardRead *, Value> values, dicts;
  llvm::DenseMap<Value, Value> numbers;
  llvm::SetVector<Value> watchedDicts, watchedTypes, watchedFunctions;
  /// Instances whose watched __dict__ must still be theirs.
  llvm::SetVector<GuardRead *> instances;
  /// Tensors whose storage offset an operator depends on.
  llvm::DenseSet<GuardRead *> offsetReads;
  /// While building the watched part, what it depends on is watched.
  bool watching = false;
};

/// `as_strided` counts from the start of the storage, and Python may have
/// looked; every other operator's result moves along with its operand.
void GuardBuilder::findOffsetReads() {
  llvm::DenseSet<Value> groups;
  trace.walk([&](TensorOp call) {
    if (operators::lookupFacts(call.getOverload()).addressesStorage)
      for (Value operand : call.getInputs())
        groups.insert(plan.getGroup(operand));
  });
  for (auto seen : trace.getBody().getOps<OffsetOp>())
    groups.insert(plan.getGroup(seen.getTensor()));
  if (groups.empty())
    return;
  for (Operation &op : trace.getBody().front())
    if (isa<GetOp, ObjectOp>(op) &&
        groups.contains(plan.getGroup(op.getResult(0))))
      if (GuardRead *read = reads.lookup(op.getResult(0)))
        offsetReads.insert(read);
}

IntegerAttr GuardBuilder::getOffset(GuardRead *read) {
  if (!offsetReads.contains(read))
    return {};
  return read->offset ? read->offset : builder.getI64IntegerAttr(0);
}

Value GuardBuilder::getExternal(Location loc) {
  if (!external)
    external = ExternalOp::create(
        builder, loc, ObjType::get(builder.getContext(), "external"));
  return external;
}

GetOp GuardBuilder::createGet(GuardRead *read, Value holder, Selector selector,
                              bool unchecked) {
  auto get = GetOp::create(builder, read->loc, read->type, holder, selector,
                           read->key, read->label);
  get.setEqualsAttr(read->equals);
  get.setIdentityAttr(read->identity);
  get.setUnchecked(unchecked);
  if (unchecked)
    return get;
  if (checksTypeWhenRead(read))
    get.setExactTypeAttr(read->exactType);
  get.setRequiresGradAttr(read->requiresGrad);
  get.setKeysetAttr(read->keyset);
  get.setOffsetAttr(getOffset(read));
  return get;
}

/// The __dict__ of a stable instance.
Value GuardBuilder::emitDict(GuardRead *holder) {
  Value &dict = dicts[holder];
  if (dict)
    return dict;
  Value object = emit(holder);
  MLIRContext *context = builder.getContext();
  Type type = ObjType::get(context, "dict");
  Value made =
      GetOp::create(builder, holder->loc, type, object, Selector::dict);
  return dicts[holder] = made;
}

/// Notes who reports a change of this source.
void GuardBuilder::watch(GuardRead *holder, Selector selector) {
  switch (selector) {
  case Selector::attr:
    instances.insert(holder);
    watchedDicts.insert(emitDict(holder));
    break;
  case Selector::dict:
    instances.insert(holder);
    emitDict(holder);
    break;
  case Selector::item:
    if (holder->isWatchedDict())
      watchedDicts.insert(emit(holder));
    break;
  case Selector::typeattr:
    watchedTypes.insert(emit(holder));
    break;
  case Selector::code:
  case Selector::defaults:
  case Selector::kwdefaults:
    watchedFunctions.insert(emit(holder));
    break;
  default:
    break;
  }
}

Value GuardBuilder::emit(GuardRead *read) {
  if (Value value = values.lookup(read))
    return value;
  Value value;
  if (read->object) {
    value = ObjectOp::create(builder, read->loc, read->type, read->object,
                             read->hint, /*holds=*/DenseI64ArrayAttr());
  } else if (read->selector.getValue() == Selector::dict && read->stable &&
             !read->hasChecks()) {
    value = emitDict(read->holder);
    if (watching)
      watch(read->holder, Selector::dict);
  } else {
    Selector selector = read->selector.getValue();
    bool unchecked = read->stable && read->isTensor();
    if (watching)
      watch(read->holder, selector);
    if (selector == Selector::attr && read->stable) {
      // By the __dict__ itself, so that the watcher's object is what is read.
      value =
          createGet(read, emitDict(read->holder), Selector::item, unchecked);
    } else {
      Value holder = read->holder ? emit(read->holder) : getExternal(read->loc);
      value = createGet(read, holder, selector, unchecked);
    }
  }
  return values[read] = value;
}

void GuardBuilder::emit(const GuardCondition &condition) {
  Operation *op = condition.op;
  if (isa<StateOp>(op)) {
    builder.clone(*op);
    return;
  }
  IRMapping mapping;
  bool attr =
      condition.selector && condition.selector.getValue() == Selector::attr;
  Value lhs = attr && watching ? emitDict(condition.lhs) : emit(condition.lhs);
  mapping.map(op->getOperand(0), lhs);
  if (condition.rhs)
    mapping.map(op->getOperand(1), emit(condition.rhs));
  Operation *clone = builder.clone(*op, mapping);
  if (auto absent = dyn_cast<AbsentOp>(clone)) {
    absent.setSelectorAttr(
        attr && watching
            ? SelectorAttr::get(builder.getContext(), Selector::item)
            : condition.selector);
  }
}

bool GuardBuilder::isWatched(const GuardCondition &condition) const {
  GuardRead *holder = condition.lhs;
  return llvm::TypeSwitch<Operation *, bool>(condition.op)
      .Case([&](AbsentOp) {
        return GuardReads::isWatchable(*holder, condition.selector.getValue(),
                                       condition.key);
      })
      .Case<HoldsOp, LengthOp>([&](auto) {
        return holder->stable &&
               (holder->isWatchedDict() || holder->hasTypeName("tuple"));
      })
      .Case([&](KeysOp) {
        // OrderedDict.move_to_end is reported to no watcher.
        return holder->stable && holder->hasTypeName("dict");
      })
      .Case<SameOp, DistinctOp>(
          [&](auto) { return holder->stable && condition.rhs->stable; })
      .Default(false);
}

void GuardBuilder::buildWatched() {
  watching = true;
  for (auto &read : reads.reads)
    if (read->stable && !read->cannotFail())
      emit(read.get());
  for (const GuardCondition &condition : reads.conditions) {
    if (!isWatched(condition))
      continue;
    if (isa<AbsentOp>(condition.op))
      watch(condition.lhs, condition.selector.getValue());
    else if (isa<HoldsOp, LengthOp, KeysOp>(condition.op))
      watch(condition.lhs, Selector::item);
    emit(condition);
  }
  watching = false;
}

void GuardBuilder::buildWatch() {
  if (values.empty())
    return;
  WatchOp::create(builder, trace.getLoc(), watchedDicts.getArrayRef(),
                  watchedTypes.getArrayRef(), watchedFunctions.getArrayRef());
}

void GuardBuilder::buildAlways() {
  // Arguments first: they are what differs from call to call. Then the state of
  // the thread, then what hangs from modules.
  for (bool arguments : {true, false}) {
    if (!arguments)
      for (const GuardCondition &condition : reads.conditions)
        if (isa<StateOp>(condition.op))
          emit(condition);
    for (auto &read : reads.reads)
      if (!read->stable && !read->cannotFail() && !read->isKeptCast() &&
          read->fromArgument == arguments)
        emit(read.get());
    for (const GuardCondition &condition : reads.conditions) {
      if (isa<StateOp>(condition.op) || isWatched(condition))
        continue;
      bool fromArgument = condition.lhs->fromArgument &&
                          (!condition.rhs || condition.rhs->fromArgument ||
                           condition.rhs->stable);
      if (fromArgument == arguments)
        emit(condition);
    }
  }
}

/// What the mock or the graph is given for an external value: an object that
/// was read, or a number computed from those.
Value GuardBuilder::emitNumber(Value number) {
  Operation *op = number.getDefiningOp();
  if (!isa<ArithOp, ConstantOp, SizeOp, StrideOp>(op))
    return emit(reads.lookup(number));
  Value &value = numbers[number];
  if (value)
    return value;
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, isa<pyjit::refgraph::TensorType>(operand.getType())
                             ? emit(reads.lookupHolder(operand))
                             : emitNumber(operand));
  Value made = builder.clone(*op, mapping)->getResult(0);
  return numbers[number] = made;
}

/// Outcomes of comparisons that the run relied on, and arithmetic that Python
/// would raise in for other numbers.
void GuardBuilder::buildNumbers() {
  for (auto arith : trace.getBody().getOps<ArithOp>())
    if (arith.mayRaise())
      emitNumber(arith.getResult());
  for (auto compare : trace.getBody().getOps<CompareOp>()) {
    IRMapping mapping;
    for (Value operand : compare->getOperands())
      mapping.map(operand, emitNumber(operand));
    builder.clone(*compare, mapping);
  }
}

/// What watchers do not report of objects that the watched part found.
void GuardBuilder::buildRechecks() {
  for (GuardRead *read : instances)
    InstanceOp::create(builder, read->loc, emit(read), emitDict(read),
                       read->exactType);
  for (auto &owned : reads.reads) {
    GuardRead *read = owned.get();
    if (read->isTensor() && read->stable) {
      // A pinned tensor that only the mock mentions needs no check.
      if (read->object && !values.count(read) && !read->exactType)
        continue;
      CheckOp::create(builder, read->loc, emit(read), read->exactType,
                      Attribute(), IntegerAttr(), read->requiresGrad,
                      read->keyset, getOffset(read));
      continue;
    }
    if (read->exactType && read->stable && !read->hasStaticType() &&
        !instances.contains(read))
      CheckOp::create(builder, read->loc, emit(read), read->exactType,
                      Attribute(), IntegerAttr(), BoolAttr(), IntegerAttr(),
                      IntegerAttr());
  }
}

/// An input that the call writes must not overlap what else it uses.
void GuardBuilder::buildAliasGuards() {
  llvm::SmallDenseSet<int64_t> updates(plan.updates.begin(),
                                       plan.updates.end());
  llvm::SetVector<Value> written, read;
  auto add = [&](Value tensor, bool isWritten) {
    if (!isa<pyjit::refgraph::TensorType>(tensor.getType()))
      return;
    // Nobody can write a cast that autocast keeps, but the weight, which may
    // have to be cast only now.
    GuardRead *found = reads.lookup(tensor);
    (isWritten ? written : read)
        .insert(emit(found->isKeptCast() ? found->holder : found));
  };
  // Nor may two tensors be one whose gradients, numbers or memory it sets.
  llvm::DenseSet<Value> given;
  for (auto set : trace.getBody().getOps<SetOp>())
    if (set.getSelector() == Selector::grad ||
        set.getSelector() == Selector::data ||
        set.getSelector() == Selector::storage)
      given.insert(plan.getNode(set.getHolder()));
  // What it differentiates by is no other tensor, which has a gradient, too.
  for (auto call : trace.getBody().getOps<TensorOp>())
    if (call.getOverload() == ::pyjit::operators::pyjit::backward) {
      auto countOf = [&](unsigned list) {
        return cast<ArrayAttr>(call.getArgs()[list]).size();
      };
      for (Value by : call.getInputs().drop_front(countOf(0) + countOf(1)))
        given.insert(plan.getNode(by));
    }
  for (auto [i, input] : llvm::enumerate(plan.inputs))
    add(input, updates.contains(i) || given.contains(input));
  for (Value kept : plan.kept)
    add(kept, given.contains(kept));
  // Nor may what they read before the launch be what an operator writes first.
  for (auto get : trace.getBody().getOps<GetOp>())
    if (get.getSelector() == Selector::data)
      read.insert(emit(reads.lookupHolder(get.getHolder())));
  read.set_subtract(written);
  if (!written.empty() && written.size() + read.size() > 1)
    DisjointOp::create(builder, trace.getLoc(), written.getArrayRef(),
                       read.getArrayRef());
}

/// A container that the call writes must be another object than those that it
/// read through: what was read there would have changed otherwise.
void GuardBuilder::buildDistinct() {
  llvm::SetVector<GuardRead *> written, holders;
  for (Operation &op : trace.getBody().front())
    if (isa<SetOp, DeleteOp, AppendOp, ReplaceOp>(op))
      if (plan.isExternal(op.getOperand(0)))
        written.insert(reads.lookupHolder(op.getOperand(0)));
  if (written.empty())
    return;
  for (auto &read : reads.reads)
    if (read->holder)
      holders.insert(read->holder);
  for (const GuardCondition &condition : reads.conditions)
    if (condition.lhs && !isa<SameOp, DistinctOp>(condition.op))
      holders.insert(condition.lhs);
  llvm::EquivalenceClasses<GuardRead *> same;
  for (const GuardCondition &condition : reads.conditions)
    if (isa<SameOp>(condition.op))
      same.unionSets(condition.lhs, condition.rhs);
  // Known to be one object: writes to it were followed by the recorder.
  llvm::DenseSet<GuardRead *> seen;
  auto isNew = [&](GuardRead *read) {
    return seen.insert(same.getOrInsertLeaderValue(read)).second;
  };
  // Objects of other types are other objects.
  llvm::MapVector<Type, std::pair<SmallVector<Value>, SmallVector<Value>>>
      groups;
  for (GuardRead *target : written)
    if (isNew(target))
      groups[target->type].first.push_back(emit(target));
  for (GuardRead *holder : holders)
    if (groups.contains(holder->type) && isNew(holder))
      groups[holder->type].second.push_back(emit(holder));
  for (auto &[type, group] : groups)
    if (group.first.size() + group.second.size() > 1)
      UnaliasedOp::create(builder, trace.getLoc(), group.first, group.second);
}

/// Last: a call that another specialization answers has made no cast.
void GuardBuilder::buildKeptCasts() {
  for (auto &read : reads.reads)
    if (read->isKeptCast())
      emit(read.get());
}

void GuardBuilder::build() {
  auto guards =
      GuardsOp::create(builder, trace.getLoc(), trace.getSpecializationAttr());
  builder.setInsertionPointToEnd(&guards.getBody().emplaceBlock());
  findOffsetReads();
  buildWatched();
  buildWatch();
  buildAlways();
  buildNumbers();
  SmallVector<Value> inputs, kept;
  auto isKeptCast = [&](Value value) {
    GuardRead *read = reads.lookup(value);
    return read && read->isKeptCast();
  };
  for (Value value : plan.inputs)
    inputs.push_back(isKeptCast(value) ? Value() : emitNumber(value));
  for (Value value : plan.kept)
    kept.push_back(emitNumber(value));
  buildRechecks();
  buildAliasGuards();
  buildDistinct();
  buildKeptCasts();
  for (auto [input, value] : llvm::zip_equal(inputs, plan.inputs))
    if (!input)
      input = emitNumber(value);
  AcceptOp::create(builder, trace.getBody().front().back().getLoc(), inputs,
                   kept);
}

/// Numbers are written out operands first, which has no end where one is
/// computed from itself.
LogicalResult verifyNumbers(TraceOp trace) {
  enum class State { Open, Done };
  llvm::DenseMap<Operation *, State> states;
  std::function<LogicalResult(Operation *)> visit = [&](Operation *op) {
    if (!isa_and_nonnull<ArithOp, CompareOp>(op))
      return success();
    auto [it, isNew] = states.try_emplace(op, State::Open);
    if (!isNew)
      return it->second == State::Done
                 ? success()
                 : op->emitOpError("is computed from its own result");
    for (Value operand : op->getOperands())
      if (failed(visit(operand.getDefiningOp())))
        return failure();
    states[op] = State::Done;
    return success();
  };
  for (Operation &op : trace.getBody().front())
    if (failed(visit(&op)))
      return failure();
  return success();
}

/// Whether the guards can find out a number that somebody asks for: from
/// objects that were there before the call.
LogicalResult verifyReadable(Value number, Operation *user,
                             const GuardReads &reads) {
  Operation *op = number.getDefiningOp();
  if (isa<ConstantOp>(op))
    return success();
  if (isa<ArithOp>(op)) {
    for (Value operand : op->getOperands())
      if (failed(verifyReadable(operand, op, reads)))
        return failure();
    return success();
  }
  bool isOfTensor = isa<SizeOp, StrideOp>(op);
  if (isOfTensor ? bool(reads.lookupHolder(op->getOperand(0)))
                 : bool(reads.lookup(number)))
    return success();
  if (isOfTensor)
    return op->emitOpError("is of a tensor that the call computes, where no "
                           "guard can look: refgraph-lift-sizes says what "
                           "follows from what");
  return user->emitOpError("asks for a number that the call makes");
}

LogicalResult verifyReadable(TraceOp trace, const SpecializationPlan &plan,
                             const GuardReads &reads) {
  for (ArrayRef<Value> values : {ArrayRef(plan.inputs), ArrayRef(plan.kept)})
    for (Value value : values)
      if (failed(verifyReadable(value, trace, reads)))
        return failure();
  for (auto arith : trace.getBody().getOps<ArithOp>())
    if (arith.mayRaise() &&
        failed(verifyReadable(arith.getResult(), arith, reads)))
      return failure();
  for (auto compare : trace.getBody().getOps<CompareOp>())
    for (Value operand : compare->getOperands())
      if (failed(verifyReadable(operand, compare, reads)))
        return failure();
  return success();
}

struct GenerateGuardsPass
    : public pyjit::refgraph::impl::GenerateGuardsPassBase<GenerateGuardsPass> {
  void runOnOperation() override {
    for (TraceOp trace : getOperation().getOps<TraceOp>()) {
      if (failed(verifyNumbers(trace)))
        return signalPassFailure();
      FailureOr<SpecializationPlan> plan = SpecializationPlan::compute(trace);
      if (failed(plan))
        return signalPassFailure();
      FailureOr<GuardReads> reads = GuardReads::collect(trace, *plan);
      if (failed(reads) || failed(verifyReadable(trace, *plan, *reads)))
        return signalPassFailure();
      GuardBuilder(trace, *plan, *reads).build();
    }
  }
};

} // namespace
