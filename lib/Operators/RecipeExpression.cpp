//===- RecipeExpression.cpp - what a table expression asks for ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks the expression in prefix order. What it asks about constant arguments
// is decided here; types, broadcasting and conversions become explicit.
//
//===----------------------------------------------------------------------===//

#include "Resolver.h"
#include "pyjit/Operators/ElementTypes.h"

using namespace mlir;

namespace pyjit::operators {

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// A number in a type, converted as ATen converts a Scalar.
Resolver::MaybeValue Resolver::constant(Attribute number, Type type) {
  TypedAttr value;
  double real = 0;
  int64_t integer = 0;
  if (auto attr = dyn_cast<FloatAttr>(number)) {
    real = attr.getValueAsDouble();
    if (isa<IntegerType>(type) && !type.isInteger(1)) {
      if (!(real >= -9.0e18 && real <= 9.0e18))
        return failure();
      integer = static_cast<int64_t>(real);
    } else {
      integer = real != 0;
    }
  } else if (auto attr = dyn_cast<IntegerAttr>(number)) {
    integer = attr.getType().isInteger(1) ? attr.getValue().getBoolValue()
                                          : attr.getInt();
    real = static_cast<double>(integer);
  } else {
    return failure();
  }
  if (isa<FloatType>(type)) {
    value = FloatAttr::get(type, real);
  } else {
    unsigned width = type.getIntOrFloatBitWidth();
    APInt bits(width, type.isInteger(1) ? integer != 0 : integer,
               /*isSigned=*/true, /*implicitTrunc=*/true);
    value = IntegerAttr::get(type, bits);
  }
  Value result;
  result.nodes.push_back({ScalarOp::Const, type, 0, 0, value});
  return result;
}

Value Resolver::read(Source source, Type elementType) {
  auto *known = llvm::find(sources, source);
  unsigned number = known - sources.begin();
  Value value;
  value.shape = source.shape;
  value.nodes.push_back({ScalarOp::Input, elementType, number, 0, {}});
  if (known == sources.end())
    sources.push_back(std::move(source));
  return value;
}

Value Resolver::convert(Value value, Type type) {
  if (value.type() == type)
    return value;
  if (value.nodes.front().op == ScalarOp::Const && value.nodes.size() == 1) {
    MaybeValue number = constant(value.nodes.front().constant, type);
    if (succeeded(number))
      return *number;
  }
  value.nodes.insert(value.nodes.begin(), {ScalarOp::Cast, type, 0, 0, {}});
  return value;
}

/// What the conversion of an operand to half precision leaves of it, in the
/// type of the computation.
Value Resolver::roundToCommon(Value value) {
  return convert(convert(std::move(value), common), compute);
}

std::optional<SmallVector<int64_t>> Resolver::broadcast(ArrayRef<int64_t> a,
                                                        ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  SmallVector<int64_t> shape(a);
  size_t lead = a.size() - b.size();
  for (auto [i, size] : llvm::enumerate(b)) {
    int64_t &mine = shape[lead + i];
    if (mine == 1)
      mine = size;
    else if (size != 1 && size != mine)
      return std::nullopt;
  }
  return shape;
}

Resolver::MaybeValue Resolver::combine(ScalarOp op, Type type,
                                       ArrayRef<Value> children) {
  // x * 1: `alpha` and its like.
  if (op == ScalarOp::Mul && children[1].nodes.front().op == ScalarOp::Const) {
    TypedAttr number = children[1].nodes.front().constant;
    auto real = dyn_cast<FloatAttr>(number);
    auto integer = dyn_cast<IntegerAttr>(number);
    if ((real && real.getValueAsDouble() == 1.0) ||
        (integer && integer.getValue().isOne()))
      return children[0];
  }
  Value value;
  value.nodes.push_back({op, type, 0, 0, {}});
  for (const Value &child : children) {
    llvm::append_range(value.nodes, child.nodes);
    auto shape = broadcast(value.shape, child.shape);
    if (!shape)
      return failure();
    value.shape = *shape;
  }
  return value;
}

//===----------------------------------------------------------------------===//
// The expression
//===----------------------------------------------------------------------===//

/// A constant argument as a number, wrapped or not, if it is one.
static std::optional<double> readNumber(Attribute arg) {
  TypedAttr wrapped = getWrappedNumber(arg);
  return getNumber(wrapped ? wrapped : arg);
}

/// A constant argument in `type`; in its own type where that is null.
Resolver::MaybeValue Resolver::literal(TypedAttr number, Type type) {
  std::optional<double> real = readNumber(number);
  if (narrowNumbers && real && type && type == compute && common != compute) {
    // From double by way of single precision, as eager converts.
    auto single = builder.getF32FloatAttr(static_cast<float>(*real));
    number = FloatAttr::get(common, single.getValueAsDouble());
  }
  return constant(number, type ? type : number.getType());
}

/// Whether eager converts a tensor to half precision before it computes with
/// it. It does so with every operand that takes part in promotion, but for
/// numbers that its loops take as they are.
bool Resolver::isRounded(unsigned index, RankedTensorType type) {
  if (common == compute || type.getElementType() == common)
    return false;
  bool byPromotion = info.result == ResultRule::Promote ||
                     info.result == ResultRule::Float ||
                     info.result == ResultRule::Bool;
  if (index != 0 && (!byPromotion || !(info.promoted & (1u << index))))
    return false;
  if (place.onDevice)
    return info.numbers == NumberRule::Narrow ||
           firstOperand[index] >= place.hostOperands.size() ||
           !place.hostOperands[firstOperand[index]];
  return !(info.numbers == NumberRule::WideScalar && index == 1 &&
           type.hasStaticShape() && type.getNumElements() == 1);
}

/// An argument in `type`; in its own type where that is null.
Resolver::MaybeValue Resolver::evalArgument(unsigned index, Type type) {
  Attribute arg = args[index];
  if (TypedAttr number = getWrappedNumber(arg))
    arg = number;
  if (isNumberOperand(arg)) {
    unsigned operand = firstOperand[index];
    Type own = cast<RankedTensorType>(operands[operand]).getElementType();
    // Out of range, ATen's conversion is not the machine's.
    if (isa<FloatType>(own) && type && !isa<FloatType>(type))
      return failure();
    Value value = read({false, operand, {}, {}}, own);
    if (narrowNumbers && type && type == compute && common != compute)
      return roundToCommon(value);
    return convert(value, type ? type : own);
  }
  if (!isOperandPlaceholder(arg)) {
    auto number = dyn_cast<TypedAttr>(arg);
    if (!number || isNoneArgument(arg))
      return failure();
    return literal(number, type);
  }
  unsigned operand = firstOperand[index];
  auto tensor = cast<RankedTensorType>(operands[operand]);
  Source source{false, operand, llvm::to_vector(tensor.getShape()), {}};
  for (int64_t dim : iota(tensor.getRank()))
    source.dims.push_back(dim);
  Value value = read(std::move(source), tensor.getElementType());
  if (type && type == compute && isRounded(index, tensor))
    return roundToCommon(value);
  return convert(value, type ? type : getComputeType(tensor.getElementType()));
}

/// A number negated as a Python number is, and then converted: -0 of an int is
/// no float's -0.0, and the least int stays as it is.
Resolver::MaybeValue Resolver::evalNegated(unsigned index) {
  Attribute arg = args[index];
  if (isNumberOperand(arg)) {
    MaybeValue own = evalArgument(index, {});
    if (failed(own))
      return failure();
    MaybeValue negated = combine(ScalarOp::Neg, own->type(), *own);
    if (failed(negated))
      return failure();
    return narrowNumbers && common != compute ? roundToCommon(*negated)
                                              : convert(*negated, compute);
  }
  Attribute number;
  if (auto real = dyn_cast<FloatAttr>(arg))
    number = FloatAttr::get(real.getType(), -real.getValue());
  else if (auto integer = dyn_cast<IntegerAttr>(arg))
    number = builder.getI64IntegerAttr(
        -(integer.getType().isInteger(1)
              ? APInt(64, integer.getValue().getBoolValue())
              : integer.getValue())
             .getSExtValue());
  else
    return failure();
  return literal(cast<TypedAttr>(number), compute);
}

/// What a device multiplies by in place of a division: a number's inverse is
/// taken in double, a tensor's in the type of the computation.
Resolver::MaybeValue Resolver::evalInverse(unsigned index) {
  Attribute arg = args[index];
  Type f64 = builder.getF64Type();
  if (TypedAttr wrapped = getWrappedNumber(arg))
    arg = wrapped;
  if (std::optional<double> number = readNumber(arg))
    return constant(builder.getF64FloatAttr(1.0 / *number), compute);
  bool isNumber = isNumberOperand(arg);
  MaybeValue value = evalArgument(index, isNumber ? Type() : compute);
  if (failed(value))
    return failure();
  Type type = isNumber ? f64 : compute;
  MaybeValue inverse =
      combine(ScalarOp::Reciprocal, type, convert(*value, type));
  if (failed(inverse))
    return failure();
  return convert(*inverse, compute);
}

static unsigned getTableChildren(const TableNode &node) {
  switch (node.op) {
  case TableOp::Scalar:
    return getNumChildren(node.scalar);
  case TableOp::Argument:
  case TableOp::Raw:
  case TableOp::Channel:
  case TableOp::Exact:
  case TableOp::Inverse:
  case TableOp::Negated:
  case TableOp::Number:
  case TableOp::IterIndex:
  case TableOp::Local:
  case TableOp::Unsupported:
    return 0;
  case TableOp::IfNone:
  case TableOp::IfTrue:
  case TableOp::IfString:
  case TableOp::IfNumber:
  case TableOp::IfDivisor:
  case TableOp::IfFloat:
  case TableOp::IfWidened:
  case TableOp::IfOnDevice:
  case TableOp::IfNumberOnDevice:
  case TableOp::IfFloat16OnCPU:
  case TableOp::IfHalfOnCPU:
  case TableOp::IfLastOnCPU:
  case TableOp::IfConstant:
  case TableOp::Let:
    return 2;
  default:
    return 1;
  }
}

void Resolver::skip() {
  unsigned children = getTableChildren(info.expression[cursor++]);
  for (unsigned i = 0; i < children; ++i)
    skip();
}

Resolver::MaybeValue Resolver::choose(bool first, Type expected) {
  if (!first)
    skip();
  MaybeValue value = eval(expected);
  if (first)
    skip();
  return value;
}

Resolver::MaybeValue Resolver::eval(Type expected) {
  const TableNode &node = info.expression[cursor++];
  switch (node.op) {
  case TableOp::Scalar:
    return evalScalar(node.scalar, expected);
  case TableOp::Argument:
    return evalArgument(node.index, compute);
  case TableOp::Raw:
    return evalArgument(node.index, {});
  case TableOp::Channel: {
    if (!isOperandPlaceholder(args[node.index]))
      return failure();
    unsigned operand = firstOperand[node.index];
    auto tensor = cast<RankedTensorType>(operands[operand]);
    auto self = cast<RankedTensorType>(operands[0]);
    if (tensor.getRank() != 1 || self.getRank() < 2)
      return failure();
    Source source{false, operand, {}, {0}};
    source.shape.assign(self.getRank() - 1, 1);
    source.shape[0] = tensor.getDimSize(0);
    return convert(read(std::move(source), tensor.getElementType()), compute);
  }
  case TableOp::Exact: {
    if (place.onDevice)
      return evalArgument(node.index, compute);
    MaybeValue own = evalArgument(node.index, {});
    if (failed(own))
      return failure();
    return convert(*own, compute);
  }
  case TableOp::Inverse:
    return evalInverse(node.index);
  case TableOp::Negated:
    return evalNegated(node.index);
  case TableOp::Number:
    return constant(builder.getF64FloatAttr(node.number), expected);
  case TableOp::IterIndex: {
    unsigned rank = result.getRank();
    if (node.index > rank)
      return failure();
    Value value;
    value.shape.assign(result.getShape().begin(), result.getShape().end());
    value.nodes.push_back(
        {ScalarOp::Index, builder.getI64Type(), node.index, 0, {}});
    return value;
  }
  case TableOp::Value:
    return eval(expected);
  case TableOp::Bool: {
    MaybeValue child = eval(compute);
    if (failed(child))
      return failure();
    return convert(*child, builder.getI1Type());
  }
  case TableOp::Narrowed: {
    MaybeValue child = eval(expected);
    if (failed(child) || common == compute)
      return child;
    return roundToCommon(*child);
  }
  case TableOp::Wide: {
    MaybeValue child = eval(expected);
    if (failed(child) || place.onDevice || !isa<FloatType>(child->type()))
      return child;
    return convert(*child, builder.getF64Type());
  }
  case TableOp::Step: {
    MaybeValue child = eval(expected);
    if (failed(child))
      return failure();
    return materialize(*child);
  }
  case TableOp::IfNone:
    return choose(isNoneArgument(args[node.index]), expected);
  case TableOp::IfTrue: {
    std::optional<double> number = readNumber(args[node.index]);
    if (!number)
      return failure();
    return choose(*number != 0, expected);
  }
  case TableOp::IfString: {
    auto text = dyn_cast<StringAttr>(args[node.index]);
    if (!text)
      return failure();
    return choose(text.getValue() == node.text, expected);
  }
  case TableOp::IfNumber: {
    std::optional<double> number = readNumber(args[node.index]);
    return choose(number && *number == node.number, expected);
  }
  case TableOp::IfDivisor: {
    std::optional<double> number = readNumber(args[node.index]);
    return choose(number && *number != 0, expected);
  }
  case TableOp::IfFloat:
    return choose(isa<FloatType>(compute), expected);
  case TableOp::IfWidened:
    return choose(!place.onDevice && isa<FloatType>(compute) &&
                      !compute.isF64(),
                  expected);
  case TableOp::IfOnDevice:
    return choose(place.onDevice, expected);
  case TableOp::IfNumberOnDevice: {
    unsigned operand = firstOperand[node.index];
    bool onHost =
        !isOperandPlaceholder(args[node.index]) ||
        (operand < place.hostOperands.size() && place.hostOperands[operand]);
    return choose(place.onDevice && onHost, expected);
  }
  case TableOp::IfFloat16OnCPU:
    return choose(common.isF16() && !place.onDevice, expected);
  case TableOp::IfHalfOnCPU:
    return choose(common != compute && !place.onDevice, expected);
  case TableOp::IfLastOnCPU: {
    auto dim = dyn_cast<IntegerAttr>(args[node.index]);
    int64_t rank = cast<RankedTensorType>(operands[0]).getRank();
    bool last =
        dim && (dim.getInt() == -1 || dim.getInt() == rank - 1 || !rank);
    return choose(last && !place.onDevice, expected);
  }
  case TableOp::IfConstant:
    return choose(!isNumberOperand(args[node.index]), expected);
  case TableOp::Let: {
    MaybeValue value = eval(expected);
    if (failed(value))
      return failure();
    if (locals.size() <= node.index)
      locals.resize(node.index + 1);
    locals[node.index] = *value;
    return eval(expected);
  }
  case TableOp::Local:
    return locals[node.index];
  case TableOp::Unsupported:
    return failure();
  default:
    return evalReduction(node, expected);
  }
}

static bool isLiteral(const TableNode &node) {
  return node.op == TableOp::Number;
}

/// Whether a node has a meaning on i1 (torch.bool).
static bool worksOnBool(ScalarOp op) {
  switch (op) {
  case ScalarOp::Add:
  case ScalarOp::Mul:
  case ScalarOp::Maximum:
  case ScalarOp::Minimum:
  case ScalarOp::BitAnd:
  case ScalarOp::BitOr:
  case ScalarOp::BitXor:
  case ScalarOp::BitNot:
  case ScalarOp::Eq:
  case ScalarOp::Ne:
  case ScalarOp::Lt:
  case ScalarOp::Le:
  case ScalarOp::Gt:
  case ScalarOp::Ge:
  case ScalarOp::ClampMin:
  case ScalarOp::ClampMax:
  case ScalarOp::Select:
    return true;
  default:
    return false;
  }
}

static bool needsFloat(ScalarOp op) {
  return op == ScalarOp::Div || op == ScalarOp::Atan2 ||
         op == ScalarOp::Hypot || op == ScalarOp::Copysign ||
         op == ScalarOp::IsNan || op == ScalarOp::IsInf ||
         (op >= ScalarOp::Floor && op <= ScalarOp::Sigmoid);
}

Resolver::MaybeValue Resolver::evalScalar(ScalarOp op, Type expected) {
  bool isPredicate = op >= ScalarOp::Eq && op <= ScalarOp::SignBit;
  unsigned count = getNumChildren(op);
  std::vector<Value> children;
  unsigned first = 0;
  if (op == ScalarOp::Select) {
    MaybeValue condition = eval(builder.getI1Type());
    if (failed(condition) || !condition->type().isInteger(1))
      return failure();
    children.push_back(*condition);
    first = 1;
  }
  // Literals take the other operands' type.
  Type type;
  size_t begin = cursor;
  for (unsigned i = first; i < count; ++i) {
    if (isLiteral(peek())) {
      skip();
      continue;
    }
    MaybeValue child = eval(isPredicate ? compute : expected);
    if (failed(child))
      return failure();
    if (!type)
      type = child->type();
    children.push_back(*child);
  }
  if (!type)
    type = isPredicate ? compute : expected;
  if (children.size() < count) {
    // A second walk, for the literals only.
    size_t end = cursor;
    cursor = begin;
    std::vector<Value> all(children.begin(), children.begin() + first);
    size_t next = first;
    for (unsigned i = first; i < count; ++i) {
      if (isLiteral(peek())) {
        MaybeValue child = eval(type);
        if (failed(child))
          return failure();
        all.push_back(*child);
      } else {
        skip();
        all.push_back(children[next++]);
      }
    }
    cursor = end;
    children = all;
  }
  for (Value &child : llvm::drop_begin(children, first)) {
    // Numbers that were converted before their neighbour's type was known.
    if (child.type() != type && child.nodes.size() == 1 &&
        child.nodes.front().op == ScalarOp::Const)
      child = convert(child, type);
    if (child.type() != type)
      return failure();
  }
  if ((type.isInteger(1) && !worksOnBool(op)) ||
      (isa<IntegerType>(type) && needsFloat(op)) ||
      (isa<FloatType>(type) && op >= ScalarOp::BitAnd && op <= ScalarOp::Shr))
    return failure();
  return combine(op, isPredicate ? Type(builder.getI1Type()) : type, children);
}
} // namespace pyjit::operators
