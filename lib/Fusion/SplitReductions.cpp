//===- SplitReductions.cpp - Few sums of much, in parallel ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A reduction to a handful of values, or of a few long columns, leaves one
// thread with all the work. One over long rows, a product of a row and a weight
// among them, leaves each thread some columns of every row, and so short pieces
// of memory. They become a reduction of equal parts, which threads share, and
// one of the parts' results. How elements are grouped changes, as it does
// between eager's own thread counts.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "pyjit/Fusion/Passes.h"

using namespace mlir;

namespace pyjit::fusion {
#define GEN_PASS_DEF_FUSIONSPLITREDUCTIONS
#include "lib/Fusion/Passes.h.inc"

namespace {

/// Fewer elements are not worth a second kernel.
constexpr int64_t kMinElements = 1 << 16;
/// As many units are work for threads already.
constexpr int64_t kEnoughUnits = 8;
/// Neighbouring columns that one unit sums up, in vectors.
constexpr int64_t kColumns = 32;
/// Of columns, a part has to be longer than what joins the parts.
constexpr int64_t kMinPart = 64;
/// A row of so many columns is worth to be read in one piece, where no cache
/// holds all of them (codegen::Schedule::streamedRows).
constexpr int64_t kLongRow = 512, kFarBytes = 1 << 20;
/// What a thread reads for each row that joining the parts reads again.
constexpr int64_t kMinRows = 96;

/// The operation that joins an element with what was joined so far, if it is
/// one operation.
Operation *combinerOf(linalg::GenericOp op) {
  Value joined = op.getBody()->getTerminator()->getOperand(0);
  BlockArgument accumulator =
      op.getMatchingBlockArgument(op.getDpsInitOperand(0));
  Operation *combiner = joined.getDefiningOp();
  return combiner && combiner->getBlock() == op.getBody() &&
                 combiner->getNumOperands() == 2 && accumulator.hasOneUse() &&
                 *accumulator.user_begin() == combiner
             ? combiner
             : nullptr;
}

/// Whether joining with `start` changes nothing, so that every part may start
/// from it.
bool isIdentity(Operation *combiner, TypedAttr start) {
  if (auto value = dyn_cast<FloatAttr>(start)) {
    APFloat x = value.getValue();
    if (isa<arith::AddFOp>(combiner))
      return x.isZero();
    if (isa<arith::MulFOp>(combiner))
      return x.isExactlyValue(1.0);
    if (isa<arith::MaximumFOp>(combiner))
      return x.isInfinity() && x.isNegative();
    return isa<arith::MinimumFOp>(combiner) && x.isInfinity() &&
           !x.isNegative();
  }
  auto value = dyn_cast<IntegerAttr>(start);
  if (!value)
    return false;
  APInt x = value.getValue();
  // Joining twice with the same number is joining once.
  if (isa<arith::MaxSIOp, arith::MinSIOp, arith::AndIOp, arith::OrIOp>(
          combiner))
    return true;
  return (isa<arith::AddIOp>(combiner) && x.isZero()) ||
         (isa<arith::MulIOp>(combiner) && x.isOne());
}

struct Split {
  unsigned loop;
  int64_t parts, length;
};

class Splitter {
public:
  Splitter(linalg::GenericOp op, int64_t parts) : op(op), wanted(parts) {}

