//===- PlanConvolutions.cpp - Convolutions and what follows them ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: values equal up to rounding. Only calls whose weights are
// parameters are touched, so that what packing costs is paid once.
//
//===----------------------------------------------------------------------===//

#include "pyjit/Library/Passes.h"

#include "Calls.h"
#include "ChannelsLast.h"
#include "Convolutions.h"
#include "PackedMatmul.h"

#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorNames.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <cmath>

namespace pyjit::library {
#define GEN_PASS_DEF_PLANCONVOLUTIONSPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

bool isF32(Type element) { return element.isF32(); }

/// The library's name for an activation and its numbers.
struct Activation {
  StringRef name = "none";
  SmallVector<Attribute> scalars;
  StringRef algorithm = "";
};

std::optional<Activation> matchActivation(tssa::AtenOp op) {
  if (op->getNumResults() != 1)
    return std::nullopt;
  std::string overload = functionalName(op);
  const char *name = operators::lookupFacts(overload).oneDNNActivation;
  if (!name)
    return std::nullopt;
  if (overload != operators::aten::hardtanh)
    return Activation{name, {}, ""};
  Builder builder(op.getContext());
  auto low = numberArgument(op, 1), high = numberArgument(op, 2);
  if (!low || !high)
    return std::nullopt;
  return Activation{
      name,
      {builder.getF64FloatAttr(*low), builder.getF64FloatAttr(*high)},
      ""};
}

class Chain : ConvolutionChain {
public:
  /// `columns`: of a panel of a matmul of our own, or 0.
  static std::optional<Chain> match(tssa::AtenOp convolution, int64_t columns);
  /// Returns the new call's result; `recorded` becomes the type it had.
  Value rewrite(RankedTensorType &recorded);

private:
  bool isProduct() const;
  Value rewriteAsMatmul(CallBuilder &calls, OpBuilder &builder, Value weight,
                        Value bias, RankedTensorType type);
  void matchActivationAfter();

