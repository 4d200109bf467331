//===- SpecializationGradients.cpp - what gradients flow through ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/SpecializationPlan.h"
#include "dialects/refgraph/Transforms/TensorNodes.h"

using namespace mlir;

namespace pyjit::refgraph {

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
    Value source = getGradientSource(value);
    if (!source)
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

} // namespace pyjit::refgraph
