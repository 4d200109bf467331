//===- ExtractGraph.cpp - refgraph.graph from a trace ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: in, traces; out, one refgraph.graph per trace, which is erased. The
// order of operators is the trace's.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/refgraph/Transforms/SpecializationPlan.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "pyjit/Operators/OperatorNames.h"
#include "pyjit/Operators/Raises.h"

namespace pyjit::refgraph {
#define GEN_PASS_DEF_EXTRACTGRAPHPASS
#include "dialects/refgraph/Transforms/Passes.h.inc"
} // namespace pyjit::refgraph

using namespace mlir;
using namespace pyjit::refgraph;

/// The elements of an input that is a constant of the specialization.
static DenseI64ArrayAttr getHeld(Value input) {
  auto object = input.getDefiningOp<ObjectOp>();
  return object ? object.getHoldsAttr() : DenseI64ArrayAttr();
}

/// The inputs, in order, that are the same memory at each call as a rule.
static DenseI64ArrayAttr getParams(const SpecializationPlan &plan,
                                   Builder &builder) {
  SmallVector<int64_t> params;
  for (auto [i, input] : llvm::enumerate(plan.inputs)) {
    auto get = input.getDefiningOp<GetOp>();
    if ((get && get.getParam()) || getHeld(input))
      params.push_back(i);
  }
  return params.empty() ? DenseI64ArrayAttr()
                        : builder.getDenseI64ArrayAttr(params);
}

/// [input, element...] of each constant.
static ArrayAttr getHolds(const SpecializationPlan &plan, Builder &builder) {
  SmallVector<Attribute> holds;
  for (auto [i, input] : llvm::enumerate(plan.inputs))
    if (DenseI64ArrayAttr held = getHeld(input);
        held && !llvm::is_contained(plan.updates, i)) {
      SmallVector<int64_t> entry{int64_t(i)};
      llvm::append_range(entry, held.asArrayRef());
      holds.push_back(builder.getDenseI64ArrayAttr(entry));
    }
  return holds.empty() ? ArrayAttr() : builder.getArrayAttr(holds);
}

/// Whether autograd goes from no result to an input: leaves of the call's own,
/// which nobody sees, have the gradients.
static bool endsAtOwnLeaves(TraceOp trace, const SpecializationPlan &plan) {
  auto marked = trace.getBody().getOps<DifferentiableOp>();
  return plan.gradientViews.empty() &&
         llvm::all_of(marked,
                      [](DifferentiableOp op) { return op.getOwnLeaves(); });
}

/// The inputs, in order, that require grad.
static DenseI64ArrayAttr getGradientInputs(TraceOp trace,
                                           const SpecializationPlan &plan,
                                           Builder &builder) {
  SmallVector<int64_t> numbers;
  if (endsAtOwnLeaves(trace, plan))
    return builder.getDenseI64ArrayAttr(numbers);
  for (auto [i, input] : llvm::enumerate(plan.inputs)) {
    auto get = input.getDefiningOp<GetOp>();
    auto type = dyn_cast<pyjit::refgraph::TensorType>(input.getType());
    if (get && type && type.mayHaveGradient() &&
        get.getRequiresGrad().value_or(false))
      numbers.push_back(i);
  }
  return builder.getDenseI64ArrayAttr(numbers);
}

/// An input that no operator reads is the same tensor at each decision, says
/// the state: the graph does not know it.
static void cloneDecision(DecideOp decide, OpBuilder &builder,
                          const IRMapping &mapping) {
  SmallVector<Value> values;
  for (Value value : decide.getValues())
    if (Value known = mapping.lookupOrNull(value))
      values.push_back(known);
  DecideOp::create(builder, decide.getLoc(),
                   mapping.lookup(decide.getCondition()),
                   decide.getOutcomeAttr(), decide.getSiteAttr(),
                   decide.getStateAttr(), values, decide.getUnfoldedAttr());
}

static ArrayAttr getSymbols(const SpecializationPlan &plan, Builder &builder) {
  SmallVector<Attribute> symbols;
  for (auto [input, dim] : plan.symbols)
    symbols.push_back(builder.getDenseI64ArrayAttr({input, dim}));
  return symbols.empty() ? ArrayAttr() : builder.getArrayAttr(symbols);
}

