//===- EmitKernel.cpp - A scheduled kernel as loops and vectors -----------===//
//
// Values are emitted when something asks for them, in the outermost loop that
// binds all dims they depend on; a memo per loop makes each of them once. The
// same code emits the vector loop and its scalar tail: `lanes` is the width of
// whatever depends on the vector dim.
//
//===----------------------------------------------------------------------===//

#include "EmitKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::x86 {
namespace {

class KernelEmitter {
public:
  KernelEmitter(func::FuncOp function, KernelGraph &graph,
                const Schedule &schedule, ArrayRef<Value> inputs)
      : graph(graph), schedule(schedule), inputs(inputs),
        b(function.getLoc(), function.getContext()), function(function) {}

  void run();

private:
  struct Scope {
    llvm::SmallBitVector bound;
    /// The loop in this scope that is being filled; null in the innermost.
    Operation *anchor = nullptr;
    DenseMap<std::pair<const Node *, unsigned>, Value> values;
    DenseMap<AffineExpr, Value> indices;
  };
  using Body = llvm::function_ref<SmallVector<Value>(ValueRange)>;

  //===--- Small constructors --------------------------------------------===//
  Value i64(int64_t value) {
    return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
  }
  Value add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }
  Value mul(Value x, int64_t factor) {
    return factor == 1 ? x : b.createOrFold<arith::MulIOp>(x, i64(factor));
  }
  Value broadcast(Value scalar, unsigned width) {
    if (width == 1 || isa<VectorType>(scalar.getType()))
      return scalar;
    return vector::BroadcastOp::create(
        b, VectorType::get({int64_t(width)}, scalar.getType()), scalar);
  }
  Type laneType(Type scalar, unsigned width) {
    return width == 1 ? scalar : VectorType::get({int64_t(width)}, scalar);
  }
  Value combine(const Node *reduce, Value x, Value y) {
    OperationState state(b.getLoc(), reduce->combiner->getName());
    state.addOperands({x, y});
    state.addTypes(x.getType());
    state.addAttributes(reduce->combiner->getAttrs());
    return b.create(state)->getResult(0);
  }
  Value identity(const Node *reduce, unsigned width);
  Value horizontal(const Node *reduce, Value vector);

  //===--- Scopes and loops ----------------------------------------------===//
  unsigned scopeOf(const llvm::SmallBitVector &dims) {
    for (auto [k, scope] : llvm::enumerate(scopes))
      if (!dims.test(scope.bound))
        return k;
    llvm_unreachable("a dim that no loop binds");
  }
  /// Runs `emit` where scope `k` is being filled.
  template <typename F> Value inScope(unsigned k, F emit) {
    OpBuilder::InsertionGuard guard(b);
    if (k + 1 < scopes.size())
      b.setInsertionPoint(scopes[k].anchor);
    return emit();
  }
  SmallVector<Value> loop(ArrayRef<unsigned> dims, Value lower, Value upper,
                          int64_t step, ValueRange inits,
                          llvm::function_ref<void(Value)> bind, Body body);
  SmallVector<Value> dimLoop(unsigned dim, Value lower, Value upper,
                             int64_t step, ValueRange inits, Body body) {
    return loop(
        dim, lower, upper, step, inits, [&](Value iv) { ivs[dim] = iv; }, body);
  }
  /// lower + the largest multiple of `step` that fits.
  Value roundDown(Value lower, Value upper, int64_t step) {
    Value extent = b.createOrFold<arith::SubIOp>(upper, lower);
    Value trips = b.createOrFold<arith::DivUIOp>(extent, i64(step));
    return add(lower, mul(trips, step));
  }

