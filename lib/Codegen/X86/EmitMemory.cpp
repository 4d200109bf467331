//===- EmitMemory.cpp - Index expressions, loads and stores ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include <numeric>

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::x86 {

//===--- Indices and memory -------------------------------------------------//

/// A number of [-size, 2 * size) modulo `size`, and on which sides of
/// [0, size) it may be.
Value KernelEmitter::onceRound(Value number, Value size, bool mayBeNegative,
                               bool mayReachSize) {
  Value place = number;
  if (mayBeNegative) {
    Value isNegative =
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, number, i64(0));
    place = arith::SelectOp::create(b, isNegative, add(number, size), number);
  }
  if (mayReachSize) {
    Value reaches =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sge, number, size);
    Value lowered = arith::SubIOp::create(b, number, size);
    place = arith::SelectOp::create(b, reaches, lowered, place);
  }
  return place;
}

/// A term that is no sum: a dim, or a floordiv or mod that stayed.
Value KernelEmitter::indexTerm(AffineExpr expr) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return ivs[dim.getPosition()];
  if (auto s = dyn_cast<AffineSymbolExpr>(expr))
    return symbol(s.getPosition());
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value lhs = index(binary.getLHS()), rhs = index(binary.getRHS());
  if (expr.getKind() == AffineExprKind::Mul)
    return b.createOrFold<arith::MulIOp>(lhs, rhs);
  // Of sizes, which are not negative.
  if (expr.getKind() == AffineExprKind::CeilDiv)
    return b.createOrFold<arith::CeilDivUIOp>(lhs, rhs);
  // Access expressions are in bounds, so their parts are not negative unless
  // an offset is subtracted; floor semantics then.
  auto [lowest, highest] = range(binary.getLHS(), graph.sizes());
  // Once round, as pads and rolls go, needs no division.
  auto size = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (expr.getKind() == AffineExprKind::Mod && size &&
      lowest >= -size.getValue() && highest < 2 * size.getValue())
    return onceRound(lhs, rhs, lowest < 0, highest >= size.getValue());
  if (lowest >= 0)
    return expr.getKind() == AffineExprKind::FloorDiv
               ? b.createOrFold<arith::DivUIOp>(lhs, rhs)
               : b.createOrFold<arith::RemUIOp>(lhs, rhs);
  Value quotient = b.createOrFold<arith::FloorDivSIOp>(lhs, rhs);
  if (expr.getKind() == AffineExprKind::FloorDiv)
    return quotient;
  return b.createOrFold<arith::SubIOp>(
      lhs, b.createOrFold<arith::MulIOp>(quotient, rhs));
}

/// The value of `expr` at lane 0, emitted as far out as its dims allow.
Value KernelEmitter::index(AffineExpr expr) {
  LinearForm form = linearize(expr);
  llvm::SmallBitVector dims(graph.dims.size());
  auto scopeOfExpr = [&](AffineExpr e) {
    llvm::SmallBitVector used(graph.dims.size());
    for (unsigned d = 0; d < used.size(); ++d)
      if (e.isFunctionOfDim(d))
        used.set(d);
    return scopeOf(used);
  };
  unsigned k = 0;
  for (auto &[base, factor] : form.terms)
    k = std::max(k, scopeOfExpr(base));
  AffineExpr canonical = form.toExpr(expr.getContext());
  if (Value known = scopes[k].indices.lookup(canonical))
    return known;
  // What outer loops fix is added up there.
  LinearForm outer;
  outer.constant = form.constant;
  SmallVector<std::pair<AffineExpr, int64_t>> inner;
  for (auto &[base, factor] : form.terms) {
    if (scopeOfExpr(base) < k)
      outer.add(base, factor);
    else
      inner.push_back({base, factor});
  }
  Value sum = inScope(k, [&]() -> Value {
    if (inner.empty())
      return i64(outer.constant);
    Value total;
    if (outer.constant != 0 || !outer.terms.empty())
      total = index(outer.toExpr(expr.getContext()));
    for (auto &[base, factor] : inner) {
      Value term = mul(indexTerm(base), factor);
      total = total ? add(total, term) : term;
    }
    return total;
  });
  scopes[k].indices[canonical] = sum;
  return sum;
}

