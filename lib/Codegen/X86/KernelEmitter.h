//===- KernelEmitter.h - State of one kernel's emission ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values are emitted when something asks for them, in the outermost loop that
// binds all dims they depend on; a memo per loop makes each of them once. The
// same code emits the vector loop and its scalar tail: `lanes` is the width of
// whatever depends on the vector dim.
//
// A loop body holds several copies of a value: `rows` along the schedule's tile
// dim times `unroll` vectors along the vector dim. Copy number `u` is
// row * unroll + vector; what does not depend on one of the two dims has the
// copy 0 there.
//
// Split by what is emitted: EmitKernel.cpp units of work and loops,
// EmitReductions.cpp stages, EmitTiles.cpp sums of tiles that lie in memory,
// EmitValues.cpp nodes, EmitMemory.cpp indices, loads and stores.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_LIB_CODEGEN_X86_KERNELEMITTER_H
#define PYJIT_LIB_CODEGEN_X86_KERNELEMITTER_H

#include "EmitKernel.h"
#include "pyjit/Codegen/GenericBody.h"

namespace pyjit::x86 {

using codegen::KernelGraph;
using codegen::Node;
using codegen::Schedule;
using codegen::Store;
using mlir::AffineExpr;
using mlir::ArrayRef;
using mlir::DenseMap;
using mlir::Operation;
using mlir::SmallVector;
using mlir::Type;
using mlir::Value;
using mlir::ValueRange;

class KernelEmitter {
public:
  KernelEmitter(mlir::func::FuncOp function, KernelGraph &graph,
                const Schedule &schedule, ArrayRef<Value> inputs)
      : graph(graph), schedule(schedule), inputs(inputs),
        b(function.getLoc(), function.getContext()), function(function) {}

  void run();
  /// Whether the code reads its call's symbols, whose table is the pointer
  /// behind the buffers'.
  bool readsSymbols() const { return !symbols.empty(); }

private:
  /// Row and vector of a copy. Its number would not do where values are looked
  /// up: what a row's scope holds serves loops of several vectors and of one.
  using Copy = std::pair<unsigned, unsigned>;
  struct Scope {
    llvm::SmallBitVector bound;
    /// The loop in this scope that is being filled; null in the innermost.
    Operation *anchor = nullptr;
    DenseMap<std::pair<const Node *, Copy>, Value> values;
    DenseMap<AffineExpr, Value> indices;
  };
  using Body = llvm::function_ref<SmallVector<Value>(ValueRange)>;

  //===--- Small constructors (EmitValues.cpp) ----------------------------===//
  Value i64(int64_t value);
  Value add(Value x, Value y);
  Value mul(Value x, int64_t factor);
  Value broadcast(Value scalar, unsigned width);
  /// The value of symbol `number` in this call.
  Value symbol(unsigned number);
  /// How many indices a dim has.
  Value extent(unsigned dim);

