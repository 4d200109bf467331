//===- Emitter.h - Values of a kernel graph on a GPU's threads --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values are emitted when something asks for them, in the outermost loop that
// binds the dims they depend on; a memo per loop makes each of them once. One
// thread works on several vectors at a time: `u` says on which, and every
// vector has its own point of the domain.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_LIB_CODEGEN_PTX_EMITTER_H
#define PYJIT_LIB_CODEGEN_PTX_EMITTER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "pyjit/Codegen/GenericBody.h"
#include "pyjit/Codegen/PTX/Schedule.h"

namespace pyjit::ptx {

/// A kernel that is being emitted, and how it will be launched.
struct KernelFrame {
  mlir::func::FuncOp function;
  const Domain &domain;
  const Schedule &schedule;
  llvm::ArrayRef<mlir::Value> inputs;
  /// Equal parts that the launch's blocks share (`pyjit.batch`); all else here
  /// says of one of them what holds of each.
  unsigned batch = 1;
  /// Per buffer of each part: the parameter points to the pointer.
  llvm::SmallVector<bool> indirect;
  /// Sizes are read on the device (`pyjit.device_sizes`).
  bool deviceSizes = false;
  /// The kernel is launched while the one in front still runs (`pyjit.waits`).
  bool waits = false;
  /// Per buffer: what the alignment of its address may be relied on to be, and
  /// what the code does rely on.
  llvm::SmallVector<unsigned> alignment, reliedOn;
  /// Blocks of a launch, of `threads` threads each.
  mlir::AffineExpr blocks;
  int64_t sharedBytes = 0;
  /// Blocks that meet, and see each other's shared memory.
  unsigned cluster = 1;
  /// Which of the function's symbols follow the buffers, each by value, or by
  /// the address of its value.
  llvm::SmallVector<int64_t> symbols;

  /// Of all buffers of all parts, operands first: which one of a part's it is.
  unsigned placeInPart(unsigned i) const {
    unsigned operands = inputs.size(),
             results = indirect.size() / batch - operands;
    return i < operands * batch ? i % operands
                                : operands + (i - operands * batch) % results;
  }
  void setBlocks(const analysis::Size &units, int64_t perBlock) {
    blocks = units.toExpr(function.getContext()).ceilDiv(perBlock);
  }
};

class Emitter {
public:
  explicit Emitter(KernelFrame &frame);
  /// Goes on where `first` stands, with a domain of its own.
  Emitter(const Emitter &first, const Domain &domain);
  virtual ~Emitter() = default;

protected:
  using Value = mlir::Value;
  using Type = mlir::Type;
  using AffineExpr = mlir::AffineExpr;
  using Node = codegen::Node;
  using Size = analysis::Size;

  struct Scope {
    llvm::SmallBitVector bound;
    /// The loop in this scope that is being filled; null in the innermost.
    mlir::Operation *anchor = nullptr;
    llvm::DenseMap<std::pair<const Node *, unsigned>, Value> values;
    llvm::DenseMap<std::pair<AffineExpr, unsigned>, Value> indices;
    /// Of divisors: the scaled one's opposite, its reciprocal, and the scale.
    llvm::DenseMap<Value, std::array<Value, 3>> reciprocals;
  };

