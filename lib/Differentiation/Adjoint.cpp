//===- Adjoint.cpp - The gradients of one call's operands -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Adjoint.h"

#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using operators::DerivativeNode;
using operators::DerivativeOp;
using tssa::typeOf;

namespace {

/// Makes operations of one derivative's expression.
class Expression {
public:
  /// `conjugates`: of complex operands and results it reads the conjugates.
  Expression(Adjoint &adjoint, Value operand, ArrayRef<DerivativeNode> nodes,
             bool conjugates)
      : adjoint(adjoint), build(adjoint.build), operand(operand), nodes(nodes),
        conjugates(conjugates) {}

  /// The gradient; null where the expression does not cover the call.
  Value run() {
    std::optional<Argument> item = evaluate();
    return item && std::holds_alternative<Value>(*item) ? std::get<Value>(*item)
                                                        : Value();
  }

private:
  using Item = std::optional<Argument>; ///< nothing: not covered

  /// The next node's value.
  Item evaluate() {
    const DerivativeNode &node = nodes[next++];
    switch (node.op) {
    case DerivativeOp::Gradient:
      return adjoint.gradient();
    case DerivativeOp::Result:
      return read(adjoint.call.getResult(node.index));
    case DerivativeOp::Argument:
      return argument(node.index);
    case DerivativeOp::Local:
      return locals[node.index];
    case DerivativeOp::Integer:
      return build.integer(int64_t(node.number));
    case DerivativeOp::Real:
      return build.number(node.number);
    case DerivativeOp::Flag:
      return build.boolean(node.index);
    case DerivativeOp::None:
      return build.none();
    case DerivativeOp::Text:
      return build.string(node.text);
    case DerivativeOp::Sizes:
      return sizes(node);
    case DerivativeOp::Call:
    case DerivativeOp::Backward:
      return call(node);
    case DerivativeOp::Let: {
      Item value = evaluate();
      if (!value)
        return std::nullopt;
      locals.resize(std::max<size_t>(locals.size(), node.index + 1));
      locals[node.index] = value;
      return evaluate();
    }
    case DerivativeOp::IfNone:
    case DerivativeOp::IfTrue:
    case DerivativeOp::IfNumber:
    case DerivativeOp::IfString:
    case DerivativeOp::IfComplex:
      return choose(node);
    }
    llvm_unreachable("unknown node");
  }

  /// Passes over a subexpression.
  void skip() {
    const DerivativeNode &node = nodes[next++];
    unsigned children = 0;
    switch (node.op) {
    case DerivativeOp::Call:
    case DerivativeOp::Backward:
      children = node.index;
      break;
    case DerivativeOp::Let:
    case DerivativeOp::IfNone:
    case DerivativeOp::IfTrue:
    case DerivativeOp::IfNumber:
    case DerivativeOp::IfString:
    case DerivativeOp::IfComplex:
      children = 2;
      break;
    default:
      break;
    }
    while (children--)
      skip();
  }

  Value read(Value tensor) {
    return conjugates ? conjugate(build, tensor) : tensor;
  }

  Item argument(unsigned index) {
    if (Value tensor = adjoint.tensor(index))
      return read(tensor);
    Attribute given = adjoint.constant(index);
    if (!given)
      return std::nullopt;
    if (operators::isNumberOperand(given))
      return tssa::NumberOperand{tssa::numberOperand(adjoint.call, index)};
    if (TypedAttr number = operators::getWrappedNumber(given))
      return number;
    return given;
  }

  Item sizes(const DerivativeNode &node) {
    auto all = cast<ArrayAttr>(build.sizes(typeOf(adjoint.tensor(node.index))));
    auto last = size_t(node.number);
    return Attribute(last ? build.list(all.getValue().take_back(last))
                          : Attribute(all));
  }

  Item choose(const DerivativeNode &node) {
    Attribute given = adjoint.constant(node.index);
    if (!given && node.op != DerivativeOp::IfComplex)
      return std::nullopt;
    bool first = false;
    switch (node.op) {
    case DerivativeOp::IfNone:
      first = operators::isNoneArgument(given);
      break;
    case DerivativeOp::IfTrue:
      first = isa<BoolAttr>(given) && cast<BoolAttr>(given).getValue();
      break;
    case DerivativeOp::IfComplex:
      first = isComplex(adjoint.tensor(node.index));
      break;
    case DerivativeOp::IfNumber:
      first = tssa::numberArgument(adjoint.call, node.index) == node.number;
      break;
    default:
      first = isa<StringAttr>(given) && cast<StringAttr>(given) == node.text;
      break;
    }
    if (!first)
      skip();
    Item result = evaluate();
    if (first)
      skip();
    return result;
  }

