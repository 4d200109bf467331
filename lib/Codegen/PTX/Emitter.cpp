//===- Emitter.cpp - Values of a kernel graph on a GPU's threads ----------===//

#include "Emitter.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::ptx {

static constexpr unsigned globalSpace = 1, sharedSpace = 3;

/// Whether offsets and thread numbers fit 32 bits.
static bool fits32(const Domain &domain) {
  constexpr int64_t limit = int64_t(1) << 30;
  SmallVector<int64_t> sizes = domain.graph->sizes();
  bool fits = domain.rows < limit &&
              domain.rowElements < limit / std::max<int64_t>(1, domain.rows);
  domain.graph->forEachIndex([&](AffineExpr expr, unsigned, bool) {
    auto [lowest, highest] = range(expr, sizes);
    fits &= lowest > -limit && highest < limit;
  });
  return fits;
}

Emitter::Emitter(KernelFrame &frame)
    : frame(frame), domain(frame.domain), schedule(frame.schedule),
      graph(*frame.domain.graph),
      b(frame.function.getLoc(), frame.function.getContext()),
      vectorDim(frame.domain.vectorDim) {
  Block *entry = frame.function.addEntryBlock();
  b.setInsertionPointToStart(entry);
  func::ReturnOp::create(b);
  b.setInsertionPoint(entry->getTerminator());
  indexType = fits32(domain) ? b.getI32Type() : b.getI64Type();
  unsigned count = graph.dims.size();
  reduced.resize(count);
  varying.resize(count);
  for (unsigned d = domain.numParallel; d < count; ++d)
    reduced.set(d);
  parallel = reduced;
  parallel.flip();
  scopes.emplace_back();
  scopes.back().bound.resize(count);
  ivs.resize(schedule.vectors, SmallVector<Value>(count));
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), globalSpace);
  for (unsigned i = 0, e = entry->getNumArguments(); i < e; ++i) {
    Value buffer = entry->getArgument(i);
    if (frame.indirect[i])
      buffer = LLVM::LoadOp::create(b, pointer, buffer);
    buffers.push_back(buffer);
  }
}

//===--- Small constructors -------------------------------------------------//

Value Emitter::broadcast(Value scalar, unsigned width) {
  if (width == 1 || isa<VectorType>(scalar.getType()))
    return scalar;
  return vector::BroadcastOp::create(
      b, VectorType::get({int64_t(width)}, scalar.getType()), scalar);
}

Type Emitter::laneType(Type scalar, unsigned width) {
  return width == 1 ? scalar : VectorType::get({int64_t(width)}, scalar);
}

Value Emitter::combine(const Node *reduce, Value x, Value y) {
  OperationState state(b.getLoc(), reduce->combiner->getName());
  state.addOperands({x, y});
  state.addTypes(x.getType());
  state.addAttributes(reduce->combiner->getAttrs());
  return b.create(state)->getResult(0);
}

Value Emitter::identity(const Node *reduce, unsigned width) {
  Type type = reduce->type;
  TypedAttr attribute;
  Operation *op = reduce->combiner;
  if (auto floatType = dyn_cast<FloatType>(type)) {
    const auto &semantics = floatType.getFloatSemantics();
    APFloat value = APFloat::getZero(semantics, /*Negative=*/true);
    if (isa<arith::MulFOp>(op))
      value = APFloat::getOne(semantics);
    else if (isa<arith::MaximumFOp, arith::MaxNumFOp>(op))
      value = APFloat::getInf(semantics, /*Negative=*/true);
    else if (isa<arith::MinimumFOp, arith::MinNumFOp>(op))
      value = APFloat::getInf(semantics);
    attribute = FloatAttr::get(type, value);
  } else {
    unsigned bits = type.getIntOrFloatBitWidth();
    APInt value(bits, 0);
    if (isa<arith::MulIOp>(op))
      value = APInt(bits, 1);
    else if (isa<arith::MaxSIOp>(op))
      value = APInt::getSignedMinValue(bits);
    else if (isa<arith::MinSIOp>(op))
      value = APInt::getSignedMaxValue(bits);
    else if (isa<arith::MinUIOp, arith::AndIOp>(op))
      value = APInt::getAllOnes(bits);
    attribute = IntegerAttr::get(type, value);
  }
  return broadcast(arith::ConstantOp::create(b, attribute), width);
}