  //===--- Indices and memory ---------------------------------------------===//
  Value index(AffineExpr expr);
  Value indexTerm(AffineExpr expr);
  bool onLanes(const llvm::SmallBitVector &dims) {
    return schedule.vectorDim >= 0 && dims.test(schedule.vectorDim);
  }
  bool onLanes(AffineExpr expr) {
    return schedule.vectorDim >= 0 && expr.isFunctionOfDim(schedule.vectorDim);
  }
  /// Expr at lane `shift` of the vector dim.
  AffineExpr shifted(AffineExpr expr, int64_t shift) {
    if (shift == 0 || !onLanes(expr))
      return expr;
    AffineExpr d = getAffineDimExpr(schedule.vectorDim, expr.getContext());
    return expr.replace(d, d + shift);
  }
  Value address(Value base, Value offset, int64_t constant, Type element) {
    Type i8orElement = memoryType(element);
    Type ptr = LLVM::LLVMPointerType::get(b.getContext());
    Value at = LLVM::GEPOp::create(b, ptr, i8orElement, base,
                                   ArrayRef<LLVM::GEPArg>{offset});
    if (constant != 0)
      at = LLVM::GEPOp::create(
          b, ptr, i8orElement, at,
          ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(constant)});
    return at;
  }
  /// A bool is a byte in memory.
  Type memoryType(Type element) {
    if (element.isInteger() && !element.isSignlessInteger())
      return b.getIntegerType(element.getIntOrFloatBitWidth());
    return element.isInteger(1) ? b.getI8Type() : element;
  }
  Value fromMemory(Value raw, Type element);
  Value toMemory(Value value);
  Value loadScalar(Value base, AffineExpr offset, Type element);
  Value load(Value base, AffineExpr offset, Type element, unsigned u);
  void store(Value value, Value base, AffineExpr offset, unsigned u);
  AffineExpr scratchOffset();

  //===--- Values -----------------------------------------------------------//
  Value emit(const Node *node, unsigned u);
  Value compute(const Node *node, unsigned u);
  Value extract(tensor::ExtractOp op, const Node *node, unsigned u,
                DenseMap<Value, Value> &body);
  Value bodyIndex(AffineExpr expr, unsigned u);

  //===--- Loop structure ---------------------------------------------------//
  void units();
  void parallelLoops(unsigned dim, Value lower, Value upper);
  void stages();
  void stage(unsigned number);
  SmallVector<Value> reductionLoops(unsigned dim);
  SmallVector<Value> innermost(unsigned dim, Value lower, Value upper,
                               int64_t extent);
  SmallVector<Value> point(ValueRange accumulators);
  void storeAll(bool rows);

  KernelGraph &graph;
  const Schedule &schedule;
  ArrayRef<Value> inputs;
  ImplicitLocOpBuilder b;
  func::FuncOp function;

  SmallVector<Value> buffers, scratch, ivs;
  SmallVector<Scope> scopes;
  llvm::SmallBitVector reduced, parallel;
  unsigned rowScope = 0;
  unsigned lanes = 1, unroll = 1;

  unsigned currentStage = 0;
  SmallVector<Node *> reduces;
  SmallVector<Store *> stageStores;
  SmallVector<unsigned> stageSaves;
};