AffineExpr KernelEmitter::shifted(AffineExpr expr, int64_t shift) const {
  if (shift == 0 || !onLanes(expr))
    return expr;
  AffineExpr d = getAffineDimExpr(schedule.vectorDim, expr.getContext());
  return expr.replace(d, d + shift);
}

int64_t KernelEmitter::rowShift(const LinearForm &form, unsigned u) const {
  return schedule.tileDim < 0
             ? 0
             : int64_t(u / unroll) * form.coefficient(schedule.tileDim);
}

Value KernelEmitter::address(Value base, Value offset, int64_t constant,
                             Type element) {
  Type memory = memoryType(element);
  Type ptr = LLVM::LLVMPointerType::get(b.getContext());
  Value at =
      LLVM::GEPOp::create(b, ptr, memory, base, ArrayRef<LLVM::GEPArg>{offset});
  // Apart from the offset, so that copies share it and differ in what an
  // instruction's displacement holds.
  if (constant == 0)
    return at;
  // In a tile, behind what tells LLVM nothing: it would look for other
  // addresses of each row, which takes longer than to compile the rest.
  if (rows > 1)
    at = LLVM::StripInvariantGroupOp::create(b, ptr, at);
  // A constant displacement has few bits; lanes of one vector may be further
  // apart.
  LLVM::GEPArg more = static_cast<int32_t>(constant);
  if (!llvm::isInt<LLVM::kGEPConstantBitWidth>(constant))
    more = i64(constant);
  return LLVM::GEPOp::create(b, ptr, memory, at, ArrayRef<LLVM::GEPArg>{more});
}

Value KernelEmitter::laneAddress(Value base, AffineExpr offset, Type element,
                                 unsigned u, unsigned lane) {
  LinearForm form = linearize(offset);
  int64_t row = rowShift(form, u);
  if (!onLanes(offset))
    return address(base, index(offset), row, element);
  int64_t shift = firstLane(u) + lane;
  if (form.isNonlinearIn(schedule.vectorDim))
    return address(base, index(shifted(offset, shift)), row, element);
  return address(base, index(offset),
                 row + shift * form.coefficient(schedule.vectorDim), element);
}

/// The last vector ends with the last lane: nothing behind it is touched.
Value KernelEmitter::loadSpread(Value base, AffineExpr offset, Type element,
                                int64_t first, int64_t stride) {
  Type memory = memoryType(element);
  auto type = VectorType::get({int64_t(lanes)}, memory);
  unsigned bytes = std::max(1u, memory.getIntOrFloatBitWidth() / 8);
  int64_t last = (lanes - 1) * stride;
  Value joined;
  for (int64_t part = 0; part < stride; ++part) {
    int64_t start = std::min<int64_t>(part * lanes, last + 1 - lanes);
    Value vector = LLVM::LoadOp::create(
        b, type, address(base, index(offset), first + start, element), bytes);
    if (part == 0) {
      joined = vector;
      continue;
    }
    // Lanes that the vectors before have stay; the first two are taken apart
    // by one shuffle.
    SmallVector<int64_t> from;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      int64_t at = lane * stride;
      if (at >= part * lanes && at < start + lanes)
        from.push_back(lanes + at - start);
      else
        from.push_back(part == 1 ? std::min<int64_t>(at, lanes - 1) : lane);
    }
    joined = vector::ShuffleOp::create(b, joined, vector, from);
  }
  return joined;
}

/// How many elements `(...) mod n` goes round in.
static int64_t cyclicSize(AffineExpr cyclic) {
  auto mod = cast<AffineBinaryOpExpr>(cyclic);
  return cast<AffineConstantExpr>(mod.getRHS()).getValue();
}