  //===--- Small constructors --------------------------------------------===//
  /// A constant of the type that indices have here.
  Value constant(int64_t value) {
    return mlir::arith::ConstantOp::create(b,
                                           b.getIntegerAttr(indexType, value));
  }
  Value i32(int32_t value) {
    return mlir::arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  }
  Value add(Value x, Value y) {
    return b.createOrFold<mlir::arith::AddIOp>(x, y);
  }
  Value mul(Value x, int64_t factor) {
    if (factor == 1)
      return x;
    return b.createOrFold<mlir::arith::MulIOp>(
        x, mlir::arith::ConstantOp::create(
               b, b.getIntegerAttr(x.getType(), factor)));
  }
  Value div(Value x, const Size &divisor) {
    return divisor.is(1)
               ? x
               : b.createOrFold<mlir::arith::DivUIOp>(x, number(divisor));
  }
  Value rem(Value x, const Size &divisor) {
    return divisor.is(1)
               ? constant(0)
               : b.createOrFold<mlir::arith::RemUIOp>(x, number(divisor));
  }
  Value less(Value x, Value bound) {
    return mlir::arith::CmpIOp::create(b, mlir::arith::CmpIPredicate::ult, x,
                                       bound);
  }
  /// The lesser of `x` and `count - back`, which is not negative.
  Value clamp(Value x, Value count, int64_t back) {
    return mlir::arith::MinUIOp::create(b, x, add(count, constant(-back)));
  }
  /// What a size, or an expression over symbols, is in this call.
  Value number(const Size &size) {
    return size.isConstant() ? constant(size.constant())
                             : index(size.toExpr(b.getContext()), 0);
  }
  /// The value of symbol `number` in this call.
  Value symbol(unsigned number);
  Value both(Value x, Value y) {
    return !x ? y : !y ? x : Value(mlir::arith::AndIOp::create(b, x, y));
  }
  Value broadcast(Value scalar, unsigned width);
  Value combine(const Node *reduce, Value x, Value y) {
    return codegen::combine(b, b.getLoc(), reduce->combiner, x, y);
  }
  Value identity(const Node *reduce, unsigned width);
  Value intrinsic(llvm::StringRef name, mlir::ValueRange operands, Type type);
  /// Everything that has been emitted becomes the work of those blocks that
  /// the sizes of this call ask for. To be called last.
  void skipSpareBlocks();
  /// The addresses of the buffers of this block's part.
  void findBuffers(mlir::Block *entry);
  /// Numbers of this thread and block, as indices.
  Value threadIndex();
  Value blockIndex();
  void barrier();
  /// The value of the lane whose number differs in the bits of `distance`.
  Value exchange(Value value, unsigned distance);
  /// `bytes` of shared memory of the block, 16-byte aligned.
  Value shared(int64_t bytes);
  Value sharedAddress(Value base, Value index, Type element);

  //===--- Scopes ---------------------------------------------------------===//
  unsigned scopeOf(const llvm::SmallBitVector &dims);
  template <typename F> Value inScope(unsigned k, F emit) {
    mlir::OpBuilder::InsertionGuard guard(b);
    if (k + 1 < scopes.size())
      b.setInsertionPoint(scopes[k].anchor);
    return emit();
  }
  /// What `emit` makes, in a scope where `dims` are bound, too; what it needs
  /// of outer ones alone is emitted in front of `outside`.
  template <typename F>
  auto inInnerScope(mlir::Operation *outside, const llvm::SmallBitVector &dims,
                    F emit) {
    Scope scope;
    scope.bound = scopes.back().bound;
    scope.bound |= dims;
    scopes.back().anchor = outside;
    scopes.push_back(std::move(scope));
    auto result = emit();
    scopes.pop_back();
    scopes.back().anchor = nullptr;
    return result;
  }
  /// Splits `number` into the positions of `dims`, whose last is counted in
  /// vectors if it is the one they walk, and binds them for vector `u`.
  void bind(unsigned u, Value number, llvm::ArrayRef<unsigned> dims);
  llvm::SmallBitVector dimsOf(AffineExpr expr);
  /// The u under which something that depends on `dims` is known.
  virtual unsigned canonical(const llvm::SmallBitVector &dims,
                             unsigned u) const {
    return dims.anyCommon(varying) ? u : 0;
  }

