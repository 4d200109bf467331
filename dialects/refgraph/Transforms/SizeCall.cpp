//===- SizeCall.cpp - A call's arguments, by the names of its schema ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/SizeRules.h"
#include "pyjit/Operators/CallArguments.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

SizePolynomial SymbolicShape::numElements() const {
  SizePolynomial count = 1;
  for (const SizePolynomial &size : sizes)
    count = count * size;
  return count;
}

bool SymbolicShape::isSymbolic() const {
  auto varies = [](const SizePolynomial &e) { return !e.isConstant(); };
  return llvm::any_of(sizes, varies) || llvm::any_of(strides, varies);
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

SizeCall::SizeCall(TensorOp op, SizeFacts &facts)
    : op(op), facts(facts),
      rule(operators::lookupFacts(op.getOverload()).sizeRule),
      info(operators::lookupOperator(op.getOverload())) {}

/// The argument of that name, and the number of its first operand.
Attribute SizeCall::find(StringRef argument, unsigned *operand) const {
  int wanted = info ? info->findArgument(argument) : -1;
  Attribute found;
  operators::walkCallArguments(
      op.getArgs(), [&](unsigned index, Attribute arg, unsigned first) {
        if (static_cast<int>(index) != wanted)
          return;
        found = arg;
        *operand = first;
      });
  return found;
}

const SymbolicShape *SizeCall::tensor(StringRef argument) const {
  unsigned operand = 0;
  Attribute arg = find(argument, &operand);
  if (!arg || !operators::isOperandPlaceholder(arg))
    return nullptr;
  return &facts.shapeOf(op.getInputs()[operand]);
}

SmallVector<const SymbolicShape *> SizeCall::tensors(StringRef list) const {
  unsigned operand = 0;
  SmallVector<const SymbolicShape *> found;
  auto args = dyn_cast_or_null<ArrayAttr>(find(list, &operand));
  if (!args)
    return found;
  for (Attribute arg : args)
    found.push_back(operators::isOperandPlaceholder(arg)
                        ? &facts.shapeOf(op.getInputs()[operand++])
                        : nullptr);
  return found;
}

SmallVector<const SymbolicShape *> SizeCall::allTensors() const {
  SmallVector<const SymbolicShape *> found;
  for (Value input : op.getInputs())
    if (isa<refgraph::TensorType>(input.getType()))
      found.push_back(&facts.shapeOf(input));
  return found;
}

bool SizeCall::isNone(StringRef argument) const {
  unsigned operand;
  Attribute arg = find(argument, &operand);
  return !arg || operators::isNoneArgument(arg);
}

std::optional<SizePolynomial> SizeCall::sizeAt(Attribute arg,
                                               unsigned &operand) const {
  if (operators::isSizeOperand(arg))
    return facts.sizeOf(op.getInputs()[operand++]);
  if (AffineExpr size = operators::getSizeArgument(arg))
    return SizePolynomial::fromAffine(size);
  auto literal = dyn_cast<IntegerAttr>(arg);
  if (!literal || !literal.getType().isInteger(64))
    return std::nullopt;
  return SizePolynomial(literal.getInt());
}

std::optional<SizePolynomial> SizeCall::size(StringRef argument) const {
  unsigned operand;
  Attribute arg = find(argument, &operand);
  return arg ? sizeAt(arg, operand) : std::nullopt;
}

std::optional<SizePolynomials> SizeCall::sizes(StringRef argument) const {
  unsigned operand;
  auto list = dyn_cast_or_null<ArrayAttr>(find(argument, &operand));
  if (!list)
    return std::nullopt;
  SizePolynomials found;
  for (Attribute arg : list) {
    auto size = sizeAt(arg, operand);
    if (!size)
      return std::nullopt;
    found.push_back(*size);
  }
  return found;
}

std::optional<int64_t> SizeCall::integer(StringRef argument) const {
  auto found = size(argument);
  return found ? found->getConstant() : std::nullopt;
}

std::optional<SmallVector<int64_t>>
SizeCall::integers(StringRef argument) const {
  if (auto one = integer(argument))
    return SmallVector<int64_t>{*one};
  auto list = sizes(argument);
  if (!list)
    return std::nullopt;
  SmallVector<int64_t> numbers;
  for (const SizePolynomial &size : *list) {
    if (!size.isConstant())
      return std::nullopt;
    numbers.push_back(*size.getConstant());
  }
  return numbers;
}

bool SizeCall::isTrue(StringRef argument) const {
  unsigned operand;
  auto value = dyn_cast_or_null<IntegerAttr>(find(argument, &operand));
  return value && value.getType().isInteger(1) && value.getValue().isOne();
}

StringRef SizeCall::text(StringRef argument) const {
  unsigned operand;
  auto value = dyn_cast_or_null<StringAttr>(find(argument, &operand));
  return value ? value.getValue() : StringRef();
}

std::optional<unsigned> SizeCall::dim(StringRef argument, unsigned rank,
                                      std::optional<int64_t> otherwise) const {
  auto value = integer(argument);
  if (!value && isNone(argument))
    value = otherwise;
  if (!value)
    return std::nullopt;
  int64_t wrapped = *value < 0 ? *value + rank : *value;
  if (wrapped < 0 || wrapped >= static_cast<int64_t>(rank))
    return std::nullopt;
  return wrapped;
}