Value KernelEmitter::loadCyclic(Value base, AffineExpr offset,
                                AffineExpr cyclic, Type element, int64_t row) {
  Type memory = memoryType(element);
  auto type = VectorType::get({int64_t(lanes)}, memory);
  unsigned bytes = std::max(1u, memory.getIntOrFloatBitWidth() / 8);
  int64_t size = cyclicSize(cyclic);
  // Both in front of the branch, whose blocks see what is computed there.
  Value place = index(cyclic), first = index(offset);
  Value staysWithin = arith::CmpIOp::create(b, arith::CmpIPredicate::sle, place,
                                            i64(size - int64_t(lanes)));
  auto whole = [&](OpBuilder &, Location) {
    Value vector = LLVM::LoadOp::create(
        b, type, address(base, first, row, element), bytes);
    scf::YieldOp::create(b, vector);
  };
  // Those in front of the end, and those behind it, which stand at the front.
  auto apart = [&](OpBuilder &, Location) {
    SmallVector<int32_t> numbers(lanes);
    std::iota(numbers.begin(), numbers.end(), 0);
    auto numbersType = VectorType::get({int64_t(lanes)}, b.getI32Type());
    Value number = arith::ConstantOp::create(
        b, DenseIntElementsAttr::get(numbersType, ArrayRef<int32_t>(numbers)));
    Value left = arith::TruncIOp::create(
        b, b.getI32Type(), arith::SubIOp::create(b, i64(size), place));
    Value isFront = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, number,
                                          broadcast(left, lanes));
    Value isBehind = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, number,
                                           broadcast(left, lanes));
    Value none = LLVM::PoisonOp::create(b, type);
    Value front = LLVM::MaskedLoadOp::create(
        b, type, address(base, first, row, element), isFront, none, bytes);
    Value behind = LLVM::MaskedLoadOp::create(
        b, type, address(base, first, row - size, element), isBehind, front,
        bytes);
    scf::YieldOp::create(b, behind);
  };
  return scf::IfOp::create(b, staysWithin, whole, apart).getResult(0);
}

Value KernelEmitter::load(Value base, AffineExpr offset, Type element,
                          unsigned u) {
  LinearForm form = linearize(offset);
  int64_t row = rowShift(form, u);
  Type memory = memoryType(element);
  if (lanes == 1 || !onLanes(offset)) {
    Value at = laneAddress(base, offset, element, u, 0);
    return fromMemory(LLVM::LoadOp::create(b, memory, at), element);
  }
  int64_t stride = form.coefficient(schedule.vectorDim);
  bool linear = !form.isNonlinearIn(schedule.vectorDim);
  auto vectorType = VectorType::get({int64_t(lanes)}, memory);
  unsigned bytes = std::max(1u, memory.getIntOrFloatBitWidth() / 8);
  if (linear && stride == 1) {
    Value at = address(base, index(offset), row + firstLane(u), element);
    return fromMemory(LLVM::LoadOp::create(b, vectorType, at, bytes), element);
  }
  if (linear && stride > 1 && stride <= kMaxSpread)
    return fromMemory(
        loadSpread(base, offset, element, row + firstLane(u) * stride, stride),
        element);
  if (linear && stride == -1) {
    // The last lane is the first in memory.
    int64_t lowest = row - firstLane(u) - (int64_t(lanes) - 1);
    Value forward = LLVM::LoadOp::create(
        b, vectorType, address(base, index(offset), lowest, element), bytes);
    SmallVector<int64_t> backward;
    for (int64_t lane = lanes; lane-- > 0;)
      backward.push_back(lane);
    return fromMemory(vector::ShuffleOp::create(b, forward, forward, backward),
                      element);
  }
  AffineExpr ahead = shifted(offset, firstLane(u));
  if (AffineExpr cyclic = linearize(ahead).cyclicTerm(schedule.vectorDim))
    if (cyclicSize(cyclic) >= int64_t(lanes))
      return fromMemory(loadCyclic(base, ahead, cyclic, element, row), element);
  SmallVector<Value> elements;
  for (unsigned lane = 0; lane < lanes; ++lane)
    elements.push_back(LLVM::LoadOp::create(
        b, memory, laneAddress(base, offset, element, u, lane)));
  return fromMemory(vector::FromElementsOp::create(b, vectorType, elements),
                    element);
}

