//===- Joins.cpp - Tensors put together -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A join is a choice by position. The joined dimension is walked as blocks of
// the parts' greatest common divisor, so that the choice is one per block and
// every part is read linearly inside of it.
//
//===----------------------------------------------------------------------===//

#include "Structured.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Operators/CallArguments.h"
#include <numeric>

using namespace mlir;

namespace pyjit {
namespace {

/// More parts than these cost more choices than the vendor library's copies.
constexpr size_t kMaxParts = 8;
/// Shorter runs of one part are no vectors of a device. A host's library copies
/// them one by one, which takes longer than to choose.
constexpr int64_t kMinRunOnDevice = 8;

bool isTooShort(StructuredCall &call, int64_t run) {
  return call.isOnDevice() && run < kMinRunOnDevice;
}

/// inputs[k] at positions below ends[k] of dimension `at`, the first that
/// holds.
Value choose(OpBuilder &b, Location loc, unsigned at, ArrayRef<int64_t> ends,
             ValueRange elements) {
  Value position = linalg::IndexOp::create(b, loc, at);
  Value chosen = elements[ends.size() - 1];
  for (size_t k = ends.size() - 1; k-- > 0;) {
    Value end = arith::ConstantIndexOp::create(b, loc, ends[k]);
    Value below =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, position, end);
    chosen = arith::SelectOp::create(b, loc, below, elements[k], chosen);
  }
  return chosen;
}

/// What is joined along a dimension: the operands that hold elements, and the
/// size of the blocks that each of them consists of.
struct Parts {
  SmallVector<Value> values;
  int64_t block = 0;
};

/// The parts of a join along `dim`; std::nullopt, with the reason in `why`,
/// where it is not written as a choice.
std::optional<Parts> findParts(StructuredCall &call, unsigned dim,
                               StringRef &why) {
  RankedTensorType type = call.result();
  unsigned rank = type.getRank();
  SmallVector<tssa::Size> whole = tssa::getSizes(type);
  auto refuse = [&](StringRef reason) {
    why = reason;
    return std::nullopt;
  };
  Parts parts;
  for (Value operand : call.op.getInputs()) {
    auto part = cast<RankedTensorType>(operand.getType());
    if (part.getRank() != int64_t(rank) ||
        part.getElementType() != type.getElementType())
      return refuse("parts of another rank or element type");
    if (llvm::is_contained(part.getShape(), 0))
      continue;
    // Sizes in front of the joined dimension may be symbolic.
    if (llvm::any_of(part.getShape().drop_front(dim), ShapedType::isDynamic))
      return refuse("parts of symbolic sizes");
    SmallVector<tssa::Size> sizes = tssa::getSizes(part);
    if (ArrayRef(sizes).take_front(dim) != ArrayRef(whole).take_front(dim))
      return refuse("sizes that need not be equal");
    parts.values.push_back(operand);
    parts.block = std::gcd(parts.block, part.getDimSize(dim));
  }
  if (parts.values.empty() || parts.values.size() > kMaxParts)
    return refuse("no parts, or many");
  int64_t run = parts.block;
  for (unsigned d = dim + 1; d < rank; ++d)
    run *= type.getDimSize(d);
  if (isTooShort(call, run))
    return refuse("parts that are shorter than a vector");
  return parts;
}

/// Where a part whose first block is `begin` is read, by the join's dimensions
/// with `dim` as (number of the block, place in it). In bounds too where
/// another part is chosen.
AffineMap partMap(OpBuilder &b, unsigned rank, unsigned dim, int64_t block,
                  int64_t begin, int64_t blocks) {
  AffineExpr number = b.getAffineDimExpr(dim);
  AffineExpr place = b.getAffineDimExpr(dim + 1);
  SmallVector<AffineExpr> exprs;
  for (unsigned d = 0; d < rank; ++d) {
    if (d != dim)
      exprs.push_back(b.getAffineDimExpr(d < dim ? d : d + 1));
    else if (blocks == 1)
      exprs.push_back(place);
    else
      exprs.push_back((number - begin % blocks) % blocks * block + place);
  }
  return AffineMap::get(rank + 1, 0, exprs, b.getContext());
}

} // namespace

