//===- SplitReductions.cpp - Large reductions to few values ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A reduction with few results keeps few multiprocessors busy. It becomes two
// kernels: one reduces parts of the rows, the other the parts' results. What
// depends on the results is a kernel of its own, or belongs to the second if it
// is as small. Kernels stay functions on tensors, so that the partial results
// are values like all others and nothing needs atomics or scratch memory.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "pyjit/Codegen/GenericBody.h"
#include "pyjit/Codegen/PTX/Passes.h"
#include "pyjit/Codegen/PTX/Schedule.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace pyjit::ptx {
#define GEN_PASS_DEF_PTXSPLITREDUCTIONS
#include "lib/Codegen/PTX/Passes.h.inc"

namespace {

bool reduces(linalg::GenericOp op) {
  for (auto [kind, extent] :
       llvm::zip(op.getIteratorTypesArray(), op.getStaticLoopRanges()))
    if (kind == utils::IteratorType::reduction && extent != 1)
      return true;
  return false;
}

/// The reductions of a kernel that no other reduction goes into.
SmallVector<linalg::GenericOp> firstReductions(func::FuncOp kernel) {
  SmallVector<linalg::GenericOp> first;
  llvm::SmallPtrSet<Operation *, 16> after;
  for (Operation &op : kernel.getBody().front()) {
    auto generic = dyn_cast<linalg::GenericOp>(&op);
    bool depends = llvm::any_of(op.getOperands(), [&](Value operand) {
      Operation *producer = operand.getDefiningOp();
      return producer && after.contains(producer);
    });
    if (generic && reduces(generic) && !depends)
      first.push_back(generic);
    if (depends || (generic && reduces(generic)))
      after.insert(&op);
  }
  return first;
}

/// A function made of what `roots` need; `known` maps values to its arguments.
class Slice {
public:
  Slice(func::FuncOp from, StringRef name) : from(from), b(from.getContext()) {
    b.setInsertionPoint(from);
    function =
        func::FuncOp::create(b, from.getLoc(), name, b.getFunctionType({}, {}));
    function.setPrivate();
    function->setAttr(attribute::kKernel, b.getUnitAttr());
    block = function.addEntryBlock();
    b.setInsertionPointToStart(block);
  }

  /// `value` comes from outside.
  void take(Value value) {
    if (mapping.contains(value))
      return;
    mapping.map(value, block->addArgument(value.getType(), value.getLoc()));
    operands.push_back(value);
  }
  Value get(Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    if (isa<BlockArgument>(value)) {
      take(value);
      return mapping.lookup(value);
    }
    Operation *op = value.getDefiningOp();
    for (Value operand : op->getOperands())
      get(operand);
    // Bodies may use what stands outside of them.
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (operand.getParentBlock() == op->getBlock())
          get(operand);
    });
    b.clone(*op, mapping);
    return mapping.lookup(value);
  }
  void finish(ValueRange results) {
    func::ReturnOp::create(b, from.getLoc(), results);
    function.setType(
        b.getFunctionType(block->getArgumentTypes(), results.getTypes()));
  }

  func::FuncOp from, function;
  OpBuilder b;
  Block *block;
  IRMapping mapping;
  /// What a call passes, as values of `from`.
  SmallVector<Value> operands;
};

struct SplitReductionsPass : impl::PtxSplitReductionsBase<SplitReductionsPass> {
  using PtxSplitReductionsBase::PtxSplitReductionsBase;

  /// In how many parts each row is reduced; 1 if that does not pay.
  int64_t partsOf(func::FuncOp kernel, int64_t extent) {
    SmallVector<Value> inputs(kernel.getArguments());
    SmallVector<Value> roots(
        kernel.getBody().front().getTerminator()->getOperands());
    std::string reason;
    auto graph = codegen::KernelGraph::build(inputs, roots, reason);
    // How much there is to read differs between calls.
    if (!graph || graph->usesSymbols())
      return 1;
    int64_t bytes = 0;
    for (Value input : inputs) {
      auto type = cast<RankedTensorType>(input.getType());
      bytes += type.getNumElements() *
               std::max(1u, type.getElementTypeBitWidth() / 8);
    }
    Domain domain = arrange(std::move(graph));
    if (domain.empty || domain.numReduction == 0)
      return 1;
    Machine machine{multiprocessors, threadsPerMultiprocessor};
    if (parts > 1)
      return largestDivisor(extent, parts);
    return chooseParts(domain, chooseSchedule(domain, machine), machine, bytes,
                       extent);
  }

