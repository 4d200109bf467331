//===- EncodeParts.cpp - Parts of inputs that a launch writes -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What `fusion-in-place` has marked: the target's memory is the result's, and
// only the part is touched. Where something behind may fail, what was there is
// saved before, and steps that a run skips (Undo) put it back.
//
//===----------------------------------------------------------------------===//

#include "LaunchEncoder.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::executable;

LogicalResult LaunchEncoder::encodePart(tssa::AssignOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  uint32_t target = slotOf.lookup(op.getTarget());
  uint32_t source = slotOf.lookup(op.getSource());
  int64_t now = lifetimes.begin(op);
  bind(op.getResult(), target);
  RankedTensorType part =
      tssa::inferPathType(op.getPath(), type, [&] { return op.emitError(); });
  if (!part)
    return failure();
  // A part of the same memory: as if it were read before anything is written.
  if (showsWritten(source)) {
    auto copy = newBuffer(op.getLoc(), tssa::getRowMajorType(part), now);
    if (failed(copy))
      return failure();
    step(rt::StepKind::Copy, source, *copy);
    source = *copy;
  }
  auto view = newSlot(op.getLoc(), part, rt::SlotKind::View);
  if (failed(view) || failed(encodeView(op, op.getPath(), op.getIndices(), type,
                                        target, *view)))
    return failure();
  uint16_t flags = rt::kStepWritesInput;
  if (op->hasAttr(attribute::kUndo)) {
    auto saved = newBuffer(op.getLoc(), tssa::getRowMajorType(part), now,
                           lifetimes.begin(function.front().getTerminator()));
    if (failed(saved))
      return failure();
    step(rt::StepKind::Copy, *view, *saved);
    step(rt::StepKind::Undo, 1);
    step(rt::StepKind::Copy, *saved, *view, 0, rt::kStepWritesInput);
    flags |= rt::kStepUndone;
  }
  step(rt::StepKind::Copy, source, *view, 0, flags);
  return success();
}

namespace {

/// How the operator table says that the part which a call writes is read, and
/// written back.
struct PartCalls {
  StringRef read, write;
  unsigned places = 0; ///< arguments that say where, behind `self`
  bool readEnds = false, writeEnds = false; ///< in another argument, false

  explicit PartCalls(tssa::AtenOp op) {
    switch (operators::lookupFacts(op.getOverload()).partWrite) {
    case operators::PartWrite::Rows:
      *this = {operators::aten::index_select, operators::aten::index_copy_, 2,
               false, false};
      break;
    case operators::PartWrite::Elements:
      *this = {operators::aten::gather, operators::aten::scatter__src, 2, true,
               false};
      break;
    case operators::PartWrite::Indexed:
      *this = {operators::aten::index_Tensor, operators::aten::index_put_, 1,
               false, true};
      break;
    case operators::PartWrite::None:
      llvm_unreachable("fusion-in-place marks no other calls");
    }
  }

private:
  PartCalls(StringRef read, StringRef write, unsigned places, bool readEnds,
            bool writeEnds)
      : read(read), write(write), places(places), readEnds(readEnds),
        writeEnds(writeEnds) {}
};

/// The operands of `self` and of the arguments that say where.
OperandRange placesOf(tssa::AtenOp op, const PartCalls &calls) {
  unsigned end = op.getInputs().size();
  operators::walkCallArguments(op.getArgs(),
                               [&](unsigned i, Attribute, unsigned first) {
                                 if (i == calls.places + 1)
                                   end = first;
                               });
  return op.getInputs().take_front(end);
}

} // namespace

/// Undoing a call needs the places that it wrote, at any later time.
void LaunchEncoder::keepIndices() {
  for (auto op : function.front().getOps<tssa::AtenOp>())
    if (op->hasAttr(attribute::kUndo))
      for (Value index : placesOf(op, PartCalls(op)).drop_front())
        lifetimes.keep(index);
}

LogicalResult LaunchEncoder::encodePart(tssa::AtenOp op) {
  bind(op.getResult(0), slotOf.lookup(op.getInputs()[0]));
  bool undone = op->hasAttr(attribute::kUndo);
  if (undone && failed(encodeSaved(op)))
    return failure();
  SmallVector<uint32_t> operands;
  for (Value operand : op.getInputs())
    operands.push_back(slotOf.lookup(operand));
  FailureOr<uint32_t> arguments = blob.addArguments(op, op.getArgs(), operands);
  if (failed(arguments))
    return failure();
  step(rt::StepKind::Call, blob.string(op.getOverload()), *arguments,
       blob.words(0), rt::kStepWritesInput | (undone ? rt::kStepUndone : 0));
  return success();
}

/// What reads the places refuses those that there are not, before anything is
/// written.
LogicalResult LaunchEncoder::encodeSaved(tssa::AtenOp op) {
  PartCalls calls(op);
  auto saved = newSlot(
      op.getLoc(),
      RankedTensorType::get(
          {},
          cast<RankedTensorType>(op.getInputs()[0].getType()).getElementType()),
      rt::SlotKind::Result);
  if (failed(saved))
    return failure();
  blob.slots[*saved].flags |= rt::kSlotOpaque;
  SmallVector<uint32_t> operands;
  for (Value place : placesOf(op, calls))
    operands.push_back(slotOf.lookup(place));
  Builder builder(op.getContext());
  SmallVector<Attribute> args(
      op.getArgs().getValue().take_front(calls.places + 1));
  SmallVector<Attribute> reads(args);
  if (calls.readEnds)
    reads.push_back(builder.getBoolAttr(false));
  auto read = blob.addArguments(op, builder.getArrayAttr(reads), operands);
  operands.push_back(*saved);
  args.push_back(operators::getOperandPlaceholder(op.getContext()));
  if (calls.writeEnds)
    args.push_back(builder.getBoolAttr(false));
  auto write = blob.addArguments(op, builder.getArrayAttr(args), operands);
  if (failed(read) || failed(write))
    return failure();
  step(rt::StepKind::Call, blob.string(calls.read), *read,
       blob.words({1, int64_t(*saved)}));
  step(rt::StepKind::Undo, 1);
  step(rt::StepKind::Call, blob.string(calls.write), *write, blob.words(0),
       rt::kStepWritesInput);
  return success();
}