/// Less memory than this is near anyway.
static constexpr int64_t kFarBytes = 512 << 10;
/// So far ahead of what is read memory is asked for. A core's own prefetcher
/// ends with each page of 4 KiB: a loop in C that summed products along rows
/// read f32 at 8.2 GB/s and bf16 at 5.7, 1 KiB ahead at 11.0 and 8.1, 4 KiB
/// ahead at 12.8 and 10.3, 8 KiB ahead at 10.4 and 8.7 (a Xeon, one thread).
static constexpr int64_t kAheadBytes = 4096;
/// What is read more often than this is in a cache, most of the time.
static constexpr int64_t kReadOften = 16;

/// Of an element in memory.
static int64_t bytesOf(Type element) {
  return std::max(1u, memoryType(element).getIntOrFloatBitWidth() / 8);
}

int64_t KernelEmitter::distanceAhead(const Node *node) const {
  unsigned last = graph.dims.size() - 1;
  if (!schedule.prefetch || schedule.numReduction == 0 || lanes == 1 ||
      !onLanes(node->dims) || !node->dims.test(last))
    return 0;
  int64_t bytes = bytesOf(node->type), size = bytes, times = 1;
  for (auto [d, dim] : llvm::enumerate(graph.dims))
    (node->dims.test(d) ? size : times) *= dim.estimate();
  LinearForm form = linearize(node->offset);
  if (size < kFarBytes || times > kReadOften || form.isNonlinearIn(last) ||
      form.isNonlinearIn(schedule.vectorDim) ||
      form.coefficient(schedule.vectorDim) != 1)
    return 0;
  if (schedule.vectorDim == int(last))
    return kAheadBytes / bytes;
  if (schedule.streamedRows) // the same columns of the rows that come next
    return schedule.streamedRows * form.coefficient(last);
  int64_t row = int64_t(lanes) * unroll * bytes;
  return std::max<int64_t>(1, kAheadBytes / row) * form.coefficient(last);
}

void KernelEmitter::prefetch(const Node *node, unsigned u) {
  constexpr int64_t line = 64;
  int64_t ahead = distanceAhead(node);
  // One for the vectors of a line.
  if (ahead == 0 || firstLane(u) * bytesOf(node->type) % line != 0)
    return;
  int64_t row = rowShift(linearize(node->offset), u);
  Value at = address(buffers[node->buffer], index(node->offset),
                     row + firstLane(u) + ahead, node->type);
  constexpr int reads = 0, stays = 3, data = 1;
  LLVM::Prefetch::create(b, at, reads, stays, data);
}

bool KernelEmitter::isTransposed(const Node *node) const {
  if (node->kind != Node::Kind::Load || lanes == 1 || rows != lanes ||
      unroll != 1 || !onTile(node->dims) || !onLanes(node->dims))
    return false;
  LinearForm form = linearize(node->offset);
  return !form.isNonlinearIn(schedule.vectorDim) &&
         !form.isNonlinearIn(schedule.tileDim) &&
         form.coefficient(schedule.tileDim) == 1 &&
         form.coefficient(schedule.vectorDim) != 1;
}

/// `vector` behind a fence, which is no instruction. LLVM looks for shorter
/// forms of each chain of shuffles, which takes longer than the rest of a
/// kernel and finds none in those of a square.
Value KernelEmitter::fenced(Value vector) {
  auto type = cast<VectorType>(vector.getType());
  unsigned bits = type.getNumElements() * type.getElementTypeBitWidth();
  if (bits % 32 != 0)
    return vector;
  // Fences are of floats alone.
  auto floats = VectorType::get({bits / 32}, b.getF32Type());
  Value fence = LLVM::CallIntrinsicOp::create(
                    b, floats, b.getStringAttr("llvm.arithmetic.fence"),
                    ValueRange(b.createOrFold<LLVM::BitcastOp>(floats, vector)))
                    .getResults();
  return b.createOrFold<LLVM::BitcastOp>(type, fence);
}

