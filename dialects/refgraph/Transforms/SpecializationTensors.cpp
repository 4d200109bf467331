//===- SpecializationTensors.cpp - tensors that a call leaves -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which inputs a call writes, where the mock takes each tensor from that
// escapes (a result of the graph, or a view of one or of an input), and how
// often the memory of each was written.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/SpecializationPlan.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;

namespace pyjit::refgraph {

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

} // namespace pyjit::refgraph
