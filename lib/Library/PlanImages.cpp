//===- PlanImages.cpp - Convolutions of a GPU -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: values equal up to rounding. Half precision only: tensor cores read
// channels that lie together, and cuDNN would lay every tensor out anew.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Library/Passes.h"
#include "pyjit/Operators/OperatorNames.h"

#include "Calls.h"
#include "ChannelsLast.h"
#include "Convolutions.h"

#include "dialects/tssa/IR/Views.h"

namespace pyjit::library {
#define GEN_PASS_DEF_PLANIMAGESPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

bool isHalf(Type element) { return element.isF16() || element.isBF16(); }
bool isFloat(Type element) { return isHalf(element) || element.isF32(); }

/// torch.channels_last
constexpr int64_t kChannelsLast = 2;

/// The channels-last forms of values; what has this layout in the end loses
/// its copy again.
class Layouts {
public:
  Value get(Value value) {
    Value &copy = copies[value];
    if (copy)
      return copy;
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    CallBuilder calls(builder, value.getLoc());
    return copy = calls.call(operators::aten::clone,
                             {value, calls.integer(kChannelsLast)},
                             channelsLast(typeOf(value)));
  }
  void removeNeedless() {
    for (auto [value, copy] : copies)
      if (copy.getDefiningOp()->getOperand(0).getType() == copy.getType()) {
        copy.replaceAllUsesWith(copy.getDefiningOp()->getOperand(0));
        copy.getDefiningOp()->erase();
      }
  }

private:
  llvm::MapVector<Value, Value> copies;
};

/// A convolution, and what cuDNN or cuBLAS does with it in one call.
class Image : ConvolutionChain {
public:
  static std::optional<Image> match(tssa::AtenOp op);
  /// Returns what takes the result's place; `recorded` becomes the type that
  /// it had.
  Value rewrite(Layouts &layouts, RankedTensorType &recorded);

private:
  Value asMatmul(CallBuilder &calls, Value input, Value weight, Value bias);