  //===--- Units and loops (EmitKernel.cpp) -------------------------------===//
  void units();
  void parallelLoops(unsigned dim);
  void tileLoop(Value lower, Value upper);
  void vectorLoop(Value lower, Value upper);
  unsigned scopeOf(const llvm::SmallBitVector &dims) {
    for (auto [k, scope] : llvm::enumerate(scopes))
      if (!dims.test(scope.bound))
        return k;
    llvm_unreachable("a dim that no loop binds");
  }
  /// Runs `emit` where scope `k` is being filled.
  template <typename F> Value inScope(unsigned k, F emit) {
    mlir::OpBuilder::InsertionGuard guard(b);
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
  Value roundDown(Value lower, Value upper, int64_t step);

  //===--- Copies of a value ----------------------------------------------===//
  unsigned inFlight() const { return rows * unroll; }
  bool onLanes(const llvm::SmallBitVector &dims) const {
    return schedule.vectorDim >= 0 && dims.test(schedule.vectorDim);
  }
  bool onLanes(AffineExpr expr) const {
    return schedule.vectorDim >= 0 && expr.isFunctionOfDim(schedule.vectorDim);
  }
  bool onTile(const llvm::SmallBitVector &dims) const {
    return schedule.tileDim >= 0 && dims.test(schedule.tileDim);
  }
  /// The copy that stands for copy `u` of what depends on `dims`.
  unsigned copyOf(const llvm::SmallBitVector &dims, unsigned u) const {
    unsigned row = onTile(dims) ? u / unroll : 0;
    unsigned vector = onLanes(dims) ? u % unroll : 0;
    return row * unroll + vector;
  }
  Copy rowAndVector(unsigned u) const { return {u / unroll, u % unroll}; }
  /// What copy `u` adds to an offset for its row, and the first of its lanes.
  int64_t rowShift(const codegen::LinearForm &form, unsigned u) const;
  int64_t firstLane(unsigned u) const { return int64_t(u % unroll) * lanes; }

  //===--- Indices and memory (EmitMemory.cpp) ----------------------------===//
  Value index(AffineExpr expr);
  Value indexTerm(AffineExpr expr);
  Value onceRound(Value number, Value size, bool mayBeNegative,
                  bool mayReachSize);
  /// How many elements ahead of what it reads `node` asks for memory, where
  /// its walk is long and reads it from there; else 0.
  int64_t distanceAhead(const Node *node) const;
  void prefetch(const Node *node, unsigned u);
  /// Whether `node` is read along the tile dim and transposed in registers.
  bool isTransposed(const Node *node) const;
  /// The rows of such a load, by row.
  SmallVector<Value> loadTransposed(const Node *node);
  Value fenced(Value vector);
  /// Expr at lane `shift` of the vector dim.
  AffineExpr shifted(AffineExpr expr, int64_t shift) const;
  Value address(Value base, Value offset, int64_t constant, Type element);
  /// Where lane `lane` of copy `u` is.
  Value laneAddress(Value base, AffineExpr offset, Type element, unsigned u,
                    unsigned lane);
  /// Lanes `stride` elements apart, the first of them `first` elements behind
  /// `offset`, of a few vectors in memory.
  Value loadSpread(Value base, AffineExpr offset, Type element, int64_t first,
                   int64_t stride);
  /// Lanes one element apart that may go round, as `cyclic` does, a term of
  /// `offset` at the first of them.
  Value loadCyclic(Value base, AffineExpr offset, AffineExpr cyclic,
                   Type element, int64_t row);
  /// A bool is a byte in memory.
  Value fromMemory(Value raw, Type element) {
    return codegen::fromMemory(b, b.getLoc(), raw, element);
  }
  Value toMemory(Value value) {
    return codegen::toMemory(b, b.getLoc(), value);
  }
  Value load(Value base, AffineExpr offset, Type element, unsigned u);
  void store(Value value, Value base, AffineExpr offset, unsigned u);
  AffineExpr scratchOffset(const Node *node);

  //===--- Nodes (EmitValues.cpp) -----------------------------------------===//
  Value emit(const Node *node, unsigned u);
  Value compute(const Node *node, unsigned u);
  Value extract(mlir::tensor::ExtractOp op, const Node *node, unsigned u,
                codegen::BodyValues &body);
  /// An index as a body sees it: i64, on lanes if it follows the vector dim.
  Value bodyIndex(AffineExpr expr, unsigned u);

  //===--- Stages (EmitReductions.cpp) ------------------------------------===//
  Value combine(const Node *reduce, Value x, Value y) {
    return codegen::combine(b, b.getLoc(), reduce->combiner, x, y);
  }
  /// `accumulator` with the element of copy `u` taken in.
  Value accumulate(const Node *reduce, Value accumulator, unsigned u);
  Value identity(const Node *reduce, unsigned width);
  Value horizontal(const Node *reduce, Value vector);
  void stages();
  void stage(unsigned number);
  SmallVector<Value> reductionLoops(unsigned dim);
  SmallVector<Value> innermost(unsigned dim);
  /// The accumulators of `vectors` copies of each reduction, and what they
  /// begin with.
  SmallVector<Value> identities(unsigned width, unsigned vectors);
  SmallVector<Value> combineAll(ValueRange xs, ValueRange ys);
  /// A loop over [lower, upper), a part of `dim` that begins with it, in which
  /// no accumulator takes in more than a few dozen elements one by one.
  SmallVector<Value> cascade(unsigned dim, Value lower, Value upper,
                             int64_t step, unsigned width, unsigned vectors,
                             Body body);
  SmallVector<Value> point(ValueRange accumulators);

  //===--- Tiles' sums in memory (EmitTiles.cpp) --------------------------===//
  void allocateSums(int64_t count);
  bool keepsSums() const { return schedule.sumsInMemory && rows > 1; }
  /// Where the sum of copy `u`, seen from row `row` of the current tile, lies.
  Value sumAddress(Value row, unsigned u);
  /// A loop over the rows of the current tile, for each of which `body` emits
  /// with one row in flight.
  void rowLoop(llvm::function_ref<void(Value row)> body);
  Value loadSum(Value row, unsigned u);
  void storeSum(Value sum, Value row, unsigned u);
  void clearSums();
  void addToSums(ValueRange parts);
  /// What follows from the sums, of which `load` gives copy `u`'s.
  void finishSums(llvm::function_ref<Value(unsigned u)> load);
  /// All stages of a tile.
  void tileStages();

  //===--- Rows that are streamed (EmitStreams.cpp) -----------------------===//
  /// The columns [lower, upper) of the vector dim, row by row.
  void streamRows(Value lower, Value upper);

  /// Stores what the rows give, or what the current stage's points give.
  void storeAll(bool rowsOnly);
  /// Loads what the store overwrites, for those that are still to read it.
  void loadOverwritten(const Store &store);

  KernelGraph &graph;
  const Schedule &schedule;
  ArrayRef<Value> inputs;
  mlir::ImplicitLocOpBuilder b;
  mlir::func::FuncOp function;

  SmallVector<Value> buffers, scratch, ivs;
  Value tileSums; ///< of `sumNode`, row by row
  Node *sumNode = nullptr;
  DenseMap<unsigned, Value> symbols;
  SmallVector<Scope> scopes;
  llvm::SmallBitVector reduced, parallel;
  /// The part of the tile dim and of the vector dim that the current unit
  /// covers; null where it is the whole dim.
  std::pair<Value, Value> tileBounds, vectorBounds;
  unsigned rowScope = 0;
  unsigned lanes = 1, unroll = 1, rows = 1;

  unsigned currentStage = 0;
  SmallVector<Node *> reduces;
  SmallVector<unsigned> stageSaves;
};

} // namespace pyjit::x86

#endif