Value KernelEmitter::identity(const Node *reduce, unsigned width) {
  Type type = reduce->type;
  TypedAttr attribute;
  Operation *op = reduce->combiner;
  if (auto floatType = dyn_cast<FloatType>(type)) {
    const auto &semantics = floatType.getFloatSemantics();
    APFloat value = APFloat::getZero(semantics);
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

Value KernelEmitter::horizontal(const Node *reduce, Value vector) {
  auto type = dyn_cast<VectorType>(vector.getType());
  if (!type)
    return vector;
  for (int64_t width = type.getNumElements(); width > 1; width /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < width / 2; ++i) {
      low.push_back(i);
      high.push_back(i + width / 2);
    }
    Value x = vector::ShuffleOp::create(b, vector, vector, low);
    Value y = vector::ShuffleOp::create(b, vector, vector, high);
    vector = combine(reduce, x, y);
  }
  return vector::ExtractOp::create(b, vector, 0);
}

SmallVector<Value> KernelEmitter::loop(ArrayRef<unsigned> dims, Value lower,
                                       Value upper, int64_t step,
                                       ValueRange inits,
                                       llvm::function_ref<void(Value)> bind,
                                       Body body) {
  auto forOp = scf::ForOp::create(b, lower, upper, i64(step), inits);
  OpBuilder::InsertionGuard guard(b);
  Scope scope;
  scope.bound = scopes.back().bound;
  for (unsigned d : dims)
    scope.bound.set(d);
  scopes.back().anchor = forOp;
  scopes.push_back(std::move(scope));
  SmallVector<Value> saved(ivs);
  b.setInsertionPointToStart(forOp.getBody());
  bind(forOp.getInductionVar());
  SmallVector<Value> results = body(forOp.getRegionIterArgs());
  if (inits.empty()) {
    // The builder has put the terminator there.
  } else {
    scf::YieldOp::create(b, results);
  }
  ivs = saved;
  scopes.pop_back();
  scopes.back().anchor = nullptr;
  return SmallVector<Value>(forOp.getResults());
}

//===--- Indices and memory -------------------------------------------------//

/// A term that is no sum: a dim, or a floordiv or mod that stayed.
Value KernelEmitter::indexTerm(AffineExpr expr) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return ivs[dim.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value lhs = index(binary.getLHS());
  Value rhs = i64(cast<AffineConstantExpr>(binary.getRHS()).getValue());
  // Access expressions are in bounds, so their parts are not negative unless
  // an offset is subtracted; floor semantics then.
  auto [lowest, highest] = range(binary.getLHS(), graph.sizes());
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

Value KernelEmitter::fromMemory(Value raw, Type element) {
  if (!element.isInteger(1))
    return raw;
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(raw.getType()));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, raw, zero);
}

Value KernelEmitter::toMemory(Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  if (!element.isInteger(1))
    return value;
  Type byte = b.getI8Type();
  if (auto type = dyn_cast<VectorType>(value.getType()))
    byte = type.clone(byte);
  return arith::ExtUIOp::create(b, byte, value);
}

Value KernelEmitter::loadScalar(Value base, AffineExpr offset, Type element) {
  Value at = address(base, index(offset), 0, element);
  return fromMemory(LLVM::LoadOp::create(b, memoryType(element), at), element);
}

Value KernelEmitter::load(Value base, AffineExpr offset, Type element,
                          unsigned u) {
  if (lanes == 1 || !onLanes(offset))
    return loadScalar(base, offset, element);
  LinearForm form = linearize(offset);
  int64_t stride = form.coefficient(schedule.vectorDim);
  bool linear = !form.isNonlinearIn(schedule.vectorDim);
  Type memory = memoryType(element);
  auto vectorType = VectorType::get({int64_t(lanes)}, memory);
  unsigned bytes = std::max(1u, memory.getIntOrFloatBitWidth() / 8);
  if (linear && stride == 1) {
    Value at = address(base, index(offset), int64_t(u) * lanes, element);
    return fromMemory(LLVM::LoadOp::create(b, vectorType, at, bytes), element);
  }
  SmallVector<Value> elements;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    int64_t shift = int64_t(u) * lanes + lane;
    Value at = linear
                   ? address(base, index(offset), shift * stride, element)
                   : address(base, index(shifted(offset, shift)), 0, element);
    elements.push_back(LLVM::LoadOp::create(b, memory, at));
  }
  return fromMemory(vector::FromElementsOp::create(b, vectorType, elements),
                    element);
}

