//===- Joins.cpp - Tensors put together -----------------------------------===//
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
#include "pyjit/Operators/CallArguments.h"
#include <numeric>

using namespace mlir;

namespace pyjit {
namespace {

/// More parts than these cost more choices than the vendor library's copies.
constexpr size_t kMaxParts = 8;
/// Shorter runs of one part are no vectors.
constexpr int64_t kMinRun = 8;

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

} // namespace

SmallVector<Value> lowerCat(StructuredCall &call) {
  OpBuilder &b = call.b;
  RankedTensorType type = call.result();
  unsigned rank = type.getRank();
  std::optional<unsigned> dim = call.dim(1, rank);
  if (!dim)
    return call.stays("a dimension that is no constant");
  SmallVector<Value> parts;
  int64_t block = 0;
  for (Value operand : call.op.getInputs()) {
    auto part = cast<RankedTensorType>(operand.getType());
    if (part.getRank() != int64_t(rank) ||
        part.getElementType() != type.getElementType())
      return call.stays("parts of another rank or element type");
    if (llvm::is_contained(part.getShape(), 0))
      continue;
    // Sizes in front of the joined dimension may be symbolic.
    if (llvm::any_of(part.getShape().drop_front(*dim), ShapedType::isDynamic))
      return call.stays("parts of symbolic sizes");
    SmallVector<tssa::Size> sizes = tssa::getSizes(part);
    SmallVector<tssa::Size> whole = tssa::getSizes(type);
    if (ArrayRef(sizes).take_front(*dim) != ArrayRef(whole).take_front(*dim))
      return call.stays("sizes that need not be equal");
    parts.push_back(operand);
    block = std::gcd(block, part.getDimSize(*dim));
  }
  if (parts.empty() || parts.size() > kMaxParts)
    return call.stays("no parts, or many");
  int64_t run = block;
  for (unsigned d = *dim + 1; d < rank; ++d)
    run *= type.getDimSize(d);
  if (run < kMinRun)
    return call.stays("parts that are shorter than a vector");

  // Dimension `dim` as (number of the block, place in it).
  SmallVector<tssa::Size> apart = tssa::getSizes(type);
  apart[*dim] = type.getDimSize(*dim) / block;
  apart.insert(apart.begin() + *dim + 1, block);
  AffineExpr number = b.getAffineDimExpr(*dim);
  AffineExpr place = b.getAffineDimExpr(*dim + 1);
  SmallVector<AffineMap> maps;
  SmallVector<Value> inputs;
  SmallVector<int64_t> ends;
  int64_t begin = 0;
  for (Value part : parts) {
    int64_t size = cast<RankedTensorType>(part.getType()).getDimSize(*dim);
    int64_t blocks = size / block;
    SmallVector<AffineExpr> exprs;
    for (unsigned d = 0; d < rank; ++d) {
      if (d != *dim) {
        exprs.push_back(b.getAffineDimExpr(d < *dim ? d : d + 1));
        continue;
      }
      // In bounds too where another part is chosen.
      int64_t shift = begin % blocks;
      AffineExpr within =
          blocks == 1 ? b.getAffineConstantExpr(0) : (number - shift) % blocks;
      exprs.push_back(blocks == 1 ? place : within * block + place);
    }
    maps.push_back(AffineMap::get(rank + 1, 0, exprs, b.getContext()));
    inputs.push_back(call.shown(part));
    begin += blocks;
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
  if (run < kMinRun || count > kMaxParts || count == 0)
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