  bool relu = false;
};

bool isRelu(tssa::AtenOp op) {
  return op && op->getNumResults() == 1 &&
         functionalName(op) == operators::aten::relu;
}

std::optional<Image> Image::match(tssa::AtenOp op) {
  Value input = tensorArgument(op, 0), weight = tensorArgument(op, 1);
  Value bias = tensorArgument(op, 2);
  if (!input || !weight || typeOf(input).getRank() != 4 ||
      op->hasAttr(attribute::kVendorCall) ||
      !isHalf(typeOf(weight).getElementType()) ||
      !typeOf(op.getResult(0)).hasStaticShape() ||
      typeOf(op.getResult(0)).getNumElements() == 0 ||
      !isFromParameters(weight) || (bias && !isFromParameters(bias)) ||
      !tssa::isDense(typeOf(input)))
    return std::nullopt;
  Image image;
  image.begin(op);
  image.matchBatchNorm(isFloat);
  bool biased = bias || image.batchNorm;
  // An addition is only taken with the activation behind it.
  ConvolutionChain sum = image;
  sum.matchAddition(isHalf);
  if (sum.addition && isRelu(onlyUser(sum.last))) {
    static_cast<ConvolutionChain &>(image) = sum;
    image.relu = true;
    image.take(onlyUser(image.last));
  } else if (isRelu(onlyUser(image.last)) && biased) {
    image.relu = true;
    image.take(onlyUser(image.last));
  }
  return image;
}

/// Rows of channels times the weight, with bias and activation.
Value Image::asMatmul(CallBuilder &calls, Value input, Value weight,
                      Value bias) {
  SmallVector<int64_t> shape(typeOf(last).getShape());
  ArrayRef<int64_t> matrix = typeOf(weight).getShape();
  int64_t rows = shape[0] * shape[2] * shape[3];
  Value points =
      calls.view(calls.permute(input, {0, 2, 3, 1}), {rows, matrix[1]});
  Value columns = calls.view(weight, {matrix[0], matrix[1]});
  auto type =
      RankedTensorType::get({rows, matrix[0]}, typeOf(last).getElementType());
  Value matmul;
  if (relu)
    matmul = calls.call(operators::aten::_addmm_activation,
                        {bias, points, calls.permute(columns, {1, 0}),
                         calls.integer(1), calls.integer(1),
                         calls.boolean(/*gelu=*/false)},
                        type);
  else
    matmul = calls.call(operators::aten::linear,
                        {points, columns, calls.optional(bias)}, type);
  return calls.permute(
      calls.view(matmul, {shape[0], shape[2], shape[3], shape[1]}),
      {0, 3, 1, 2});
}

Value Image::rewrite(Layouts &layouts, RankedTensorType &recorded) {
  OpBuilder builder(last.getDefiningOp());
  CallBuilder calls(builder, convolution.getLoc());
  Value input = layouts.get(tensorArgument(convolution, 0));
  Value weight = tensorArgument(convolution, 1);
  Value bias = tensorArgument(convolution, 2);
  if (batchNorm)
    foldBatchNorm(calls, weight, bias);
  Attribute stride = constantArgument(convolution, 3),
            padding = constantArgument(convolution, 4);
  Attribute dilation = constantArgument(convolution, 5),
            groups = constantArgument(convolution, 6);
  recorded = typeOf(last);
  RankedTensorType type = channelsLast(recorded);
  auto laidOut = [&](Value value) -> Value {
    if (typeOf(value) == channelsLast(typeOf(value)))
      return value;
    return calls.call(operators::aten::clone,
                      {value, calls.integer(kChannelsLast)},
                      channelsLast(typeOf(value)));
  };
  Value result;
  if (addition) {
    result = calls.call(operators::aten::cudnn_convolution_add_relu,
                        {input, laidOut(weight), layouts.get(other),
                         calls.number(1.0), calls.optional(bias), stride,
                         padding, dilation, groups},
                        type);
  } else if (isOfPoints()) {
    result = asMatmul(calls, input, weight, bias);
  } else if (relu) {
    result = calls.call(operators::aten::cudnn_convolution_relu,
                        {input, laidOut(weight), calls.optional(bias), stride,
                         padding, dilation, groups},
                        type);
  } else {
    // The library would add a bias in a kernel of its own.
    result = calls.call(operators::aten::conv2d,
                        {input, laidOut(weight), calls.none(), stride, padding,
                         dilation, groups},
                        type);
    if (bias)
      result = calls.call(operators::aten::add_Tensor,
                          {result, calls.view(bias, {type.getDimSize(1), 1, 1}),
                           calls.integer(1)},
                          type);
  }
  last.replaceAllUsesWith(result);
  erase();
  return result;
}

struct PlanImages : pyjit::library::impl::PlanImagesPassBase<PlanImages> {
  using PlanImagesPassBase::PlanImagesPassBase;

  void runOnOperation() override {
    SmallVector<tssa::AtenOp> convolutions;
    bool grouped = false;
    getOperation().walk([&](tssa::AtenOp op) {
      if (op.getOverload() != operators::aten::conv2d ||
          op->getNumResults() != 1)
        return;
      convolutions.push_back(op);
      grouped |= numberArgument(op, 6) != 1.0;
    });
    // Convolutions of single channels have kernels for rows only.
    if (grouped)
      return;
    Layouts layouts;
    SmallVector<std::pair<Value, RankedTensorType>> results;
    for (tssa::AtenOp op : convolutions)
      if (auto image = Image::match(op)) {
        RankedTensorType recorded;
        Value result = image->rewrite(layouts, recorded);
        results.emplace_back(result, recorded);
        ++numPlanned;
      }
    for (auto [result, recorded] : results)
      if (result.getType() != recorded)
        handOnLayout(result, recorded);
    layouts.removeNeedless();
  }
};

} // namespace
