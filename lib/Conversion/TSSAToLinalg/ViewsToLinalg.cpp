//===- ViewsToLinalg.cpp - Accesses and assignments as affine reads -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Lowering.h"
#include "dialects/tssa/IR/Calls.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace pyjit {

Value makeMap(
    OpBuilder &b, Location loc, RankedTensorType type, ValueRange inputs,
    ArrayRef<AffineMap> maps,
    llvm::function_ref<Value(OpBuilder &, Location, ValueRange)> body) {
  unsigned rank = type.getRank();
  SmallVector<AffineMap> all(maps);
  all.push_back(b.getMultiDimIdentityMap(rank));
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  // A loop over nothing reads nothing, but linalg derives an operand's least
  // extent from the first index even then, and refuses an offset at the end.
  if (llvm::is_contained(type.getShape(), 0))
    for (AffineMap &map : MutableArrayRef(all).drop_back())
      map = AffineMap::get(rank, 0,
                           SmallVector<AffineExpr>(map.getNumResults(),
                                                   b.getAffineConstantExpr(0)),
                           b.getContext());
  Value empty = tssa::makeEmpty(b, loc, type);
  return linalg::GenericOp::create(
             b, loc, TypeRange(type), inputs, ValueRange(empty), all, iterators,
             [&](OpBuilder &in, Location at, ValueRange arguments) {
               Value element = body(in, at, arguments.drop_back());
               linalg::YieldOp::create(in, at, element);
             })
      .getResult(0);
}

Value emitIndex(OpBuilder &b, Location loc, AffineExpr expr) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, loc, value);
  };
  if (auto c = dyn_cast<AffineConstantExpr>(expr))
    return constant(c.getValue());
  if (auto d = dyn_cast<AffineDimExpr>(expr))
    return linalg::IndexOp::create(b, loc, d.getPosition());
  if (auto s = dyn_cast<AffineSymbolExpr>(expr))
    return tssa::SizeOp::create(
        b, loc, b.getIndexType(),
        AffineMapAttr::get(AffineMap::get(0, s.getPosition() + 1, expr)));
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value lhs = emitIndex(b, loc, binary.getLHS());
  Value rhs = emitIndex(b, loc, binary.getRHS());
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return arith::AddIOp::create(b, loc, lhs, rhs);
  case AffineExprKind::Mul:
    return arith::MulIOp::create(b, loc, lhs, rhs);
  case AffineExprKind::FloorDiv:
    return arith::FloorDivSIOp::create(b, loc, lhs, rhs);
  case AffineExprKind::Mod: {
    Value quotient = arith::FloorDivSIOp::create(b, loc, lhs, rhs);
    Value whole = arith::MulIOp::create(b, loc, quotient, rhs);
    return arith::SubIOp::create(b, loc, lhs, whole);
  }
  default:
    llvm_unreachable("views have no other index expressions");
  }
}

Value lowerAccess(OpBuilder &b, tssa::AccessOp op, Value source) {
  auto from = cast<RankedTensorType>(op.getSource().getType());
  auto to = cast<RankedTensorType>(op.getType());
  // Kernels have no complex numbers.
  if (!op.getIndices().empty() || !tssa::hasKnownSizes(from) ||
      isa<ComplexType>(from.getElementType()))
    return {};
  AffineMap map = tssa::getPathMap(op.getPath(), from);
  if (!map || map.getNumSymbols() != 0)
    return {};
  // linalg takes a plain dim to say that loop and operand have one extent: a
  // part of a dimension is written as a remainder, which code generation, who
  // knows the extents, takes away again.
  SmallVector<AffineExpr> exprs(map.getResults());
  SmallVector<tssa::Size> shown = tssa::getSizes(to);
  for (auto [expr, size] : llvm::zip(exprs, tssa::getSizes(from)))
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      if (shown[dim.getPosition()] != size) {
        // No remainder by what is not known: the view is read by its strides.
        if (!size.isConstant())
          return {};
        expr = expr % size.constant();
      }
  map = AffineMap::get(to.getRank(), 0, exprs, b.getContext());
  auto dense = tssa::getRowMajorType(to);
  return makeMap(
      b, op.getLoc(), dense, source, map,
      [](OpBuilder &, Location, ValueRange elements) { return elements[0]; });
}

