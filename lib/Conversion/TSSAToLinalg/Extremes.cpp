//===- Extremes.cpp - Positions of extremes, group norm -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that are made of others, seen through other shapes: the position of
// an extreme is the least index whose element equals it, a group norm is a
// layer norm of groups.
//
//===----------------------------------------------------------------------===//

#include "Structured.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;

namespace pyjit {

/// A value of `type` that shows `source` through `exprs`.
static Value show(StructuredCall &call, Value source, RankedTensorType type,
                  ArrayRef<AffineExpr> exprs) {
  return makeMap(
      call.b, call.loc(), type, source,
      AffineMap::get(type.getRank(), 0, exprs, call.b.getContext()),
      [](OpBuilder &, Location, ValueRange elements) { return elements[0]; });
}

/// The extreme of each row of `self` along `dim`, which is left out; null, with
/// a reason, where there is no recipe.
static Value findExtreme(StructuredCall &call, unsigned dim, bool largest,
                         RankedTensorType kept) {
  OpBuilder &b = call.b;
  Value self = call.op.getInputs()[0];
  SmallVector<Attribute> args{operators::getOperandPlaceholder(b.getContext()),
                              b.getArrayAttr(b.getI64IntegerAttr(dim)),
                              b.getBoolAttr(false)};
  return lowerRecipe(b, call.loc(),
                     largest ? operators::aten::amax : operators::aten::amin,
                     b.getArrayAttr(args), TypeRange(self.getType()),
                     call.shown(self), kept, call.reason);
}

/// Where it first stands, as i32: twice its index, plus one where the element
/// there is negative, -0 included. An extreme that is not a number is found as
/// such.
static Value findPosition(StructuredCall &call, unsigned dim, Value extreme) {
  OpBuilder &b = call.b;
  Location loc = call.loc();
  Value self = call.op.getInputs()[0];
  auto kept = cast<RankedTensorType>(extreme.getType());
  unsigned rank = kept.getRank() + 1;
  SmallVector<AffineExpr> rest;
  for (unsigned d = 0; d < rank; ++d)
    if (d != dim)
      rest.push_back(b.getAffineDimExpr(d));
  AffineMap row = AffineMap::get(rank, 0, rest, b.getContext());
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  iterators[dim] = utils::IteratorType::reduction;

  Type i32 = b.getI32Type();
  IntegerAttr far = b.getI32IntegerAttr(std::numeric_limits<int32_t>::max());
  auto positions = RankedTensorType::get(kept.getShape(), i32);
  Value most = arith::ConstantOp::create(b, loc, far);
  Value empty = tensor::EmptyOp::create(b, loc, positions, ValueRange());
  Value init = linalg::FillOp::create(b, loc, most, empty).getResult(0);
  auto least = [&](OpBuilder &in, Location at, ValueRange x) {
    Value found, sign;
    if (auto real = dyn_cast<FloatType>(kept.getElementType())) {
      Type bits = in.getIntegerType(real.getWidth());
      Value raw = arith::BitcastOp::create(in, at, bits, x[0]);
      Value last = arith::ConstantOp::create(
          in, at, in.getIntegerAttr(bits, real.getWidth() - 1));
      sign = arith::ShRUIOp::create(in, at, raw, last);
      if (real.getWidth() > 32)
        sign = arith::TruncIOp::create(in, at, i32, sign);
      Value equal =
          arith::CmpFOp::create(in, at, arith::CmpFPredicate::OEQ, x[0], x[1]);
      Value nan =
          arith::CmpFOp::create(in, at, arith::CmpFPredicate::UNO, x[0], x[0]);
      found = arith::OrIOp::create(in, at, equal, nan);
    } else {
      found =
          arith::CmpIOp::create(in, at, arith::CmpIPredicate::eq, x[0], x[1]);
    }
    Value index = arith::IndexCastOp::create(
        in, at, i32, linalg::IndexOp::create(in, at, dim));
    Value one = arith::ConstantOp::create(in, at, in.getI32IntegerAttr(1));
    index = arith::ShLIOp::create(in, at, index, one);
    if (sign)
      index = arith::OrIOp::create(in, at, index, sign);
    Value candidate = arith::SelectOp::create(
        in, at, found, index, arith::ConstantOp::create(in, at, far));
    linalg::YieldOp::create(
        in, at, arith::MinSIOp::create(in, at, candidate, x[2]).getResult());
  };
  return linalg::GenericOp::create(
             b, loc, TypeRange(positions),
             ValueRange{call.shown(self), extreme}, ValueRange(init),
             ArrayRef<AffineMap>{b.getMultiDimIdentityMap(rank), row, row},
             iterators, least)
      .getResult(0);
}

/// `values` with the dimension of size 1 again, where it is kept.
static Value
asResult(StructuredCall &call, ValueRange values, unsigned dim, unsigned rank,
         RankedTensorType wanted,
         llvm::function_ref<Value(OpBuilder &, Location, ValueRange)> body) {
  OpBuilder &b = call.b;
  SmallVector<AffineExpr> exprs;
  bool keeps = wanted.getRank() == int64_t(rank);
  for (unsigned d = 0; d < wanted.getRank(); ++d)
    if (!keeps || d != dim)
      exprs.push_back(b.getAffineDimExpr(d));
  SmallVector<AffineMap> maps(
      values.size(),
      AffineMap::get(wanted.getRank(), 0, exprs, b.getContext()));
  return makeMap(b, call.loc(), wanted, values, maps, body);
}

/// The extreme as it stands in the first of its places: of several zeros, that
/// one's sign.
static Value withSign(OpBuilder &b, Location loc, ValueRange x) {
  Type type = x[0].getType();
  if (!isa<FloatType>(type))
    return x[0];
  auto number = [&](TypedAttr value) -> Value {
    return arith::ConstantOp::create(b, loc, value);
  };
  Value zero = number(b.getFloatAttr(type, 0.0));
  Value low = arith::TruncIOp::create(b, loc, b.getI1Type(), x[1]);
  Value signedZero = arith::SelectOp::create(
      b, loc, low, number(b.getFloatAttr(type, -0.0)), zero);
  Value isZero =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x[0], zero);
  return arith::SelectOp::create(b, loc, isZero, signedZero, x[0]);
}