  bool run() {
    std::optional<Split> split = match();
    if (split)
      rewrite(*split);
    return split.has_value();
  }

private:
  std::optional<Split> match() {
    if (op.getNumResults() != 1 || op.getNumReductionLoops() == 0)
      return std::nullopt;
    auto result = dyn_cast<RankedTensorType>(op.getResult(0).getType());
    SmallVector<int64_t> extents = op.getStaticLoopRanges();
    int64_t elements = 1;
    for (int64_t extent : extents) {
      if (ShapedType::isDynamic(extent))
        return std::nullopt;
      elements *= extent;
    }
    if (!result)
      return std::nullopt;
    int64_t width = columnsOf(extents);
    int64_t units = result.getNumElements() / width *
                    int64_t(llvm::divideCeil(width, kColumns));
    bool isFew = units < kEnoughUnits &&
                 elements >= kMinElements * std::max<int64_t>(1, units);
    if (!isFew && !readsLongRows(elements, width))
      return std::nullopt;
    int64_t minPart = !isFew ? kMinRows : width > 1 ? kMinPart : 1;
    combiner = combinerOf(op);
    auto fill = op.getDpsInitOperand(0)->get().getDefiningOp<linalg::FillOp>();
    auto constant =
        fill ? fill.getInputs()[0].getDefiningOp<arith::ConstantOp>() : nullptr;
    if (!combiner || !constant ||
        !isIdentity(combiner, cast<TypedAttr>(constant.getValue())))
      return std::nullopt;
    start = constant;
    for (OpOperand *input : op.getDpsInputOperands())
      if (!isa<RankedTensorType>(input->get().getType()) ||
          !op.getMatchingIndexingMap(input).isProjectedPermutation(
              /*allowZeroInResults=*/true))
        return std::nullopt;
    std::optional<Split> best;
    for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
      if (kind != utils::IteratorType::reduction || isIndexed(loop))
        continue;
      int64_t parts = wanted;
      while (parts > 1 &&
             (extents[loop] % parts != 0 || extents[loop] / parts < minPart))
        --parts;
      if (parts > 1 && (!best || parts > best->parts))
        best = Split{unsigned(loop), parts, extents[loop] / parts};
    }
    return best;
  }

  /// The input with the most elements; null if there is none.
  OpOperand *largestInput() {
    OpOperand *largest = nullptr;
    auto count = [](OpOperand *input) {
      auto type = dyn_cast<RankedTensorType>(input->get().getType());
      return type && type.hasStaticShape() ? type.getNumElements() : 0;
    };
    for (OpOperand *input : op.getDpsInputOperands())
      if (!largest || count(input) > count(largest))
        largest = input;
    return largest;
  }

  /// The extent of the parallel loop along which the largest operand is dense,
  /// else 1: vectors walk it, so that a unit has many results.
  int64_t columnsOf(ArrayRef<int64_t> extents) {
    OpOperand *input = largestInput();
    if (!input || op.getMatchingIndexingMap(input).getNumResults() == 0)
      return 1;
    auto dim = dyn_cast<AffineDimExpr>(
        op.getMatchingIndexingMap(input).getResults().back());
    if (!dim || op.getIteratorTypesArray()[dim.getPosition()] !=
                    utils::IteratorType::parallel)
      return 1;
    return std::max<int64_t>(1, extents[dim.getPosition()]);
  }

  /// Whether one operand of long rows is read once, from memory.
  bool readsLongRows(int64_t elements, int64_t width) {
    if (op.getNumReductionLoops() != 1 || width < kLongRow)
      return false;
    auto type = cast<RankedTensorType>(largestInput()->get().getType());
    return type.hasStaticShape() && type.getNumElements() == elements &&
           type.getElementType().isIntOrFloat() &&
           elements * type.getElementTypeBitWidth() / 8 >= kFarBytes;
  }

  bool isIndexed(unsigned loop) {
    bool found = false;
    op.getBody()->walk(
        [&](linalg::IndexOp index) { found |= index.getDim() == loop; });
    return found;
  }

  /// `input` with the dimension that the loop walks in two, and its map over
  /// the loops with the part's number as the last one.
  std::pair<Value, AffineMap> apart(OpBuilder &b, OpOperand *input,
                                    const Split &split) {
    AffineMap map = op.getMatchingIndexingMap(input);
    unsigned loops = op.getNumLoops();
    auto type = cast<RankedTensorType>(input->get().getType());
    SmallVector<int64_t> shape;
    SmallVector<AffineExpr> exprs, read;
    for (auto [d, expr] : llvm::enumerate(map.getResults())) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      if (dim && dim.getPosition() == split.loop) {
        read.push_back(b.getAffineDimExpr(shape.size()) * split.length +
                       b.getAffineDimExpr(shape.size() + 1));
        llvm::append_values(shape, split.parts, split.length);
        exprs.push_back(b.getAffineDimExpr(loops));
      } else {
        read.push_back(b.getAffineDimExpr(shape.size()));
        shape.push_back(type.getDimSize(d));
      }
      exprs.push_back(expr);
    }
    auto newMap = AffineMap::get(loops + 1, 0, exprs, b.getContext());
    if (shape.size() == size_t(type.getRank()))
      return {input->get(), newMap};
    auto shown = RankedTensorType::get(shape, type.getElementType());
    unsigned rank = shape.size();
    SmallVector<utils::IteratorType> iterators(rank,
                                               utils::IteratorType::parallel);
    Value empty = tensor::EmptyOp::create(b, op.getLoc(), shown, ValueRange());
    Value view =
        linalg::GenericOp::create(
            b, op.getLoc(), TypeRange(shown), ValueRange(input->get()),
            ValueRange(empty),
            ArrayRef<AffineMap>{AffineMap::get(rank, 0, read, b.getContext()),
                                b.getMultiDimIdentityMap(rank)},
            iterators,
            [](OpBuilder &in, Location at, ValueRange args) {
              linalg::YieldOp::create(in, at, args[0]);
            })
            .getResult(0);
    return {view, newMap};
  }