/// Where a generic over the target reads the part that is assigned: within its
/// bounds even where nothing is assigned. Nothing if loop indices alone do not
/// say that.
static std::optional<AffineMap> getReadMap(const tssa::AssignRule &rule,
                                           ArrayRef<tssa::Size> target,
                                           ArrayRef<tssa::Size> part,
                                           MLIRContext *context) {
  bool everywhere = rule.condition == IntegerSet();
  SmallVector<AffineExpr> exprs;
  for (auto [expr, size] : llvm::zip(rule.map.getResults(), part)) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    bool whollyShown = dim && target[dim.getPosition()] == size;
    if (analysis::countSymbols(expr))
      return std::nullopt;
    if (size.is(1))
      exprs.push_back(getAffineConstantExpr(0, context));
    else if (everywhere || (!size.isConstant() && whollyShown))
      exprs.push_back(expr);
    else if (size.isConstant())
      exprs.push_back(expr % size.constant());
    else
      return std::nullopt;
  }
  return AffineMap::get(target.size(), 0, exprs, context);
}

Value forcedIndex(OpBuilder &b, Location loc, AffineExpr expr,
                  const tssa::Size &size) {
  auto number = [&](AffineExpr expr) -> Value {
    return arith::IndexCastOp::create(b, loc, b.getI64Type(),
                                      emitIndex(b, loc, expr));
  };
  Value at = arith::MaxSIOp::create(b, loc, number(expr),
                                    number(b.getAffineConstantExpr(0)));
  at = arith::MinSIOp::create(b, loc, at,
                              number(size.toExpr(b.getContext()) - 1));
  return arith::IndexCastOp::create(b, loc, b.getIndexType(), at);
}

/// The element of `source` at `exprs`, which are forced into its bounds: no
/// size that differs between calls is 0.
static Value readAt(OpBuilder &b, Location loc, Value source,
                    ArrayRef<AffineExpr> exprs, ArrayRef<tssa::Size> sizes) {
  SmallVector<Value> place;
  for (auto [expr, size] : llvm::zip(exprs, sizes))
    place.push_back(forcedIndex(b, loc, expr, size));
  return tensor::ExtractOp::create(b, loc, source, place);
}

Value lowerAssign(OpBuilder &b, tssa::AssignOp op, Value target, Value source) {
  auto type = cast<RankedTensorType>(op.getType());
  auto part = cast<RankedTensorType>(op.getSource().getType());
  if (!op.getIndices().empty() || !tssa::hasKnownSizes(type) ||
      isa<ComplexType>(type.getElementType()))
    return {};
  // Nothing is assigned, and no element is there to be read. A kernel that made
  // the target laid it out as it liked.
  if (llvm::is_contained(part.getShape(), 0)) {
    if (target.getType() == type)
      return target;
    return makeMap(
        b, op.getLoc(), type, target, b.getMultiDimIdentityMap(type.getRank()),
        [](OpBuilder &, Location, ValueRange elements) { return elements[0]; });
  }
  auto rule = tssa::getAssignRule(op.getPath(), type);
  if (!rule)
    return {};
  SmallVector<tssa::Size> partSizes = tssa::getSizes(part);
  std::optional<AffineMap> map =
      getReadMap(*rule, tssa::getSizes(type), partSizes, b.getContext());
  IntegerSet set = rule->condition;
  bool everywhere = set == IntegerSet();
  if (everywhere && map)
    return makeMap(
        b, op.getLoc(), type, source, *map,
        [](OpBuilder &, Location, ValueRange elements) { return elements[0]; });
  SmallVector<Value> inputs{target};
  SmallVector<AffineMap> maps{b.getMultiDimIdentityMap(type.getRank())};
  if (map) {
    inputs.push_back(source);
    maps.push_back(*map);
  }
  return makeMap(
      b, op.getLoc(), type, inputs, maps,
      [&](OpBuilder &in, Location loc, ValueRange elements) -> Value {
        Value assigned =
            map ? elements[1]
                : readAt(in, loc, source, rule->map.getResults(), partSizes);
        Value holds;
        Value zero = arith::ConstantIndexOp::create(in, loc, 0);
        for (unsigned i = 0; !everywhere && i < set.getNumConstraints(); ++i) {
          Value value = emitIndex(in, loc, set.getConstraint(i));
          Value one =
              arith::CmpIOp::create(in, loc,
                                    set.isEq(i) ? arith::CmpIPredicate::eq
                                                : arith::CmpIPredicate::sge,
                                    value, zero);
          holds = holds ? arith::AndIOp::create(in, loc, holds, one) : one;
        }
        if (!holds)
          return assigned;
        // arith knows signless integers only.
        Type declared = elements[0].getType(), plain = declared;
        if (declared.isInteger() && !declared.isSignlessInteger())
          plain = in.getIntegerType(declared.getIntOrFloatBitWidth());
        auto cast = [&](Value value, Type to) -> Value {
          if (value.getType() == to)
            return value;
          return UnrealizedConversionCastOp::create(in, loc, to, value)
              .getResult(0);
        };
        Value chosen = arith::SelectOp::create(
            in, loc, holds, cast(assigned, plain), cast(elements[0], plain));
        return cast(chosen, declared);
      });
}

} // namespace pyjit
