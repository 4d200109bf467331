//===- BatchLoops.cpp - Parallel loops as one more dimension --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: functions after convert-tssa-to-linalg. A `scf.for` that is marked
// `tssa.parallel`, with constant bounds and nothing but linalg and views in its
// body, becomes the operations of its body with the iterations as outermost
// dimension. In doubt a loop is left as it is.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"
#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "pyjit/Conversion/TSSAToLinalg/Passes.h"

using namespace mlir;

namespace pyjit {
#define GEN_PASS_DEF_BATCHLOOPS
#include "lib/Conversion/TSSAToLinalg/Passes.h.inc"

namespace {

class Batcher {
public:
  explicit Batcher(scf::ForOp loop) : loop(loop), b(loop) {}

  bool run();

private:
  bool matchBounds();
  bool matches(Operation &op);
  bool isSelect(ArrayAttr path, ValueRange indices, Value source);
  SmallVector<Attribute> pathOf(ArrayAttr path, RankedTensorType source);
  Value access(tssa::AccessOp op);
  Value generic(linalg::GenericOp op);
  Value outer(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      if (argument.getOwner() == loop.getBody())
        return loop.getInitArgs()[argument.getArgNumber() - 1];
    return value;
  }
  bool isInside(Value value) {
    return value.getParentRegion() == &loop.getRegion();
  }

