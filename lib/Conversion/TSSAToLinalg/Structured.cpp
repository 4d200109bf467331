//===- Structured.cpp - The rules of structured operators -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Structured.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "pyjit/Operators/CallArguments.h"

using namespace mlir;

namespace pyjit {

Value StructuredCall::tensor(unsigned argument) {
  return operators::isOperandPlaceholder(op.getArgs()[argument])
             ? op.getInputs()[firstOperand[argument]]
             : Value();
}

std::optional<int64_t> StructuredCall::integer(unsigned argument) {
  auto value = dyn_cast<IntegerAttr>(op.getArgs()[argument]);
  if (!value)
    return std::nullopt;
  return value.getInt();
}

std::optional<SmallVector<int64_t>>
StructuredCall::integers(unsigned argument) {
  auto list = dyn_cast<ArrayAttr>(op.getArgs()[argument]);
  if (!list)
    return std::nullopt;
  SmallVector<int64_t> numbers;
  for (Attribute element : list) {
    auto number = dyn_cast<IntegerAttr>(element);
    if (!number)
      return std::nullopt;
    numbers.push_back(number.getInt());
  }
  return numbers;
}

bool StructuredCall::isOnDevice() {
  auto function = op->getParentOfType<func::FuncOp>();
  return !function || function->hasAttr(attribute::kDevice);
}

std::optional<unsigned> StructuredCall::dim(unsigned argument, unsigned rank) {
  std::optional<int64_t> value = integer(argument);
  return value ? dimOf(*value, rank) : std::nullopt;
}

std::optional<unsigned> dimOf(int64_t number, unsigned rank) {
  if (number < -int64_t(rank) || number >= int64_t(rank))
    return std::nullopt;
  return number < 0 ? number + rank : number;
}

namespace {

template <unsigned Rank> SmallVector<Value> lowerMaxPoolOf(StructuredCall &c) {
  return lowerMaxPool(c, Rank);
}
template <unsigned Rank>
SmallVector<Value> lowerMaxPoolBackwardOf(StructuredCall &c) {
  return lowerMaxPoolBackward(c, Rank);
}
template <unsigned Rank> SmallVector<Value> lowerAvgPoolOf(StructuredCall &c) {
  return lowerAvgPool(c, Rank);
}
template <unsigned Rank>
SmallVector<Value> lowerAvgPoolBackwardOf(StructuredCall &c) {
  return lowerAvgPoolBackward(c, Rank);
}
template <bool Largest> SmallVector<Value> lowerExtremeOf(StructuredCall &c) {
  return lowerExtreme(c, Largest);
}

constexpr StructuredRule kStructuredRules[] = {
    {"cat", lowerCat, StructuredRule::AnySizes},
    {"stack", lowerStack},
    {"repeat", lowerRepeat},
    {"pixel_shuffle", lowerPixelShuffle},
    {"pixel_unshuffle", lowerPixelUnshuffle},
    {"flip", lowerFlip},
    {"roll", lowerRoll},
    {"constant_pad_nd", lowerConstantPad},
    {"embedding", lowerEmbedding, StructuredRule::AnySizes},
    {"index_select", lowerIndexSelect, StructuredRule::AnySizes},
    {"gather", lowerGather, StructuredRule::AnySizes},
    {"index", lowerIndex, StructuredRule::AnySizes},
    {"index_copy", lowerIndexCopy, StructuredRule::Writes},
    {"max", lowerExtremeOf<true>},
    {"min", lowerExtremeOf<false>},
    {"group_norm", lowerGroupNorm},
    {"max_pool1d", lowerMaxPoolOf<1>, StructuredRule::AnySizes},
    {"max_pool2d", lowerMaxPoolOf<2>, StructuredRule::AnySizes},
    {"max_pool3d", lowerMaxPoolOf<3>, StructuredRule::AnySizes},
    {"max_pool2d_backward", lowerMaxPoolBackwardOf<2>,
     StructuredRule::AnySizes},
    {"max_pool3d_backward", lowerMaxPoolBackwardOf<3>,
     StructuredRule::AnySizes},
    {"avg_pool1d", lowerAvgPoolOf<1>, StructuredRule::AnySizes},
    {"avg_pool2d", lowerAvgPoolOf<2>, StructuredRule::AnySizes},
    {"avg_pool3d", lowerAvgPoolOf<3>, StructuredRule::AnySizes},
    {"avg_pool2d_backward", lowerAvgPoolBackwardOf<2>,
     StructuredRule::AnySizes},
    {"avg_pool3d_backward", lowerAvgPoolBackwardOf<3>,
     StructuredRule::AnySizes},
};

} // namespace

const StructuredRule *lookupStructuredRule(StringRef name) {
  const StructuredRule *found =
      llvm::find_if(kStructuredRules, [&](const StructuredRule &rule) {
        return rule.name == name;
      });
  return found == std::end(kStructuredRules) ? nullptr : found;
}

} // namespace pyjit