/// The index in a position of `findPosition`, as i64.
static Value indexOf(OpBuilder &b, Location loc, ValueRange x) {
  Value one = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(1));
  Value index = arith::ShRUIOp::create(b, loc, x[0], one);
  return arith::ExtSIOp::create(b, loc, b.getI64Type(), index);
}

SmallVector<Value> lowerExtreme(StructuredCall &call, bool largest) {
  auto type = cast<RankedTensorType>(call.op.getInputs()[0].getType());
  Type element = type.getElementType();
  unsigned rank = type.getRank();
  std::optional<unsigned> dim = call.dim(1, rank);
  if (!dim || rank == 0)
    return call.stays("no dimension");
  if (type.getNumElements() == 0 ||
      type.getDimSize(*dim) >= (int64_t(1) << 30) ||
      element.isUnsignedInteger() || element.isInteger(1) || element.isF16() ||
      element.isBF16())
    return call.stays("an element type or size that it does not cover");
  SmallVector<int64_t> kept(type.getShape());
  kept.erase(kept.begin() + *dim);
  Value extreme =
      findExtreme(call, *dim, largest, RankedTensorType::get(kept, element));
  if (!extreme)
    return {};
  Value position = findPosition(call, *dim, extreme);
  SmallVector<Value> results;
  bool both = call.op.getNumResults() == 2;
  if (both)
    results.push_back(asResult(call, {extreme, position}, *dim, rank,
                               call.result(0), withSign));
  results.push_back(
      asResult(call, position, *dim, rank, call.result(both ? 1 : 0), indexOf));
  return results;
}

SmallVector<Value> lowerGroupNorm(StructuredCall &call) {
  OpBuilder &b = call.b;
  Value input = call.tensor(0), weight = call.tensor(2), bias = call.tensor(3);
  RankedTensorType type = call.result();
  std::optional<int64_t> groups = call.integer(1);
  auto eps = dyn_cast<FloatAttr>(call.op.getArgs()[4]);
  Type element = type.getElementType();
  if (!groups || !eps || (!element.isF32() && !element.isF64()) ||
      type.getNumElements() == 0 || type.getRank() < 2 ||
      type.getDimSize(1) % *groups != 0)
    return call.stays("an element type or size that it does not cover");
  for (Value value : {weight, bias})
    if (value &&
        cast<RankedTensorType>(value.getType()).getElementType() != element)
      return call.stays("weights of another element type");

  // images x groups x (channels of a group, points)
  ArrayRef<int64_t> shape = type.getShape();
  int64_t channels = shape[1] / *groups;
  SmallVector<int64_t> apart{shape[0], *groups, channels};
  llvm::append_range(apart, shape.drop_front(2));
  auto grouped = RankedTensorType::get(apart, element);
  SmallVector<AffineExpr> in{b.getAffineDimExpr(0),
                             b.getAffineDimExpr(1) * channels +
                                 b.getAffineDimExpr(2)};
  SmallVector<AffineExpr> out{b.getAffineDimExpr(0),
                              b.getAffineDimExpr(1).floorDiv(channels),
                              b.getAffineDimExpr(1) % channels};
  for (unsigned d = 2; d < shape.size(); ++d) {
    in.push_back(b.getAffineDimExpr(d + 1));
    out.push_back(b.getAffineDimExpr(d));
  }
  SmallVector<Attribute> normalized;
  for (int64_t size : ArrayRef<int64_t>(apart).drop_front(2))
    normalized.push_back(b.getI64IntegerAttr(size));
  Attribute given = operators::getOperandPlaceholder(b.getContext());
  SmallVector<Attribute> args{given, b.getArrayAttr(normalized)};
  SmallVector<Value> inputs{show(call, call.shown(input), grouped, in)};
  // Weights are one per channel, wherever its group begins.
  SmallVector<int64_t> perChannel(apart.size(), 1);
  perChannel[1] = *groups;
  perChannel[2] = channels;
  for (Value value : {weight, bias}) {
    args.push_back(value ? given : operators::getNoneArgument(b.getContext()));
    if (value)
      inputs.push_back(show(call, call.shown(value),
                            RankedTensorType::get(perChannel, element), in[1]));
  }
  args.push_back(eps);
  Value normal =
      lowerRecipe(b, call.loc(), "pyjit::grouped_norm", b.getArrayAttr(args),
                  TypeRange(inputs), inputs, grouped, call.reason);
  if (!normal)
    return {};
  return {show(call, normal, type, out)};
}

} // namespace pyjit