  Activation activation;
  /// Not 0: a matmul of our own on panels of so many columns.
  int64_t columns = 0;
};

/// Fewer rows are left to the vendor library.
bool Chain::isProduct() const {
  constexpr int64_t minRows = 16;
  tssa::AtenOp op = convolution;
  RankedTensorType result = typeOf(op.getResult(0));
  return isOfPoints() &&
         result.getNumElements() / result.getDimSize(1) >= minRows;
}

std::optional<Chain> Chain::match(tssa::AtenOp op, int64_t columns) {
  if (op.getOverload() != operators::aten::conv2d || op->getNumResults() != 1)
    return std::nullopt;
  Value input = tensorArgument(op, 0), weight = tensorArgument(op, 1);
  Value bias = tensorArgument(op, 2);
  if (!input || !weight || typeOf(input).getRank() != 4 ||
      !typeOf(op.getResult(0)).getElementType().isF32() ||
      typeOf(weight).getRank() != 4 || typeOf(op.getResult(0)).getRank() != 4 ||
      !typeOf(input).hasStaticShape() ||
      !typeOf(op.getResult(0)).hasStaticShape() ||
      typeOf(op.getResult(0)).getNumElements() == 0 ||
      !isWorthPacking(weight) || (bias && !isFromParameters(bias)))
    return std::nullopt;
  // The library reads inputs that are dense in one of two layouts without a
  // copy that it would have to make itself.
  if (!tssa::isDense(typeOf(input)))
    return std::nullopt;
  Chain chain;
  chain.begin(op);
  chain.matchBatchNorm(isF32);
  if (columns && chain.isProduct())
    chain.columns = panelWidth(typeOf(op.getResult(0)).getDimSize(1), columns);
  // What follows a matmul is fused like what follows any kernel.
  if (!chain.columns) {
    chain.matchAddition(isF32);
    chain.matchActivationAfter();
  }
  return chain;
}

void Chain::matchActivationAfter() {
  tssa::AtenOp op = onlyUser(last);
  if (!op || tensorArgument(op, 0) != last)
    return;
  // After an addition the library takes relu only.
  auto found = matchActivation(op);
  if (!found || (other && found->name != "relu"))
    return;
  activation = *found;
  take(op);
}

Value Chain::rewriteAsMatmul(CallBuilder &calls, OpBuilder &builder,
                             Value weight, Value bias, RankedTensorType type) {
  Value input = tensorArgument(convolution, 0);
  ArrayRef<int64_t> shape = typeOf(weight).getShape();
  Value packed =
      packWeight(calls, builder, calls.view(weight, {shape[0], shape[1]}),
                 /*transposed=*/false, columns);
  Value result = makeMatmul(builder, convolution.getLoc(), input, packed, type,
                            /*channel=*/1);
  if (bias)
    result = calls.call(
        operators::aten::add_Tensor,
        {result, calls.view(bias, {shape[0], 1, 1}), calls.integer(1)}, type);
  return result;
}

Value Chain::rewrite(RankedTensorType &recorded) {
  OpBuilder builder(last.getDefiningOp());
  CallBuilder calls(builder, convolution.getLoc());
  Value input = tensorArgument(convolution, 0),
        weight = tensorArgument(convolution, 1);
  Value bias = tensorArgument(convolution, 2);
  if (batchNorm)
    foldBatchNorm(calls, weight, bias);
  if (columns) {
    recorded = typeOf(last);
    Value result =
        rewriteAsMatmul(calls, builder, weight, bias, channelsLast(recorded));
    last.replaceAllUsesWith(result);
    erase();
    return result;
  }
  Attribute stride = constantArgument(convolution, 3),
            padding = constantArgument(convolution, 4);
  Attribute dilation = constantArgument(convolution, 5),
            groups = constantArgument(convolution, 6);
  Value packed = calls.call(operators::mkldnn::_reorder_convolution_weight,
                            {weight, padding, stride, dilation, groups,
                             calls.integers(typeOf(input).getShape())},
                            weight.getType());
  recorded = typeOf(last);
  RankedTensorType type = channelsLast(recorded);
  Value result;
  if (other) {
    bool plain = activation.name == "none";
    result =
        calls.call(operators::mkldnn::_convolution_pointwise_binary,
                   {input, other, packed, calls.optional(bias), padding, stride,
                    dilation, groups, calls.string("add"), calls.none(),
                    plain ? calls.none() : calls.string(activation.name),
                    calls.list({}), calls.none()},
                   type);
  } else {
    result = calls.call(operators::mkldnn::_convolution_pointwise,
                        {input, packed, calls.optional(bias), padding, stride,
                         dilation, groups, calls.string(activation.name),
                         calls.list(activation.scalars),
                         calls.string(activation.algorithm)},
                        type);
  }
  last.replaceAllUsesWith(result);
  erase();
  return result;
}

struct PlanConvolutions
    : pyjit::library::impl::PlanConvolutionsPassBase<PlanConvolutions> {
  using PlanConvolutionsPassBase::PlanConvolutionsPassBase;

  void runOnOperation() override {
    SmallVector<tssa::AtenOp> convolutions;
    llvm::SmallPtrSet<Operation *, 16> others; // not made here
    getOperation().walk([&](Operation *op) {
      if (auto call = dyn_cast<tssa::AtenOp>(op);
          call && call.getOverload() == operators::aten::conv2d)
        convolutions.push_back(call);
      else if (isa<linalg::GenericOp>(op))
        others.insert(op);
    });
    SmallVector<std::pair<Value, RankedTensorType>> results;
    for (tssa::AtenOp op : convolutions)
      if (auto chain = Chain::match(op, columns)) {
        RankedTensorType recorded;
        Value result = chain->rewrite(recorded);
        results.emplace_back(result, recorded);
      }
    // Once all are there: a convolution takes the layout that another one left.
    for (auto [result, recorded] : results)
      if (result.getType() != recorded)
        handOnLayout(result, recorded);
    // A matmul reads channels that lie together.
    getOperation().walk([&](linalg::GenericOp op) {
      if (others.contains(op))
        return;
      Value input = op.getDpsInputs()[0];
      RankedTensorType type = typeOf(input);
      if (type.getRank() != 4 || type == channelsLast(type))
        return;
      OpBuilder builder(op);
      CallBuilder calls(builder, op.getLoc());
      // 2: torch.channels_last
      op->setOperand(0,
                     calls.call(operators::aten::clone,
                                {input, calls.integer(2)}, channelsLast(type)));
    });
  }
};

} // namespace