  scf::ForOp loop;
  OpBuilder b;
  int64_t first = 0, trips = 0, by = 0;
  DenseMap<Value, Value> batched;
};

bool Batcher::matchBounds() {
  APInt from, to, step;
  if (loop.getUnsignedCmp() ||
      !matchPattern(loop.getLowerBound(), m_ConstantInt(&from)) ||
      !matchPattern(loop.getUpperBound(), m_ConstantInt(&to)) ||
      !matchPattern(loop.getStep(), m_ConstantInt(&step)))
    return false;
  first = from.getSExtValue();
  by = step.getSExtValue();
  // From 0 on, nothing overflows.
  if (by < 1 || first < 0 || to.getSExtValue() <= first)
    return false;
  int64_t span = to.getSExtValue() - first;
  trips = llvm::divideCeil(uint64_t(span), by);
  return true;
}

/// Whether the path is one select of this loop's index, in bounds.
bool Batcher::isSelect(ArrayAttr path, ValueRange indices, Value source) {
  if (path.size() != 1 || indices.size() != 1 ||
      indices[0] != loop.getInductionVar())
    return false;
  auto view = cast<tssa::ViewAttr>(path[0]);
  auto type = cast<RankedTensorType>(source.getType());
  return view.getKind() == tssa::ViewKind::select && type.hasStaticShape() &&
         !isa<ComplexType>(type.getElementType()) &&
         first + (trips - 1) * by < type.getDimSize(view.getParams()[0]);
}

bool Batcher::matches(Operation &op) {
  if (auto access = dyn_cast<tssa::AccessOp>(op)) {
    // What is read at this index: of a loop-carried value, or of one outside.
    return isSelect(access.getPath(), access.getIndices(),
                    access.getSource()) &&
           !isInside(outer(access.getSource()));
  }
  if (auto assign = dyn_cast<tssa::AssignOp>(op))
    return isSelect(assign.getPath(), assign.getIndices(),
                    assign.getTarget()) &&
           isa<BlockArgument>(assign.getTarget()) &&
           isInside(assign.getTarget()) && assign->getResult(0).hasOneUse() &&
           *assign->user_begin() == loop.getBody()->getTerminator();
  if (isa<arith::ConstantOp, tensor::EmptyOp, scf::YieldOp>(op))
    return true;
  if (auto fill = dyn_cast<linalg::FillOp>(op))
    return fill.getInputs()[0].getDefiningOp<arith::ConstantOp>() &&
           fill.getOutputs()[0].getDefiningOp<tensor::EmptyOp>();
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic || generic.getNumResults() != 1)
    return false;
  Operation *start = generic.getDpsInitOperand(0)->get().getDefiningOp();
  if (!start || !isa<tensor::EmptyOp, linalg::FillOp>(start))
    return false;
  // An iteration's own tensor that is read by position would have one more.
  bool fine = true;
  generic.getBody()->walk([&](Operation *inner) {
    if (auto extract = dyn_cast<tensor::ExtractOp>(inner))
      fine &= !isInside(extract.getTensor());
    for (Value operand : inner->getOperands())
      fine &= operand != loop.getInductionVar();
  });
  for (Value operand : generic->getOperands())
    fine &= isa<RankedTensorType>(operand.getType()) &&
            cast<RankedTensorType>(operand.getType()).hasStaticShape() &&
            // A loop-carried value as a whole is no iteration's own.
            !(isa<BlockArgument>(operand) && isInside(operand));
  return fine;
}

/// Of a path that selects the index: the path that shows all iterations' parts,
/// one after the other along a new first dimension.
SmallVector<Attribute> Batcher::pathOf(ArrayAttr path,
                                       RankedTensorType source) {
  int64_t dim = cast<tssa::ViewAttr>(path[0]).getParams()[0];
  SmallVector<int64_t> order{dim};
  for (int64_t d = 0; d < source.getRank(); ++d)
    if (d != dim)
      order.push_back(d);
  MLIRContext *context = b.getContext();
  return {tssa::ViewAttr::get(context, tssa::ViewKind::slice,
                              {dim, first, trips, by}),
          tssa::ViewAttr::get(context, tssa::ViewKind::permute, order)};
}

Value Batcher::access(tssa::AccessOp op) {
  Value source = outer(op.getSource());
  auto type = cast<RankedTensorType>(source.getType());
  ArrayAttr path = b.getArrayAttr(pathOf(op.getPath(), type));
  RankedTensorType shown =
      tssa::inferPathType(path, type, [&] { return op.emitError(); });
  if (!shown)
    return {};
  auto whole =
      tssa::AccessOp::create(b, op.getLoc(), shown, source, path, ValueRange());
  Value view = lowerAccess(b, whole, source);
  whole.erase();
  return view;
}

Value Batcher::generic(linalg::GenericOp op) {
  Location loc = op.getLoc();
  unsigned loops = op.getNumLoops();
  // Iterations first, then the loops that there were.
  SmallVector<AffineExpr> shifted;
  for (unsigned d = 0; d < loops; ++d)
    shifted.push_back(b.getAffineDimExpr(d + 1));
  auto map = [&](OpOperand *operand, bool own) {
    SmallVector<AffineExpr> exprs;
    if (own)
      exprs.push_back(b.getAffineDimExpr(0));
    for (AffineExpr expr : op.getMatchingIndexingMap(operand).getResults())
      exprs.push_back(expr.replaceDims(shifted));
    return AffineMap::get(loops + 1, 0, exprs, b.getContext());
  };
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  for (OpOperand *input : op.getDpsInputOperands()) {
    Value own = batched.lookup(input->get());
    inputs.push_back(own ? own : input->get());
    maps.push_back(map(input, bool(own)));
  }
  OpOperand *init = op.getDpsInitOperand(0);
  auto type = cast<RankedTensorType>(op.getResult(0).getType());
  SmallVector<int64_t> shape{trips};
  llvm::append_range(shape, type.getShape());
  type = RankedTensorType::get(shape, type.getElementType());
  Value start = tensor::EmptyOp::create(b, loc, type, ValueRange());
  if (auto fill = init->get().getDefiningOp<linalg::FillOp>()) {
    Operation *value = b.clone(*fill.getInputs()[0].getDefiningOp());
    start =
        linalg::FillOp::create(b, loc, value->getResult(0), start).getResult(0);
  }
  maps.push_back(map(init, true));
  SmallVector<utils::IteratorType> iterators{utils::IteratorType::parallel};
  llvm::append_range(iterators, op.getIteratorTypesArray());
  auto made = linalg::GenericOp::create(b, loc, TypeRange(type), inputs,
                                        ValueRange(start), maps, iterators);
  IRMapping mapping;
  op.getRegion().cloneInto(&made.getRegion(), mapping);
  made.getBody()->walk(
      [](linalg::IndexOp index) { index.setDim(index.getDim() + 1); });
  return made.getResult(0);
}

bool Batcher::run() {
  if (!matchBounds())
    return false;
  for (Operation &op : *loop.getBody())
    if (!matches(op))
      return false;
  for (Value yielded : loop.getYieldedValues())
    if (!yielded.getDefiningOp<tssa::AssignOp>())
      return false;
  // Constants that bodies of generics read stay visible to the new ones.
  for (auto constant :
       llvm::make_early_inc_range(loop.getBody()->getOps<arith::ConstantOp>()))
    constant->moveBefore(loop);
  SmallVector<Value> results(loop.getNumResults());
  for (Operation &op : *loop.getBody()) {
    Value value;
    if (auto shown = dyn_cast<tssa::AccessOp>(op)) {
      value = access(shown);
    } else if (auto computed = dyn_cast<linalg::GenericOp>(op)) {
      value = generic(computed);
    } else if (auto assign = dyn_cast<tssa::AssignOp>(op)) {
      Value target = outer(assign.getTarget());
      auto type = cast<RankedTensorType>(target.getType());
      ArrayAttr path = b.getArrayAttr(pathOf(assign.getPath(), type));
      Value source = batched.lookup(assign.getSource());
      if (!source) {
        // The same for all iterations.
        source = assign.getSource();
        auto part = cast<RankedTensorType>(source.getType());
        SmallVector<int64_t> shape{trips};
        llvm::append_range(shape, part.getShape());
        SmallVector<AffineExpr> exprs;
        for (int64_t d = 0; d < part.getRank(); ++d)
          exprs.push_back(b.getAffineDimExpr(d + 1));
        source = makeMap(
            b, op.getLoc(), RankedTensorType::get(shape, part.getElementType()),
            source,
            AffineMap::get(part.getRank() + 1, 0, exprs, b.getContext()),
            [](OpBuilder &, Location, ValueRange elements) {
              return elements[0];
            });
      }
      auto whole = tssa::AssignOp::create(b, op.getLoc(), type, target, source,
                                          path, ValueRange());
      value = lowerAssign(b, whole, target, source);
      whole.erase();
      if (value)
        results[cast<BlockArgument>(assign.getTarget()).getArgNumber() - 1] =
            value;
    } else {
      continue;
    }
    if (!value)
      return false; // what was made has no users
    batched[op.getResult(0)] = value;
  }
  loop.replaceAllUsesWith(results);
  loop.erase();
  return true;
}

struct BatchLoopsPass : impl::BatchLoopsBase<BatchLoopsPass> {
  void runOnOperation() override {
    if (getOperation()->hasAttr(attribute::kKernel))
      return;
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) {
      if (loop->hasAttr("tssa.parallel"))
        loops.push_back(loop);
    });
    for (scf::ForOp loop : loops)
      numBatched += Batcher(loop).run();
  }
};

} // namespace
} // namespace pyjit