Value Emitter::intrinsic(StringRef name, ValueRange operands, Type type) {
  return LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr(name), operands)
      .getResult(0);
}

/// Special registers are read once, at the entry.
static Value atEntry(ImplicitLocOpBuilder &b, Value &known,
                     llvm::function_ref<Value()> make) {
  if (known)
    return known;
  OpBuilder::InsertionGuard guard(b);
  Operation *parent = b.getInsertionBlock()->getParentOp();
  auto function = dyn_cast<func::FuncOp>(parent);
  if (!function)
    function = parent->getParentOfType<func::FuncOp>();
  b.setInsertionPointToStart(&function.getBody().front());
  return known = make();
}

Value Emitter::threadIndex() {
  return atEntry(b, knownThread, [&]() -> Value {
    Value thread =
        intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", {}, b.getI32Type());
    return indexType.isInteger(32)
               ? thread
               : arith::ExtUIOp::create(b, indexType, thread).getResult();
  });
}

Value Emitter::blockIndex() {
  return atEntry(b, knownBlock, [&]() -> Value {
    Value block =
        intrinsic("llvm.nvvm.read.ptx.sreg.ctaid.x", {}, b.getI32Type());
    return indexType.isInteger(32)
               ? block
               : arith::ExtUIOp::create(b, indexType, block).getResult();
  });
}

void Emitter::barrier() {
  Value zero = i32(0);
  LLVM::CallIntrinsicOp::create(
      b, b.getStringAttr("llvm.nvvm.barrier.cta.sync.aligned.all"),
      ValueRange{zero});
}

Value Emitter::exchange(Value value, unsigned distance) {
  Type type = value.getType(), word = b.getI32Type();
  unsigned bits = type.getIntOrFloatBitWidth();
  auto swap = [&](Value x) {
    Value all = i32(-1), offset = i32(distance), clamp = i32(31);
    return intrinsic("llvm.nvvm.shfl.sync.bfly.i32",
                     ValueRange{all, x, offset, clamp}, word);
  };
  Type integer = b.getIntegerType(bits);
  if (isa<FloatType>(type))
    value = arith::BitcastOp::create(b, integer, value);
  Value result;
  if (bits == 64) {
    Value half = arith::ConstantOp::create(b, b.getI64IntegerAttr(32));
    Value low = arith::TruncIOp::create(b, word, value);
    Value high = arith::TruncIOp::create(
        b, word, arith::ShRUIOp::create(b, value, half));
    low = arith::ExtUIOp::create(b, integer, swap(low));
    high = arith::ExtUIOp::create(b, integer, swap(high));
    result = arith::OrIOp::create(b, low, arith::ShLIOp::create(b, high, half));
  } else if (bits == 32) {
    result = swap(value);
  } else {
    result = arith::TruncIOp::create(
        b, integer, swap(arith::ExtUIOp::create(b, word, value)));
  }
  if (isa<FloatType>(type))
    result = arith::BitcastOp::create(b, type, result);
  return result;
}

Value Emitter::shared(int64_t bytes) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), sharedSpace);
  if (!sharedBase)
    atEntry(b, sharedBase, [&]() -> Value {
      return LLVM::AddressOfOp::create(
          b, pointer, (frame.function.getName() + "_shared").str());
    });
  int64_t at = sharedCursor;
  sharedCursor = llvm::alignTo(at + bytes, 16);
  frame.sharedBytes = std::max(frame.sharedBytes, sharedCursor);
  return LLVM::GEPOp::create(b, pointer, b.getI8Type(), sharedBase,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(at)});
}

Value Emitter::sharedAddress(Value base, Value index, Type element) {
  return LLVM::GEPOp::create(b, base.getType(), memoryType(element), base,
                             ArrayRef<LLVM::GEPArg>{index});
}

//===--- Scopes -------------------------------------------------------------//

unsigned Emitter::scopeOf(const llvm::SmallBitVector &dims) {
  for (auto [k, scope] : llvm::enumerate(scopes))
    if (!dims.test(scope.bound))
      return k;
  llvm_unreachable("a dim that no loop binds");
}