  static std::optional<double> numberOf(const Argument &item) {
    auto *attribute = std::get_if<Attribute>(&item);
    return attribute ? operators::getNumber(*attribute) : std::nullopt;
  }

  /// Arithmetic on numbers, as Python does it.
  std::optional<double> fold(StringRef overload, ArrayRef<Argument> items) {
    SmallVector<double> numbers;
    for (const Argument &item : items.take_front(2)) {
      std::optional<double> number = numberOf(item);
      if (!number)
        return std::nullopt;
      numbers.push_back(*number);
    }
    if (numbers.size() != 2)
      return std::nullopt;
    if (overload == operators::aten::add_Tensor)
      return numbers[0] + numbers[1];
    if (overload == operators::aten::sub_Tensor)
      return numbers[0] - numbers[1];
    if (overload == operators::aten::mul_Tensor)
      return numbers[0] * numbers[1];
    if (overload == operators::aten::div_Tensor)
      return numbers[0] / numbers[1];
    return std::nullopt;
  }

  Item call(const DerivativeNode &node) {
    const operators::OperatorInfo *callee =
        operators::lookupOperator(node.text);
    bool ofGradient = nodes[next].op == DerivativeOp::Gradient;
    SmallVector<Argument> items;
    for (unsigned i = 0; i < node.index; ++i) {
      Item item = evaluate();
      if (!item)
        return std::nullopt;
      items.push_back(*item);
    }
    if (std::optional<double> number = fold(node.text, items))
      return build.number(*number);
    for (auto [item, argument] : llvm::zip(items, callee->arguments))
      if (auto *given = std::get_if<Attribute>(&item))
        item = inPlaceOf(*given, argument.type);
    if (node.op == DerivativeOp::Backward)
      return build.call(node.text, items, gradientTypeOf(typeOf(operand)));
    // Of the operand's type alone: its elements are not to be saved. (Zeros of
    // the gradient are no gradient where there is none.)
    if (callee->name == operators::aten::zeros_like && !ofGradient)
      return build.zerosLike(std::get<Value>(items[0]));
    for (Argument &item : items)
      if (auto *value = std::get_if<Value>(&item))
        item = widened(*value);
    Value result = callee->name == operators::aten::sum_dim_IntList
                       ? sum(items)
                       : build.pointwise(node.text, items);
    return result ? Item(result) : std::nullopt;
  }

  /// Half precision is computed in single precision, as eager's kernels do: the
  /// powers within a softplus' derivative would overflow.
  Value widened(Value value) {
    Type type = typeOf(value).getElementType();
    bool isHalf = type.isF16() || type.isBF16();
    return isHalf ? build.convert(value, Float32Type::get(type.getContext()))
                  : value;
  }

  /// A number or a flag as the schema's type wants it.
  Attribute inPlaceOf(Attribute given, StringRef type) {
    std::optional<double> number = numberOf(given);
    if (!number)
      return given;
    if (type == "Tensor")
      return operators::makeWrappedNumber(cast<TypedAttr>(given));
    if (type == "bool")
      return build.boolean(*number != 0);
    if (type == "int")
      return build.integer(int64_t(*number));
    return given;
  }

  Value sum(ArrayRef<Argument> items) {
    auto value = std::get<Value>(items[0]);
    auto given = std::get<Attribute>(items[1]);
    int64_t rank = tssa::typeOf(value).getRank();
    if (!rank)
      return value;
    SmallVector<int64_t> dims;
    if (auto list = dyn_cast<ArrayAttr>(given))
      for (Attribute entry : list)
        dims.push_back(adjoint.dimension(entry, rank));
    else
      dims.push_back(adjoint.dimension(given, rank));
    return build.sum(value, dims);
  }

  Adjoint &adjoint;
  GradientBuilder &build;
  Value operand;
  ArrayRef<DerivativeNode> nodes;
  bool conjugates;
  size_t next = 0;
  SmallVector<Item> locals;
};

} // namespace

