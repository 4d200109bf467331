//===- Rearrangements.cpp - Elements that stand elsewhere -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that copy elements to other places, and constant pads: each is one
// read through an affine map, which kernels of what comes before or behind take
// in. Only the host's: a device's library has not been measured beside them.
//
//===----------------------------------------------------------------------===//

#include "Structured.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "pyjit/Operators/CallArguments.h"

using namespace mlir;

namespace pyjit {

static SmallVector<AffineExpr> dimsOf(OpBuilder &b, unsigned rank) {
  SmallVector<AffineExpr> exprs;
  for (unsigned d = 0; d < rank; ++d)
    exprs.push_back(b.getAffineDimExpr(d));
  return exprs;
}

/// The result, whose elements stand in the first operand at `exprs`.
static SmallVector<Value> readAt(StructuredCall &call,
                                 ArrayRef<AffineExpr> exprs) {
  return {makeMap(
      call.b, call.loc(), call.result(), call.shown(call.op.getInputs()[0]),
      AffineMap::get(call.result().getRank(), 0, exprs, call.b.getContext()),
      [](OpBuilder &, Location, ValueRange elements) { return elements[0]; })};
}

/// The operand, if it is the host's and not empty; else null.
static RankedTensorType findOperand(StructuredCall &call) {
  auto self = cast<RankedTensorType>(call.op.getInputs()[0].getType());
  bool isRead = !call.isOnDevice() && self.getNumElements() != 0;
  return isRead ? self : RankedTensorType();
}

/// From (channels * factor^2, height, width) to (channels, height * factor,
/// width * factor), or back.
static SmallVector<Value> shufflePixels(StructuredCall &call, bool back) {
  RankedTensorType self = findOperand(call);
  std::optional<int64_t> factor = call.integer(1);
  if (!self || !factor || *factor < 1 || self.getRank() < 3)
    return call.stays("a factor that is no constant, or a device");
  unsigned rank = self.getRank();
  SmallVector<AffineExpr> exprs = dimsOf(call.b, rank);
  AffineExpr c = exprs[rank - 3], h = exprs[rank - 2], w = exprs[rank - 1];
  int64_t f = *factor;
  if (back) {
    exprs[rank - 3] = c.floorDiv(f * f);
    exprs[rank - 2] = h * f + c.floorDiv(f) % f;
    exprs[rank - 1] = w * f + c % f;
  } else {
    exprs[rank - 3] = (c * f + h % f) * f + w % f;
    exprs[rank - 2] = h.floorDiv(f);
    exprs[rank - 1] = w.floorDiv(f);
  }
  return readAt(call, exprs);
}

SmallVector<Value> lowerPixelShuffle(StructuredCall &call) {
  return shufflePixels(call, /*back=*/false);
}

SmallVector<Value> lowerPixelUnshuffle(StructuredCall &call) {
  return shufflePixels(call, /*back=*/true);
}

SmallVector<Value> lowerFlip(StructuredCall &call) {
  RankedTensorType self = findOperand(call);
  auto dims = call.integers(1);
  if (!self || !dims)
    return call.stays("dimensions that are no constants, or a device");
  SmallVector<AffineExpr> exprs = dimsOf(call.b, self.getRank());
  for (int64_t dim : *dims) {
    std::optional<unsigned> d = dimOf(dim, self.getRank());
    if (!d)
      return call.stays("a dimension that is not there");
    exprs[*d] = self.getDimSize(*d) - 1 - call.b.getAffineDimExpr(*d);
  }
  return readAt(call, exprs);
}

SmallVector<Value> lowerRoll(StructuredCall &call) {
  RankedTensorType self = findOperand(call);
  auto shifts = call.integers(1), dims = call.integers(2);
  // Without dimensions all elements are one row.
  if (!self || !shifts || !dims || dims->size() != shifts->size())
    return call.stays("a device, or not one shift for each dimension");
  SmallVector<AffineExpr> exprs = dimsOf(call.b, self.getRank());
  for (auto [shift, dim] : llvm::zip(*shifts, *dims)) {
    std::optional<unsigned> d = dimOf(dim, self.getRank());
    if (!d)
      return call.stays("a dimension that is not there");
    int64_t size = self.getDimSize(*d);
    int64_t by = shift % size;
    if (by != 0)
      exprs[*d] = (exprs[*d] - by) % size;
  }
  return readAt(call, exprs);
}

/// `value` as an element of `type`, rounded as ATen's fill rounds it; null
/// where the type does not have it, or a kernel has no such constants.
static TypedAttr asElement(Attribute value, Type type) {
  if (auto real = dyn_cast<FloatType>(type)) {
    std::optional<double> number = operators::getNumber(value);
    if (!number)
      return {};
    // To half precision by way of single precision.
    return FloatAttr::get(real,
                          real.getWidth() < 64 ? float(*number) : *number);
  }
  auto integer = dyn_cast<IntegerType>(type);
  auto given = dyn_cast<IntegerAttr>(value);
  if (!integer || !integer.isSignless() || !given || given.getInt() != 0)
    return {};
  return IntegerAttr::get(integer, 0);
}

SmallVector<Value> lowerConstantPad(StructuredCall &call) {
  RankedTensorType self = findOperand(call);
  auto pads = call.integers(1);
  if (!self || !pads)
    return call.stays("pads that are no constants, or a device");
  TypedAttr filler = asElement(call.op.getArgs()[2], self.getElementType());
  if (!filler || pads->size() % 2 != 0 ||
      int64_t(pads->size()) > 2 * self.getRank())
    return call.stays("a filler that is no constant of the elements' type");
  unsigned rank = self.getRank();
  SmallVector<int64_t> before(rank, 0), behind(rank, 0);
  // The last dimension's pads come first.
  for (size_t i = 0; i < pads->size() / 2; ++i) {
    before[rank - 1 - i] = (*pads)[2 * i];
    behind[rank - 1 - i] = (*pads)[2 * i + 1];
  }
  return {padWith(call, call.shown(call.op.getInputs()[0]), before, behind,
                  filler, call.result())};
}

Value padWith(StructuredCall &call, Value operand, ArrayRef<int64_t> before,
              ArrayRef<int64_t> behind, TypedAttr filler,
              RankedTensorType type) {
  OpBuilder &b = call.b;
  auto from = cast<RankedTensorType>(operand.getType());
  unsigned rank = type.getRank();
  SmallVector<AffineExpr> exprs = dimsOf(b, rank);
  for (unsigned d = 0; d < rank; ++d) {
    if (before[d] == 0 && behind[d] == 0)
      continue;
    exprs[d] = exprs[d] - before[d];
    // In bounds, too, where the filler is chosen; a plain dim would say that
    // loop and operand have one extent.
    if (before[d] >= 0 || behind[d] > 0)
      exprs[d] = exprs[d] % from.getDimSize(d);
  }
  auto body = [&](OpBuilder &in, Location at, ValueRange elements) -> Value {
    Value inside;
    auto holds = [&](arith::CmpIPredicate predicate, unsigned d,
                     int64_t bound) {
      Value one = arith::CmpIOp::create(
          in, at, predicate, linalg::IndexOp::create(in, at, d),
          arith::ConstantIndexOp::create(in, at, bound));
      inside = inside ? arith::AndIOp::create(in, at, inside, one) : one;
    };
    for (unsigned d = 0; d < rank; ++d) {
      if (before[d] > 0)
        holds(arith::CmpIPredicate::sge, d, before[d]);
      if (behind[d] > 0)
        holds(arith::CmpIPredicate::slt, d, before[d] + from.getDimSize(d));
    }
    if (!inside)
      return elements[0];
    return arith::SelectOp::create(in, at, inside, elements[0],
                                   arith::ConstantOp::create(in, at, filler));
  };
  return makeMap(b, call.loc(), type, operand,
                 AffineMap::get(rank, 0, exprs, b.getContext()), body);
}

} // namespace pyjit