llvm::SmallBitVector Emitter::dimsOf(AffineExpr expr) {
  llvm::SmallBitVector used(graph.dims.size());
  for (unsigned d = 0; d < used.size(); ++d)
    if (expr.isFunctionOfDim(d))
      used.set(d);
  return used;
}

void Emitter::bind(unsigned u, Value number, ArrayRef<unsigned> dims) {
  for (unsigned i = dims.size(); i-- > 0;) {
    unsigned d = dims[i];
    bool vectors = int(d) == vectorDim;
    int64_t size = graph.dims[d].size;
    if (vectors)
      size = std::max<int64_t>(1, size / lanes);
    Value position = i == 0 ? number : rem(number, size);
    if (i != 0)
      number = div(number, size);
    ivs[u][d] = vectors ? mul(position, lanes) : position;
  }
}

//===--- Indices and memory -------------------------------------------------//

/// A term that is no sum: a dim, or a floordiv or mod that stayed.
Value Emitter::indexTerm(AffineExpr expr, unsigned u) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return ivs[u][dim.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value lhs = index(binary.getLHS(), u);
  Value rhs = constant(cast<AffineConstantExpr>(binary.getRHS()).getValue());
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
Type Emitter::memoryType(Type element) {
  if (element.isInteger() && !element.isSignlessInteger())
    return b.getIntegerType(element.getIntOrFloatBitWidth());
  return element.isInteger(1) ? b.getI8Type() : element;
}

Value Emitter::address(Value base, Value offset, int64_t constant,
                       Type element) {
  Type at = memoryType(element);
  Value result = LLVM::GEPOp::create(b, base.getType(), at, base,
                                     ArrayRef<LLVM::GEPArg>{offset});
  if (constant != 0)
    result = LLVM::GEPOp::create(
        b, base.getType(), at, result,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(constant)});
  return result;
}

Value Emitter::fromMemory(Value raw, Type element) {
  if (!element.isInteger(1))
    return raw;
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(raw.getType()));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, raw, zero);
}