void KernelEmitter::store(Value value, Value base, AffineExpr offset,
                          unsigned u) {
  Type element = getElementTypeOrSelf(value.getType());
  Type memory = memoryType(element);
  value = toMemory(value);
  if (lanes == 1 || !onLanes(offset)) {
    if (isa<VectorType>(value.getType()))
      value = vector::ExtractOp::create(b, value, 0);
    LLVM::StoreOp::create(b, value, address(base, index(offset), 0, element));
    return;
  }
  value = broadcast(value, lanes);
  LinearForm form = linearize(offset);
  int64_t stride = form.coefficient(schedule.vectorDim);
  bool linear = !form.isNonlinearIn(schedule.vectorDim);
  unsigned bytes = std::max(1u, memory.getIntOrFloatBitWidth() / 8);
  if (linear && stride == 1) {
    LLVM::StoreOp::create(
        b, value, address(base, index(offset), int64_t(u) * lanes, element),
        bytes);
    return;
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    int64_t shift = int64_t(u) * lanes + lane;
    Value at = linear
                   ? address(base, index(offset), shift * stride, element)
                   : address(base, index(shifted(offset, shift)), 0, element);
    LLVM::StoreOp::create(b, vector::ExtractOp::create(b, value, lane), at);
  }
}

/// Rows are kept densely, in the order of the reduction loops.
AffineExpr KernelEmitter::scratchOffset() {
  AffineExpr offset = getAffineConstantExpr(0, b.getContext());
  for (unsigned d = schedule.numParallel; d < graph.dims.size(); ++d)
    offset = offset * graph.dims[d].size + getAffineDimExpr(d, b.getContext());
  return offset;
}

//===--- Values -------------------------------------------------------------//

Value KernelEmitter::emit(const Node *node, unsigned u) {
  if (node->kind == Node::Kind::Constant) {
    return inScope(0, [&]() -> Value {
      Value &known = scopes[0].values[{node, 0}];
      if (!known)
        known = arith::ConstantOp::create(b, node->constant);
      return known;
    });
  }
  if (lanes == 1 || !onLanes(node->dims))
    u = 0;
  // What follows from a reduction is known in the row, even if it is the same
  // for all rows.
  unsigned k =
      node->kind == Node::Kind::Reduce ? rowScope : scopeOf(node->dims);
  if (node->stage > 0)
    k = std::max(k, rowScope);
  if (Value known = scopes[k].values.lookup({node, u}))
    return known;
  assert(node->kind != Node::Kind::Reduce && "a reduction not yet known");
  Value result = inScope(k, [&]() -> Value {
    for (auto [number, saved] : llvm::enumerate(schedule.saved))
      if (saved.node == node && saved.stage < currentStage)
        return load(scratch[number], scratchOffset(), node->type, u);
    if (node->kind == Node::Kind::Load)
      return load(buffers[node->buffer], node->offset, node->type, u);
    return compute(node, u);
  });
  scopes[k].values[{node, u}] = result;
  return result;
}

/// An index as a body sees it: i64, on lanes if it follows the vector dim.
Value KernelEmitter::bodyIndex(AffineExpr expr, unsigned u) {
  if (lanes == 1 || !onLanes(expr))
    return index(expr);
  LinearForm form = linearize(expr);
  auto type = VectorType::get({int64_t(lanes)}, b.getI64Type());
  if (form.isNonlinearIn(schedule.vectorDim)) {
    SmallVector<Value> elements;
    for (unsigned lane = 0; lane < lanes; ++lane)
      elements.push_back(index(shifted(expr, int64_t(u) * lanes + lane)));
    return vector::FromElementsOp::create(b, type, elements);
  }
  int64_t stride = form.coefficient(schedule.vectorDim);
  SmallVector<int64_t> steps;
  for (unsigned lane = 0; lane < lanes; ++lane)
    steps.push_back((int64_t(u) * lanes + lane) * stride);
  Value iota = arith::ConstantOp::create(
      b, DenseIntElementsAttr::get(type, ArrayRef<int64_t>(steps)));
  return arith::AddIOp::create(b, broadcast(index(expr), lanes), iota);
}

