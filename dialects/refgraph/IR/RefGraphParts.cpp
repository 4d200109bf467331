//===- RefGraphParts.cpp - verifiers of a specialization's parts ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What may stand in a trace, in guards, in a mock and in a graph, and how each
// of them ends.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/IR/RefGraph.h"

#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;

namespace pyjit::refgraph {

template <typename TerminatorOp>
static LogicalResult verifyTerminator(Operation *part) {
  Block &block = part->getRegion(0).front();
  if (block.empty() || !isa<TerminatorOp>(block.back()))
    return part->emitOpError("must end with '")
           << TerminatorOp::getOperationName() << "'";
  return success();
}

template <typename... Allowed>
static LogicalResult verifyBody(Operation *part) {
  for (Operation &op : part->getRegion(0).front())
    if (!isa<Allowed...>(op))
      return op.emitOpError("does not belong in '") << part->getName() << "'";
  return success();
}

/// Symbols are numbered without gaps, each once.
static LogicalResult verifySymbols(TraceOp trace) {
  auto symbols = llvm::to_vector(trace.getBody().getOps<SymbolOp>());
  llvm::SmallBitVector seen(symbols.size());
  for (SymbolOp symbol : symbols) {
    if (symbol.getIndex() >= symbols.size())
      return symbol.emitOpError("is number ")
             << symbol.getIndex() << " of " << symbols.size();
    if (seen.test(symbol.getIndex()))
      return symbol.emitOpError("is the second one of number ")
             << symbol.getIndex();
    seen.set(symbol.getIndex());
  }
  return success();
}

LogicalResult TraceOp::verifyRegions() {
  if (failed(verifyTerminator<LeaveOp>(*this)) || failed(verifySymbols(*this)))
    return failure();
  return verifyBody<ExternalOp, ObjectOp, ConstantOp, GetOp, AbsentOp, HoldsOp,
                    LengthOp, KeysOp, TableOp, OffsetOp, UnhookedOp, SameOp,
                    DistinctOp, StateOp, ArithOp, CompareOp, SizeOp, StrideOp,
                    LayoutOp, SymbolOp, TensorOp, DecideOp, SpeculateOp, IfOp,
                    CreateOp, SetOp, DeleteOp, AppendOp, ReplaceOp, AdvanceOp,
                    ShownOp, RequireGradOp, DifferentiableOp, LeaveOp>(*this);
}

LogicalResult GuardsOp::verifyRegions() {
  if (failed(verifyTerminator<AcceptOp>(*this)) ||
      failed(verifyBody<ExternalOp, ObjectOp, GetOp, AbsentOp, HoldsOp,
                        LengthOp, KeysOp, TableOp, UnhookedOp, SameOp,
                        DistinctOp, UnaliasedOp, DisjointOp, StateOp, CheckOp,
                        InstanceOp, WatchOp, ConstantOp, ArithOp, CompareOp,
                        SizeOp, StrideOp, AcceptOp>(*this)))
    return failure();
  bool watched = false;
  for (Operation &op : getBody().front()) {
    if (isa<WatchOp>(op)) {
      if (watched)
        return op.emitOpError("is the second one: a watched part ends once");
      watched = true;
    } else if (auto get = dyn_cast<GetOp>(op); get && get.getUnchecked()) {
      bool checked = llvm::any_of(get.getResult().getUsers(), [](auto *user) {
        return isa<CheckOp>(user);
      });
      if (!checked)
        return get.emitOpError("is 'unchecked' and nothing checks its result");
    }
  }
  return success();
}

Block::BlockArgListType MockOp::getInputs() {
  return getBody().getArguments().take_front(getNumInputs());
}
Block::BlockArgListType MockOp::getKept() {
  return getBody().getArguments().slice(getNumInputs(), getNumKept());
}
Block::BlockArgListType MockOp::getResults() {
  return getBody().getArguments().drop_front(getNumInputs() + getNumKept());
}

LogicalResult MockOp::verifyRegions() {
  if (getNumInputs() + getNumKept() > getBody().getNumArguments())
    return emitOpError("has fewer arguments than inputs and kept objects");
  for (BlockArgument argument : getResults())
    if (!isa<TensorType>(argument.getType()))
      return emitOpError("graph result of type ") << argument.getType();
  if (failed(verifyTerminator<LeaveOp>(*this)))
    return failure();
  return verifyBody<ObjectOp, ConstantOp, CreateOp, SetOp, DeleteOp, AppendOp,
                    AdvanceOp, RequireGradOp, DifferentiableOp, ReplaceOp,
                    ViewOp, CopyBackOp, LeaveOp>(*this);
}

/// Names tensors of `types` that may have gradients, in order.
static LogicalResult verifyGradients(GraphOp graph, StringRef attribute,
                                     ArrayRef<int64_t> numbers,
                                     TypeRange types) {
  int64_t previous = -1;
  for (int64_t number : numbers) {
    if (number <= previous || number >= int64_t(types.size()))
      return graph.emitOpError("'") << attribute << "' must list numbers below "
                                    << types.size() << " in order";
    previous = number;
    auto type = dyn_cast<TensorType>(types[number]);
    if (!type || !type.mayHaveGradient())
      return graph.emitOpError("'") << attribute << "' names " << types[number]
                                    << ", which has no gradient";
  }
  return success();
}

static LogicalResult verifyGradients(GraphOp graph, YieldOp yield) {
  auto inputs = graph.getGradientInputs(), results = graph.getGradientResults();
  if (inputs.has_value() != results.has_value())
    return graph.emitOpError(
        "has one of 'gradient_inputs' and 'gradient_results'");
  if (!inputs)
    return success();
  return failure(failed(verifyGradients(graph, "gradient_inputs", *inputs,
                                        graph.getBody().getArgumentTypes())) ||
                 failed(verifyGradients(graph, "gradient_results", *results,
                                        yield.getValues().getTypes())));
}

LogicalResult GraphOp::verifyRegions() {
  if (failed(verifyTerminator<YieldOp>(*this)) ||
      failed(
          verifyBody<TensorOp, DecideOp, SpeculateOp, WhileOp, IfOp, YieldOp>(
              *this)))
    return failure();
  ArrayRef<Attribute> sources;
  if (ArrayAttr symbols = getSymbolsAttr())
    sources = symbols.getValue();
  for (Attribute source : sources) {
    auto pair = dyn_cast<DenseI64ArrayAttr>(source);
    if (!pair || pair.size() != 2 || pair[0] < 0 ||
        pair[0] >= getBody().getNumArguments())
      return emitOpError("symbol source ") << source << " names no input";
    auto tensor =
        dyn_cast<TensorType>(getBody().getArgument(pair[0]).getType());
    if (tensor ? pair[1] < 0 || pair[1] >= int64_t(tensor.getRank())
               : pair[1] != -1)
      return emitOpError("symbol source ") << source << " names no size";
  }
  ArrayRef<Attribute> constants;
  if (ArrayAttr holds = getHoldsAttr())
    constants = holds.getValue();
  for (Attribute constant : constants) {
    auto entry = dyn_cast<DenseI64ArrayAttr>(constant);
    if (!entry || entry.empty() || entry[0] < 0 ||
        entry[0] >= getBody().getNumArguments())
      return emitOpError("elements ") << constant << " name no input";
  }
  auto yield = cast<YieldOp>(getBody().front().getTerminator());
  unsigned updates = getMutates().size();
  auto views = int64_t(getGradientViews());
  if (views < 0 || views > int64_t(yield.getValues().size()))
    return emitOpError("'gradient_views' is ")
           << views << ", but it yields " << yield.getValues().size()
           << " values";
  ValueRange results = yield.getValues().drop_back(views);
  if (results.size() < updates)
    return emitOpError("mutates ")
           << updates << " inputs but yields " << results.size() << " values";
  int64_t previous = -1;
  for (auto [i, input] : llvm::enumerate(getMutates())) {
    if (input <= previous || input >= getBody().getNumArguments())
      return emitOpError("'mutates' must list input numbers in order");
    previous = input;
    Value value = results.take_back(updates)[i];
    Type type = getBody().getArgument(input).getType();
    if (value.getType() != type)
      return emitOpError("new contents of input ")
             << input << " have type " << value.getType() << ", not " << type;
  }
  return verifyGradients(*this, yield);
}

} // namespace pyjit::refgraph
