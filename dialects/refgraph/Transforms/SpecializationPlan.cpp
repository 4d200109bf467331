//===- SpecializationPlan.cpp - how a trace splits into its parts ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/SpecializationPlan.h"
#include "dialects/refgraph/IR/PythonValues.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/OperatorNames.h"
#include "pyjit/Operators/Raises.h"

using namespace mlir;

namespace pyjit::refgraph {

Value SpecializationPlan::find(const Parents &parents, Value value) {
  while (true) {
    auto it = parents.find(value);
    if (it == parents.end())
      return value;
    value = it->second;
  }
}

/// The earlier value names the union.
void SpecializationPlan::unite(Parents &parents, Value a, Value b) {
  a = find(parents, a);
  b = find(parents, b);
  if (a == b)
    return;
  if (order.lookup(a) > order.lookup(b))
    std::swap(a, b);
  parents[b] = a;
}

/// All operators, those of arms among them, in order.
static SmallVector<TensorOp> getCalls(TraceOp trace) {
  SmallVector<TensorOp> calls;
  trace.walk<WalkOrder::PreOrder>(
      [&](TensorOp call) { calls.push_back(call); });
  return calls;
}

std::optional<int64_t> SpecializationPlan::getPinned(Value value) const {
  auto it = pinned.find(getNode(value));
  return it == pinned.end() ? std::nullopt : std::optional(it->second);
}

bool SpecializationPlan::isExternal(Value value) const {
  return isa<GetOp, ObjectOp, ArithOp, SizeOp, StrideOp>(
      getNode(value).getDefiningOp());
}

//===----------------------------------------------------------------------===//
// Identity and storage
//===----------------------------------------------------------------------===//

void SpecializationPlan::collectNodes(TraceOp trace) {
  llvm::DenseMap<int64_t, Value> byIndex;
  auto pin = [&](Value value, std::optional<int64_t> index) {
    if (!index)
      return;
    auto [it, isNew] = byIndex.try_emplace(*index, value);
    if (!isNew)
      unite(node, it->second, value);
  };
  unsigned count = 0;
  trace.getBody().walk<WalkOrder::PreOrder>([&](Operation *visited) {
    Operation &op = *visited;
    for (Value result : op.getResults())
      order[result] = count++;
    if (auto object = dyn_cast<ObjectOp>(op)) {
      pin(object.getResult(), object.getIndex());
    } else if (auto get = dyn_cast<GetOp>(op)) {
      pin(get.getResult(), get.getIdentity());
    } else if (auto same = dyn_cast<SameOp>(op)) {
      unite(node, same.getLhs(), same.getRhs());
    } else if (auto call = dyn_cast<TensorOp>(op)) {
      for (auto [i, operand] : llvm::enumerate(call.getMutates()))
        unite(node, call.getInputs()[operand], call.getVersion(i));
    }
  });
  for (auto [index, value] : byIndex)
    pinned[getNode(value)] = index;
  // A version of an arm is none outside: there, the tensor is what it was
  // before, with the contents that the arm left.
  for (Operation &op : trace.getBody().front())
    for (Value result : op.getResults())
      latest[getNode(result)] = result;
}

void SpecializationPlan::collectGroups(TraceOp trace) {
  trace.walk<WalkOrder::PreOrder>([&](TensorOp call) {
    for (int64_t operand : call.getAliases())
      for (Value result : call.getResults().take_front(call.getNumFresh()))
        unite(group, getNode(call.getInputs()[operand]), getNode(result));
  });
  for (Operation &op : trace.getBody().front())
    for (Value result : op.getResults())
      if (isa<TensorType>(result.getType()) && getNode(result) == result &&
          isExternal(result))
        externalsOf[getGroup(result)].push_back(result);
}

int64_t SpecializationPlan::getOffset(Value value) const {
  value = getNode(value);
  Operation *op = value.getDefiningOp();
  if (auto get = dyn_cast<GetOp>(op))
    return get.getOffset().value_or(0);
  if (auto call = dyn_cast<TensorOp>(op))
    return call.getOffset(cast<OpResult>(value).getResultNumber());
  return 0;
}

FailureOr<Value> SpecializationPlan::getExternalBase(Value value,
                                                     Operation *user) {
  auto it = externalsOf.find(getGroup(value));
  if (it == externalsOf.end())
    return Value();
  if (it->second.size() > 1) {
    auto diag = user->emitOpError(
        "involves a tensor that may share storage with several inputs");
    for (Value input : it->second)
      diag.attachNote(input.getLoc()) << "one of them";
    return diag;
  }
  return it->second.front();
}

//===----------------------------------------------------------------------===//
// What escapes
//===----------------------------------------------------------------------===//

/// The object that a write changes, or null.
static Value getWritten(Operation *op) {
  return isa<SetOp, DeleteOp, AppendOp, ReplaceOp>(op) ? op->getOperand(0)
                                                       : Value();
}

/// MagPy's search over the last versions: what the result and the written
/// external objects refer to.
void SpecializationPlan::reach(TraceOp trace) {
  llvm::DenseMap<Value, SmallVector<Operation *>> writesTo;
  SmallVector<Operation *> work;
  auto push = [&](Operation *op) {
    if (reached.insert(op).second)
      work.push_back(op);
  };
  for (Operation &op : trace.getBody().front()) {
    Value written = getWritten(&op);
    if (written && isa<CreateOp>(getNode(written).getDefiningOp()))
      writesTo[getNode(written)].push_back(&op);
    else if (auto made = dyn_cast<CreateOp>(op);
             written || isa<LeaveOp>(op) || (made && made.setsVariable()))
      push(&op);
  }
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    for (Value operand : op->getOperands()) {
      Operation *def = getNode(operand).getDefiningOp();
      if (isa<CreateOp, ConstantOp>(def))
        push(def);
    }
    if (isa<CreateOp>(op))
      for (Operation *write : writesTo.lookup(getNode(op->getResult(0))))
        push(write);
  }
  for (Operation &op : trace.getBody().front())
    if (reached.contains(&op))
      for (Value operand : op.getOperands())
        if (Value value = getNode(operand);
            !isa<CreateOp, ConstantOp>(value.getDefiningOp()) &&
            escaping.insert(value))
          escapesAt[value] = &op;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Elements that `type` spans in storage.
static analysis::SizePolynomial getExtent(TensorType type) {
  analysis::SizePolynomial last = 0;
  for (unsigned i = 0; i < type.getRank(); ++i) {
    if (type.getShape()[i] == 0)
      return 0;
    last = last + (type.getSize(i) - 1) * type.getStride(i);
  }
  return last + 1;
}

/// Whether a tensor begins where symbols say.
bool SpecializationPlan::hasSymbolicOffset(Value value) const {
  auto call = getNode(value).getDefiningOp<TensorOp>();
  return call && call.getSymbolicOffsets();
}

/// Whether `value` shows a part of `base` by operators that show no more than
/// they are given, as all do but as_strided.
bool SpecializationPlan::liesInside(Value value, Value base) const {
  for (value = getNode(value); value != base;) {
    auto call = value.getDefiningOp<TensorOp>();
    if (!call || call.getAliases().size() != 1)
      return false;
    const auto &facts = operators::lookupFacts(call.getOverload());
    if (facts.addressesStorage || facts.replacesStorage)
      return false;
    value = getNode(call.getInputs()[call.getAliases()[0]]);
  }
  return true;
}

/// Finds the inputs that are written.
LogicalResult SpecializationPlan::planTensors(TraceOp trace) {
  for (TensorOp call : getCalls(trace)) {
    for (auto [i, number] : llvm::enumerate(call.getMutates())) {
      Value operand = call.getInputs()[number];
      FailureOr<Value> base = getExternalBase(operand, call);
      if (failed(base))
        return failure();
      if (!*base)
        continue;
      auto type = cast<TensorType>(call.getVersion(i).getType());
      auto baseType = cast<TensorType>(base->getType());
      if (getNode(operand) == *base ? type != baseType
                                    : type != operand.getType())
        return call.emitOpError("changes the layout of an input in place");
      if (getExtent(type) == 0)
        continue; // nothing is written
      int64_t offset = getOffset(operand) - getOffset(*base);
      analysis::SizePolynomial room = getExtent(baseType) - getExtent(type) -
                                      analysis::SizePolynomial(offset);
      if (type.isSymbolic() || baseType.isSymbolic()) {
        if (!liesInside(operand, *base) &&
            (hasSymbolicOffset(operand) ||
             room.getLowerBound().value_or(-1) < 0 || offset < 0))
          return call.emitOpError(
              "writes a part of an input that depends on its sizes");
      } else if (offset < 0 || *room.getConstant() < 0)
        return call.emitOpError(
            "writes outside of the input that it is a view of");
      updated.insert(*base);
    }
  }
  for (Value base : updated)
    for (Operation *user : base.getUsers())
      if (auto same = dyn_cast<SameOp>(user))
        if (same.getLhs().getType() != same.getRhs().getType())
          return same.emitOpError("of tensors with different layouts");
  return success();
}

static int64_t getElementBytes(TensorType type) {
  Type element = type.getElementType();
  int64_t count = 1;
  if (auto complex = dyn_cast<ComplexType>(element)) {
    element = complex.getElementType();
    count = 2;
  }
  return count * std::max(1u, element.getIntOrFloatBitWidth() / 8);
}

analysis::SizePolynomial
SpecializationPlan::getSymbolicOffset(Value value) const {
  if (!hasSymbolicOffset(value))
    return getOffset(value);
  value = getNode(value);
  ArrayAttr offsets = *value.getDefiningOp<TensorOp>().getSymbolicOffsets();
  return *analysis::SizePolynomial::fromAffine(operators::getSizeArgument(
      offsets[cast<OpResult>(value).getResultNumber()]));
}

/// How far `value` begins behind `base`, in elements of `value`.
FailureOr<analysis::SizePolynomial>
SpecializationPlan::getDistance(Value value, Value base,
                                Operation *user) const {
  int64_t bytes = getElementBytes(cast<TensorType>(getNode(value).getType())),
          baseBytes = getElementBytes(cast<TensorType>(base.getType()));
  analysis::SizePolynomial begin = getSymbolicOffset(base);
  if (bytes != baseBytes) {
    auto known = begin.getConstant();
    if (!known || *known * baseBytes % bytes != 0)
      return user->emitOpError("lets a view escape whose elements do not begin "
                               "with those of its base");
    begin = *known * baseBytes / bytes;
  }
  return getSymbolicOffset(value) - begin;
}

/// Whether the result shows an operand's memory, and autograd is not told: it
/// is a tensor of its own (`_unsafe_view`).
static bool isUntoldView(TensorOp call) {
  const operators::OperatorInfo *info =
      operators::lookupOperator(call.getOverload());
  if (!info || call.getAliases().size() != 1 ||
      operators::lookupFacts(call.getOverload()).wholeView)
    return false;
  return llvm::none_of(info->arguments,
                       [](const auto &argument) { return argument.aliased; });
}

/// The tensor that autograd knows the members of a group as views of: the first
/// of the group, or, where that does not escape, an untold view of it that all
/// of them are made of.
Value SpecializationPlan::findOwner(ArrayRef<Value> members,
                                    Value group) const {
  auto ownerOf = [&](Value value) {
    while (value != group) {
      auto call = value.getDefiningOp<TensorOp>();
      if (!call || call.getAliases().size() != 1)
        return group;
      if (isUntoldView(call))
        return value;
      value = getNode(call.getInputs()[call.getAliases()[0]]);
    }
    return group;
  };
  Value owner = ownerOf(members.front());
  bool isAlls = llvm::all_of(
      members, [&](Value member) { return ownerOf(member) == owner; });
  bool isWhole = cast<TensorType>(getLatest(owner).getType()).isDense();
  return isAlls && isWhole ? owner : group;
}

/// Whether something besides views is computed of the view's memory: a node may
/// have saved that.
bool SpecializationPlan::isReadBesides(TraceOp trace, Value view) const {
  Type element = cast<TensorType>(view.getType()).getElementType();
  return llvm::any_of(getCalls(trace), [&](TensorOp call) {
    if (!call.getAliases().empty())
      return false;
    return llvm::any_of(call.getInputs(), [&](Value input) {
      auto type = dyn_cast<TensorType>(input.getType());
      return type && type.getElementType() == element &&
             getGroup(input) == getGroup(view);
    });
  });
}

/// Decides for each tensor that escapes where the mock takes it from. One that
/// is the only one of its memory to escape may be a tensor of its own, unless
/// gradients flow: nodes may have saved its memory, which somebody writes then.
LogicalResult SpecializationPlan::planResults(TraceOp trace) {
  llvm::MapVector<Value, SmallVector<Value>> fresh;
  SmallVector<Value> bases;
  llvm::MapVector<Value, StringAttr> shown;
  for (auto op : trace.getBody().getOps<ShownOp>())
    shown[getNode(op.getTensor())] = op.getModeAttr();
  for (Value value : escaping) {
    Operation *user = escapesAt.lookup(value);
    if (!isa<TensorType>(value.getType()) && !isExternal(value))
      return user->emitOpError(
          "gives away what the call has neither read nor made");
    if (!isa<TensorType>(value.getType()) || isExternal(value))
      continue;
    FailureOr<Value> base = getExternalBase(value, user);
    if (failed(base))
      return failure();
    if (!*base) {
      fresh[getGroup(value)].push_back(value);
      continue;
    }
    FailureOr<analysis::SizePolynomial> distance =
        getDistance(value, *base, user);
    if (failed(distance))
      return failure();
    views[value] = {*base, *distance, shown.lookup(value)};
    bases.push_back(*base);
  }
  llvm::SetVector<Value> differentiable = findDifferentiable(trace);
  for (auto &[group, members] : fresh) {
    Value root = findOwner(members, group);
    auto type = cast<TensorType>(getLatest(members.front()).getType());
    if (members.size() == 1) {
      Value only = members.front();
      bool isTied = differentiable.contains(only)
                        ? letsGradientsPass(only, root)
                        : !differentiable.empty() && isReadBesides(trace, only);
      if (only == root || (type.isDense() && !isTied)) {
        results.push_back(only);
        continue;
      }
    }
    results.push_back(root);
    for (Value member : members) {
      if (member == root)
        continue;
      FailureOr<analysis::SizePolynomial> distance =
          getDistance(member, root, escapesAt.lookup(member));
      if (failed(distance))
        return failure();
      views[member] = {root, *distance, shown.lookup(member)};
    }
  }
  for (auto [value, mode] : shown)
    if (mode.getValue() == "view of itself" &&
        llvm::is_contained(results, value))
      ownViews.push_back(value);
  auto isSymbolic = [&](Value value) {
    return cast<TensorType>(getLatest(value).getType()).isSymbolic();
  };
  for (Value base : bases)
    escaping.insert(base);
  if (llvm::any_of(ownViews, isSymbolic) ||
      llvm::any_of(views, [&](auto &entry) {
        return isSymbolic(entry.first) || !entry.second.offset.isConstant();
      }))
    for (Value number : symbolNumbers)
      escaping.insert(getNode(number));
  return success();
}

/// Version counters are shared like storage: what is written through a view
/// counts for the tensor that the mock has of that memory; a `.data` has its
/// own. Of a tensor that
/// nobody sees in the end (an earlier segment of the call left it) nothing is
/// said.
LogicalResult SpecializationPlan::planCounters(TraceOp trace) {
  llvm::MapVector<Value, int64_t> counts;
  for (auto advance : trace.getBody().getOps<AdvanceOp>()) {
    if (auto view = views.find(getNode(advance.getTensor()));
        view != views.end() && view->second.isData()) {
      counts[view->first] += advance.getCount();
      continue;
    }
    FailureOr<Value> base = getExternalBase(advance.getTensor(), advance);
    if (failed(base))
      return failure();
    if (*base)
      escaping.insert(*base);
    Value group = getGroup(advance.getTensor());
    auto shown = llvm::find_if(
        results, [&](Value result) { return getGroup(result) == group; });
    if (!*base && shown == results.end())
      continue;
    if (advance.getLeast())
      return advance.emitError(
                 "stays a graph break: the arms of a branch write a tensor ")
             << advance.getCount() << " and " << *advance.getLeast()
             << " times, which its version counter would show";
    counts[*base ? *base : *shown] += advance.getCount();
  }
  llvm::append_range(advances, counts);
  for (auto op : trace.getBody().getOps<RequireGradOp>())
    if (Value node = getNode(op.getTensor()); escaping.contains(node))
      requiringGrad.emplace_back(node, op.getFreed());
  return success();
}

/// The tensors that require grad where they leave. To a segment of the call, a
/// view of what an earlier one left is a view of a tensor that existed, of
/// which it says nothing.
llvm::SetVector<Value>
SpecializationPlan::findDifferentiable(TraceOp trace) const {
  llvm::SetVector<Value> found;
  for (Operation &op : trace.getBody().front()) {
    if (auto marked = dyn_cast<DifferentiableOp>(op))
      found.insert(getNode(marked.getTensor()));
    auto call = dyn_cast<TensorOp>(op);
    if (call && !call.getNoGrad() &&
        llvm::any_of(call.getAliases(), [&](int64_t i) {
          return found.contains(getNode(call.getInputs()[i]));
        }))
      found.insert(call.getResults().begin(), call.getResults().end());
  }
  return found;
}

/// A tensor that the mock makes as a view is differentiated through its base.
void SpecializationPlan::planGradients(TraceOp trace) {
  llvm::DenseSet<Value> differentiable;
  for (Value node : findDifferentiable(trace)) {
    auto view = views.find(node);
    differentiable.insert(view == views.end() ? node : view->second.base);
  }
  for (auto [i, result] : llvm::enumerate(results))
    if (differentiable.contains(result))
      gradientResults.push_back(i);
}

/// Whether `value` is made of `base` by views, each made where grad mode was on
/// and of numbers that have gradients.
bool SpecializationPlan::letsGradientsPass(Value value, Value base) const {
  for (value = getNode(value); value != base;) {
    auto call = value.getDefiningOp<TensorOp>();
    if (!call || call.getNoGrad() || call.getAliases().size() != 1)
      return false;
    Value source = call.getInputs()[call.getAliases()[0]];
    Type element = cast<TensorType>(value.getType()).getElementType();
    if (!isa<FloatType>(element) ||
        cast<TensorType>(source.getType()).getElementType() != element)
      return false;
    value = getNode(source);
  }
  return true;
}

/// Else, of operators nothing is said as far as gradients go.
static bool beginsInGradMode(TraceOp trace) {
  bool known = false;
  for (auto state : trace.getBody().getOps<StateOp>())
    if (auto mode = state.getValues().getAs<BoolAttr>("grad_mode")) {
      if (!mode.getValue())
        return false;
      known = true;
    }
  return known;
}

/// Where nothing else of the call is made of a view, autograd knows how its
/// gradient comes to its base.
void SpecializationPlan::planGradientViews(TraceOp trace) {
  if (!beginsInGradMode(trace))
    return;
  llvm::DenseSet<Value> differentiable;
  for (int64_t number : gradientResults)
    differentiable.insert(results[number]);
  SmallVector<Value> candidates;
  for (Value node : escaping) {
    auto view = views.find(node);
    if (view == views.end())
      continue;
    auto get = view->second.base.getDefiningOp<GetOp>();
    bool requiresGrad = get ? get.getRequiresGrad().value_or(false)
                            : differentiable.contains(view->second.base);
    if (requiresGrad && letsGradientsPass(node, view->second.base))
      candidates.push_back(node);
  }
  auto isRead = [&](Value view) {
    bool isByOthers = !differentiable.empty() && isNeeded(view.getDefiningOp());
    return isByOthers || llvm::any_of(candidates, [&](Value other) {
             return other != view && (letsGradientsPass(other, view) ||
                                      letsGradientsPass(view, other));
           });
  };
  llvm::copy_if(candidates, std::back_inserter(gradientViews), isRead);
  for (Value view : gradientViews)
    for (Value value = view, base = views.lookup(view).base; value != base;) {
      auto call = value.getDefiningOp<TensorOp>();
      needed.insert(call);
      value = getNode(call.getInputs()[call.getAliases()[0]]);
    }
}

/// Whether a call may raise because of its operands' values.
static bool mayRaise(TensorOp call) {
  if (call.getNumResults() == 0)
    return pyjit::operators::lookupRaising(call.getOverload()) !=
           pyjit::operators::Raising::Never;
  auto tensor = dyn_cast<TensorType>(call.getResult(0).getType());
  return tensor && pyjit::operators::mayRaise(call.getOverload(),
                                              tensor.getElementType());
}

/// Backward slice from results, updates and operators that may not be dropped.
void SpecializationPlan::markNeeded(TraceOp trace) {
  llvm::DenseMap<Value, SmallVector<Operation *>> mutatorsOf;
  llvm::DenseSet<Value> live;
  SmallVector<Operation *> work;
  // An arm's operator needs its branch.
  auto needOp = [&](Operation *op) {
    for (; isa<TensorOp, IfOp>(op); op = op->getParentOp())
      if (needed.insert(op).second)
        work.push_back(op);
  };
  auto needValue = [&](Value value) {
    needOp(value.getDefiningOp());
    if (live.insert(getGroup(value)).second)
      for (Operation *mutator : mutatorsOf.lookup(getGroup(value)))
        needOp(mutator);
  };
  SmallVector<TensorOp> calls = getCalls(trace);
  for (TensorOp call : calls)
    for (int64_t operand : call.getMutates())
      mutatorsOf[getGroup(call.getInputs()[operand])].push_back(call);
  for (TensorOp call : calls)
    if (!call.hasOperatorTrait("pure") && !call.hasOperatorTrait("in-place"))
      needOp(call);
  for (Value value : results)
    needValue(getLatest(value));
  for (Value value : updated)
    needValue(getLatest(value));
  // What a decision hands on is compared with what others hand on.
  for (auto decide : trace.getBody().getOps<DecideOp>())
    for (Value operand : decide->getOperands())
      needValue(operand);
  for (auto speculate : trace.getBody().getOps<SpeculateOp>())
    needValue(speculate.getFlag());
  auto close = [&] {
    while (!work.empty()) {
      Operation *op = work.pop_back_val();
      for (Value operand : op->getOperands())
        needValue(operand);
      for (Region &arm : op->getRegions())
        for (Value result : arm.front().getTerminator()->getOperands())
          needValue(result);
    }
  };
  close();
  // What may raise runs for its error, be its result needed or not.
  for (TensorOp call : calls) {
    if (!mayRaise(call))
      continue;
    raising.insert(call);
    needOp(call);
  }
  close();
}

/// What each symbol is read from: the tensor, where the graph is given it.
static Value getSymbolInput(SymbolOp symbol, const SpecializationPlan &plan,
                            const llvm::DenseSet<Value> &read) {
  if (auto size = symbol.getNumber().getDefiningOp<SizeOp>())
    if (Value tensor = plan.getNode(size.getTensor()); read.contains(tensor))
      return tensor;
  return plan.getNode(symbol.getNumber());
}

void SpecializationPlan::listSymbols(TraceOp trace) {
  llvm::DenseSet<Value> given(inputs.begin(), inputs.end());
  for (auto symbol : trace.getBody().getOps<SymbolOp>()) {
    Value input = getSymbolInput(symbol, *this, given);
    int64_t dim = -1;
    if (isa<TensorType>(input.getType()))
      dim = symbol.getNumber().getDefiningOp<SizeOp>().getDim();
    symbols.push_back({llvm::find(inputs, input) - inputs.begin(), dim});
  }
}

void SpecializationPlan::listExternals(TraceOp trace) {
  llvm::DenseSet<Value> read(updated.begin(), updated.end());
  for (TensorOp call : getCalls(trace))
    if (needed.contains(call))
      for (Value operand : call.getInputs())
        read.insert(getNode(operand));
  trace.walk([&](IfOp branch) {
    if (!needed.contains(branch))
      return;
    read.insert(getNode(branch.getCondition()));
    for (Region &arm : branch->getRegions())
      for (Value result : arm.front().getTerminator()->getOperands())
        read.insert(getNode(result));
  });
  for (auto decide : trace.getBody().getOps<DecideOp>())
    read.insert(getNode(decide.getCondition()));
  for (auto speculate : trace.getBody().getOps<SpeculateOp>())
    read.insert(getNode(speculate.getFlag()));
  for (auto symbol : trace.getBody().getOps<SymbolOp>())
    read.insert(getSymbolInput(symbol, *this, read));
  for (Operation &op : trace.getBody().front()) {
    for (Value value : op.getResults()) {
      if (getNode(value) != value || !isExternal(value))
        continue;
      if (read.contains(value)) {
        if (updated.contains(value))
          updates.push_back(inputs.size());
        inputs.push_back(value);
      } else if (escaping.contains(value) && !getPinned(value)) {
        kept.push_back(value);
      }
    }
  }
}

FailureOr<SpecializationPlan> SpecializationPlan::compute(TraceOp trace) {
  SpecializationPlan plan;
  plan.collectNodes(trace);
  plan.collectGroups(trace);
  plan.reach(trace);
  for (auto symbol : trace.getBody().getOps<SymbolOp>()) {
    plan.symbolNumbers.resize(
        std::max<size_t>(plan.symbolNumbers.size(), symbol.getIndex() + 1));
    plan.symbolNumbers[symbol.getIndex()] = symbol.getNumber();
  }
  if (failed(plan.planTensors(trace)) || failed(plan.planResults(trace)) ||
      failed(plan.planCounters(trace)))
    return failure();
  plan.planGradients(trace);
  plan.markNeeded(trace);
  plan.planGradientViews(trace);
  plan.listExternals(trace);
  plan.listSymbols(trace);
  return plan;
}

} // namespace pyjit::refgraph
