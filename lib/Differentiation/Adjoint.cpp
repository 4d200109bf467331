//===- Adjoint.cpp - The gradients of one call's operands -----------------===//

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

namespace {

/// Makes operations of one derivative's expression.
class Expression {
public:
  Expression(Adjoint &adjoint, ArrayRef<DerivativeNode> nodes)
      : adjoint(adjoint), build(adjoint.build), nodes(nodes) {}

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
      return Value(adjoint.call.getResult(0));
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
    case DerivativeOp::Call:
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
      children = node.index;
      break;
    case DerivativeOp::Let:
    case DerivativeOp::IfNone:
    case DerivativeOp::IfTrue:
    case DerivativeOp::IfNumber:
    case DerivativeOp::IfString:
      children = 2;
      break;
    default:
      break;
    }
    while (children--)
      skip();
  }

  Item argument(unsigned index) {
    if (Value tensor = adjoint.tensor(index))
      return tensor;
    Attribute given = adjoint.constant(index);
    if (!given)
      return std::nullopt;
    if (operators::isNumberOperand(given))
      return tssa::NumberOperand{tssa::numberOperand(adjoint.call, index)};
    if (TypedAttr number = operators::getWrappedNumber(given))
      return number;
    return given;
  }

  Item choose(const DerivativeNode &node) {
    Attribute given = adjoint.constant(node.index);
    if (!given || operators::isNumberOperand(given))
      return std::nullopt;
    bool first = false;
    switch (node.op) {
    case DerivativeOp::IfNone:
      first = operators::isNoneArgument(given);
      break;
    case DerivativeOp::IfTrue:
      first = isa<BoolAttr>(given) && cast<BoolAttr>(given).getValue();
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
    if (!attribute || isa<BoolAttr>(*attribute))
      return std::nullopt;
    if (auto real = dyn_cast<FloatAttr>(*attribute))
      return real.getValueAsDouble();
    if (auto integer = dyn_cast<IntegerAttr>(*attribute))
      return integer.getInt();
    return std::nullopt;
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
    Value result = callee->name == operators::aten::sum_dim_IntList
                       ? sum(items)
                       : build.pointwise(node.text, items);
    return result ? Item(result) : std::nullopt;
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
    return given;
  }

  Value sum(ArrayRef<Argument> items) {
    auto value = std::get<Value>(items[0]);
    auto given = std::get<Attribute>(items[1]);
    int64_t rank = tssa::typeOf(value).getRank();
    SmallVector<int64_t> dims;
    auto append = [&](Attribute entry) {
      int64_t dim = cast<IntegerAttr>(entry).getInt();
      dims.push_back(dim < 0 ? dim + rank : dim);
    };
    if (auto list = dyn_cast<ArrayAttr>(given))
      llvm::for_each(list, append);
    else
      append(given);
    return rank ? build.sum(value, dims) : value;
  }

  Adjoint &adjoint;
  GradientBuilder &build;
  ArrayRef<DerivativeNode> nodes;
  size_t next = 0;
  SmallVector<Item> locals;
};

} // namespace

LogicalResult
Adjoint::applyExpressions(ArrayRef<operators::Derivative> derivatives) {
  if (call->getNumResults() != 1)
    return refuse("it has several results");
  const operators::OperatorFacts &facts =
      operators::lookupFacts(call.getOverload());
  for (unsigned i = 0; i < call.getArgs().size(); ++i) {
    if (!wants(i) || facts.overwrites == int(i))
      continue;
    const auto *derivative =
        llvm::find_if(derivatives, [&](const operators::Derivative &known) {
          return known.operand == i;
        });
    if (derivative == derivatives.end())
      return refuse("no derivative by argument " + Twine(i) + " is known");
    Value gradient = Expression(*this, derivative->expression).run();
    if (!gradient)
      return refuse("its derivative by argument " + Twine(i) +
                    " does not cover these arguments");
    give(i, gradient);
  }
  return success();
}

SmallVector<int64_t> Adjoint::dimensions(unsigned index, int64_t rank) const {
  SmallVector<int64_t> dims;
  auto append = [&](Attribute entry) {
    int64_t dim = cast<IntegerAttr>(entry).getInt();
    dims.push_back(dim < 0 ? dim + rank : dim);
  };
  Attribute given = constant(index);
  if (!rank) // PyTorch takes 0 and -1 for a number, too
    return dims;
  if (auto list = dyn_cast_or_null<ArrayAttr>(given))
    llvm::for_each(list, append);
  else if (given && isa<IntegerAttr>(given))
    append(given);
  if (dims.empty())
    llvm::append_range(dims, llvm::seq<int64_t>(0, rank));
  llvm::sort(dims);
  return dims;
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
  if (call.getMutates())
    return refuse("it writes its operands");
  StringRef overload = call.getOverload();
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
