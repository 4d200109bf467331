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

/// A loop that is divided into `count` equal parts.
struct Cut {
  unsigned loop;
  int64_t count;
};

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

  /// `value` comes from outside where it is needed.
  void stopAt(Value value) { computed.insert(value); }
  void take(Value value) {
    mapping.map(value, block->addArgument(value.getType(), value.getLoc()));
    operands.push_back(value);
  }
  Value get(Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    if (isa<BlockArgument>(value) || computed.contains(value)) {
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
  /// What other kernels compute.
  llvm::SmallDenseSet<Value> computed;
  /// What a call passes, as values of `from`.
  SmallVector<Value> operands;
};

struct SplitReductionsPass : impl::PtxSplitReductionsBase<SplitReductionsPass> {
  using PtxSplitReductionsBase::PtxSplitReductionsBase;

  /// In how many parts each row is best reduced, and whether these are columns;
  /// 1 if that does not pay.
  std::pair<int64_t, bool> partsOf(func::FuncOp kernel) {
    SmallVector<Value> inputs(kernel.getArguments());
    SmallVector<Value> roots(
        kernel.getBody().front().getTerminator()->getOperands());
    std::string reason;
    auto graph = codegen::KernelGraph::build(inputs, roots, reason);
    // How much there is to read differs between calls.
    if (!graph || graph->usesSymbols())
      return {1, false};
    int64_t bytes = 0;
    for (Value input : inputs) {
      auto type = cast<RankedTensorType>(input.getType());
      bytes += type.getNumElements() *
               std::max(1u, type.getElementTypeBitWidth() / 8);
    }
    Domain domain = arrange(std::move(graph));
    if (domain.empty || domain.numReduction == 0)
      return {1, false};
    Machine machine{multiprocessors, threadsPerMultiprocessor};
    Schedule schedule = chooseSchedule(domain, machine);
    return {parts > 1 ? parts : chooseParts(domain, schedule, machine, bytes),
            schedule.family == Family::Column};
  }

  /// Which loops to divide so that there are some `wanted` parts: the outermost
  /// first, in the order of memory, and the next where that is not enough.
  SmallVector<Cut, 2> cutsOf(linalg::GenericOp op, int64_t wanted,
                             bool columns) {
    SmallVector<Cut, 2> cuts;
    SmallVector<int64_t> extents = op.getStaticLoopRanges();
    for (auto [d, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
      if (kind != utils::IteratorType::reduction || extents[d] == 1)
        continue;
      // Whole vectors, where the row allows it.
      int64_t vectors = !columns && parts <= 1 && extents[d] % 8 == 0
                            ? largestDivisor(extents[d] / 8, wanted)
                            : 1;
      int64_t count =
          vectors > 1 ? vectors : largestDivisor(extents[d], wanted);
      if (count > 1)
        cuts.push_back({unsigned(d), count});
      wanted /= count;
      if ((count != 1 && count != extents[d]) || wanted < 2)
        break;
    }
    return cuts;
  }

  /// The reduction `op`, of one part of what it reduces: loops are divided, and
  /// the numbers of their parts come first in the result.
  Value reducePart(Slice &slice, linalg::GenericOp op, ArrayRef<Cut> cuts) {
    OpBuilder &b = slice.b;
    Location loc = op.getLoc();
    unsigned loops = op.getNumLoops(), all = loops + cuts.size();
    SmallVector<int64_t> shape, chunks;
    SmallVector<AffineExpr> results;
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    // The new loops, over the parts, come last.
    for (auto [k, cut] : llvm::enumerate(cuts)) {
      shape.push_back(cut.count);
      chunks.push_back(op.getStaticLoopRanges()[cut.loop] / cut.count);
      AffineExpr part = b.getAffineDimExpr(loops + k),
                 within = b.getAffineDimExpr(cut.loop);
      results.push_back(part);
      for (AffineMap &map : maps)
        map = map.replace(within, part * chunks.back() + within, all, 0);
    }
    llvm::append_range(results, maps.back().getResults());
    maps.back() = AffineMap::get(all, 0, results, b.getContext());
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    llvm::append_range(shape, type.getShape());
    SmallVector<Value> inputs;
    for (Value input : op.getDpsInputs())
      inputs.push_back(slice.get(input));
    // Every loop has to be somebody's dim: these operands only show the loops
    // over a part, nothing reads them.
    for (auto [cut, chunk] : llvm::zip(cuts, chunks)) {
      inputs.push_back(tensor::EmptyOp::create(b, loc, ArrayRef<int64_t>{chunk},
                                               type.getElementType()));
      maps.insert(maps.end() - 1,
                  AffineMap::get(all, 0, {b.getAffineDimExpr(cut.loop)},
                                 b.getContext()));
    }
    Value init = tensor::EmptyOp::create(b, loc, shape, type.getElementType());
    Value start = arith::ConstantOp::create(b, loc, identityOf(combinerOf(op)));
    init = linalg::FillOp::create(b, loc, start, init).getResult(0);
    SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
    kinds.append(cuts.size(), utils::IteratorType::parallel);
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (operand.getParentBlock() == op->getBlock())
          slice.get(operand);
    });
    auto part = linalg::GenericOp::create(b, loc, init.getType(), inputs,
                                          ValueRange{init}, maps, kinds);
    op.getRegion().cloneInto(&part.getRegion(), slice.mapping);
    for (unsigned k = 0; k < cuts.size(); ++k)
      part.getBody()->insertArgument(op.getNumDpsInputs() + k,
                                     type.getElementType(), loc);
    showWholeLoops(part, cuts, chunks);
    return part.getResult(0);
  }

  /// A body that asks where it is sees the whole loops.
  static void showWholeLoops(linalg::GenericOp part, ArrayRef<Cut> cuts,
                             ArrayRef<int64_t> chunks) {
    unsigned loops = part.getNumLoops() - cuts.size();
    SmallVector<linalg::IndexOp> positions;
    part.walk([&](linalg::IndexOp index) { positions.push_back(index); });
    for (linalg::IndexOp index : positions)
      for (auto [k, cut] : llvm::enumerate(cuts)) {
        if (index.getDim() != cut.loop)
          continue;
        OpBuilder inner(index->getContext());
        inner.setInsertionPointAfter(index);
        Location loc = part.getLoc();
        Value number = linalg::IndexOp::create(inner, loc, loops + k);
        Value size = arith::ConstantIndexOp::create(inner, loc, chunks[k]);
        Value base = arith::MulIOp::create(inner, loc, number, size);
        Value sum = arith::AddIOp::create(inner, loc, base, index);
        index.getResult().replaceAllUsesExcept(sum, sum.getDefiningOp());
      }
  }

  /// The parts' results to what `op` reduces to.
  Value reduceParts(Slice &slice, linalg::GenericOp op, Value parts) {
    OpBuilder &b = slice.b;
    Location loc = op.getLoc();
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    unsigned rank = type.getRank(),
             all = cast<RankedTensorType>(parts.getType()).getRank();
    SmallVector<AffineExpr> read, result;
    for (unsigned d = rank; d < all; ++d)
      read.push_back(b.getAffineDimExpr(d));
    for (unsigned d = 0; d < rank; ++d)
      result.push_back(b.getAffineDimExpr(d));
    llvm::append_range(read, result);
    SmallVector<utils::IteratorType> kinds(rank, utils::IteratorType::parallel);
    kinds.append(all - rank, utils::IteratorType::reduction);
    Value init = slice.get(op.getDpsInits()[0]);
    Operation *combiner = combinerOf(op);
    return linalg::GenericOp::create(
               b, loc, type, ValueRange{parts}, ValueRange{init},
               {AffineMap::get(all, 0, read, b.getContext()),
                AffineMap::get(all, 0, result, b.getContext())},
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

  bool canCut(linalg::GenericOp op) {
    if (op.getNumResults() != 1)
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
                 op.getIteratorTypesArray() == first[0].getIteratorTypesArray();
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
    /// What follows from the totals, where it is larger than they are; and what
    /// that is reduced to, where it reduces nothing on its own way.
    std::optional<Slice> rest, behind;
    /// What the second kernel stores besides the totals, the third one and the
    /// last one.
    SmallVector<Value> small, large, reduced;
  };

  void build(func::FuncOp kernel, ArrayRef<linalg::GenericOp> first,
             ArrayRef<Cut> cuts, Pieces &pieces) {
    SmallVector<Value> parts;
    for (linalg::GenericOp op : first)
      parts.push_back(reducePart(pieces.partial, op, cuts));
    pieces.partial.finish(parts);

    Slice &total = pieces.total;
    SmallVector<Value> totals, partArguments;
    for (Value part : parts)
      partArguments.push_back(
          total.block->addArgument(part.getType(), part.getLoc()));
    for (auto [op, part] : llvm::zip(first, partArguments))
      totals.push_back(reduceParts(total, op, part));

    for (Value root : kernel.getBody().front().getTerminator()->getOperands())
      (isSmall(root, first) ? pieces.small : pieces.large).push_back(root);
    SmallVector<Value> stored;
    for (auto [op, value] : llvm::zip(first, totals))
      total.mapping.map(linalg::GenericOp(op).getResult(0), value);
    for (Value root : pieces.small)
      stored.push_back(total.get(root));
    if (pieces.large.empty())
      return total.finish(stored);
    // The last kernel reads totals, and what follows from them as they do.
    llvm::append_range(totals, stored);
    total.finish(totals);
    Slice &rest =
        pieces.rest.emplace(kernel, (kernel.getName() + "_rest").str());
    for (linalg::GenericOp op : first)
      rest.stopAt(op.getResult(0));
    for (Value root : pieces.small)
      rest.stopAt(root);
    finishRest(kernel, first, pieces);
  }

  /// A kernel stores what it reduces beside what the reductions go into, and
  /// not what a reduction is of.
  void finishRest(func::FuncOp kernel, ArrayRef<linalg::GenericOp> first,
                  Pieces &pieces) {
    auto count = [](Value value) {
      return cast<RankedTensorType>(value.getType()).getNumElements();
    };
    int64_t most = 0;
    for (Value root : pieces.large)
      most = std::max(most, count(root));
    Slice &rest = *pieces.rest;
    SmallVector<Value> stored, fewer;
    for (Value root : pieces.large)
      if (count(root) == most)
        stored.push_back(rest.get(root));
      else
        fewer.push_back(root);
    bool reduces = llvm::any_of(*rest.block, [](Operation &op) {
      auto generic = dyn_cast<linalg::GenericOp>(op);
      return generic && ptx::reduces(generic);
    });
    if (reduces || fewer.empty()) {
      stored.clear();
      for (Value root : pieces.large)
        stored.push_back(rest.get(root));
      return rest.finish(stored);
    }
    rest.finish(stored);
    llvm::erase_if(pieces.large,
                   [&](Value root) { return count(root) != most; });
    pieces.reduced = std::move(fewer);
    Slice &behind =
        pieces.behind.emplace(kernel, (kernel.getName() + "_behind").str());
    for (linalg::GenericOp op : first)
      behind.stopAt(op.getResult(0));
    for (ArrayRef<Value> known :
         {ArrayRef(pieces.small), ArrayRef(pieces.large)})
      for (Value root : known)
        behind.stopAt(root);
    stored.clear();
    for (Value root : pieces.reduced)
      stored.push_back(behind.get(root));
    behind.finish(stored);
  }

  /// Whether `root` is as small as the results of `first`, and follows from
  /// them without a further reduction.
  static bool isSmall(Value root, ArrayRef<linalg::GenericOp> first) {
    auto count = [](Value value) {
      return cast<RankedTensorType>(value.getType()).getNumElements();
    };
    if (count(root) != count(linalg::GenericOp(first.back()).getResult(0)))
      return false;
    SmallVector<Value> work{root};
    llvm::SmallDenseSet<Value> seen;
    while (!work.empty()) {
      Operation *op = work.pop_back_val().getDefiningOp();
      auto generic = dyn_cast_or_null<linalg::GenericOp>(op);
      if (!op || (generic && llvm::is_contained(first, generic)))
        continue;
      if (generic && reduces(generic))
        return false;
      for (Value operand : op->getOperands())
        if (seen.insert(operand).second)
          work.push_back(operand);
    }
    return true;
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
    auto total = callSlice(pieces.total, parts.getResults());
    ValueRange small = total.getResults();
    if (pieces.rest) {
      for (auto [op, value] : llvm::zip(first, total.getResults()))
        outside.map(linalg::GenericOp(op).getResult(0), value);
      small = small.drop_front(first.size());
    }
    outside.map(pieces.small, small);
    if (pieces.rest)
      outside.map(pieces.large, callSlice(*pieces.rest, {}).getResults());
    if (pieces.behind)
      outside.map(pieces.reduced, callSlice(*pieces.behind, {}).getResults());
    Operation *end = kernel.getBody().front().getTerminator();
    for (auto [old, root] : llvm::zip(call.getResults(), end->getOperands()))
      old.replaceAllUsesWith(outside.lookup(root));
    call.erase();
  }

  /// `later` gets what may be split again.
  void split(func::FuncOp kernel, SymbolTable &symbols,
             SmallVectorImpl<func::FuncOp> &later) {
    SmallVector<linalg::GenericOp> first = findReductions(kernel);
    if (first.empty())
      return;
    auto [wanted, columns] = partsOf(kernel);
    SmallVector<Cut, 2> cuts = cutsOf(first[0], wanted, columns);
    if (cuts.empty())
      return;
    Pieces pieces(kernel);
    build(kernel, first, cuts, pieces);

    auto place = [&](Slice &slice) {
      slice.function->remove();
      symbols.insert(slice.function, Block::iterator(kernel));
    };
    place(pieces.partial);
    place(pieces.total);
    for (std::optional<Slice> *slice : {&pieces.rest, &pieces.behind})
      if (*slice) {
        place(**slice);
        later.push_back((*slice)->function);
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