Value Emitter::toMemory(Value value) {
  if (!getElementTypeOrSelf(value.getType()).isInteger(1))
    return value;
  Type byte = b.getI8Type();
  if (auto type = dyn_cast<VectorType>(value.getType()))
    byte = type.clone(byte);
  return arith::ExtUIOp::create(b, byte, value);
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

Value Emitter::loadMemory(Type type, Value at, unsigned aligned) {
  // No result lies where an operand does, so an operand does not change: its
  // loads need not stay between the stores.
  auto op = LLVM::LoadOp::create(b, type, at, aligned);
  op.setInvariant(true);
  return op;
}

Value Emitter::load(unsigned buffer, AffineExpr offset, Type element,
                    unsigned u) {
  Value base = buffers[buffer];
  Type memory = memoryType(element);
  unsigned bytes = memory.getIntOrFloatBitWidth() / 8;
  if (!onLanes(offset)) {
    Value at = address(base, index(offset, u), 0, element);
    return fromMemory(loadMemory(memory, at, bytes), element);
  }
  LinearForm form = linearize(offset);
  int64_t stride = form.coefficient(vectorDim);
  bool linear = !form.isNonlinearIn(vectorDim);
  auto vectorType = VectorType::get({int64_t(lanes)}, memory);
  if (linear && stride == 1) {
    unsigned aligned =
        alignment(buffer, offset, element, std::min(16u, bytes * lanes));
    Value at = address(base, index(offset, u), 0, element);
    return fromMemory(loadMemory(vectorType, at, aligned), element);
  }
  SmallVector<Value> elements;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    Value at = linear
                   ? address(base, index(offset, u), lane * stride, element)
                   : address(base, index(shifted(offset, lane), u), 0, element);
    elements.push_back(loadMemory(memory, at, bytes));
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

//===--- Values -------------------------------------------------------------//

Value Emitter::emit(const Node *node, unsigned u) {
  if (node->kind == Node::Kind::Constant)
    return arith::ConstantOp::create(b, node->constant);
  u = canonical(node->dims, u);
  // What follows from a reduction is known in the row, even if it is the same
  // for all rows.
  unsigned k =
      node->kind == Node::Kind::Reduce ? rowScope : scopeOf(node->dims);
  if (node->stage > 0)
    k = std::max(k, rowScope);
  if (Value known = scopes[k].values.lookup({node, u}))
    return known;
  Value result = inScope(k, [&]() -> Value {
    // Without reduction dims a reduction is of one element.
    if (node->kind == Node::Kind::Reduce) {
      assert(domain.numReduction == 0 && "a reduction not yet known");
      Value x = emit(node->init, u), y = emit(node->inputs[0], u);
      unsigned width =
          isa<VectorType>(x.getType()) || isa<VectorType>(y.getType()) ? lanes
                                                                       : 1;
      return combine(node, broadcast(x, width), broadcast(y, width));
    }
    if (node->kind == Node::Kind::Load) {
      if (Value kept = readShared(node, u))
        return kept;
      return load(node->buffer, node->offset, node->type, u);
    }
    return compute(node, u);
  });
  scopes[k].values[{node, u}] = result;
  return result;
}

void Emitter::prefetch(const Node *root, unsigned u) {
  llvm::SmallPtrSet<const Node *, 16> visited;
  auto visit = [&](auto &&self, const Node *node) -> void {
    if (!visited.insert(node).second || node->kind == Node::Kind::Constant)
      return;
    unsigned k =
        node->kind == Node::Kind::Reduce ? rowScope : scopeOf(node->dims);
    if (node->stage > 0)
      k = std::max(k, rowScope);
    if (scopes[k].values.contains({node, canonical(node->dims, u)}))
      return;
    if (node->kind == Node::Kind::Load) {
      emit(node, u);
      return;
    }
    for (const Node *input : node->inputs)
      if (input)
        self(self, input);
  };
  visit(visit, root);
}

/// An index as a body sees it: i64, on lanes if it follows the vector dim.
Value Emitter::bodyIndex(AffineExpr expr, unsigned u) {
  Type wide = b.getI64Type();
  auto widen = [&](Value x) -> Value {
    return x.getType() == wide ? x : arith::ExtSIOp::create(b, wide, x);
  };
  if (!onLanes(expr))
    return widen(index(expr, u));
  LinearForm form = linearize(expr);
  auto type = VectorType::get({int64_t(lanes)}, wide);
  if (form.isNonlinearIn(vectorDim)) {
    SmallVector<Value> elements;
    for (unsigned lane = 0; lane < lanes; ++lane)
      elements.push_back(widen(index(shifted(expr, lane), u)));
    return vector::FromElementsOp::create(b, type, elements);
  }
  int64_t stride = form.coefficient(vectorDim);
  SmallVector<int64_t> steps;
  for (unsigned lane = 0; lane < lanes; ++lane)
    steps.push_back(lane * stride);
  Value iota = arith::ConstantOp::create(
      b, DenseIntElementsAttr::get(type, ArrayRef<int64_t>(steps)));
  return arith::AddIOp::create(b, broadcast(widen(index(expr, u)), lanes),
                               iota);
}

/// A read at a place that a value names. Indices that are loop positions stay
/// affine, so that a row that is picked by a value is still read by vectors.
Value Emitter::extract(tensor::ExtractOp op, const Node *node, unsigned u,
                       DenseMap<Value, Value> &body) {
  auto type = cast<RankedTensorType>(op.getTensor().getType());
  Type element = type.getElementType(), memory = memoryType(element);
  unsigned bytes = memory.getIntOrFloatBitWidth() / 8;
  unsigned buffer =
      llvm::find(frame.inputs, op.getTensor()) - frame.inputs.begin();
  Value base = buffers[buffer];
  AffineExpr affine = getAffineConstantExpr(0, b.getContext());
  Value dynamic;
  int64_t dynamicFactor = 0;
  for (auto [operand, stride] : llvm::zip(op.getIndices(), stridesOf(type))) {
    if (auto position = operand.getDefiningOp<linalg::IndexOp>()) {
      affine = affine + node->loops[position.getDim()] * stride;
      continue;
    }
    Value part = body.lookup(operand);
    Value factor = arith::ConstantOp::create(b, b.getI64IntegerAttr(stride));
    part = b.createOrFold<arith::MulIOp>(
        part, broadcast(factor, isa<VectorType>(part.getType()) ? lanes : 1));
    if (dynamic && dynamic.getType() != part.getType()) {
      dynamic = broadcast(dynamic, lanes);
      part = broadcast(part, lanes);
    }
    dynamic = dynamic ? add(dynamic, part) : part;
    dynamicFactor = std::gcd(dynamicFactor, stride);
  }
  affine = simplify(affine, graph.sizes());
  LinearForm form = linearize(affine);
  bool onVector = onLanes(affine);
  bool dynamicVector = dynamic && isa<VectorType>(dynamic.getType());
  auto scalarOffset = [&] {
    Value offset = bodyIndex(affine, u);
    if (auto vector = dyn_cast<VectorType>(offset.getType()))
      offset = vector::ExtractOp::create(b, offset, 0);
    return dynamic ? add(offset, dynamic) : offset;
  };
  if (!dynamicVector && !onVector)
    return fromMemory(
        loadMemory(memory, address(base, scalarOffset(), 0, element), bytes),
        element);
  auto vectorType = VectorType::get({int64_t(lanes)}, memory);
  if (!dynamicVector && !form.isNonlinearIn(vectorDim) &&
      form.coefficient(vectorDim) == 1) {
    unsigned wanted = std::min(16u, bytes * lanes);
    while (wanted > bytes && dynamicFactor * bytes % wanted != 0)
      wanted /= 2;
    unsigned aligned = alignment(buffer, affine, element, wanted);
    Value at = address(base, scalarOffset(), 0, element);
    return fromMemory(loadMemory(vectorType, at, aligned), element);
  }
  Value offsets = broadcast(bodyIndex(affine, u), lanes);
  if (dynamic)
    offsets = add(offsets, broadcast(dynamic, lanes));
  SmallVector<Value> elements;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    Value offset = vector::ExtractOp::create(b, offsets, lane);
    elements.push_back(
        loadMemory(memory, address(base, offset, 0, element), bytes));
  }
  return fromMemory(vector::FromElementsOp::create(b, vectorType, elements),
                    element);
}

Value Emitter::divideByRow(Value x, Value y, const Node *divisor) {
  Type element = getElementTypeOrSelf(y.getType());
  if (domain.numReduction == 0 || !element.isF32() ||
      divisor->kind == Node::Kind::Constant ||
      divisor->dims.anyCommon(reduced) || divisor->stage == 0)
    return {};
  auto &known = scopes[rowScope].reciprocals[y];
  Value &reciprocal = known.first, &scale = known.second;
  if (!reciprocal)
    inScope(rowScope, [&]() -> Value {
      // 1 / y of a very small y would be infinite, of a very large one lose
      // bits: such are scaled by a power of two first, and the quotient after.
      auto number = [&](float value) {
        TypedAttr attr = b.getF32FloatAttr(value);
        if (auto vector = dyn_cast<VectorType>(y.getType()))
          attr = DenseElementsAttr::get(vector, ArrayRef<Attribute>(attr));
        return arith::ConstantOp::create(b, attr).getResult();
      };
      Value size = math::AbsFOp::create(b, y);
      Value small = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, size,
                                          number(0x1p-100f));
      Value large = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, size,
                                          number(0x1p100f));
      scale = arith::SelectOp::create(b, small, number(0x1p64f), number(1.0f));
      scale = arith::SelectOp::create(b, large, number(0x1p-64f), scale);
      reciprocal = arith::DivFOp::create(b, number(1.0f),
                                         arith::MulFOp::create(b, y, scale));
      return reciprocal;
    });
  unsigned width = isa<VectorType>(x.getType()) ? lanes : 1;
  Value quotient = arith::MulFOp::create(b, x, broadcast(reciprocal, width));
  return arith::MulFOp::create(b, quotient, broadcast(scale, width));
}