Value KernelEmitter::extract(tensor::ExtractOp op, const Node *node, unsigned u,
                             DenseMap<Value, Value> &body) {
  auto type = cast<RankedTensorType>(op.getTensor().getType());
  Type element = type.getElementType(), memory = memoryType(element);
  unsigned bytes = std::max(1u, memory.getIntOrFloatBitWidth() / 8);
  Value base = buffers[llvm::find(inputs, op.getTensor()) - inputs.begin()];
  // Indices that are loop positions stay affine, so that a row that is picked
  // by a value is still read by vectors.
  AffineExpr affine = getAffineConstantExpr(0, b.getContext());
  Value dynamic;
  for (auto [operand, stride] : llvm::zip(op.getIndices(), stridesOf(type))) {
    if (auto position = operand.getDefiningOp<linalg::IndexOp>()) {
      affine = affine + node->loops[position.getDim()] * stride;
      continue;
    }
    Value part = body.lookup(operand);
    Value factor =
        broadcast(i64(stride), isa<VectorType>(part.getType()) ? lanes : 1);
    part = b.createOrFold<arith::MulIOp>(part, factor);
    if (dynamic && dynamic.getType() != part.getType()) {
      dynamic = broadcast(dynamic, lanes);
      part = broadcast(part, lanes);
    }
    dynamic = dynamic ? add(dynamic, part) : part;
  }
  LinearForm form = linearize(affine);
  bool onVector = onLanes(affine) && lanes > 1;
  bool dynamicVector = dynamic && isa<VectorType>(dynamic.getType());
  if (!dynamicVector && !onVector) {
    Value offset = index(affine);
    if (dynamic)
      offset = add(offset, dynamic);
    Value at = address(base, offset, 0, element);
    return fromMemory(LLVM::LoadOp::create(b, memory, at), element);
  }
  auto vectorType = VectorType::get({int64_t(lanes)}, memory);
  if (!dynamicVector && !form.isNonlinearIn(schedule.vectorDim) &&
      form.coefficient(schedule.vectorDim) == 1) {
    Value offset = index(affine);
    if (dynamic)
      offset = add(offset, dynamic);
    Value at = address(base, offset, int64_t(u) * lanes, element);
    return fromMemory(LLVM::LoadOp::create(b, vectorType, at, bytes), element);
  }
  Value offsets = broadcast(bodyIndex(affine, u), lanes);
  if (dynamic)
    offsets = add(offsets, broadcast(dynamic, lanes));
  SmallVector<Value> elements;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    Value offset = vector::ExtractOp::create(b, offsets, lane);
    elements.push_back(
        LLVM::LoadOp::create(b, memory, address(base, offset, 0, element)));
  }
  return fromMemory(vector::FromElementsOp::create(b, vectorType, elements),
                    element);
}