  /// The reduction `op`, of one part of what it reduces: loop `dim` is divided
  /// into `count` parts, which come first in the result.
  Value reducePart(Slice &slice, linalg::GenericOp op, unsigned dim,
                   int64_t count) {
    OpBuilder &b = slice.b;
    Location loc = op.getLoc();
    unsigned loops = op.getNumLoops();
    int64_t chunk = op.getStaticLoopRanges()[dim] / count;
    // The new loop, over the parts, comes last.
    AffineExpr whole =
        b.getAffineDimExpr(loops) * chunk + b.getAffineDimExpr(dim);
    SmallVector<AffineMap> maps;
    for (AffineMap map : op.getIndexingMapsArray()) {
      SmallVector<AffineExpr> results;
      for (AffineExpr expr : map.getResults())
        results.push_back(expr.replace(b.getAffineDimExpr(dim), whole));
      maps.push_back(AffineMap::get(loops + 1, 0, results, b.getContext()));
    }
    SmallVector<AffineExpr> results{b.getAffineDimExpr(loops)};
    llvm::append_range(results, maps.back().getResults());
    maps.back() = AffineMap::get(loops + 1, 0, results, b.getContext());
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    SmallVector<int64_t> shape{count};
    llvm::append_range(shape, type.getShape());
    SmallVector<Value> inputs;
    for (Value input : op.getDpsInputs())
      inputs.push_back(slice.get(input));
    // Every loop has to be somebody's dim: this operand only shows the loop
    // over a part, nothing reads it.
    inputs.push_back(tensor::EmptyOp::create(b, loc, ArrayRef<int64_t>{chunk},
                                             type.getElementType()));
    maps.insert(maps.end() - 1,
                AffineMap::get(loops + 1, 0, {b.getAffineDimExpr(dim)},
                               b.getContext()));
    Value init = tensor::EmptyOp::create(b, loc, shape, type.getElementType());
    Value start = arith::ConstantOp::create(b, loc, identityOf(combinerOf(op)));
    init = linalg::FillOp::create(b, loc, start, init).getResult(0);
    SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
    kinds.push_back(utils::IteratorType::parallel);
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (operand.getParentBlock() == op->getBlock())
          slice.get(operand);
    });
    auto part = linalg::GenericOp::create(b, loc, init.getType(), inputs,
                                          ValueRange{init}, maps, kinds);
    op.getRegion().cloneInto(&part.getRegion(), slice.mapping);
    part.getBody()->insertArgument(op.getNumDpsInputs(), type.getElementType(),
                                   loc);
    // A body that asks where it is sees the whole loop.
    SmallVector<linalg::IndexOp> positions;
    part.walk([&](linalg::IndexOp index) {
      if (index.getDim() == dim)
        positions.push_back(index);
    });
    for (linalg::IndexOp index : positions) {
      OpBuilder inner(index->getContext());
      inner.setInsertionPointAfter(index);
      Value number = linalg::IndexOp::create(inner, loc, loops);
      Value size = arith::ConstantIndexOp::create(inner, loc, chunk);
      Value base = arith::MulIOp::create(inner, loc, number, size);
      Value sum = arith::AddIOp::create(inner, loc, base, index);
      index.getResult().replaceAllUsesExcept(sum, sum.getDefiningOp());
    }
    return part.getResult(0);
  }

  /// The parts' results to what `op` reduces to.
  Value reduceParts(Slice &slice, linalg::GenericOp op, Value parts) {
    OpBuilder &b = slice.b;
    Location loc = op.getLoc();
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    unsigned rank = type.getRank();
    SmallVector<AffineExpr> all{b.getAffineDimExpr(rank)}, result;
    for (unsigned d = 0; d < rank; ++d) {
      result.push_back(b.getAffineDimExpr(d));
      all.push_back(b.getAffineDimExpr(d));
    }
    SmallVector<utils::IteratorType> kinds(rank, utils::IteratorType::parallel);
    kinds.push_back(utils::IteratorType::reduction);
    Value init = slice.get(op.getDpsInits()[0]);
    Operation *combiner = combinerOf(op);
    return linalg::GenericOp::create(
               b, loc, type, ValueRange{parts}, ValueRange{init},
               {AffineMap::get(rank + 1, 0, all, b.getContext()),
                AffineMap::get(rank + 1, 0, result, b.getContext())},
               kinds,
               [&](OpBuilder &inner, Location at, ValueRange arguments) {
                 linalg::YieldOp::create(inner, at,
                                         codegen::combine(inner, at, combiner,
                                                          arguments[0],
                                                          arguments[1]));
               })
        .getResult(0);
  }

  static Operation *combinerOf(linalg::GenericOp op) {
    return op.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  }

  static TypedAttr identityOf(Operation *combiner) {
    return *arith::getNeutralElement(combiner);
  }

  /// The loop to divide: the outermost that reduces, in the order of memory.
  static std::optional<unsigned> loopToCut(linalg::GenericOp op) {
    for (auto [d, kind] : llvm::enumerate(op.getIteratorTypesArray()))
      if (kind == utils::IteratorType::reduction &&
          op.getStaticLoopRanges()[d] != 1)
        return d;
    return std::nullopt;
  }

  bool canCut(linalg::GenericOp op) {
    if (op.getNumResults() != 1 || !loopToCut(op))
      return false;
    AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
    for (auto [d, expr] : llvm::enumerate(map.getResults()))
      if (!isa<AffineDimExpr>(expr))
        return false;
    Operation *combiner = combinerOf(op);
    return combiner && combiner->getNumOperands() == 2 &&
           arith::getNeutralElement(combiner).has_value();
  }

  /// The reductions to divide, all of which have the same loops; none if the
  /// kernel stays whole.
  SmallVector<linalg::GenericOp> findReductions(func::FuncOp kernel) {
    // What a launch program launches already stays as it is.
    if (!llvm::all_of(users.lookup(kernel.getNameAttr()),
                      llvm::IsaPred<func::CallOp>))
      return {};
    if (kernel->hasAttr(attribute::kSchedule) ||
        kernel->hasAttr(attribute::kIndirect))
      return {};
    SmallVector<linalg::GenericOp> first = firstReductions(kernel);
    if (!llvm::all_of(first, [&](linalg::GenericOp op) {
          return canCut(op) &&
                 op.getStaticLoopRanges() == first[0].getStaticLoopRanges() &&
                 loopToCut(op) == loopToCut(first[0]);
        }))
      return {};
    return first;
  }

  /// The kernels that one becomes.
  struct Pieces {
    explicit Pieces(func::FuncOp kernel)
        : partial(kernel, (kernel.getName() + "_parts").str()),
          total(kernel, (kernel.getName() + "_whole").str()) {}
    Slice partial, total;
    /// What follows from the totals, where it is larger than they are.
    std::optional<Slice> rest;
  };

  void build(func::FuncOp kernel, ArrayRef<linalg::GenericOp> first,
             unsigned dim, int64_t count, Pieces &pieces) {
    SmallVector<Value> parts;
    for (linalg::GenericOp op : first)
      parts.push_back(reducePart(pieces.partial, op, dim, count));
    pieces.partial.finish(parts);

    Slice &total = pieces.total;
    SmallVector<Value> totals, partArguments;
    for (Value part : parts)
      partArguments.push_back(
          total.block->addArgument(part.getType(), part.getLoc()));
    for (auto [op, part] : llvm::zip(first, partArguments))
      totals.push_back(reduceParts(total, op, part));

    auto finishWith = [&](Slice &slice) {
      SmallVector<Value> results;
      for (Value root : kernel.getBody().front().getTerminator()->getOperands())
        results.push_back(slice.get(root));
      slice.finish(results);
    };
    if (isSmall(kernel, first)) {
      for (auto [op, value] : llvm::zip(first, totals))
        total.mapping.map(linalg::GenericOp(op).getResult(0), value);
      finishWith(total);
      return;
    }
    total.finish(totals);
    Slice &rest =
        pieces.rest.emplace(kernel, (kernel.getName() + "_rest").str());
    for (linalg::GenericOp op : first)
      rest.take(op.getResult(0));
    finishWith(rest);
  }

  /// Whether what follows `first` is as small as their results, and reduces
  /// nothing.
  static bool isSmall(func::FuncOp kernel, ArrayRef<linalg::GenericOp> first) {
    auto count = [](Type type) {
      return cast<RankedTensorType>(type).getNumElements();
    };
    int64_t rows =
        count(linalg::GenericOp(first.back()).getResult(0).getType());
    unsigned all = 0;
    for (auto op : kernel.getOps<linalg::GenericOp>())
      all += reduces(op);
    Operation *end = kernel.getBody().front().getTerminator();
    return all == first.size() &&
           llvm::all_of(end->getOperandTypes(),
                        [&](Type type) { return count(type) == rows; });
  }

  /// Calls the pieces instead of the kernel.
  void replaceCall(func::FuncOp kernel, func::CallOp call,
                   ArrayRef<linalg::GenericOp> first, Pieces &pieces) {
    OpBuilder b(call);
    IRMapping outside;
    outside.map(kernel.getArguments(), call.getOperands());
    auto callSlice = [&](Slice &slice, ValueRange before) {
      SmallVector<Value> operands(before);
      for (Value operand : slice.operands)
        operands.push_back(outside.lookup(operand));
      auto made =
          func::CallOp::create(b, call.getLoc(), slice.function, operands);
      users[slice.function.getNameAttr()].push_back(made);
      return made;
    };
    auto parts = callSlice(pieces.partial, {});
    auto last = callSlice(pieces.total, parts.getResults());
    if (pieces.rest) {
      for (auto [op, value] : llvm::zip(first, last.getResults()))
        outside.map(linalg::GenericOp(op).getResult(0), value);
      last = callSlice(*pieces.rest, {});
    }
    call.replaceAllUsesWith(last.getResults());
    call.erase();
  }

  /// `later` gets what may be split again.
  void split(func::FuncOp kernel, SymbolTable &symbols,
             SmallVectorImpl<func::FuncOp> &later) {
    SmallVector<linalg::GenericOp> first = findReductions(kernel);
    if (first.empty())
      return;
    unsigned dim = *loopToCut(first[0]);
    int64_t count = partsOf(kernel, first[0].getStaticLoopRanges()[dim]);
    if (count <= 1)
      return;
    Pieces pieces(kernel);
    build(kernel, first, dim, count, pieces);

    auto place = [&](Slice &slice) {
      slice.function->remove();
      symbols.insert(slice.function, Block::iterator(kernel));
    };
    place(pieces.partial);
    place(pieces.total);
    if (pieces.rest) {
      place(*pieces.rest);
      later.push_back(pieces.rest->function);
    }
    SmallVector<Operation *> calls = std::move(users[kernel.getNameAttr()]);
    users.erase(kernel.getNameAttr());
    for (Operation *call : calls)
      replaceCall(kernel, cast<func::CallOp>(call), first, pieces);
    symbols.erase(kernel);
  }

  void findUsers(ModuleOp module) {
    users.clear();
    if (auto uses = SymbolTable::getSymbolUses(&module.getBodyRegion()))
      for (SymbolTable::SymbolUse use : *uses)
        users[use.getSymbolRef().getRootReference()].push_back(use.getUser());
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> kernels;
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr(attribute::kKernel) && !function.isExternal())
        kernels.push_back(function);
    findUsers(module);
    SymbolTable symbols(module);
    while (!kernels.empty()) {
      func::FuncOp kernel = kernels.pop_back_val();
      split(kernel, symbols, kernels);
    }
  }

  /// Who names a symbol of the module. Asked for once: to look through the
  /// whole module for each kernel would be quadratic.
  llvm::DenseMap<StringAttr, SmallVector<Operation *>> users;
};

} // namespace
} // namespace pyjit::ptx