Value Emitter::compute(const Node *node, unsigned u) {
  DenseMap<Value, Value> body;
  linalg::GenericOp generic = node->op;
  Block *block = generic.getBody();
  auto emitValue = [&](auto &&self, Value value) -> Value {
    if (Value known = body.lookup(value))
      return known;
    if (auto argument = dyn_cast<BlockArgument>(value))
      return body[value] = emit(node->inputs[argument.getArgNumber()], u);
    Operation *op = value.getDefiningOp();
    if (op->getBlock() != block) {
      // A constant outside of the body.
      auto constant = cast<arith::ConstantOp>(op);
      return body[value] = arith::ConstantOp::create(
                 b, cast<TypedAttr>(constant.getValue()));
    }
    if (auto position = dyn_cast<linalg::IndexOp>(op))
      return body[value] = bodyIndex(node->loops[position.getDim()], u);
    bool vectors = false;
    SmallVector<Value> operands;
    auto extracting = dyn_cast<tensor::ExtractOp>(op);
    for (Value operand : op->getOperands()) {
      if (extracting && (operand == extracting.getTensor() ||
                         operand.getDefiningOp<linalg::IndexOp>()))
        continue;
      operands.push_back(self(self, operand));
      vectors |= isa<VectorType>(operands.back().getType());
    }
    if (extracting)
      return body[value] = extract(extracting, node, u, body);
    // Unsigned numbers are signless here.
    if (isa<UnrealizedConversionCastOp>(op))
      return body[value] = operands[0];
    // Indices are i64 here already.
    Type scalar = op->getResult(0).getType();
    if (isa<IndexType>(scalar))
      scalar = b.getI64Type();
    if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op)) {
      Type have = getElementTypeOrSelf(operands[0].getType());
      if (scalar == have)
        return body[value] = operands[0];
      Type type =
          laneType(scalar, isa<VectorType>(operands[0].getType()) ? lanes : 1);
      if (scalar.getIntOrFloatBitWidth() < have.getIntOrFloatBitWidth())
        return body[value] = arith::TruncIOp::create(b, type, operands[0]);
      if (isa<arith::IndexCastUIOp>(op))
        return body[value] = arith::ExtUIOp::create(b, type, operands[0]);
      return body[value] = arith::ExtSIOp::create(b, type, operands[0]);
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      if (isa<IndexType>(constant.getType()))
        return body[value] = arith::ConstantOp::create(
                   b, b.getI64IntegerAttr(
                          cast<IntegerAttr>(constant.getValue()).getInt()));
    unsigned width = vectors ? lanes : 1;
    if (auto division = dyn_cast<arith::DivFOp>(op))
      if (auto argument = dyn_cast<BlockArgument>(division.getRhs()))
        if (Value quotient =
                divideByRow(broadcast(operands[0], width), operands[1],
                            node->inputs[argument.getArgNumber()]))
          return body[value] = quotient;
    for (Value &operand : operands)
      operand = broadcast(operand, width);
    OperationState state(b.getLoc(), op->getName());
    state.addOperands(operands);
    state.addTypes(laneType(scalar, width));
    state.addAttributes(op->getAttrs());
    return body[value] = b.create(state)->getResult(0);
  };
  Location outer = b.getLoc();
  b.setLoc(generic.getLoc());
  Value result = emitValue(emitValue, node->element);
  b.setLoc(outer);
  return result;
}