  Value filled(OpBuilder &b, RankedTensorType type) {
    Value empty = tensor::EmptyOp::create(b, op.getLoc(), type, ValueRange());
    return linalg::FillOp::create(b, op.getLoc(), Value(start), empty)
        .getResult(0);
  }

  void rewrite(const Split &split) {
    OpBuilder b(op);
    unsigned loops = op.getNumLoops();
    auto result = cast<RankedTensorType>(op.getResult(0).getType());
    SmallVector<Value> inputs;
    SmallVector<AffineMap> maps;
    for (OpOperand *input : op.getDpsInputOperands()) {
      auto [value, map] = apart(b, input, split);
      inputs.push_back(value);
      maps.push_back(map);
    }
    SmallVector<int64_t> shape{split.parts};
    llvm::append_range(shape, result.getShape());
    SmallVector<AffineExpr> exprs{b.getAffineDimExpr(loops)};
    llvm::append_range(
        exprs, op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getResults());
    maps.push_back(AffineMap::get(loops + 1, 0, exprs, b.getContext()));
    SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
    iterators.push_back(utils::IteratorType::parallel);
    auto partial = RankedTensorType::get(shape, result.getElementType());
    auto parts = linalg::GenericOp::create(
        b, op.getLoc(), TypeRange(partial), inputs,
        ValueRange(filled(b, partial)), maps, iterators);
    IRMapping mapping;
    op.getRegion().cloneInto(&parts.getRegion(), mapping);

    unsigned rank = result.getRank();
    SmallVector<AffineExpr> from{b.getAffineDimExpr(rank)};
    SmallVector<AffineExpr> to;
    for (unsigned d = 0; d < rank; ++d)
      to.push_back(b.getAffineDimExpr(d));
    llvm::append_range(from, to);
    iterators.assign(rank, utils::IteratorType::parallel);
    iterators.push_back(utils::IteratorType::reduction);
    auto whole = linalg::GenericOp::create(
        b, op.getLoc(), TypeRange(result), ValueRange(parts.getResult(0)),
        ValueRange(filled(b, result)),
        ArrayRef<AffineMap>{AffineMap::get(rank + 1, 0, from, b.getContext()),
                            AffineMap::get(rank + 1, 0, to, b.getContext())},
        iterators, [&](OpBuilder &in, Location at, ValueRange args) {
          IRMapping operands;
          BlockArgument accumulator =
              op.getMatchingBlockArgument(op.getDpsInitOperand(0));
          for (Value operand : combiner->getOperands())
            operands.map(operand, operand == accumulator ? args[1] : args[0]);
          Operation *joined = in.clone(*combiner, operands);
          linalg::YieldOp::create(in, at, joined->getResults());
        });
    op.getResult(0).replaceAllUsesWith(whole.getResult(0));
    op.erase();
  }

  linalg::GenericOp op;
  int64_t wanted;
  Operation *combiner = nullptr;
  arith::ConstantOp start;
};

struct SplitReductionsPass
    : impl::FusionSplitReductionsBase<SplitReductionsPass> {
  using FusionSplitReductionsBase::FusionSplitReductionsBase;

  void runOnOperation() override {
    if (getOperation()->hasAttr(attribute::kKernel) || parts < 2)
      return;
    SmallVector<linalg::GenericOp> reductions;
    getOperation().walk([&](linalg::GenericOp op) {
      if (op.getNumReductionLoops() != 0)
        reductions.push_back(op);
    });
    for (linalg::GenericOp op : reductions)
      numSplit += Splitter(op, parts).run();
  }
};

} // namespace
} // namespace pyjit::fusion
