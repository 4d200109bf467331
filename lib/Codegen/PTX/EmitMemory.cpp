//===- EmitMemory.cpp - Indices, loads and stores of a thread -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Emitter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::ptx {

//===--- Indices and memory -------------------------------------------------//

/// A term that is no sum: a dim, or a floordiv or mod that stayed.
Value Emitter::indexTerm(AffineExpr expr, unsigned u) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return ivs[u][dim.getPosition()];
  if (auto s = dyn_cast<AffineSymbolExpr>(expr))
    return symbol(s.getPosition());
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value lhs = index(binary.getLHS(), u), rhs = index(binary.getRHS(), u);
  if (expr.getKind() == AffineExprKind::Mul)
    return b.createOrFold<arith::MulIOp>(lhs, rhs);
  // Of sizes, which are not negative.
  if (expr.getKind() == AffineExprKind::CeilDiv)
    return b.createOrFold<arith::CeilDivUIOp>(lhs, rhs);
  bool division = expr.getKind() == AffineExprKind::FloorDiv;
  auto [lowest, highest] = range(binary.getLHS(), graph.sizes());
  if (lowest >= 0)
    return division ? b.createOrFold<arith::DivUIOp>(lhs, rhs)
                    : b.createOrFold<arith::RemUIOp>(lhs, rhs);
  Value quotient = b.createOrFold<arith::FloorDivSIOp>(lhs, rhs);
  return division ? quotient
                  : b.createOrFold<arith::SubIOp>(
                        lhs, b.createOrFold<arith::MulIOp>(quotient, rhs));
}

/// The value of `expr` at lane 0 of vector `u`, emitted as far out as possible.
Value Emitter::index(AffineExpr expr, unsigned u) {
  LinearForm form = linearize(expr);
  AffineExpr normal = form.toExpr(expr.getContext());
  llvm::SmallBitVector used = dimsOf(normal);
  u = canonical(used, u);
  unsigned k = scopeOf(used);
  if (Value known = scopes[k].indices.lookup({normal, u}))
    return known;
  // What outer loops fix, and what all vectors of a thread share, is added up
  // on its own.
  LinearForm outer, inner;
  for (auto &[base, factor] : form.terms) {
    llvm::SmallBitVector dims = dimsOf(base);
    bool same = scopeOf(dims) == k &&
                dims.anyCommon(varying) == used.anyCommon(varying);
    (same ? inner : outer).add(base, factor);
  }
  outer.constant = form.constant;
  Value sum = inScope(k, [&]() -> Value {
    Value total;
    if (!outer.terms.empty() && !inner.terms.empty())
      total = index(outer.toExpr(expr.getContext()), u);
    else
      for (auto &[base, factor] : outer.terms) {
        Value term = mul(indexTerm(base, u), factor);
        total = total ? add(total, term) : term;
      }
    for (auto &[base, factor] : inner.terms) {
      Value term = mul(indexTerm(base, u), factor);
      total = total ? add(total, term) : term;
    }
    bool added = !outer.terms.empty() && !inner.terms.empty();
    if (!total)
      return constant(form.constant);
    return added || form.constant == 0 ? total
                                       : add(total, constant(form.constant));
  });
  scopes[k].indices[{normal, u}] = sum;
  return sum;
}

AffineExpr Emitter::shifted(AffineExpr expr, int64_t shift) {
  if (shift == 0 || !onLanes(expr))
    return expr;
  AffineExpr d = getAffineDimExpr(vectorDim, expr.getContext());
  return expr.replace(d, d + shift);
}

/// A bool is a byte in memory.
Value Emitter::address(Value base, Value offset, int64_t constant,
                       Type element) {
  Type at = memoryType(element);
  Value result = LLVM::GEPOp::create(b, base.getType(), at, base,
                                     ArrayRef<LLVM::GEPArg>{offset});
  if (constant == 0)
    return result;
  // A constant displacement has few bits; lanes of one vector may be further
  // apart.
  auto displacement = [&]() -> LLVM::GEPArg {
    if (llvm::isInt<LLVM::kGEPConstantBitWidth>(constant))
      return static_cast<int32_t>(constant);
    return LLVM::ConstantOp::create(b, b.getI64Type(),
                                    b.getI64IntegerAttr(constant))
        .getResult();
  };
  return LLVM::GEPOp::create(b, base.getType(), at, result,
                             ArrayRef<LLVM::GEPArg>{displacement()});
}

