//===- GenerateMock.cpp - refgraph.mock from a trace ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: in, traces; out, one refgraph.mock per trace before it, which
// stays. A created object appears before its first use: creations keep the
// trace's order, and a write to a created object (a cycle) stays where it was.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/refgraph/Transforms/SpecializationPlan.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "pyjit/Operators/CallArguments.h"

namespace pyjit::refgraph {
#define GEN_PASS_DEF_GENERATEMOCKPASS
#include "dialects/refgraph/Transforms/Passes.h.inc"
} // namespace pyjit::refgraph

using namespace mlir;
using namespace pyjit::refgraph;

namespace {

class MockBuilder {
public:
  MockBuilder(TraceOp trace, const SpecializationPlan &plan)
      : trace(trace), plan(plan), builder(trace) {}

  void build() {
    createOp();
    for (auto [i, input] : llvm::enumerate(plan.updates))
      CopyBackOp::create(builder, trace.getLoc(),
                         objects.lookup(plan.inputs[input]), updates[i]);
    // A view of an older version has no node that autograd takes for its own.
    setCounters();
    for (Operation &op : trace.getBody().front()) {
      if (!plan.isReached(&op))
        continue;
      if (auto set = dyn_cast<SetOp>(op);
          set && set.getSelector() == Selector::storage)
        makeOperands(&op);
      IRMapping mapping;
      for (Value operand : op.getOperands())
        mapping.map(operand, getObject(operand, op.getLoc()));
      Operation *clone = builder.clone(op, mapping);
      if (op.getNumResults())
        objects[plan.getNode(op.getResult(0))] = clone->getResult(0);
    }
    builder.setInsertionPoint(builder.getBlock()->getTerminator());
    for (Value view : plan.gradientViews)
      DifferentiableOp::create(builder, trace.getLoc(),
                               getObject(view, trace.getLoc()));
    for (auto [tensor, freed] : plan.requiringGrad)
      RequireGradOp::create(builder, trace.getLoc(),
                            getObject(tensor, trace.getLoc()), freed);
  }

private:
  /// Of all that follows: views of what a tensor shows until it is given other
  /// memory.
  void makeOperands(Operation *first) {
    for (Operation *op = first; op; op = op->getNextNode())
      for (Value operand : op->getOperands())
        if (plan.isReached(op) && plan.views.contains(plan.getNode(operand)))
          getObject(operand, op->getLoc());
  }

  /// Copying back is one of the writes; where eager counted none (statistics of
  /// a batch norm), it is taken back.
  void setCounters() {
    llvm::DenseSet<Value> copied;
    for (int64_t input : plan.updates)
      copied.insert(plan.inputs[input]);
    for (auto [tensor, count] : plan.advances)
      if (int64_t left = count - copied.contains(tensor))
        AdvanceOp::create(builder, trace.getLoc(),
                          getObject(tensor, trace.getLoc()), left,
                          /*least=*/IntegerAttr());
  }

  void createOp() {
    auto mock =
        MockOp::create(builder, trace.getLoc(), trace.getSpecializationAttr(),
                       builder.getI64IntegerAttr(plan.inputs.size()),
                       builder.getI64IntegerAttr(plan.kept.size()));
    Block *body = &mock.getBody().emplaceBlock();
    auto add = [&](Value value) {
      return body->addArgument(plan.getLatest(value).getType(), value.getLoc());
    };
    for (ArrayRef<Value> values :
         {ArrayRef(plan.inputs), ArrayRef(plan.kept), ArrayRef(plan.results)})
      for (Value value : values)
        objects[value] = add(value);
    for (int64_t input : plan.updates)
      updates.push_back(add(plan.inputs[input]));
    builder.setInsertionPointToEnd(body);
    for (Value result : plan.ownViews)
      objects[result] =
          makeView(objects.lookup(result).getType(),
                   {result, pyjit::analysis::SizePolynomial(0), StringAttr()},
                   trace.getLoc());
  }

  /// The mock's value for the trace's, made where it does not exist yet.
  Value getObject(Value value, Location loc) {
    value = plan.getNode(value);
    if (Value object = objects.lookup(value))
      return object;
    Value object;
    if (auto it = plan.views.find(value); it != plan.views.end())
      object = makeView(plan.getLatest(value).getType(), it->second, loc);
    else if (auto index = plan.getPinned(value))
      object = ObjectOp::create(builder, loc, value.getType(), *index);
    else
      llvm_unreachable("escaping value that the plan left out");
    objects[value] = object;
    return object;
  }

  Value makeView(Type type, const SpecializationPlan::View &view,
                 Location loc) {
    auto known = view.offset.getConstant();
    AffineMapAttr plus;
    if (!known)
      plus = cast<AffineMapAttr>(pyjit::operators::makeSizeArgument(
          view.offset.toAffine(builder.getContext())));
    SmallVector<Value> symbols;
    if (!known || cast<pyjit::refgraph::TensorType>(type).isSymbolic())
      for (Value number : plan.symbolNumbers)
        symbols.push_back(getObject(number, loc));
    return ViewOp::create(builder, loc, type, getObject(view.base, loc),
                          known.value_or(0), plus, symbols, view.shown);
  }

  TraceOp trace;
  const SpecializationPlan &plan;
  OpBuilder builder;
  llvm::DenseMap<Value, Value> objects;
  SmallVector<Value> updates;
};

struct GenerateMockPass
    : public pyjit::refgraph::impl::GenerateMockPassBase<GenerateMockPass> {
  void runOnOperation() override {
    for (TraceOp trace : getOperation().getOps<TraceOp>()) {
      FailureOr<SpecializationPlan> plan = SpecializationPlan::compute(trace);
      if (failed(plan))
        return signalPassFailure();
      MockBuilder(trace, *plan).build();
    }
  }
};

} // namespace
