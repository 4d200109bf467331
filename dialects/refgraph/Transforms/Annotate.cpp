//===- Annotate.cpp - operator properties from the operator table ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: changes only the `traits` of tensor_ops. What the table does not
// know stays without traits, which every later pass takes for the worst.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/Random.h"

namespace pyjit::refgraph {
#define GEN_PASS_DEF_ANNOTATEPASS
#include "dialects/refgraph/Transforms/Passes.h.inc"
} // namespace pyjit::refgraph

using namespace mlir;
using namespace pyjit::refgraph;
using pyjit::operators::OperatorClass;
using pyjit::operators::OperatorInfo;

/// The operands that the schema marks as written, by operand number.
static SmallVector<int64_t> getMutated(TensorOp op, const OperatorInfo &info) {
  SmallVector<int64_t> mutated;
  pyjit::operators::walkCallArguments(
      op.getArgs(), [&](unsigned index, Attribute arg, unsigned firstOperand) {
        if (index >= info.arguments.size() || !info.arguments[index].mutated)
          return;
        unsigned count = pyjit::operators::countOperands(
            ArrayAttr::get(op.getContext(), arg));
        for (unsigned i = 0; i < count; ++i)
          mutated.push_back(firstOperand + i);
      });
  return mutated;
}

static LogicalResult verifyAgainst(TensorOp op, const OperatorInfo &info) {
  if (op.getArgs().size() != info.arguments.size())
    return op.emitOpError("passes ")
           << op.getArgs().size() << " arguments, the schema has "
           << info.arguments.size() << ": " << info.schema;
  SmallVector<int64_t> recorded(op.getMutates());
  llvm::sort(recorded);
  if (recorded != getMutated(op, info))
    return op.emitOpError("mutates other operands than its schema: ")
           << info.schema;
  return success();
}

static SmallVector<StringRef> getTraits(TensorOp op, const OperatorInfo &info) {
  SmallVector<StringRef> traits;
  switch (info.kind) {
  case OperatorClass::Pure:
  case OperatorClass::View:
    traits = {"as-op-node", "pure"};
    break;
  case OperatorClass::Mutation:
    traits = {"as-op-node", "in-place"};
    break;
  case OperatorClass::Random:
    traits = {"as-op-node", "random"};
    if (pyjit::operators::drawsNothing(info, op.getArgs()))
      traits.back() = op.getMutates().empty() ? "pure" : "in-place";
    break;
  case OperatorClass::Dynamic:
    traits = {"as-op-node", "pure", "value-read"};
    break;
  case OperatorClass::Metadata:
    break;
  }
  if (!op.getAliases().empty())
    traits.push_back("relation");
  return traits;
}

namespace {
struct AnnotatePass
    : public pyjit::refgraph::impl::AnnotatePassBase<AnnotatePass> {
  void runOnOperation() override {
    Builder builder(&getContext());
    bool failedOnce = false;
    getOperation().walk([&](TensorOp op) {
      const OperatorInfo *info =
          pyjit::operators::lookupOperator(op.getOverload());
      if (!info) {
        ++numUnknown;
        op.removeTraitsAttr();
        return;
      }
      if (failed(verifyAgainst(op, *info))) {
        failedOnce = true;
        return;
      }
      op.setTraitsAttr(builder.getStrArrayAttr(getTraits(op, *info)));
    });
    if (failedOnce)
      signalPassFailure();
  }
};
} // namespace