void Emitter::storeAll(ArrayRef<codegen::Store *> stores, unsigned vectors,
                       llvm::function_ref<Value(unsigned)> guard,
                       unsigned atOnce) {
  // All loads, then all values, then all stores: nothing waits for a store.
  for (unsigned from = 0; from < vectors; from += atOnce) {
    auto each = [&](auto visit) {
      for (codegen::Store *s : stores)
        for (unsigned u = from; u < std::min(from + atOnce, vectors); ++u)
          if (u == 0 || s->dims.anyCommon(varying))
            visit(*s, u);
    };
    each([&](codegen::Store &s, unsigned u) { prefetch(s.node, u); });
    each([&](codegen::Store &s, unsigned u) {
      emit(s.node, u);
      if (!linearize(s.offset).isNonlinearIn(std::max(0, vectorDim)))
        index(s.offset, u);
    });
    each([&](codegen::Store &s, unsigned u) {
      Value value = emit(s.node, u), condition = guard(u);
      if (!condition)
        return store(value, s.buffer, s.offset, u);
      auto ifOp = scf::IfOp::create(b, condition, /*withElse=*/false);
      OpBuilder::InsertionGuard inside(b);
      b.setInsertionPointToStart(ifOp.thenBlock());
      // What is computed in here is known in here only.
      auto kept = scopes.back().indices;
      store(value, s.buffer, s.offset, u);
      scopes.back().indices = std::move(kept);
    });
  }
}

} // namespace pyjit::ptx