LogicalResult
Adjoint::applyExpressions(ArrayRef<operators::Derivative> derivatives) {
  for (unsigned i = 0; i < gradients.size(); ++i)
    if (bool(gradients[i]) != (i == 0))
      return refuse("a gradient of its result " + Twine(i));
  const operators::OperatorFacts &facts =
      operators::lookupFacts(tssa::functionalName(call));
  bool conjugates =
      facts.complexGradient == operators::ComplexGradient::Holomorphic;
  for (unsigned i = 0; i < call.getArgs().size(); ++i) {
    if (!wants(i))
      continue;
    const auto *derivative =
        llvm::find_if(derivatives, [&](const operators::Derivative &known) {
          return known.operand == i;
        });
    // Nobody reads what such an operand held.
    if (derivative == derivatives.end() && facts.overwrites == int(i))
      continue;
    if (derivative == derivatives.end())
      return refuse("no derivative by argument " + Twine(i) + " is known");
    Value gradient =
        Expression(*this, tensor(i), derivative->expression, conjugates).run();
    if (!gradient)
      return refuse("its derivative by argument " + Twine(i) +
                    " does not cover these arguments");
    give(i, gradient);
  }
  return success();
}

int64_t Adjoint::dimension(Attribute given, int64_t rank) {
  auto number = dyn_cast<IntegerAttr>(given);
  int64_t dim = number ? number.getInt() : rank;
  isOutside |= dim < -rank || dim >= rank;
  return isOutside ? 0 : dim < 0 ? dim + rank : dim;
}

SmallVector<int64_t> Adjoint::dimensions(unsigned index, int64_t rank) {
  SmallVector<int64_t> dims;
  Attribute given = constant(index);
  if (!rank) // PyTorch takes 0 and -1 for a number, too
    return dims;
  if (auto list = dyn_cast_or_null<ArrayAttr>(given))
    for (Attribute entry : list)
      dims.push_back(dimension(entry, rank));
  else if (given && isa<IntegerAttr>(given))
    dims.push_back(dimension(given, rank));
  if (dims.empty())
    llvm::append_range(dims, llvm::seq<int64_t>(0, rank));
  llvm::sort(dims);
  return dims;
}

Argument Adjoint::factor(unsigned index) const {
  if (Value given = tssa::numberOperand(call, index))
    return tssa::NumberOperand{given};
  return build.wrapped(number(index).value_or(1));
}

Value Adjoint::times(Value value, unsigned index) {
  return number(index) == 1.0 ? value : build.multiply(value, factor(index));
}

bool Adjoint::flag(unsigned index) const {
  auto flag = dyn_cast_or_null<BoolAttr>(constant(index));
  return flag && flag.getValue();
}

Value Adjoint::keepDims(Value value, ArrayRef<int64_t> dims) {
  for (int64_t dim : dims)
    value = build.unsqueeze(value, dim);
  return value;
}

LogicalResult Adjoint::run() {
  // One that has no functional form of its types (a sum that is rounded to its
  // first operand's) stands for the value that it writes.
  if (call.getMutates() && call->getNumResults() != 1)
    return refuse("it writes several operands");
  std::string overload = tssa::functionalName(call);
  auto isOfComplex = [](ValueRange values) {
    return llvm::any_of(values, isComplex);
  };
  if ((isOfComplex(call.getOperands()) || isOfComplex(call.getResults())) &&
      operators::lookupFacts(overload).complexGradient ==
          operators::ComplexGradient::None)
    return refuse("no derivative by complex numbers is known");
  LogicalResult given = applyRule(overload);
  if (succeeded(given) && isOutside)
    return refuse("it names a dimension that its operand has not");
  return given;
}

LogicalResult Adjoint::applyRule(StringRef overload) {
  ArrayRef<operators::Derivative> derivatives =
      operators::lookupDerivatives(overload);
  if (!derivatives.empty())
    return applyExpressions(derivatives);
  switch (operators::lookupFacts(overload).gradientRule) {
  case operators::GradientRule::None:
    return refuse("no derivative is known");
#define PYJIT_GRADIENT_RULE(Name, name)                                        \
  case operators::GradientRule::Name:                                          \
    return gradient_rules::Name(*this);
#include "pyjit-c/OperatorFacts.h.inc"
  }
  llvm_unreachable("unknown rule");
}