/// A join of parts whose sizes along `dim` differ between calls, as the caches
/// of a generation do: each element is read where the choice says. The host's
/// library copies whole runs, which is faster there; on a device its call would
/// be another one for each size, and no graph could hold it.
static SmallVector<Value> joinSymbolic(StructuredCall &call, unsigned dim) {
  if (!call.isOnDevice())
    return call.stays("parts of symbolic sizes");
  RankedTensorType type = call.result();
  unsigned rank = type.getRank();
  if (call.op.getInputs().size() > kMaxParts || !tssa::hasKnownSizes(type))
    return call.stays("many parts, or unknown sizes");
  SmallVector<tssa::Size> whole = tssa::getSizes(type);
  SmallVector<Value> parts;
  SmallVector<SmallVector<tssa::Size>> sizes;
  SmallVector<tssa::Size> begins{0};
  for (Value operand : call.op.getInputs()) {
    auto part = cast<RankedTensorType>(operand.getType());
    if (part.getRank() != int64_t(rank) || !tssa::hasKnownSizes(part) ||
        part.getElementType() != type.getElementType())
      return call.stays("parts of another rank or element type");
    if (llvm::is_contained(part.getShape(), 0))
      continue;
    SmallVector<tssa::Size> &own = sizes.emplace_back(tssa::getSizes(part));
    for (unsigned d = 0; d < rank; ++d)
      if (d != dim && own[d] != whole[d])
        return call.stays("sizes that need not be equal");
    parts.push_back(call.shown(operand));
    begins.push_back(begins.back() + own[dim]);
  }
  if (parts.empty() || begins.back() != whole[dim])
    return call.stays("parts that need not fill the result");
  // A part of one place is read there, whatever the position; of another one,
  // a place in its bounds.
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  SmallVector<std::optional<unsigned>> inputOf(parts.size());
  MLIRContext *context = call.b.getContext();
  for (auto [k, part] : llvm::enumerate(parts)) {
    if (!sizes[k][dim].is(1))
      continue;
    SmallVector<AffineExpr> exprs;
    for (unsigned d = 0; d < rank; ++d)
      exprs.push_back(d == dim ? getAffineConstantExpr(0, context)
                               : getAffineDimExpr(d, context));
    inputOf[k] = inputs.size();
    inputs.push_back(part);
    maps.push_back(AffineMap::get(rank, 0, exprs, context));
  }
  auto body = [&](OpBuilder &in, Location at, ValueRange elements) {
    auto readPart = [&](size_t k) -> Value {
      if (inputOf[k])
        return elements[*inputOf[k]];
      SmallVector<Value> place;
      for (unsigned d = 0; d < rank; ++d)
        place.push_back(d == dim ? forcedIndex(in, at,
                                               getAffineDimExpr(d, context) -
                                                   begins[k].toExpr(context),
                                               sizes[k][d])
                                 : linalg::IndexOp::create(in, at, d));
      return tensor::ExtractOp::create(in, at, parts[k], place);
    };
    Value position = linalg::IndexOp::create(in, at, dim);
    Value chosen = readPart(parts.size() - 1);
    for (size_t k = parts.size() - 1; k-- > 0;) {
      Value end = emitIndex(in, at, begins[k + 1].toExpr(context));
      Value below = arith::CmpIOp::create(in, at, arith::CmpIPredicate::slt,
                                          position, end);
      chosen = arith::SelectOp::create(in, at, below, readPart(k), chosen);
    }
    return chosen;
  };
  return {makeMap(call.b, call.loc(), type, inputs, maps, body)};
}