/// What the graph needs of `block`, terminator apart.
static void cloneNeeded(Block &block, const SpecializationPlan &plan,
                        OpBuilder &builder, IRMapping &mapping) {
  for (Operation &op : block) {
    if (auto decide = dyn_cast<DecideOp>(op)) {
      cloneDecision(decide, builder, mapping);
      continue;
    }
    if (isa<SpeculateOp>(op)) {
      builder.clone(op, mapping);
      continue;
    }
    if (!plan.isNeeded(&op))
      continue;
    auto branch = dyn_cast<IfOp>(op);
    if (!branch) {
      Operation *copy = builder.clone(op, mapping);
      if (plan.mustRun(&op))
        copy->setAttr(pyjit::attribute::kMustRun, builder.getUnitAttr());
      continue;
    }
    auto copy = IfOp::create(builder, op.getLoc(), branch.getResultTypes(),
                             mapping.lookup(branch.getCondition()));
    for (auto [arm, target] :
         llvm::zip(branch->getRegions(), copy->getRegions())) {
      OpBuilder::InsertionGuard guard(builder);
      builder.createBlock(&target);
      cloneNeeded(arm.front(), plan, builder, mapping);
      auto yield = cast<YieldOp>(arm.front().getTerminator());
      SmallVector<Value> values;
      for (Value value : yield.getValues())
        values.push_back(mapping.lookup(value));
      YieldOp::create(builder, yield.getLoc(), values);
    }
    mapping.map(branch.getResults(), copy.getResults());
  }
}

/// torch.get_default_dtype() where the trace began, or null where it is f32: a
/// part of what operators mean.
static TypeAttr getDefaultType(TraceOp trace) {
  for (StateOp state : trace.getBody().front().getOps<StateOp>())
    if (auto type = state.getValues().getAs<TypeAttr>("default_dtype");
        type && !type.getValue().isF32())
      return type;
  return {};
}

/// Whether the call itself runs autograd's engine.
static bool runsBackward(GraphOp graph) {
  return llvm::any_of(graph.getBody().getOps<TensorOp>(), [](TensorOp op) {
    return op.getOverload() == pyjit::operators::pyjit::backward;
  });
}

static void extractGraph(TraceOp trace, const SpecializationPlan &plan) {
  OpBuilder builder(trace);
  bool differentiable =
      !plan.gradientResults.empty() || !plan.gradientViews.empty();
  DenseI64ArrayAttr gradientInputs, gradientResults;
  if (differentiable) {
    gradientInputs = getGradientInputs(trace, plan, builder);
    SmallVector<int64_t> numbers(plan.gradientResults);
    auto first = int64_t(plan.results.size() + plan.updates.size());
    llvm::append_range(
        numbers, llvm::seq(first, first + int64_t(plan.gradientViews.size())));
    gradientResults = builder.getDenseI64ArrayAttr(numbers);
  }
  auto graph = GraphOp::create(
      builder, trace.getLoc(), trace.getSpecializationAttr(),
      builder.getDenseI64ArrayAttr(plan.updates), getParams(plan, builder),
      getHolds(plan, builder), getSymbols(plan, builder), gradientInputs,
      gradientResults,
      builder.getI64IntegerAttr(int64_t(plan.gradientViews.size())));
  if (TypeAttr type = getDefaultType(trace))
    graph->setAttr(pyjit::attribute::kDefaultDtype, type);
  Block *body = &graph.getBody().emplaceBlock();
  IRMapping mapping;
  llvm::DenseMap<Value, Value> arguments;
  for (Value input : plan.inputs)
    arguments[input] = body->addArgument(input.getType(), input.getLoc());
  // Every path to an input, and its version 0, is the argument.
  for (Operation &op : trace.getBody().front())
    if (isa<GetOp, ObjectOp, ArithOp, SizeOp, StrideOp>(op))
      if (Value argument = arguments.lookup(plan.getNode(op.getResult(0))))
        mapping.map(op.getResult(0), argument);

  builder.setInsertionPointToEnd(body);
  cloneNeeded(trace.getBody().front(), plan, builder, mapping);
  SmallVector<Value> values;
  for (Value result : plan.results)
    values.push_back(mapping.lookup(plan.getLatest(result)));
  for (int64_t input : plan.updates)
    values.push_back(mapping.lookup(plan.getLatest(plan.inputs[input])));
  for (Value view : plan.gradientViews)
    values.push_back(mapping.lookup(plan.getLatest(view)));
  YieldOp::create(builder, trace.getBody().front().back().getLoc(), values);
  // Where nothing is to be differentiated, all operators are alike.
  if (!differentiable && !runsBackward(graph))
    graph.walk([](TensorOp op) { op.setNoGrad(false); });
}

namespace {
struct ExtractGraphPass
    : public pyjit::refgraph::impl::ExtractGraphPassBase<ExtractGraphPass> {
  void runOnOperation() override {
    for (TraceOp trace :
         llvm::make_early_inc_range(getOperation().getOps<TraceOp>())) {
      FailureOr<SpecializationPlan> plan = SpecializationPlan::compute(trace);
      if (failed(plan))
        return signalPassFailure();
      extractGraph(trace, *plan);
      trace.erase();
    }
  }
};
} // namespace