  //===--- Indices and memory ---------------------------------------------===//
  Value index(AffineExpr expr, unsigned u);
  Value indexTerm(AffineExpr expr, unsigned u);
  bool onLanes(const llvm::SmallBitVector &dims) {
    return lanes > 1 && dims.test(vectorDim);
  }
  bool onLanes(AffineExpr expr) {
    return lanes > 1 && expr.isFunctionOfDim(vectorDim);
  }
  AffineExpr shifted(AffineExpr expr, int64_t shift);
  Value address(Value base, Value offset, int64_t constant, Type element);
  Value fromMemory(Value raw, Type element) {
    return codegen::fromMemory(b, b.getLoc(), raw, element);
  }
  Value toMemory(Value value) {
    return codegen::toMemory(b, b.getLoc(), value);
  }
  /// Bytes that an access at `offset` is aligned to, at most `wanted`.
  unsigned alignment(unsigned buffer, AffineExpr offset, Type element,
                     unsigned wanted);
  Value loadMemory(Type type, Value at, unsigned aligned, unsigned buffer);
  /// Whether a result may lie where this operand does.
  bool isOverwritten(unsigned buffer) const;
  Value load(unsigned buffer, AffineExpr offset, Type element, unsigned u);
  void store(Value value, unsigned buffer, AffineExpr offset, unsigned u);

  //===--- Values -----------------------------------------------------------//
  /// What the block has put into shared memory of `node`'s values, or null.
  virtual Value readShared(const Node *node, unsigned u) { return {}; }
  Value emit(const Node *node, unsigned u);
  /// Emits the loads that `root` needs and that are not known yet.
  void prefetch(const Node *root, unsigned u);
  Value compute(const Node *node, unsigned u);
  /// x / y for a divisor that is the same in the whole row: `divisor`'s
  /// reciprocal, computed once, or null if that is not the case.
  Value divideByRow(Value x, Value y, const Node *divisor);
  Value extract(mlir::tensor::ExtractOp op, const Node *node, unsigned u,
                codegen::BodyValues &body);
  Value bodyIndex(AffineExpr expr, unsigned u);
  /// Computes and stores at all vectors, `atOnce` of them together; where
  /// `guard(u)` is not null, only if it holds.
  void storeAll(llvm::ArrayRef<codegen::Store *> stores, unsigned vectors,
                llvm::function_ref<Value(unsigned)> guard,
                unsigned atOnce = ~0u >> 1);

  /// What follows from the domain alone.
  void readDomain();

  KernelFrame &frame;
  const Domain &domain;
  const Schedule &schedule;
  codegen::KernelGraph &graph;
  mlir::ImplicitLocOpBuilder b;

  Type indexType;
  llvm::SmallVector<Value> buffers;
  /// Parameters in front of those of symbols.
  unsigned numPointers = 0;
  /// ivs[u][dim].
  llvm::SmallVector<llvm::SmallVector<Value>> ivs;
  llvm::SmallVector<Scope> scopes;
  /// Dims whose position differs from vector to vector of a thread.
  llvm::SmallBitVector varying;
  llvm::SmallBitVector reduced, parallel;
  /// Where what follows from a reduction is known.
  unsigned rowScope = 0;
  unsigned lanes = 1;
  /// The dim that vectors walk now.
  int vectorDim = -1;
  Value knownThread, knownBlock, sharedBase;
  /// Symbols that were loaded.
  llvm::DenseMap<unsigned, Value> knownSymbols;
  /// Where the next piece of shared memory begins.
  int64_t sharedCursor = 0;
};

/// Fill `frame.function`; the launch comes out in `frame`.
void emitFlat(KernelFrame &frame);
void emitRows(KernelFrame &frame);
void emitColumns(KernelFrame &frame);
void emitTiles(KernelFrame &frame);
void emitProducts(KernelFrame &frame);
/// `frame.domain` is that of the scores; `values`: the one of the values, whose
/// graphs are `attention`'s.
void emitAttention(KernelFrame &frame, const Domain &values,
                   const codegen::Attention &attention);

/// Where a choice between two buffers is the same for all lanes, one load of
/// the address that is chosen takes the place of two.
void selectAddresses(mlir::func::FuncOp kernel);

/// Whether memory shows `node`'s values along `across`, and not along the dim
/// that vectors walk.
bool isReadAcross(const codegen::Node &node, int vectorDim, int across);

} // namespace pyjit::ptx

#endif
