//===- TensorNodes.cpp - which values of a graph are one tensor -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/TensorNodes.h"

using namespace mlir;
using namespace pyjit::refgraph;

void TensorNodes::add(Block &block) {
  for (BlockArgument argument : block.getArguments())
    nodes.push_back(argument);
  for (Operation &op : block) {
    auto call = dyn_cast<TensorOp>(op);
    for (OpResult result : op.getResults()) {
      if (call && result.getResultNumber() >= call.getNumFresh()) {
        int64_t operand =
            call.getMutates()[result.getResultNumber() - call.getNumFresh()];
        node[result] = getNode(call.getInputs()[operand]);
        continue;
      }
      nodes.push_back(result);
      if (!call)
        continue;
      for (int64_t operand : call.getAliases()) {
        Value a = getGroup(call.getInputs()[operand]), b = getGroup(result);
        if (a != b)
          parent[b] = a;
      }
    }
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        add(inner);
  }
}

TensorNodes::TensorNodes(Block &block) {
  add(block);
  for (Value value : nodes)
    members[getGroup(value)].push_back(value);
  block.walk([&](TensorOp call) {
    for (int64_t operand : call.getMutates())
      writers[getGroup(call.getInputs()[operand])].push_back(call);
  });
}

Value pyjit::refgraph::getGradientSource(Value view) {
  auto call = view.getDefiningOp<TensorOp>();
  if (!call || call.getNoGrad() || call.getAliases().size() != 1)
    return {};
  Value source = call.getInputs()[call.getAliases()[0]];
  auto type = cast<TensorType>(view.getType());
  bool passes = type.mayHaveGradient() &&
                cast<TensorType>(source.getType()).getElementType() ==
                    type.getElementType();
  return passes ? source : Value();
}
