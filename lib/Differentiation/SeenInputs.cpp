//===- SeenInputs.cpp - Inputs that eager keeps views of ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SeenInputs.h"

#include "GradientBuilder.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using operators::SavesViews;
using tssa::typeOf;

namespace {

class Marker {
public:
  explicit Marker(func::FuncOp function) : block(function.front()) {
    if (auto inputs = function->getAttrOfType<DenseI64ArrayAttr>(
            attribute::kGradientInputs))
      for (int64_t number : inputs.asArrayRef())
        requireGrad.insert(block.getArgument(unsigned(number)));
  }

  void run() {
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
      for (OpOperand &operand : op.getOpOperands())
        if (isa<BlockArgument>(operand.get()) && isView(operand))
          mark(operand);
  }

private:
  bool isView(OpOperand &operand) const {
    if (isa<tssa::AccessOp>(operand.getOwner()))
      return operand.getOperandNumber() == 0 &&
             isa<RankedTensorType>(operand.get().getType());
    auto call = dyn_cast<tssa::AtenOp>(operand.getOwner());
    if (!call)
      return false;
    switch (operators::lookupFacts(call.getOverload()).savesViews) {
    case SavesViews::None:
      return false;
    case SavesViews::Linear:
      // The product is of matrices, and the weight is turned.
      return operand.getOperandNumber() == 1 ||
             (operand.getOperandNumber() == 0 && rankOf(operand.get()) != 2);
    case SavesViews::Matmul:
      return isFolded(call, operand.getOperandNumber());
    }
    llvm_unreachable("unknown rule");
  }

  /// Matrices and vectors are multiplied as they are, but for a vector in front
  /// of a matrix, which becomes a row. What has more dimensions is folded to a
  /// matrix, or both become batches: then both are views.
  bool isFolded(tssa::AtenOp call, unsigned place) const {
    int64_t first = rankOf(call.getOperand(0)),
            second = rankOf(call.getOperand(1));
    if (first <= 2 && second <= 2)
      return place == 0 && first == 1 && second == 2;
    Value other = call.getOperand(place);
    if (rankOf(other) > 2)
      return true;
    if (requireGrad.contains(other)) // folded, so that it is not expanded
      return place == 0 && first == 2;
    RankedTensorType type = typeOf(call.getOperand(0));
    return place == 0 ||
           type != rowMajorType(tssa::getSizes(type), type.getElementType());
  }

  static int64_t rankOf(Value value) { return typeOf(value).getRank(); }

  void mark(OpOperand &operand) {
    OpBuilder builder(operand.getOwner());
    tssa::CallBuilder build(builder, operand.getOwner()->getLoc());
    operand.set(build.call(operators::pyjit::seen, {operand.get()},
                           operand.get().getType()));
  }

  Block &block;
  llvm::DenseSet<Value> requireGrad;
};

} // namespace

void differentiation::markSeenInputs(func::FuncOp function) {
  Marker(function).run();
}

BlockArgument differentiation::getSeenInput(Value value) {
  auto call = value.getDefiningOp<tssa::AtenOp>();
  if (!call || call.getOverload() != operators::pyjit::seen)
    return {};
  return dyn_cast<BlockArgument>(call.getOperand(0));
}

void differentiation::mergeSeenInputs(Block &block) {
  llvm::DenseMap<Value, Value> seen;
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    BlockArgument input = op.getNumResults() == 1
                              ? getSeenInput(op.getResult(0))
                              : BlockArgument();
    if (!input)
      continue;
    auto [known, isNew] = seen.try_emplace(input, op.getResult(0));
    if (isNew) {
      op.moveBefore(&block, block.begin());
      continue;
    }
    op.getResult(0).replaceAllUsesWith(known->second);
    op.erase();
  }
}