SmallVector<Value> lowerCat(StructuredCall &call) {
  OpBuilder &b = call.b;
  RankedTensorType type = call.result();
  unsigned rank = type.getRank();
  std::optional<unsigned> dim = call.dim(1, rank);
  if (!dim)
    return call.stays("a dimension that is no constant");
  if (type.isDynamicDim(*dim))
    return joinSymbolic(call, *dim);
  StringRef why;
  std::optional<Parts> parts = findParts(call, *dim, why);
  if (!parts)
    return call.stays(why);
  int64_t block = parts->block;

  SmallVector<tssa::Size> apart = tssa::getSizes(type);
  apart[*dim] = type.getDimSize(*dim) / block;
  apart.insert(apart.begin() + *dim + 1, block);
  SmallVector<AffineMap> maps;
  SmallVector<Value> inputs;
  SmallVector<int64_t> ends;
  int64_t begin = 0;
  for (Value part : parts->values) {
    int64_t size = cast<RankedTensorType>(part.getType()).getDimSize(*dim);
    maps.push_back(partMap(b, rank, *dim, block, begin, size / block));
    inputs.push_back(call.shown(part));
    begin += size / block;
    ends.push_back(begin);
  }
  auto apartType = tssa::getSymbolicType(apart, tssa::getRowMajorStrides(apart),
                                         type.getElementType());
  Value joined = makeMap(b, call.loc(), apartType, inputs, maps,
                         [&](OpBuilder &in, Location at, ValueRange elements) {
                           return choose(in, at, *dim, ends, elements);
                         });
  SmallVector<AffineExpr> together;
  for (unsigned d = 0; d < rank; ++d) {
    AffineExpr expr = b.getAffineDimExpr(d);
    if (d == *dim) {
      together.push_back(expr.floorDiv(block));
      together.push_back(expr % block);
    } else {
      together.push_back(expr);
    }
  }
  return {makeMap(
      b, call.loc(), type, joined,
      AffineMap::get(rank, 0, together, b.getContext()),
      [](OpBuilder &, Location, ValueRange elements) { return elements[0]; })};
}

SmallVector<Value> lowerStack(StructuredCall &call) {
  OpBuilder &b = call.b;
  RankedTensorType type = call.result();
  unsigned rank = type.getRank();
  std::optional<unsigned> dim = call.dim(1, rank);
  if (!dim)
    return call.stays("a dimension that is no constant");
  int64_t run = 1;
  for (unsigned d = *dim + 1; d < rank; ++d)
    run *= type.getDimSize(d);
  size_t count = call.op.getInputs().size();
  if (isTooShort(call, run) || count > kMaxParts || count == 0)
    return call.stays("no parts, many, or shorter ones than a vector");
  SmallVector<AffineExpr> exprs;
  for (unsigned d = 0; d < rank; ++d)
    if (d != *dim)
      exprs.push_back(b.getAffineDimExpr(d));
  SmallVector<Value> inputs;
  SmallVector<int64_t> ends;
  for (Value part : call.op.getInputs()) {
    if (cast<RankedTensorType>(part.getType()).getElementType() !=
        type.getElementType())
      return call.stays("parts of another element type");
    inputs.push_back(call.shown(part));
    ends.push_back(inputs.size());
  }
  SmallVector<AffineMap> maps(count,
                              AffineMap::get(rank, 0, exprs, b.getContext()));
  return {makeMap(b, call.loc(), type, inputs, maps,
                  [&](OpBuilder &in, Location at, ValueRange elements) {
                    return choose(in, at, *dim, ends, elements);
                  })};
}

SmallVector<Value> lowerRepeat(StructuredCall &call) {
  OpBuilder &b = call.b;
  RankedTensorType type = call.result();
  auto source = cast<RankedTensorType>(call.op.getInputs()[0].getType());
  if (source.getNumElements() == 0)
    return call.stays("an empty operand");
  unsigned rank = type.getRank(), lead = rank - source.getRank();
  SmallVector<AffineExpr> exprs;
  for (auto [d, size] : llvm::enumerate(source.getShape())) {
    AffineExpr expr = b.getAffineDimExpr(lead + d);
    exprs.push_back(size == 1 ? b.getAffineConstantExpr(0)
                    : size == type.getDimSize(lead + d) ? expr
                                                        : expr % size);
  }
  return {makeMap(
      b, call.loc(), type, call.shown(call.op.getInputs()[0]),
      AffineMap::get(rank, 0, exprs, b.getContext()),
      [](OpBuilder &, Location, ValueRange elements) { return elements[0]; })};
}

} // namespace pyjit
