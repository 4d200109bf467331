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
SmallVector<TensorOp> SpecializationPlan::getCalls(TraceOp trace) {
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
// What the graph needs
//===----------------------------------------------------------------------===//

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
