//===- Extremes.cpp - Positions of extremes, group norm -------------------===//
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

SmallVector<Value> lowerExtreme(StructuredCall &call, bool largest) {
  OpBuilder &b = call.b;
  Location loc = call.loc();
  bool both = call.op.getNumResults() == 2;
  Value self = call.op.getInputs()[0];
  auto type = cast<RankedTensorType>(self.getType());
  Type element = type.getElementType();
  unsigned rank = type.getRank();
  std::optional<unsigned> dim = call.dim(1, rank);
  if (!dim || rank == 0)
    return call.stays("no dimension");
  int64_t size = type.getDimSize(*dim);
  if (type.getNumElements() == 0 || size >= (int64_t(1) << 31) ||
      element.isUnsignedInteger() || element.isInteger(1) || element.isF16() ||
      element.isBF16())
    return call.stays("an element type or size that it does not cover");
  SmallVector<int64_t> kept(type.getShape());
  kept.erase(kept.begin() + *dim);

  // The extreme, without the dimension.
  SmallVector<Attribute> args{operators::getOperandPlaceholder(b.getContext()),
                              b.getArrayAttr(b.getI64IntegerAttr(*dim)),
                              b.getBoolAttr(false)};
  Value extreme = lowerRecipe(
      b, loc, largest ? "aten::amax" : "aten::amin", b.getArrayAttr(args),
      TypeRange(self.getType()), call.shown(self),
      RankedTensorType::get(kept, element), call.reason);
  if (!extreme)
    return {};

  // Where it first stands. An extreme that is not a number is found as such.
  Type i32 = b.getI32Type();
  auto positions = RankedTensorType::get(kept, i32);
  SmallVector<AffineExpr> rest;
  for (unsigned d = 0; d < rank; ++d)
    if (d != *dim)
      rest.push_back(b.getAffineDimExpr(d));
  AffineMap row = AffineMap::get(rank, 0, rest, b.getContext());
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  iterators[*dim] = utils::IteratorType::reduction;
  Value most = arith::ConstantOp::create(
      b, loc, b.getI32IntegerAttr(std::numeric_limits<int32_t>::max()));
  Value empty = tensor::EmptyOp::create(b, loc, positions, ValueRange());
  Value init = linalg::FillOp::create(b, loc, most, empty).getResult(0);
  Value position =
      linalg::GenericOp::create(
          b, loc, TypeRange(positions), ValueRange{call.shown(self), extreme},
          ValueRange(init),
          ArrayRef<AffineMap>{b.getMultiDimIdentityMap(rank), row, row},
          iterators,
          [&](OpBuilder &in, Location at, ValueRange x) {
            Value found;
            if (isa<FloatType>(element)) {
              Value equal = arith::CmpFOp::create(
                  in, at, arith::CmpFPredicate::OEQ, x[0], x[1]);
              Value nan = arith::CmpFOp::create(
                  in, at, arith::CmpFPredicate::UNO, x[0], x[0]);
              found = arith::OrIOp::create(in, at, equal, nan);
            } else {
              found = arith::CmpIOp::create(in, at, arith::CmpIPredicate::eq,
                                            x[0], x[1]);
            }
            Value index = arith::IndexCastOp::create(
                in, at, i32, linalg::IndexOp::create(in, at, *dim));
            Value far = arith::ConstantOp::create(
                in, at,
                in.getI32IntegerAttr(std::numeric_limits<int32_t>::max()));
            Value candidate =
                arith::SelectOp::create(in, at, found, index, far);
            linalg::YieldOp::create(
                in, at,
                arith::MinSIOp::create(in, at, candidate, x[2]).getResult());
          })
          .getResult(0);

  // With the dimension of size 1 again, where it is kept; positions as i64.
  auto finish = [&](Value value, RankedTensorType wanted) {
    SmallVector<AffineExpr> exprs;
    bool keeps = wanted.getRank() == int64_t(rank);
    for (unsigned d = 0; d < wanted.getRank(); ++d)
      if (!keeps || d != *dim)
        exprs.push_back(b.getAffineDimExpr(d));
    return makeMap(
        b, loc, wanted, value,
        AffineMap::get(wanted.getRank(), 0, exprs, b.getContext()),
        [&](OpBuilder &in, Location at, ValueRange x) -> Value {
          Type to = wanted.getElementType();
          return x[0].getType() == to
                     ? x[0]
                     : arith::ExtSIOp::create(in, at, to, x[0]).getResult();
        });
  };
  SmallVector<Value> results;
  if (both)
    results.push_back(finish(extreme, call.result(0)));
  results.push_back(finish(position, call.result(both ? 1 : 0)));
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
  Attribute none = operators::getNoneArgument(b.getContext());
  SmallVector<Attribute> args{operators::getOperandPlaceholder(b.getContext()),
                              b.getArrayAttr(normalized),
                              none,
                              none,
                              eps,
                              b.getBoolAttr(true)};
  Value shown = show(call, call.shown(input), grouped, in);
  Value normal =
      lowerRecipe(b, call.loc(), "aten::layer_norm", b.getArrayAttr(args),
                  TypeRange(grouped), shown, grouped, call.reason);
  if (!normal)
    return {};
  Value back = show(call, normal, RankedTensorType::get(shape, element), out);
  SmallVector<Value> inputs{back};
  SmallVector<AffineMap> maps{b.getMultiDimIdentityMap(shape.size())};
  AffineMap channel =
      AffineMap::get(shape.size(), 0, b.getAffineDimExpr(1), b.getContext());
  for (Value value : {weight, bias})
    if (value) {
      inputs.push_back(call.shown(value));
      maps.push_back(channel);
    }
  return {makeMap(b, call.loc(), type, inputs, maps,
                  [&](OpBuilder &at, Location loc, ValueRange x) -> Value {
                    Value value = x[0];
                    unsigned next = 1;
                    if (weight)
                      value = arith::MulFOp::create(at, loc, value, x[next++]);
                    if (bias)
                      value = arith::AddFOp::create(at, loc, value, x[next]);
                    return value;
                  })};
}

} // namespace pyjit