Value KernelEmitter::compute(const Node *node, unsigned u) {
  DenseMap<Value, Value> body;
  linalg::GenericOp generic = node->op;
  Block *block = generic.getBody();
  auto emitValue = [&](auto &&self, Value value) -> Value {
    if (Value known = body.lookup(value))
      return known;
    Value result;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      result = emit(node->inputs[argument.getArgNumber()], u);
      return body[value] = result;
    }
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
    if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op)) {
      Type wanted = op->getResult(0).getType();
      Type have = getElementTypeOrSelf(operands[0].getType());
      if (isa<IndexType>(wanted))
        wanted = b.getI64Type();
      if (wanted == have)
        return body[value] = operands[0];
      Type type =
          laneType(wanted, isa<VectorType>(operands[0].getType()) ? lanes : 1);
      if (wanted.getIntOrFloatBitWidth() < have.getIntOrFloatBitWidth())
        return body[value] = arith::TruncIOp::create(b, type, operands[0]);
      if (isa<arith::IndexCastUIOp>(op))
        return body[value] = arith::ExtUIOp::create(b, type, operands[0]);
      return body[value] = arith::ExtSIOp::create(b, type, operands[0]);
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      if (isa<IndexType>(constant.getType()))
        return body[value] =
                   i64(cast<IntegerAttr>(constant.getValue()).getInt());
    unsigned width = vectors ? lanes : 1;
    for (Value &operand : operands)
      operand = broadcast(operand, width);
    Type scalar = op->getResult(0).getType();
    if (isa<IndexType>(scalar))
      scalar = b.getI64Type();
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

//===--- Loop structure -----------------------------------------------------//

void KernelEmitter::run() {
  Block *entry = function.addEntryBlock();
  b.setInsertionPointToStart(entry);
  func::ReturnOp::create(b);
  b.setInsertionPoint(entry->getTerminator());
  if (schedule.work == 0)
    return;
  unsigned count = graph.dims.size();
  ivs.resize(count);
  reduced.resize(count);
  for (unsigned d = schedule.numParallel; d < count; ++d)
    reduced.set(d);
  parallel = reduced;
  parallel.flip();
  scopes.emplace_back();
  scopes.back().bound.resize(count);

  Type ptr = LLVM::LLVMPointerType::get(b.getContext());
  for (unsigned i = 0, e = inputs.size() + graph.stores.size(); i < e; ++i) {
    Value slot =
        LLVM::GEPOp::create(b, ptr, ptr, entry->getArgument(0),
                            ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    buffers.push_back(LLVM::LoadOp::create(b, ptr, slot));
  }
  int64_t row = 1;
  for (unsigned d = schedule.numParallel; d < count; ++d)
    row *= graph.dims[d].size;
  for (const SavedNode &saved : schedule.saved)
    scratch.push_back(LLVM::AllocaOp::create(
        b, ptr, memoryType(saved.node->type), i64(row), 64));
  units();
}

void KernelEmitter::units() {
  Block *entry = &function.getBody().front();
  Value begin = entry->getArgument(1), end = entry->getArgument(2);
  auto dims = llvm::to_vector(llvm::seq<unsigned>(0, schedule.unitDims));
  Value lower, upper;
  loop(
      dims, begin, end, 1, {},
      [&](Value unit) {
        int64_t blocks = 1;
        if (schedule.block) {
          int64_t size = graph.dims[schedule.numParallel - 1].size;
          blocks = llvm::divideCeil(size, schedule.block);
          Value number = unit;
          if (schedule.unitDims != 0) {
            number = b.createOrFold<arith::RemUIOp>(unit, i64(blocks));
            unit = b.createOrFold<arith::DivUIOp>(unit, i64(blocks));
          }
          lower = mul(number, schedule.block);
          upper = add(lower, i64(schedule.block));
          if (size % schedule.block != 0)
            upper = arith::MinSIOp::create(b, upper, i64(size));
        }
        for (unsigned d = schedule.unitDims; d-- > 0;) {
          Value size = i64(graph.dims[d].size);
          ivs[d] = d == 0 ? unit : b.createOrFold<arith::RemUIOp>(unit, size);
          if (d != 0)
            unit = b.createOrFold<arith::DivUIOp>(unit, size);
        }
      },
      [&](ValueRange) {
        parallelLoops(schedule.unitDims, lower, upper);
        return SmallVector<Value>();
      });
}

/// The parallel dims inside of a unit; [lower, upper) bounds the last if set.
void KernelEmitter::parallelLoops(unsigned dim, Value lower, Value upper) {
  if (dim == schedule.numParallel) {
    unroll = schedule.vectorInReduction() ? 1 : unroll;
    return stages();
  }
  int64_t size = graph.dims[dim].size;
  // Only the last dim is walked in blocks, and then it is the unit's only one.
  if (!lower) {
    lower = i64(0);
    upper = i64(size);
  }
  auto run = [&](Value from, Value to, unsigned width, unsigned vectors) {
    lanes = width;
    unroll = vectors;
    dimLoop(dim, from, to, int64_t(width) * vectors, {}, [&](ValueRange) {
      parallelLoops(dim + 1, {}, {});
      return SmallVector<Value>();
    });
    lanes = 1;
    unroll = 1;
  };
  if (int(dim) != schedule.vectorDim) {
    dimLoop(dim, lower, upper, 1, {}, [&](ValueRange) {
      parallelLoops(dim + 1, {}, {});
      return SmallVector<Value>();
    });
    return;
  }
  int64_t wide = int64_t(schedule.lanes) * schedule.unroll;
  Value at = lower;
  if (size >= wide) {
    Value to = size % wide == 0 ? upper : roundDown(lower, upper, wide);
    run(at, to, schedule.lanes, schedule.unroll);
    at = to;
  }
  if (schedule.unroll > 1 && size % wide >= schedule.lanes) {
    Value to = roundDown(lower, upper, schedule.lanes);
    run(at, to, schedule.lanes, 1);
    at = to;
  }
  if (size % schedule.lanes != 0)
    run(at, upper, 1, 1);
}

void KernelEmitter::stages() {
  unsigned outerRow = rowScope;
  rowScope = scopes.size() - 1;
  for (unsigned number = 0; number < graph.numStages; ++number)
    stage(number);
  currentStage = graph.numStages;
  storeAll(/*rows=*/true);
  rowScope = outerRow;
}

void KernelEmitter::storeAll(bool rows) {
  for (Store &s : graph.stores) {
    if (s.dims.anyCommon(reduced) == rows)
      continue;
    if (!rows && s.node->stage != currentStage)
      continue;
    unsigned vectors = lanes > 1 && onLanes(s.dims) ? unroll : 1;
    for (unsigned u = 0; u < vectors; ++u)
      store(emit(s.node, u), buffers[s.buffer], s.offset, u);
  }
}

/// One walk over the reduction dims.
void KernelEmitter::stage(unsigned number) {
  currentStage = number;
  reduces.clear();
  stageSaves.clear();
  for (auto &node : graph.nodes)
    if (node->kind == Node::Kind::Reduce && node->inputs[0]->stage == number)
      reduces.push_back(node.get());
  for (auto [i, saved] : llvm::enumerate(schedule.saved))
    if (saved.stage == number)
      stageSaves.push_back(i);
  bool stores = llvm::any_of(graph.stores, [&](Store &s) {
    return s.dims.anyCommon(reduced) && s.node->stage == number;
  });
  if (reduces.empty() && !stores && stageSaves.empty())
    return;
  SmallVector<Value> totals;
  if (schedule.numReduction != 0) {
    totals = reductionLoops(schedule.numParallel);
  } else {
    // Every reduced dim has one element: the value is its own sum.
    for (Node *node : reduces)
      for (unsigned u = 0; u < unroll; ++u)
        totals.push_back(emit(node->inputs[0], u));
  }
  unsigned next = 0;
  for (Node *node : reduces) {
    unsigned vectors = schedule.vectorInReduction() ? 1 : unroll;
    for (unsigned u = 0; u < vectors; ++u) {
      Value total = totals[next++];
      Value init = emit(node->init, u);
      if (total.getType() != init.getType()) {
        total = broadcast(total, lanes);
        init = broadcast(init, lanes);
      }
      scopes[rowScope].values[{node, u}] = combine(node, init, total);
    }
  }
}

/// Accumulators are per reduction and, if the vector dim is parallel, per
/// vector in flight.
SmallVector<Value> KernelEmitter::reductionLoops(unsigned dim) {
  int64_t size = graph.dims[dim].size;
  bool last = dim + 1 == graph.dims.size();
  auto combineAll = [&](ValueRange xs, ValueRange ys) {
    unsigned vectors = xs.size() / std::max<size_t>(1, reduces.size());
    SmallVector<Value> sums;
    for (auto [i, x, y] : llvm::enumerate(xs, ys))
      sums.push_back(combine(reduces[i / vectors], x, y));
    return sums;
  };
  auto identities = [&] {
    SmallVector<Value> values;
    bool scalars = schedule.vectorInReduction();
    for (Node *node : reduces)
      for (unsigned u = 0; u < (scalars ? 1 : unroll); ++u)
        values.push_back(identity(node, scalars ? 1 : lanes));
    return values;
  };
  if (!last)
    return dimLoop(dim, i64(0), i64(size), 1, identities(),
                   [&](ValueRange sums) {
                     return combineAll(sums, reductionLoops(dim + 1));
                   });
  // Long sums are taken by blocks: the error grows with their number, not with
  // the number of elements.
  int64_t blockSize = int(dim) == schedule.vectorDim ? 8192 : 512;
  if (reduces.empty() || size <= 2 * blockSize)
    return innermost(dim, i64(0), i64(size), size);
  Value lower, upper;
  return loop(
      {}, i64(0), i64(size), blockSize, identities(),
      [&](Value start) {
        lower = start;
        upper = add(start, i64(blockSize));
        if (size % blockSize != 0)
          upper = arith::MinSIOp::create(b, upper, i64(size));
      },
      [&](ValueRange sums) {
        return combineAll(sums, innermost(dim, lower, upper, size));
      });
}

/// The last reduction loop; `extent` is congruent to upper - lower modulo the
/// vectors in flight, or larger than them.
SmallVector<Value> KernelEmitter::innermost(unsigned dim, Value lower,
                                            Value upper, int64_t extent) {
  auto start = [&](unsigned width, unsigned vectors) {
    SmallVector<Value> values;
    for (Node *node : reduces)
      for (unsigned u = 0; u < vectors; ++u)
        values.push_back(identity(node, width));
    return values;
  };
  if (int(dim) != schedule.vectorDim)
    return dimLoop(dim, lower, upper, 1, start(lanes, unroll),
                   [&](ValueRange sums) { return point(sums); });

  SmallVector<Value> sums;
  int64_t wide = int64_t(schedule.lanes) * schedule.unroll;
  Value at = lower;
  auto walk = [&](Value to, unsigned width, unsigned vectors,
                  SmallVector<Value> inits) {
    lanes = width;
    unroll = vectors;
    sums =
        dimLoop(dim, at, to, int64_t(width) * vectors, inits,
                [&](ValueRange accumulators) { return point(accumulators); });
    lanes = 1;
    unroll = 1;
    at = to;
  };
  if (extent >= wide) {
    walk(extent % wide == 0 ? upper : roundDown(lower, upper, wide),
         schedule.lanes, schedule.unroll,
         start(schedule.lanes, schedule.unroll));
    SmallVector<Value> folded;
    for (auto [i, node] : llvm::enumerate(reduces)) {
      SmallVector<Value> parts(sums.begin() + i * schedule.unroll,
                               sums.begin() + (i + 1) * schedule.unroll);
      for (unsigned width = parts.size(); width > 1; width /= 2)
        for (unsigned j = 0; j < width / 2; ++j)
          parts[j] = combine(node, parts[j], parts[j + width / 2]);
      folded.push_back(parts[0]);
    }
    sums = folded;
  } else {
    sums = start(schedule.lanes, 1);
  }
  if (schedule.unroll > 1 && extent % wide >= schedule.lanes)
    walk(roundDown(lower, upper, schedule.lanes), schedule.lanes, 1, sums);
  for (auto [node, sum] : llvm::zip(reduces, sums))
    sum = horizontal(node, sum);
  if (extent % schedule.lanes != 0)
    walk(upper, 1, 1, sums);
  return sums;
}

/// Everything that the current stage does at one point of the domain.
SmallVector<Value> KernelEmitter::point(ValueRange accumulators) {
  SmallVector<Value> results;
  for (auto [i, node] : llvm::enumerate(reduces))
    for (unsigned u = 0; u < unroll; ++u)
      results.push_back(combine(node, accumulators[i * unroll + u],
                                broadcast(emit(node->inputs[0], u), lanes)));
  for (unsigned number : stageSaves)
    for (unsigned u = 0; u < unroll; ++u)
      store(emit(schedule.saved[number].node, u), scratch[number],
            scratchOffset(), u);
  storeAll(/*rows=*/false);
  return results;
}

} // namespace

void emitKernel(func::FuncOp function, KernelGraph &graph,
                const Schedule &schedule, ArrayRef<Value> inputs) {
  KernelEmitter(function, graph, schedule, inputs).run();
}

} // namespace pyjit::x86
