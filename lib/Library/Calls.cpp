//===- Calls.cpp - Building and matching vendor calls ---------------------===//

#include "Calls.h"
#include "dialects/pyjit/IR/Attributes.h"

#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/CallArguments.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

Value CallBuilder::call(StringRef overload, ArrayRef<Argument> arguments,
                        Type result) {
  SmallVector<Value> operands;
  SmallVector<Attribute> args;
  for (const Argument &argument : arguments) {
    if (auto *value = std::get_if<Value>(&argument)) {
      operands.push_back(*value);
      args.push_back(operators::getOperandPlaceholder(builder.getContext()));
    } else {
      args.push_back(std::get<Attribute>(argument));
    }
  }
  return tssa::AtenOp::create(builder, loc, TypeRange{result}, overload,
                              operands, builder.getArrayAttr(args),
                              DenseI64ArrayAttr())
      .getResult(0);
}

/// What one view shows of a tensor, at the strides that it shows it at.
static Value access(OpBuilder &builder, Location loc, Value source,
                    tssa::ViewAttr view) {
  auto path = builder.getArrayAttr(view);
  RankedTensorType type =
      tssa::inferPathType(path, cast<RankedTensorType>(source.getType()),
                          [&] { return emitError(loc); });
  return tssa::AccessOp::create(builder, loc, type, source, path, ValueRange());
}

Value CallBuilder::view(Value source, ArrayRef<int64_t> sizes) {
  return access(
      builder, loc, source,
      tssa::ViewAttr::get(builder.getContext(), tssa::ViewKind::view, sizes));
}

Value CallBuilder::permute(Value source, ArrayRef<int64_t> dims) {
  return access(
      builder, loc, source,
      tssa::ViewAttr::get(builder.getContext(), tssa::ViewKind::permute, dims));
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

std::string library::functionalName(tssa::AtenOp op) {
  auto [name, overload] = op.getOverload().split('.');
  std::string base = name.str();
  if (op.getMutates() && !op.getMutates()->empty() && base.back() == '_')
    base.pop_back();
  return overload.empty() ? base : base + "." + overload.str();
}

tssa::AtenOp library::matchCall(Value value, StringRef name) {
  auto op = value ? value.getDefiningOp<tssa::AtenOp>() : nullptr;
  return op && op->getNumResults() == 1 && functionalName(op) == name ? op
                                                                      : nullptr;
}

tssa::AtenOp library::onlyUser(Value value) {
  return value.hasOneUse() ? dyn_cast<tssa::AtenOp>(*value.user_begin())
                           : nullptr;
}

Value library::tensorArgument(tssa::AtenOp op, unsigned index) {
  Value found;
  operators::walkCallArguments(
      op.getArgs(), [&](unsigned i, Attribute arg, unsigned first) {
        if (i == index && operators::isOperandPlaceholder(arg))
          found = op.getOperands()[first];
      });
  return found;
}

Attribute library::constantArgument(tssa::AtenOp op, unsigned index) {
  return index < op.getArgs().size() ? op.getArgs()[index] : Attribute();
}

std::optional<double> library::numberArgument(tssa::AtenOp op, unsigned index) {
  Attribute arg = constantArgument(op, index);
  if (auto real = dyn_cast_or_null<FloatAttr>(arg))
    return real.getValueAsDouble();
  if (auto integer = dyn_cast_or_null<IntegerAttr>(arg))
    return integer.getInt();
  return std::nullopt;
}

std::optional<double> library::wrappedArgument(tssa::AtenOp op,
                                               unsigned index) {
  TypedAttr number = operators::getWrappedNumber(constantArgument(op, index));
  if (auto real = dyn_cast_or_null<FloatAttr>(number))
    return real.getValueAsDouble();
  if (auto integer = dyn_cast_or_null<IntegerAttr>(number))
    return integer.getInt();
  return std::nullopt;
}

bool library::isFromParameters(Value value) {
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    auto function = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
    return function &&
           function.getArgAttr(arg.getArgNumber(), attribute::kParam);
  }
  Operation *op = value.getDefiningOp();
  return tssa::mayMove(op) && op->getNumRegions() == 0 &&
         llvm::all_of(op->getOperands(), isFromParameters);
}
