//===- PartWrites.cpp - What replaces a part of a value -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "PartWrites.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/TSSA.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "pyjit/Fusion/Plan.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorFacts.h"

using namespace mlir;

namespace pyjit::fusion {

/// Whether what a call writes can be saved and put back: it writes its first
/// operand, and its indices are of types that both ways take.
static bool isPartWrite(tssa::AtenOp op) {
  auto rule = operators::lookupFacts(op.getOverload()).partWrite;
  auto mutates = op.getMutates();
  if (rule == operators::PartWrite::None || !mutates || mutates->size() != 1 ||
      mutates->front() != 0 || op.getNumResults() != 1 ||
      !operators::isOperandPlaceholder(op.getArgs()[0]) ||
      op.getResult(0).getType() != op.getInputs()[0].getType() ||
      llvm::count(op.getInputs(), op.getInputs()[0]) != 1)
    return false;
  // Operands in front of what is written there: `self`, then the indices.
  unsigned argument = rule == operators::PartWrite::Indexed ? 2 : 3, last = 0;
  operators::walkCallArguments(op.getArgs(),
                               [&](unsigned i, Attribute, unsigned first) {
                                 if (i == argument)
                                   last = first;
                               });
  return llvm::all_of(
      op.getInputs().slice(1, std::max(last, 1u) - 1), [&](Value index) {
        auto type = dyn_cast<RankedTensorType>(index.getType());
        return type && (type.getElementType().isSignlessInteger(64) ||
                        (rule == operators::PartWrite::Indexed &&
                         type.getElementType().isSignlessInteger(1)));
      });
}

std::optional<PartWrite> getPartWrite(Operation *op) {
  if (auto assign = dyn_cast_or_null<tssa::AssignOp>(op))
    return PartWrite{op, assign.getTarget(), assign.getResult()};
  if (auto call = dyn_cast_or_null<tssa::AtenOp>(op); call && isPartWrite(call))
    return PartWrite{op, call.getInputs()[0], call.getResult(0)};
  return std::nullopt;
}

std::optional<SmallVector<PartWrite>> findPartWrites(Value contents,
                                                     BlockArgument input) {
  SmallVector<PartWrite> writes;
  while (contents != input) {
    Operation *op = contents.getDefiningOp();
    auto write = op && op->getBlock() == input.getOwner()
                     ? getPartWrite(op)
                     : std::optional<PartWrite>();
    if (!write || contents.getType() != input.getType())
      return std::nullopt;
    contents = write->target;
    writes.push_back(*write);
  }
  if (writes.empty())
    return std::nullopt;
  std::reverse(writes.begin(), writes.end());
  return writes;
}

Readers findReaders(Value value, Operation *write) {
  Block &block = *value.getParentBlock();
  Readers readers;
  SmallVector<Value> names{value};
  llvm::SmallDenseSet<Value> seen{value};
  while (!names.empty()) {
    Value name = names.pop_back_val();
    for (OpOperand &use : name.getUses()) {
      Operation *user = use.getOwner();
      auto assign = dyn_cast<tssa::AssignOp>(user);
      bool isSource = assign && use.getOperandNumber() != 0;
      if (user == write &&
          (isSource || (name == value && (isa<func::CallOp>(user) ||
                                          use.getOperandNumber() == 0))))
        continue;
      Operation *top = block.findAncestorOpInBlock(*user);
      readers.ops.insert(top);
      if (user != top && user->hasTrait<OpTrait::IsTerminator>())
        readers.escapes = true;
      // What these make is memory of its own.
      if (isSource || isa<func::CallOp, tssa::AtenOp>(user) ||
          (isa<linalg::LinalgOp>(user) && !isView(user)))
        continue;
      for (Value result : user->getResults())
        if (seen.insert(result).second)
          names.push_back(result);
    }
  }
  return readers;
}

SmallVector<Edge> findReadsBefore(Block &block) {
  SmallVector<Edge> edges;
  for (Operation &op : block.without_terminator()) {
    if (!op.hasAttr(attribute::kPart))
      continue;
    auto write = getPartWrite(&op);
    if (!write || write->target.getParentBlock() != &block)
      continue;
    for (Operation *reader : findReaders(write->target, &op).ops)
      if (reader != &op)
        edges.emplace_back(reader, &op);
  }
  return edges;
}

} // namespace pyjit::fusion