/// A square: vector i holds all rows of lane i. Swapping one bit of the row's
/// number with one of the lane's at a time transposes it.
SmallVector<Value> KernelEmitter::loadTransposed(const Node *node) {
  Type memory = memoryType(node->type);
  auto type = VectorType::get({int64_t(lanes)}, memory);
  unsigned bytes = std::max(1u, memory.getIntOrFloatBitWidth() / 8);
  int64_t stride = linearize(node->offset).coefficient(schedule.vectorDim);
  Value base = buffers[node->buffer], offset = index(node->offset);
  SmallVector<Value> square;
  for (unsigned lane = 0; lane < lanes; ++lane)
    square.push_back(LLVM::LoadOp::create(
        b, type, address(base, offset, lane * stride, node->type), bytes));
  for (unsigned bit = 1; bit < lanes; bit *= 2) {
    SmallVector<int64_t> low, high;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      low.push_back(lane & bit ? lanes + lane - bit : lane);
      high.push_back(lane & bit ? lanes + lane : lane + bit);
    }
    for (unsigned i = 0; i < lanes; ++i) {
      if (i & bit)
        continue;
      Value x = square[i], y = square[i + bit];
      square[i] = vector::ShuffleOp::create(b, x, y, low);
      square[i + bit] = vector::ShuffleOp::create(b, x, y, high);
    }
    if (2 * bit < lanes)
      for (Value &row : square)
        row = fenced(row);
  }
  for (Value &row : square)
    row = fromMemory(row, node->type);
  return square;
}

void KernelEmitter::store(Value value, Value base, AffineExpr offset,
                          unsigned u) {
  Type element = getElementTypeOrSelf(value.getType());
  Type memory = memoryType(element);
  LinearForm form = linearize(offset);
  int64_t row = rowShift(form, u);
  value = toMemory(value);
  if (lanes == 1 || !onLanes(offset)) {
    if (isa<VectorType>(value.getType()))
      value = vector::ExtractOp::create(b, value, 0);
    LLVM::StoreOp::create(b, value, laneAddress(base, offset, element, u, 0));
    return;
  }
  value = broadcast(value, lanes);
  int64_t stride = form.coefficient(schedule.vectorDim);
  bool linear = !form.isNonlinearIn(schedule.vectorDim);
  unsigned bytes = std::max(1u, memory.getIntOrFloatBitWidth() / 8);
  if (linear && stride == 1) {
    LLVM::StoreOp::create(
        b, value, address(base, index(offset), row + firstLane(u), element),
        bytes);
    return;
  }
  for (unsigned lane = 0; lane < lanes; ++lane)
    LLVM::StoreOp::create(b, vector::ExtractOp::create(b, value, lane),
                          laneAddress(base, offset, element, u, lane));
}

Value KernelEmitter::symbol(unsigned number) {
  Value &known = symbols[number];
  if (known)
    return known;
  // At the very beginning, where every use comes after.
  OpBuilder::InsertionGuard guard(b);
  Block *entry = &function.getBody().front();
  b.setInsertionPointToStart(entry);
  Type ptr = LLVM::LLVMPointerType::get(b.getContext());
  auto behind = static_cast<int32_t>(inputs.size() + graph.stores.size());
  Value slot = LLVM::GEPOp::create(b, ptr, ptr, entry->getArgument(0),
                                   ArrayRef<LLVM::GEPArg>{behind});
  Value table = LLVM::LoadOp::create(b, ptr, slot);
  Value place =
      LLVM::GEPOp::create(b, ptr, b.getI64Type(), table,
                          ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(number)});
  return known = LLVM::LoadOp::create(b, b.getI64Type(), place);
}

Value KernelEmitter::extent(unsigned dim) {
  const Dim &d = graph.dims[dim];
  return d.isSymbolic() ? index(d.extent) : i64(d.size);
}

/// Rows are kept densely, in the order of the reduction loops that `node`
/// depends on: it is read outside of the others.
AffineExpr KernelEmitter::scratchOffset(const Node *node) {
  AffineExpr offset = getAffineConstantExpr(0, b.getContext());
  for (unsigned d = schedule.numParallel; d < graph.dims.size(); ++d)
    if (node->dims.test(d))
      offset =
          offset * graph.dims[d].size + getAffineDimExpr(d, b.getContext());
  return offset;
}

} // namespace pyjit::x86
