//===- GenericBody.cpp - A generic's body as straight-line code -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/GenericBody.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace pyjit::codegen {

Type laneType(Type scalar, unsigned width) {
  return width == 1 ? scalar : VectorType::get({int64_t(width)}, scalar);
}

Value broadcast(OpBuilder &b, Location loc, Value scalar, unsigned width) {
  if (width == 1 || isa<VectorType>(scalar.getType()))
    return scalar;
  return vector::BroadcastOp::create(b, loc, laneType(scalar.getType(), width),
                                     scalar);
}

Type memoryType(Type element) {
  if (element.isInteger(1))
    return IntegerType::get(element.getContext(), 8);
  if (element.isInteger() && !element.isSignlessInteger())
    return IntegerType::get(element.getContext(),
                            element.getIntOrFloatBitWidth());
  return element;
}

Value toMemory(OpBuilder &b, Location loc, Value value) {
  if (!getElementTypeOrSelf(value.getType()).isInteger(1))
    return value;
  Type byte = b.getI8Type();
  if (auto type = dyn_cast<VectorType>(value.getType()))
    byte = type.clone(byte);
  return arith::ExtUIOp::create(b, loc, byte, value);
}

Value fromMemory(OpBuilder &b, Location loc, Value raw, Type element) {
  if (!element.isInteger(1))
    return raw;
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(raw.getType()));
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, raw, zero);
}

Value combine(OpBuilder &b, Location loc, Operation *combiner, Value x,
              Value y) {
  OperationState state(loc, combiner->getName());
  state.addOperands({x, y});
  state.addTypes(x.getType());
  state.addAttributes(combiner->getAttrs());
  return b.create(state)->getResult(0);
}

void bodySlice(Value value, Block *body, llvm::SetVector<Operation *> &ops,
               llvm::SmallBitVector &arguments) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() == body)
      arguments.set(argument.getArgNumber());
    return;
  }
  Operation *op = value.getDefiningOp();
  if (op->getBlock() != body || ops.contains(op))
    return;
  for (Value operand : op->getOperands())
    bodySlice(operand, body, ops, arguments);
  ops.insert(op);
}

namespace {

class BodyEmitter {
public:
  BodyEmitter(ImplicitLocOpBuilder &b, linalg::GenericOp generic,
              const BodyHooks &hooks)
      : b(b), block(generic.getBody()), hooks(hooks) {}

  Value get(Value value) {
    if (Value known = values.lookup(value))
      return known;
    // Not in one expression: emitting grows the map.
    Value result = emit(value);
    return values[value] = result;
  }

private:
  Value emit(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return hooks.input(argument.getArgNumber());
    Operation *op = value.getDefiningOp();
    // Outside of the body there are constants, and what is as good as one.
    if (op->getBlock() != block && !isa<arith::ConstantOp>(op))
      return hooks.instead(op, {}, 1);
    if (op->getBlock() != block)
      return arith::ConstantOp::create(
          b, cast<TypedAttr>(cast<arith::ConstantOp>(op).getValue()));
    if (auto position = dyn_cast<linalg::IndexOp>(op))
      return hooks.position(position.getDim());
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      if (auto number = dyn_cast<IntegerAttr>(constant.getValue());
          number && isa<IndexType>(number.getType()))
        return arith::ConstantOp::create(b,
                                         b.getI64IntegerAttr(number.getInt()));

    SmallVector<Value> operands;
    auto extracting = dyn_cast<tensor::ExtractOp>(op);
    unsigned width = 1;
    for (Value operand : op->getOperands()) {
      if (extracting && (operand == extracting.getTensor() ||
                         operand.getDefiningOp<linalg::IndexOp>()))
        continue;
      operands.push_back(get(operand));
      if (isa<VectorType>(operands.back().getType()))
        width = hooks.lanes;
    }
    if (extracting)
      return hooks.extract(extracting, values);
    if (isa<UnrealizedConversionCastOp>(op))
      return operands[0];
    Type scalar = op->getResult(0).getType();
    if (isa<IndexType>(scalar))
      scalar = b.getI64Type();
    else if (scalar.isInteger() && !scalar.isSignlessInteger())
      scalar = b.getIntegerType(scalar.getIntOrFloatBitWidth());
    if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op))
      return resize(operands[0], scalar, isa<arith::IndexCastUIOp>(op), width);
    if (Value result = hooks.instead(op, operands, width))
      return result;
    for (Value &operand : operands)
      operand = broadcast(b, b.getLoc(), operand, width);
    OperationState state(b.getLoc(), op->getName());
    state.addOperands(operands);
    state.addTypes(laneType(scalar, width));
    state.addAttributes(op->getAttrs());
    return b.create(state)->getResult(0);
  }

  Value resize(Value value, Type scalar, bool isUnsigned, unsigned width) {
    Type have = getElementTypeOrSelf(value.getType());
    if (scalar == have)
      return value;
    Type type = laneType(scalar, width);
    if (scalar.getIntOrFloatBitWidth() < have.getIntOrFloatBitWidth())
      return arith::TruncIOp::create(b, type, value);
    if (isUnsigned)
      return arith::ExtUIOp::create(b, type, value);
    return arith::ExtSIOp::create(b, type, value);
  }

  ImplicitLocOpBuilder &b;
  Block *block;
  const BodyHooks &hooks;
  BodyValues values;
};

} // namespace

Value emitBody(ImplicitLocOpBuilder &b, linalg::GenericOp generic,
               Value element, const BodyHooks &hooks) {
  Location outer = b.getLoc();
  b.setLoc(generic.getLoc());
  Value result = BodyEmitter(b, generic, hooks).get(element);
  b.setLoc(outer);
  return result;
}

} // namespace pyjit::codegen
