//===- FoldViews.cpp - Compose and cancel accesses and assigns ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/tssa/Transforms/Passes.h"

#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/OperatorNames.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace pyjit::tssa {
#define GEN_PASS_DEF_FOLDVIEWSPASS
#include "dialects/tssa/Transforms/Passes.h.inc"
} // namespace pyjit::tssa

using namespace mlir;
using namespace pyjit::tssa;

namespace {

/// access(access(t, p), q) -> access(t, p q)
struct ComposeAccesses : OpRewritePattern<AccessOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AccessOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getSource().getDefiningOp<AccessOp>();
    if (!inner)
      return failure();
    SmallVector<Attribute> path(inner.getPath().getValue());
    llvm::append_range(path, op.getPath());
    SmallVector<Value> indices(inner.getIndices());
    llvm::append_range(indices, op.getIndices());
    rewriter.replaceOpWithNewOp<AccessOp>(op, op.getType(), inner.getSource(),
                                          rewriter.getArrayAttr(path), indices);
    return success();
  }
};

/// access(assign(t, s, p), p) -> s
struct AccessOfAssign : OpRewritePattern<AccessOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AccessOp op,
                                PatternRewriter &rewriter) const override {
    auto assign = op.getSource().getDefiningOp<AssignOp>();
    if (!assign || assign.getPath() != op.getPath() ||
        assign.getIndices() != op.getIndices() ||
        assign.getSource().getType() != op.getType())
      return failure();
    rewriter.replaceOp(op, assign.getSource());
    return success();
  }
};

/// assign(t, access(t, p), p) -> t
struct AssignOfAccess : OpRewritePattern<AssignOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AssignOp op,
                                PatternRewriter &rewriter) const override {
    auto access = op.getSource().getDefiningOp<AccessOp>();
    if (!access || access.getSource() != op.getTarget() ||
        access.getPath() != op.getPath() ||
        access.getIndices() != op.getIndices())
      return failure();
    rewriter.replaceOp(op, op.getTarget());
    return success();
  }
};

/// assign(assign(t, s, p), u, p) -> assign(t, u, p) where nobody else asks for
/// what is assigned first: `x[i] += y` writes its sum, and then stores it.
struct AssignOfAssign : OpRewritePattern<AssignOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AssignOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getTarget().getDefiningOp<AssignOp>();
    if (!inner || !inner->hasOneUse() || inner.getPath() != op.getPath() ||
        inner.getIndices() != op.getIndices())
      return failure();
    rewriter.modifyOpInPlace(
        op, [&] { op.getTargetMutable().assign(inner.getTarget()); });
    return success();
  }
};

/// access(t, p) -> t, assign(t, s, p) -> s where p shows every element in its
/// place
template <typename Op> struct Identity : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    // The tensor seen along the path, and what the op makes of it.
    constexpr bool isAccess = std::is_same_v<Op, AccessOp>;
    Value seen = op->getOperand(0);
    Value part = isAccess ? op.getResult() : op->getOperand(1);
    auto type = cast<RankedTensorType>(seen.getType());
    if (type != part.getType() || !op.getIndices().empty() ||
        !getPathMap(op.getPath(), type).isIdentity())
      return failure();
    rewriter.replaceOp(op, isAccess ? seen : part);
    return success();
  }
};

/// convert(access(t, p)) -> access(convert(t), p) where p gives all elements of
/// t in their order another shape, a kernel of ours has computed t, and matmuls
/// read what is converted: the kernel converts it, too, and they are given the
/// view.
struct ConvertBeforeReshape : OpRewritePattern<AtenOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AtenOp op,
                                PatternRewriter &rewriter) const override {
    if ((op.getOverload() != pyjit::operators::aten::_to_copy &&
         op.getOverload() != pyjit::operators::aten::to_dtype) ||
        op->getNumOperands() != 1)
      return failure();
    auto access = op.getOperand(0).getDefiningOp<AccessOp>();
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    if (!access || !isReshape(access) || type.getEncoding() ||
        type.getShape() != access.getType().getShape() ||
        isMatmul(access.getSource().getDefiningOp()) ||
        !llvm::all_of(op->getUsers(), isGivenToMatmul))
      return failure();
    Value source = access.getSource();
    rewriter.modifyOpInPlace(op, [&] {
      op->setOperand(0, source);
      op.getResult(0).setType(cast<RankedTensorType>(source.getType())
                                  .clone(type.getElementType()));
    });
    rewriter.setInsertionPointAfter(op);
    auto shown = AccessOp::create(rewriter, op.getLoc(), type, op.getResult(0),
                                  access.getPath(), access.getIndices());
    rewriter.replaceAllUsesExcept(op.getResult(0), shown, shown);
    return success();
  }

  static bool isMatmul(Operation *op) {
    auto call = dyn_cast_or_null<AtenOp>(op);
    namespace aten = pyjit::operators::aten;
    return !op || (call && llvm::is_contained({aten::linear, aten::mm,
                                               aten::addmm, aten::matmul},
                                              call.getOverload()));
  }
  /// As it is, or transposed.
  static bool isGivenToMatmul(Operation *user) {
    return isMatmul(user) ||
           (isa<AccessOp>(user) && llvm::all_of(user->getUsers(), isMatmul));
  }
  /// Of elements that lie row by row.
  static bool isReshape(AccessOp access) {
    auto source = cast<RankedTensorType>(access.getSource().getType());
    auto isShape = [](ViewAttr view) {
      return (view.getKind() == ViewKind::view ||
              view.getKind() == ViewKind::squeeze ||
              view.getKind() == ViewKind::unsqueeze) &&
             !view.isSymbolic();
    };
    return !source.getEncoding() && !access.getType().getEncoding() &&
           source.hasStaticShape() && access.getIndices().empty() &&
           llvm::all_of(access.getPath().getAsRange<ViewAttr>(), isShape);
  }
};

/// pyjit::written(v, s) -> v, pyjit::unwritten(s) -> s, pyjit::seen(s) -> s:
/// they were for gradients, which are there by now.
struct LeafContents : OpRewritePattern<AtenOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AtenOp op,
                                PatternRewriter &rewriter) const override {
    if ((op.getOverload() != pyjit::operators::pyjit::written &&
         op.getOverload() != pyjit::operators::pyjit::unwritten &&
         op.getOverload() != pyjit::operators::pyjit::seen) ||
        op.getOperand(0).getType() != op.getResult(0).getType())
      return failure();
    rewriter.replaceOp(op, op.getOperand(0));
    return success();
  }
};

struct FoldViews : pyjit::tssa::impl::FoldViewsPassBase<FoldViews> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ComposeAccesses, AccessOfAssign, AssignOfAccess,
                 AssignOfAssign, Identity<AccessOp>, Identity<AssignOp>,
                 ConvertBeforeReshape, LeafContents>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
