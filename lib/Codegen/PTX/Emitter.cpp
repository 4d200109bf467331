//===- Emitter.cpp - Values of a kernel graph on a GPU's threads ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

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
  if (domain.graph->usesSymbols())
    return false;
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
  readDomain();
  findBuffers(entry);
}

Emitter::Emitter(const Emitter &first, const Domain &domain)
    : frame(first.frame), domain(domain), schedule(first.schedule),
      graph(*domain.graph), b(first.b), buffers(first.buffers),
      numPointers(first.numPointers), vectorDim(domain.vectorDim) {
  readDomain();
}

void Emitter::readDomain() {
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
}

void Emitter::findBuffers(Block *entry) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), globalSpace);
  unsigned inputs = frame.inputs.size(), batch = frame.batch;
  unsigned each = entry->getNumArguments() / batch, results = each - inputs;
  auto buffersOf = [&](unsigned part) {
    SmallVector<Value> found;
    for (unsigned i = 0; i < each; ++i) {
      unsigned at = i < inputs ? part * inputs + i
                               : (batch - 1) * inputs + part * results + i;
      Value buffer = entry->getArgument(at);
      if (frame.indirect[at])
        buffer = LLVM::LoadOp::create(b, pointer, buffer);
      found.push_back(buffer);
    }
    return found;
  };
  numPointers = entry->getNumArguments();
  if (batch == 1) {
    buffers = buffersOf(0);
    return;
  }
  // Parts take turns: those of the first blocks are not one part's.
  Value all = blockIndex(), count = constant(batch);
  Value part = arith::RemUIOp::create(b, all, count);
  knownBlock = arith::DivUIOp::create(b, all, count);
  part = arith::IndexCastUIOp::create(b, b.getIndexType(), part);
  SmallVector<int64_t> cases;
  for (unsigned i = 1; i < batch; ++i)
    cases.push_back(i);
  auto choice = scf::IndexSwitchOp::create(b, SmallVector<Type>(each, pointer),
                                           part, cases, cases.size());
  for (unsigned i = 0; i < batch; ++i) {
    OpBuilder::InsertionGuard guard(b);
    Region &region =
        i == 0 ? choice.getDefaultRegion() : choice.getCaseRegions()[i - 1];
    b.setInsertionPointToStart(&region.emplaceBlock());
    scf::YieldOp::create(b, buffersOf(i));
  }
  llvm::append_range(buffers, choice.getResults());
}

//===--- Small constructors -------------------------------------------------//

Value Emitter::broadcast(Value scalar, unsigned width) {
  return codegen::broadcast(b, b.getLoc(), scalar, width);
}

Value Emitter::identity(const Node *reduce, unsigned width) {
  TypedAttr value = codegen::identityOf(reduce, /*negativeZero=*/true);
  return broadcast(arith::ConstantOp::create(b, value), width);
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

void Emitter::skipSpareBlocks() {
  if (!frame.deviceSizes || isa<AffineConstantExpr>(frame.blocks))
    return;
  Block *entry = &frame.function.getBody().front();
  Operation *first = &entry->front(), *last = entry->getTerminator();
  // What the condition needs stands in front of all that there is.
  knownBlock = Value();
  knownSymbols.clear();
  scopes.clear();
  scopes.emplace_back();
  scopes.back().bound.resize(graph.dims.size(), true);
  b.setInsertionPoint(first);
  Value inside = less(blockIndex(), index(frame.blocks, 0));
  auto body = scf::IfOp::create(b, inside, /*withElse=*/false);
  body.thenBlock()->getOperations().splice(
      body.thenBlock()->begin(), entry->getOperations(), Block::iterator(first),
      Block::iterator(last));
}

Value Emitter::symbol(unsigned number) {
  // A parameter of its own behind the buffers', in the order in which code asks
  // for them: kernels that differ in which symbols they read have equal code.
  Block *entry = &frame.function.getBody().front();
  unsigned place = llvm::find(frame.symbols, number) - frame.symbols.begin();
  if (place == frame.symbols.size()) {
    frame.symbols.push_back(number);
    Type type = b.getI64Type();
    if (frame.deviceSizes)
      type = LLVM::LLVMPointerType::get(b.getContext(), globalSpace);
    entry->addArgument(type, frame.function.getLoc());
  }
  Value value = entry->getArgument(numPointers + place);
  if (frame.deviceSizes)
    value = atEntry(b, knownSymbols[number], [&]() -> Value {
      auto load = LLVM::LoadOp::create(b, b.getI64Type(), value);
      load.setInvariant(!frame.waits);
      return load;
    });
  return indexType.isInteger(64)
             ? value
             : arith::TruncIOp::create(b, indexType, value).getResult();
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
    Value position = number;
    if (i != 0) {
      Size size = graph.dims[d].getSize();
      if (vectors)
        size = *size.dividedBy(lanes);
      position = rem(number, size);
      number = div(number, size);
    }
    ivs[u][d] = vectors ? mul(position, lanes) : position;
  }
}

} // namespace pyjit::ptx
