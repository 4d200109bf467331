//===- Plan.cpp - Plans as data: verified and printed ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "pyjit/Fusion/Plan.h"
#include "Planner.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/TSSA.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Codegen/Attention.h"
#include "pyjit/Codegen/Schedule.h"

using namespace mlir;
using pyjit::codegen::KernelGraph;
using pyjit::codegen::Node;

namespace pyjit::fusion {

bool isView(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic || generic->hasAttr(attribute::kPacked) ||
      generic.getNumReductionLoops() != 0 || generic.getNumDpsInputs() != 1 ||
      generic.getNumResults() != 1)
    return false;
  Operation *terminator = generic.getBody()->getTerminator();
  return terminator->getOperand(0) == generic.getBody()->getArgument(0);
}

bool isFree(Operation *op) {
  return isa<arith::ConstantOp, tensor::EmptyOp, linalg::FillOp, tssa::EmptyOp,
             tssa::SizeOp>(op);
}

bool keepsItsPlace(Operation *op) {
  return !tssa::mayMove(op) && !isa<func::CallOp>(op);
}

Plan makePlan(Block &block, const PlanOptions &options) {
  return Planner(block, options).run();
}

LogicalResult verify(const Plan &plan) {
  DenseMap<Operation *, unsigned> groupOf;
  for (auto [number, group] : llvm::enumerate(plan.groups)) {
    std::string reason;
    std::string ignored;
    if (!KernelGraph::build(group.inputs, group.results, reason) &&
        !codegen::Attention::find(group.inputs, group.results, ignored))
      return group.ops.front()->emitError("fusion plan: group ")
             << number << " is no kernel: " << reason;
    for (Operation *op : group.ops) {
      if (op->getBlock() != plan.block)
        return op->emitError("fusion plan: operation of another block");
      if (!isView(op) && !llvm::is_contained(group.again, op) &&
          !groupOf.try_emplace(op, number).second)
        return op->emitError("fusion plan: operation in two groups");
    }
  }
  for (const Group &group : plan.groups)
    for (Value input : group.inputs) {
      Operation *producer = input.getDefiningOp();
      if (!producer || !isa<linalg::GenericOp>(producer) ||
          producer->getBlock() != plan.block)
        continue;
      bool stored = llvm::any_of(plan.groups, [&](const Group &other) {
        return llvm::is_contained(other.results, input);
      });
      if (!stored)
        return producer->emitError(
            "fusion plan: a kernel reads a value that no kernel stores");
    }
  return success();
}

void Plan::print(raw_ostream &os) const {
  os << groups.size() << (groups.size() == 1 ? " kernel" : " kernels");
  for (auto [number, group] : llvm::enumerate(groups)) {
    unsigned views = llvm::count_if(group.ops, isView);
    os << "\n  kernel " << number << ": " << group.ops.size() - views
       << " operations, ";
    if (!group.again.empty())
      os << group.again.size() << " of them again, ";
    os << views << " views, " << group.inputs.size() << " inputs, "
       << group.results.size() << " results";
    std::string reason;
    if (auto graph = KernelGraph::build(group.inputs, group.results, reason)) {
      os << ", domain";
      for (const codegen::Dim &dim : graph->dims)
        dim.print(os << ' ');
    } else {
      os << ", attention";
    }
  }
}

} // namespace pyjit::fusion
