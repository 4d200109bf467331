//===- Convolutions.cpp - A convolution and its epilogue ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Convolutions.h"

#include "Calls.h"

#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

void ConvolutionChain::begin(tssa::AtenOp op) {
  convolution = op;
  take(op);
}

void ConvolutionChain::take(tssa::AtenOp op) {
  last = op.getResult(0);
  replaced.push_back(op);
}

void ConvolutionChain::erase() {
  for (Operation *op : llvm::reverse(replaced))
    op->erase();
}

bool ConvolutionChain::isOfPoints() const {
  tssa::AtenOp op = convolution;
  auto all = [&](unsigned argument, int64_t value) {
    auto list = dyn_cast<ArrayAttr>(constantArgument(op, argument));
    return list && llvm::all_of(list, [&](Attribute entry) {
             auto number = dyn_cast<IntegerAttr>(entry);
             return number && number.getInt() == value;
           });
  };
  RankedTensorType weight = typeOf(tensorArgument(op, 1));
  return weight.getRank() == 4 && weight.getDimSize(2) == 1 &&
         weight.getDimSize(3) == 1 && !weight.getEncoding() &&
         weight.getDimSize(1) == typeOf(tensorArgument(op, 0)).getDimSize(1) &&
         all(3, 1) && all(4, 0) && numberArgument(op, 6) == 1.0;
}

void ConvolutionChain::matchBatchNorm(Elements elements) {
  tssa::AtenOp op = onlyUser(last);
  if (!op || op.getOverload() != operators::aten::batch_norm ||
      tensorArgument(op, 0) != last)
    return;
  auto training = dyn_cast<BoolAttr>(constantArgument(op, 5));
  Value mean = tensorArgument(op, 3), variance = tensorArgument(op, 4);
  if (!training || training.getValue() || !mean || !variance ||
      !numberArgument(op, 7))
    return;
  for (unsigned i = 1; i <= 4; ++i)
    if (Value value = tensorArgument(op, i);
        value &&
        (!isFromParameters(value) || !elements(typeOf(value).getElementType())))
      return;
  batchNorm = op;
  take(op);
}

void ConvolutionChain::matchAddition(Elements elements) {
  tssa::AtenOp op = onlyUser(last);
  if (!op || op->getNumResults() != 1 ||
      functionalName(op) != operators::aten::add_Tensor ||
      numberArgument(op, 2) != 1.0)
    return;
  Value left = tensorArgument(op, 0), right = tensorArgument(op, 1);
  if (!left || !right || left == right)
    return;
  Value candidate = left == last ? right : left;
  auto same = [&](Value value) {
    return typeOf(value).getShape() == typeOf(last).getShape() &&
           elements(typeOf(value).getElementType());
  };
  // oneDNN makes no memory for the operand of a binary epilogue whose images
  // are single points or have one channel.
  ArrayRef<int64_t> sizes = typeOf(last).getShape();
  if (sizes[1] == 1 || sizes[2] * sizes[3] == 1)
    return;
  // The new call stands where the addition stood, after both operands.
  if (!same(candidate) || !same(op.getResult(0)) ||
      !tssa::isDense(typeOf(candidate)))
    return;
  addition = op;
  other = candidate;
  take(op);
}

/// `value` with elements of type `element`.
static Value converted(CallBuilder &calls, Value value, Type element) {
  RankedTensorType type = typeOf(value);
  if (type.getElementType() == element)
    return value;
  return toDtype(calls, value, cast<RankedTensorType>(type.clone(element)));
}

/// y = (conv(x, w) + b - mean) * s + beta with s = gamma / sqrt(var + eps) is
/// conv(x, w * s) + (b - mean) * s + beta.
void ConvolutionChain::foldBatchNorm(CallBuilder &calls, Value &weight,
                                     Value &bias) {
  Builder builder(batchNorm.getContext());
  // PyTorch's numbers of element types.
  auto wide = [&](Value value) {
    return value ? converted(calls, value, builder.getF32Type()) : value;
  };
  Type narrow = typeOf(weight).getElementType();
  weight = wide(weight);
  bias = wide(bias);
  Value gamma = wide(tensorArgument(batchNorm, 1)),
        beta = wide(tensorArgument(batchNorm, 2));
  Value mean = wide(tensorArgument(batchNorm, 3)),
        variance = wide(tensorArgument(batchNorm, 4));
  Type channel = mean.getType();
  Attribute one = calls.integer(1);
  Value scale = calls.call(
      operators::aten::add_Scalar,
      {variance, builder.getF64FloatAttr(*numberArgument(batchNorm, 7)), one},
      channel);
  scale = calls.call(operators::aten::rsqrt, {scale}, channel);
  if (gamma)
    scale = calls.call(operators::aten::mul_Tensor, {scale, gamma}, channel);
  int64_t channels = typeOf(mean).getDimSize(0);
  weight = calls.call(operators::aten::mul_Tensor,
                      {weight, calls.view(scale, {channels, 1, 1, 1})},
                      weight.getType());
  Value shift =
      bias ? calls.call(operators::aten::sub_Tensor, {bias, mean, one}, channel)
           : calls.call(operators::aten::neg, {mean}, channel);
  bias = calls.call(operators::aten::mul_Tensor, {shift, scale}, channel);
  if (beta)
    bias = calls.call(operators::aten::add_Tensor, {bias, beta, one}, channel);
  weight = converted(calls, weight, narrow);
  bias = converted(calls, bias, narrow);
}
