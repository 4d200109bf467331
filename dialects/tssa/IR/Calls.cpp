//===- Calls.cpp - Building and matching calls of operators ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/tssa/IR/Calls.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/OperatorNames.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::tssa;

Value tssa::makeEmpty(OpBuilder &b, Location loc, RankedTensorType type) {
  if (isSymbolic(type))
    return EmptyOp::create(b, loc, type);
  return tensor::EmptyOp::create(b, loc, type, ValueRange());
}

CallArguments tssa::splitArguments(MLIRContext *context, StringRef overload,
                                   ArrayRef<Argument> arguments) {
  const operators::OperatorInfo *info = operators::lookupOperator(overload);
  CallArguments split;
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    if (auto *value = std::get_if<Value>(&argument)) {
      split.operands.push_back(*value);
      split.args.push_back(operators::getOperandPlaceholder(context));
    } else if (auto *number = std::get_if<NumberOperand>(&argument)) {
      bool ofTensor = info && i < info->arguments.size() &&
                      info->arguments[i].type.starts_with("Tensor");
      split.operands.push_back(number->value);
      split.args.push_back(operators::makeNumberOperand(context, ofTensor));
    } else {
      split.args.push_back(std::get<Attribute>(argument));
    }
  }
  return split;
}

Value CallBuilder::call(StringRef overload, ArrayRef<Argument> arguments,
                        Type result) {
  auto [operands, args] =
      splitArguments(builder.getContext(), overload, arguments);
  return AtenOp::create(builder, loc, TypeRange{result}, overload, operands,
                        builder.getArrayAttr(args), DenseI64ArrayAttr())
      .getResult(0);
}

Value CallBuilder::access(Value source, ArrayRef<ViewAttr> views,
                          ValueRange indices) {
  SmallVector<Attribute> steps(views.begin(), views.end());
  ArrayAttr path = builder.getArrayAttr(steps);
  RankedTensorType type =
      inferPathType(path, typeOf(source), [&] { return emitError(loc); });
  if (!type) {
    failed = true;
    return source;
  }
  return AccessOp::create(builder, loc, type, source, path, indices);
}

Value CallBuilder::view(Value source, ArrayRef<int64_t> sizes) {
  return access(source,
                ViewAttr::get(builder.getContext(), ViewKind::view, sizes));
}

Value CallBuilder::permute(Value source, ArrayRef<int64_t> dims) {
  return access(source,
                ViewAttr::get(builder.getContext(), ViewKind::permute, dims));
}

Value CallBuilder::concatenate(ValueRange values, int64_t dim,
                               RankedTensorType type) {
  SmallVector<Attribute> places(
      values.size(), operators::getOperandPlaceholder(builder.getContext()));
  auto args = builder.getArrayAttr({list(places), integer(dim)});
  return AtenOp::create(builder, loc, TypeRange{type}, operators::aten::cat,
                        values, args, DenseI64ArrayAttr())
      .getResult(0);
}

Value CallBuilder::concatenate(ValueRange values, int64_t dim) {
  auto first = typeOf(values.front());
  SmallVector<int64_t> shape(first.getShape());
  shape[dim] = 0;
  for (Value value : values)
    shape[dim] += typeOf(value).getDimSize(dim);
  return concatenate(values, dim,
                     RankedTensorType::get(shape, first.getElementType()));
}

Attribute CallBuilder::none() const {
  return operators::getNoneArgument(builder.getContext());
}
Attribute CallBuilder::integer(int64_t value) const {
  return builder.getI64IntegerAttr(value);
}
Attribute CallBuilder::number(double value) const {
  return builder.getF64FloatAttr(value);
}
Attribute CallBuilder::boolean(bool value) const {
  return builder.getBoolAttr(value);
}
Attribute CallBuilder::integers(ArrayRef<int64_t> values) const {
  SmallVector<Attribute> list;
  for (int64_t value : values)
    list.push_back(integer(value));
  return builder.getArrayAttr(list);
}
Attribute CallBuilder::string(StringRef value) const {
  return builder.getStringAttr(value);
}
Attribute CallBuilder::list(ArrayRef<Attribute> values) const {
  return builder.getArrayAttr(values);
}
Argument CallBuilder::optional(Value value) const {
  return value ? Argument(value) : Argument(none());
}

std::string tssa::functionalName(AtenOp op) {
  auto [name, overload] = op.getOverload().split('.');
  std::string base = name.str();
  if (op.getMutates() && !op.getMutates()->empty() && base.back() == '_')
    base.pop_back();
  return overload.empty() ? base : base + "." + overload.str();
}

AtenOp tssa::matchCall(Value value, StringRef name) {
  auto op = value ? value.getDefiningOp<AtenOp>() : nullptr;
  return op && op->getNumResults() == 1 && functionalName(op) == name ? op
                                                                      : nullptr;
}

AtenOp tssa::onlyUser(Value value) {
  return value.hasOneUse() ? dyn_cast<AtenOp>(*value.user_begin()) : nullptr;
}

void tssa::eraseUnused(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (!op.hasTrait<OpTrait::IsTerminator>() && op.use_empty() &&
        isMemoryEffectFree(&op))
      op.erase();
}

static Value operandAt(AtenOp op, unsigned index,
                       llvm::function_ref<bool(Attribute)> matches) {
  Value found;
  operators::walkCallArguments(op.getArgs(),
                               [&](unsigned i, Attribute arg, unsigned first) {
                                 if (i == index && matches(arg))
                                   found = op.getOperands()[first];
                               });
  return found;
}

Value tssa::tensorArgument(AtenOp op, unsigned index) {
  return operandAt(op, index, operators::isOperandPlaceholder);
}

Value tssa::numberOperand(AtenOp op, unsigned index) {
  return operandAt(op, index, operators::isNumberOperand);
}

Attribute tssa::constantArgument(AtenOp op, unsigned index) {
  return index < op.getArgs().size() ? op.getArgs()[index] : Attribute();
}

std::optional<double> tssa::numberArgument(AtenOp op, unsigned index) {
  return operators::getNumber(constantArgument(op, index));
}

std::optional<double> tssa::wrappedArgument(AtenOp op, unsigned index) {
  return operators::getNumber(
      operators::getWrappedNumber(constantArgument(op, index)));
}