unsigned Emitter::alignment(unsigned buffer, AffineExpr offset, Type element,
                            unsigned wanted) {
  unsigned bytes = memoryType(element).getIntOrFloatBitWidth() / 8;
  unsigned aligned = std::min(wanted, frame.alignment[buffer]);
  auto limit = [&](int64_t elements) {
    while (aligned > bytes && elements * bytes % aligned != 0)
      aligned /= 2;
  };
  LinearForm form = linearize(offset);
  limit(form.constant);
  for (auto &[base, factor] : form.terms) {
    auto dim = dyn_cast<AffineDimExpr>(base);
    bool vectors = dim && int(dim.getPosition()) == vectorDim;
    limit(factor * (vectors ? lanes : 1));
  }
  frame.reliedOn[buffer] = std::max(frame.reliedOn[buffer], aligned);
  return aligned;
}

Value Emitter::loadMemory(Type type, Value at, unsigned aligned,
                          unsigned buffer) {
  // Where no result lies, an operand does not change: its loads need not stay
  // between the stores, and may take the way of what is only read. The kernel
  // in front, which may still run when this one begins, can write it.
  auto op = LLVM::LoadOp::create(b, type, at, aligned);
  op.setInvariant(!frame.waits && !isOverwritten(buffer));
  return op;
}

bool Emitter::isOverwritten(unsigned buffer) const {
  return llvm::any_of(graph.stores, [&](const codegen::Store &store) {
    return llvm::is_contained(store.overlaps, buffer);
  });
}

Value Emitter::load(unsigned buffer, AffineExpr offset, Type element,
                    unsigned u) {
  Value base = buffers[buffer];
  Type memory = memoryType(element);
  unsigned bytes = memory.getIntOrFloatBitWidth() / 8;
  if (!onLanes(offset)) {
    Value at = address(base, index(offset, u), 0, element);
    return fromMemory(loadMemory(memory, at, bytes, buffer), element);
  }
  LinearForm form = linearize(offset);
  int64_t stride = form.coefficient(vectorDim);
  bool linear = !form.isNonlinearIn(vectorDim);
  auto vectorType = VectorType::get({int64_t(lanes)}, memory);
  if (linear && stride == 1) {
    unsigned aligned =
        alignment(buffer, offset, element, std::min(16u, bytes * lanes));
    Value at = address(base, index(offset, u), 0, element);
    return fromMemory(loadMemory(vectorType, at, aligned, buffer), element);
  }
  SmallVector<Value> elements;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    Value at = linear
                   ? address(base, index(offset, u), lane * stride, element)
                   : address(base, index(shifted(offset, lane), u), 0, element);
    elements.push_back(loadMemory(memory, at, bytes, buffer));
  }
  return fromMemory(vector::FromElementsOp::create(b, vectorType, elements),
                    element);
}

void Emitter::store(Value value, unsigned buffer, AffineExpr offset,
                    unsigned u) {
  Value base = buffers[buffer];
  Type element = getElementTypeOrSelf(value.getType());
  unsigned bytes = memoryType(element).getIntOrFloatBitWidth() / 8;
  value = toMemory(value);
  if (!onLanes(offset)) {
    if (isa<VectorType>(value.getType()))
      value = vector::ExtractOp::create(b, value, 0);
    LLVM::StoreOp::create(b, value, address(base, index(offset, u), 0, element),
                          bytes);
    return;
  }
  value = broadcast(value, lanes);
  LinearForm form = linearize(offset);
  int64_t stride = form.coefficient(vectorDim);
  bool linear = !form.isNonlinearIn(vectorDim);
  if (linear && stride == 1) {
    unsigned aligned =
        alignment(buffer, offset, element, std::min(16u, bytes * lanes));
    LLVM::StoreOp::create(b, value, address(base, index(offset, u), 0, element),
                          aligned);
    return;
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    Value at = linear
                   ? address(base, index(offset, u), lane * stride, element)
                   : address(base, index(shifted(offset, lane), u), 0, element);
    LLVM::StoreOp::create(b, vector::ExtractOp::create(b, value, lane), at,
                          bytes);
  }
}

} // namespace pyjit::ptx
