//===- EmitValues.cpp - Nodes of a kernel graph as operations -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "KernelEmitter.h"
#include "dialects/tssa/IR/TSSA.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "pyjit/Codegen/ElementIndex.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::x86 {

//===--- Small constructors
//-------------------------------------------------===//

Value KernelEmitter::i64(int64_t value) {
  return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
}

Value KernelEmitter::add(Value x, Value y) {
  return b.createOrFold<arith::AddIOp>(x, y);
}

Value KernelEmitter::mul(Value x, int64_t factor) {
  return factor == 1 ? x : b.createOrFold<arith::MulIOp>(x, i64(factor));
}

Value KernelEmitter::broadcast(Value scalar, unsigned width) {
  return codegen::broadcast(b, b.getLoc(), scalar, width);
}

//===--- Nodes
//--------------------------------------------------------------===//

Value KernelEmitter::emit(const Node *node, unsigned u) {
  if (node->kind == Node::Kind::Constant) {
    return inScope(0, [&]() -> Value {
      Value &known = scopes[0].values[{node, Copy()}];
      if (!known)
        known = arith::ConstantOp::create(b, node->constant);
      return known;
    });
  }
  u = copyOf(node->dims, u);
  // What follows from a reduction is known in the row, even if it is the same
  // for all rows.
  unsigned k =
      node->kind == Node::Kind::Reduce ? rowScope : scopeOf(node->dims);
  if (node->stage > 0)
    k = std::max(k, rowScope);
  if (Value known = scopes[k].values.lookup({node, rowAndVector(u)}))
    return known;
  if (isTransposed(node)) {
    SmallVector<Value> square;
    inScope(k, [&] {
      square = loadTransposed(node);
      return square.front();
    });
    for (auto [row, value] : llvm::enumerate(square))
      scopes[k].values[{node, Copy(row, 0)}] = value;
    return square[u / unroll];
  }
  assert(node->kind != Node::Kind::Reduce && "a reduction not yet known");
  Value result = inScope(k, [&]() -> Value {
    for (auto [number, saved] : llvm::enumerate(schedule.saved))
      if (saved.node == node && saved.stage < currentStage)
        return load(scratch[number], scratchOffset(node), node->type, u);
    if (node->kind == Node::Kind::Load) {
      prefetch(node, u);
      return load(buffers[node->buffer], node->offset, node->type, u);
    }
    return compute(node, u);
  });
  scopes[k].values[{node, rowAndVector(u)}] = result;
  return result;
}

Value KernelEmitter::bodyIndex(AffineExpr expr, unsigned u) {
  LinearForm form = linearize(expr);
  int64_t row = rowShift(form, u);
  auto at = [&](int64_t shift) {
    Value value = index(shift ? shifted(expr, shift) : expr);
    return row ? add(value, i64(row)) : value;
  };
  if (!onLanes(expr))
    return at(0);
  if (lanes == 1) // of several scalars in flight
    return at(firstLane(u));
  return laneIndices(b, form, schedule.vectorDim, lanes, firstLane(u), at);
}

Value KernelEmitter::extract(tensor::ExtractOp op, const Node *node, unsigned u,
                             DenseMap<Value, Value> &body) {
  auto type = cast<RankedTensorType>(op.getTensor().getType());
  Type element = type.getElementType(), memory = memoryType(element);
  unsigned bytes = std::max(1u, memory.getIntOrFloatBitWidth() / 8);
  Value base = buffers[llvm::find(inputs, op.getTensor()) - inputs.begin()];
  ExtractIndex read =
      splitExtract(b, op, *node, body, lanes,
                   [&](AffineExpr stride) { return bodyIndex(stride, u); });
  LinearForm form = linearize(read.affine);
  int64_t row = rowShift(form, u);
  bool onVector = onLanes(read.affine) && lanes > 1;
  bool dynamicVector = read.dynamic && isa<VectorType>(read.dynamic.getType());
  if (!dynamicVector && !onVector) {
    Value offset = read.add(b, bodyIndex(read.affine, u), lanes);
    Value at = address(base, offset, 0, element);
    return fromMemory(LLVM::LoadOp::create(b, memory, at), element);
  }
  auto vectorType = VectorType::get({int64_t(lanes)}, memory);
  if (!dynamicVector && !form.isNonlinearIn(schedule.vectorDim) &&
      form.coefficient(schedule.vectorDim) == 1) {
    Value offset = read.add(b, index(read.affine), lanes);
    Value at = address(base, offset, row + firstLane(u), element);
    return fromMemory(LLVM::LoadOp::create(b, vectorType, at, bytes), element);
  }
  Value offsets =
      read.add(b, broadcast(bodyIndex(read.affine, u), lanes), lanes);
  auto load = [&](Value offset) -> Value {
    return LLVM::LoadOp::create(b, memory, address(base, offset, 0, element));
  };
  return fromMemory(gatherLanes(b, offsets, load), element);
}

Value KernelEmitter::compute(const Node *node, unsigned u) {
  BodyHooks hooks{
      [&](unsigned number) { return emit(node->inputs[number], u); },
      [&](unsigned dim) { return bodyIndex(node->loops[dim], u); },
      [&](tensor::ExtractOp op, BodyValues &known) {
        return extract(op, node, u, known);
      },
      [&](Operation *op, ArrayRef<Value>, unsigned) {
        auto size = dyn_cast<tssa::SizeOp>(op);
        return size ? index(size.getMap().getResult(0)) : Value();
      },
      lanes};
  return emitBody(b, node->op, node->element, hooks);
}

} // namespace pyjit::x86
