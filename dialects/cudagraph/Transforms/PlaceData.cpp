//===- PlaceData.cpp - Host data that kernels read ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/cudagraph/Transforms/Passes.h"

#include "pyjit/Operators/OperatorInfo.h"

namespace pyjit::cudagraph {
#define GEN_PASS_DEF_PLACEDATAPASS
#include "dialects/cudagraph/Transforms/Passes.h.inc"
} // namespace pyjit::cudagraph

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;

namespace {

bool isHost(Value value) { return cast<BufferType>(value.getType()).isHost(); }

struct PlaceData : cudagraph::impl::PlaceDataPassBase<PlaceData> {
  /// The device's copy of a host buffer, made right behind the buffer.
  Value onDevice(Value host, DenseMap<Value, Value> &copies) {
    Value &copy = copies[host];
    if (copy)
      return copy;
    OpBuilder builder(host.getContext());
    builder.setInsertionPointAfterValue(host);
    RankedTensorType tensor = cast<BufferType>(host.getType()).getTensor();
    copy = BufferOp::create(builder, host.getLoc(), BufferType::get(tensor),
                            IntegerAttr());
    if (tensor.hasStaticShape() && tensor.getNumElements() == 1)
      HostValueOp::create(builder, host.getLoc(), host, copy);
    else
      CopyOp::create(builder, host.getLoc(), host, copy);
    return copy;
  }

  /// A call that neither reads nor writes anything but host memory.
  bool staysOnHost(Operation &op) {
    if (isa<ViewOp>(op))
      return isHost(op.getOperand(0));
    auto call = dyn_cast<CallOp>(op);
    if (!call || call.getMutates() || !llvm::all_of(call.getInputs(), isHost) ||
        !llvm::all_of(call.getOutputs(), isHost))
      return false;
    const operators::OperatorInfo *info =
        operators::lookupOperator(call.getOverload());
    return info && info->kind == operators::OperatorClass::Pure;
  }

  void runOnOperation() override {
    ProgramOp program = getOperation();
    DenseMap<Value, Value> copies;
    program.walk([&](KernelOp kernel) {
      for (OpOperand &operand : kernel->getOpOperands())
        if (isHost(operand.get()))
          operand.set(onDevice(operand.get(), copies));
    });

    // Externals, then host work, then copies, each in its old order: nothing of
    // this reads what the rest writes.
    Block &block = program.getBlock();
    SmallVector<Operation *> externals, host, moves;
    DenseSet<Value> early;
    auto isEarly = [&](Value value) { return early.contains(value); };
    for (Operation &op : block) {
      bool moved = true;
      if (isa<ExternalOp>(op))
        externals.push_back(&op);
      else if (staysOnHost(op) && llvm::all_of(op.getOperands(), isEarly))
        host.push_back(&op);
      else if (isa<BufferOp>(op) ||
               (isa<HostValueOp, CopyOp>(op) && isHost(op.getOperand(0)) &&
                llvm::all_of(op.getOperands(), isEarly)))
        moves.push_back(&op);
      else
        moved = false;
      if (moved)
        early.insert(op.result_begin(), op.result_end());
    }
    Operation *front = &block.front();
    OpBuilder builder(front);
    Operation *mark = ReturnOp::create(builder, front->getLoc(), ValueRange());
    for (ArrayRef<Operation *> group :
         {ArrayRef(externals), ArrayRef(host), ArrayRef(moves)})
      for (Operation *op : group)
        op->moveBefore(mark);
    mark->erase();
  }
};

} // namespace
