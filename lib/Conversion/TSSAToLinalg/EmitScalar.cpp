//===- EmitScalar.cpp - Scalar expressions as arith and math --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "EmitScalar.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <cmath>

using namespace mlir;
using pyjit::operators::ScalarNode;
using pyjit::operators::ScalarOp;

namespace pyjit {
namespace {

/// Where the subtree at `at` ends.
size_t endOf(ArrayRef<ScalarNode> expr, size_t at) {
  size_t next = at + 1;
  for (unsigned i = 0; i < operators::getNumChildren(expr[at].op); ++i)
    next = endOf(expr, next);
  return next;
}

class Emitter {
public:
  Emitter(OpBuilder &builder, Location loc, ArrayRef<ScalarNode> expr,
          ValueRange inputs, bool onDevice)
      : b(loc, builder), expr(expr), inputs(inputs), onDevice(onDevice) {}

  Value run() {
    size_t at = 0;
    return toDeclared(emit(at), expr.front().type);
  }

private:
  /// Unsigned integers are signless while they are computed with.
  static bool isUnsigned(Type type) {
    return type.isUnsignedInteger() || type.isInteger(1);
  }
  Type signless(Type type) {
    return type.isUnsignedInteger()
               ? b.getIntegerType(type.getIntOrFloatBitWidth())
               : type;
  }
  Value toSignless(Value value) {
    Type type = signless(value.getType());
    if (type == value.getType())
      return value;
    return UnrealizedConversionCastOp::create(b, type, value).getResult(0);
  }
  Value toDeclared(Value value, Type type) {
    if (type == value.getType())
      return value;
    return UnrealizedConversionCastOp::create(b, type, value).getResult(0);
  }
  Value constant(Type type, double value) {
    type = signless(type);
    if (isa<FloatType>(type))
      return arith::ConstantOp::create(b, b.getFloatAttr(type, value));
    return arith::ConstantOp::create(b, b.getIntegerAttr(type, int64_t(value)));
  }
  template <typename Op> Value make(ValueRange operands) {
    return Op::create(b, operands).getResult();
  }
  template <typename FloatOp, typename IntOp>
  Value choose(bool isFloat, Value x, Value y) {
    return isFloat ? Value(FloatOp::create(b, x, y))
                   : Value(IntOp::create(b, x, y));
  }
  Value cmpf(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, predicate, x, y);
  }
  Value cmpi(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, predicate, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, condition, x, y);
  }
  Value logicalNot(Value x) {
    return arith::XOrIOp::create(b, x, constant(x.getType(), 1));
  }

  Value emit(size_t &at);
  Value cast(Value value, Type from, Type to);
  Value toInteger(Value value, FloatType from, IntegerType to);
  Value extreme(ScalarOp op, Value x, Value y, Type type);
  Value compare(ScalarOp op, Value x, Value y, Type type);
  Value unary(const ScalarNode &node, Value x, Type type);
  Value binary(const ScalarNode &node, Value x, Value y);
  Value fmod(Value x, Value y) { return arith::RemFOp::create(b, x, y); }
  Value floatRemainder(Value x, Value y);
  Value floatFloorDiv(Value x, Value y);
  Value integerDivision(ScalarOp op, Value x, Value y, bool isUnsigned);
  Value shift(ScalarOp op, Value x, Value y, bool isUnsigned);

  ImplicitLocOpBuilder b;
  ArrayRef<ScalarNode> expr;
  ValueRange inputs;
  bool onDevice;
};

/// Toward zero. What does not fit is poison to `fptosi`, so it never sees it:
/// x86 gives the least integer for it and for NaN; a GPU the nearest integer,
/// and for NaN the least one, but zero from single precision to 32 bits.
Value Emitter::toInteger(Value value, FloatType from, IntegerType to) {
  unsigned width = to.getWidth();
  double limit = std::ldexp(1.0, width - 1);
  if (from.getWidth() == 16) {
    // f16's largest number is less than 2^16.
    from = b.getF32Type();
    value = arith::ExtFOp::create(b, from, value);
  }
  APInt least = APInt::getSignedMinValue(width);
  auto integer = [&](const APInt &number) -> Value {
    return arith::ConstantOp::create(b, b.getIntegerAttr(to, number));
  };
  Value low = cmpf(arith::CmpFPredicate::OGE, value, constant(from, -limit));
  Value high = cmpf(arith::CmpFPredicate::OLT, value, constant(from, limit));
  Value fits = arith::AndIOp::create(b, low, high);
  Value safe = select(fits, value, constant(from, 0));
  Value result = arith::FPToSIOp::create(b, to, safe);
  if (!onDevice)
    return select(fits, result, integer(least));
  Value isNan = cmpf(arith::CmpFPredicate::UNO, value, value);
  bool isZero = width == 32 && from.getWidth() == 32;
  Value nan = integer(isZero ? APInt::getZero(width) : least);
  Value positive = cmpf(arith::CmpFPredicate::OGT, value, constant(from, 0));
  Value end = select(positive, integer(APInt::getSignedMaxValue(width)),
                     integer(least));
  return select(fits, result, select(isNan, nan, end));
}

/// Maximum, Minimum, ClampMin, ClampMax of floats.
Value Emitter::extreme(ScalarOp op, Value x, Value y, Type type) {
  bool isMaximum = op == ScalarOp::Maximum || op == ScalarOp::ClampMin;
  bool isClamp = op == ScalarOp::ClampMin || op == ScalarOp::ClampMax;
  Value isNan = cmpf(arith::CmpFPredicate::UNO, x, x);
  if (onDevice) {
    if (!isClamp)
      return isMaximum ? Value(arith::MaximumFOp::create(b, x, y))
                       : Value(arith::MinimumFOp::create(b, x, y));
    return select(isNan, x,
                  isMaximum ? Value(arith::MaxNumFOp::create(b, x, y))
                            : Value(arith::MinNumFOp::create(b, x, y)));
  }
  if (isClamp)
    return select(
        cmpf(isMaximum ? arith::CmpFPredicate::OLT : arith::CmpFPredicate::OGT,
             x, y),
        y, x);
  // The second where neither is greater: one instruction on x86.
  Value chosen = select(
      cmpf(isMaximum ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT, x,
           y),
      x, y);
  return select(isNan, x, chosen);
}

Value Emitter::cast(Value value, Type from, Type to) {
  if (from == to)
    return value;
  Type target = signless(to);
  auto fromFloat = dyn_cast<FloatType>(from);
  auto toFloat = dyn_cast<FloatType>(to);
  if (to.isInteger(1)) {
    if (fromFloat)
      return cmpf(arith::CmpFPredicate::UNE, value, constant(from, 0));
    return cmpi(arith::CmpIPredicate::ne, value, constant(from, 0));
  }
  if (fromFloat && toFloat) {
    if (toFloat.getWidth() > fromFloat.getWidth())
      return arith::ExtFOp::create(b, target, value);
    if (toFloat.getWidth() == fromFloat.getWidth())
      value = arith::ExtFOp::create(b, b.getF32Type(), value);
    // Half precision is rounded to from single precision, as eager does.
    if (toFloat.getWidth() == 16 && fromFloat.getWidth() == 64)
      value = arith::TruncFOp::create(b, b.getF32Type(), value);
    return arith::TruncFOp::create(b, target, value);
  }
  if (fromFloat) {
    unsigned width = to.getIntOrFloatBitWidth();
    if (width >= 32)
      return toInteger(value, fromFloat, llvm::cast<IntegerType>(target));
    auto wide = to.isUnsignedInteger() ? b.getI64Type() : b.getI32Type();
    value = toInteger(value, fromFloat, wide);
    return arith::TruncIOp::create(b, target, value);
  }
  if (toFloat) {
    Type computed = toFloat.getWidth() == 16 ? Type(b.getF32Type()) : target;
    Value wide = isUnsigned(from)
                     ? Value(arith::UIToFPOp::create(b, computed, value))
                     : Value(arith::SIToFPOp::create(b, computed, value));
    return computed == target ? wide
                              : Value(arith::TruncFOp::create(b, target, wide));
  }
  unsigned have = from.getIntOrFloatBitWidth();
  unsigned want = to.getIntOrFloatBitWidth();
  if (want == have)
    return value;
  if (want < have)
    return arith::TruncIOp::create(b, target, value);
  return isUnsigned(from) ? Value(arith::ExtUIOp::create(b, target, value))
                          : Value(arith::ExtSIOp::create(b, target, value));
}

Value Emitter::compare(ScalarOp op, Value x, Value y, Type type) {
  if (isa<FloatType>(type)) {
    using P = arith::CmpFPredicate;
    P predicate = op == ScalarOp::Eq   ? P::OEQ
                  : op == ScalarOp::Ne ? P::UNE
                  : op == ScalarOp::Lt ? P::OLT
                  : op == ScalarOp::Le ? P::OLE
                  : op == ScalarOp::Gt ? P::OGT
                                       : P::OGE;
    return cmpf(predicate, x, y);
  }
  using P = arith::CmpIPredicate;
  bool u = isUnsigned(type);
  P predicate = op == ScalarOp::Eq   ? P::eq
                : op == ScalarOp::Ne ? P::ne
                : op == ScalarOp::Lt ? (u ? P::ult : P::slt)
                : op == ScalarOp::Le ? (u ? P::ule : P::sle)
                : op == ScalarOp::Gt ? (u ? P::ugt : P::sgt)
                                     : (u ? P::uge : P::sge);
  return cmpi(predicate, x, y);
}

Value Emitter::floatRemainder(Value x, Value y) {
  Type type = x.getType();
  Value zero = constant(type, 0);
  Value mod = fmod(x, y);
  Value differ =
      arith::XOrIOp::create(b, cmpf(arith::CmpFPredicate::OLT, y, zero),
                            cmpf(arith::CmpFPredicate::OLT, mod, zero));
  Value adjust = arith::AndIOp::create(
      b, cmpf(arith::CmpFPredicate::UNE, mod, zero), differ);
  return select(adjust, arith::AddFOp::create(b, mod, y), mod);
}

/// c10::div_floor_floating.
Value Emitter::floatFloorDiv(Value x, Value y) {
  Type type = x.getType();
  Value zero = constant(type, 0), one = constant(type, 1);
  Value quotient = arith::DivFOp::create(b, x, y);
  Value mod = fmod(x, y);
  Value div = arith::DivFOp::create(b, arith::SubFOp::create(b, x, mod), y);
  Value differ =
      arith::XOrIOp::create(b, cmpf(arith::CmpFPredicate::OLT, y, zero),
                            cmpf(arith::CmpFPredicate::OLT, mod, zero));
  Value adjust = arith::AndIOp::create(
      b, cmpf(arith::CmpFPredicate::UNE, mod, zero), differ);
  div = select(adjust, arith::SubFOp::create(b, div, one), div);
  Value floor = math::FloorOp::create(b, div);
  Value over = cmpf(arith::CmpFPredicate::OGT,
                    arith::SubFOp::create(b, div, floor), constant(type, 0.5));
  floor = select(over, arith::AddFOp::create(b, floor, one), floor);
  Value signedZero = math::CopySignOp::create(b, zero, quotient);
  Value result =
      select(cmpf(arith::CmpFPredicate::UNE, div, zero), floor, signedZero);
  return select(cmpf(arith::CmpFPredicate::OEQ, y, zero), quotient, result);
}

/// The divisor is a constant other than zero (see whyNotEmitted); what is left
/// to avoid is the overflow of the smallest number by -1.
Value Emitter::integerDivision(ScalarOp op, Value x, Value y, bool isUnsigned) {
  Type type = x.getType();
  bool quotient = op == ScalarOp::TruncDiv || op == ScalarOp::FloorDiv;
  if (isUnsigned)
    return quotient ? Value(arith::DivUIOp::create(b, x, y))
                    : Value(arith::RemUIOp::create(b, x, y));
  Value zero = constant(type, 0), one = constant(type, 1);
  Value minusOne = cmpi(arith::CmpIPredicate::eq, y, constant(type, -1));
  Value divisor = select(minusOne, one, y);
  Value q = arith::DivSIOp::create(b, x, divisor);
  Value r = arith::SubIOp::create(b, x, arith::MulIOp::create(b, q, divisor));
  if (op == ScalarOp::FloorDiv || op == ScalarOp::Remainder) {
    Value differ = cmpi(arith::CmpIPredicate::slt,
                        arith::XOrIOp::create(b, r, divisor), zero);
    Value adjust = arith::AndIOp::create(
        b, differ, cmpi(arith::CmpIPredicate::ne, r, zero));
    q = select(adjust, arith::SubIOp::create(b, q, one), q);
    r = select(adjust, arith::AddIOp::create(b, r, divisor), r);
  }
  if (quotient)
    return select(minusOne, arith::SubIOp::create(b, zero, x), q);
  return select(minusOne, zero, r);
}

Value Emitter::shift(ScalarOp op, Value x, Value y, bool isUnsigned) {
  Type type = x.getType();
  unsigned width = type.getIntOrFloatBitWidth();
  // As unsigned numbers, negative shifts are large ones.
  Value large =
      cmpi(arith::CmpIPredicate::uge, y, constant(type, double(width)));
  Value amount = select(large, constant(type, double(width - 1)), y);
  if (op == ScalarOp::Shl)
    return select(large, constant(type, 0),
                  arith::ShLIOp::create(b, x, amount));
  if (isUnsigned)
    return select(large, constant(type, 0),
                  arith::ShRUIOp::create(b, x, amount));
  return arith::ShRSIOp::create(b, x, amount);
}

Value Emitter::binary(const ScalarNode &node, Value x, Value y) {
  Type type = node.type;
  bool isFloat = isa<FloatType>(type), isBool = type.isInteger(1);
  bool u = isUnsigned(type);
  switch (node.op) {
  case ScalarOp::Add:
    return isBool ? Value(arith::OrIOp::create(b, x, y))
                  : choose<arith::AddFOp, arith::AddIOp>(isFloat, x, y);
  case ScalarOp::Sub:
    return choose<arith::SubFOp, arith::SubIOp>(isFloat, x, y);
  case ScalarOp::Mul:
    return isBool ? Value(arith::AndIOp::create(b, x, y))
                  : choose<arith::MulFOp, arith::MulIOp>(isFloat, x, y);
  case ScalarOp::Div:
    return arith::DivFOp::create(b, x, y);
  case ScalarOp::TruncDiv:
    if (isFloat)
      return math::TruncOp::create(b, arith::DivFOp::create(b, x, y));
    return integerDivision(node.op, x, y, u);
  case ScalarOp::FloorDiv:
    return isFloat ? floatFloorDiv(x, y) : integerDivision(node.op, x, y, u);
  case ScalarOp::Remainder:
    return isFloat ? floatRemainder(x, y) : integerDivision(node.op, x, y, u);
  case ScalarOp::Fmod:
    return isFloat ? fmod(x, y) : integerDivision(node.op, x, y, u);
  case ScalarOp::Pow:
    return math::PowFOp::create(b, x, y);
  case ScalarOp::Maximum:
  case ScalarOp::ClampMin:
    if (isFloat)
      return extreme(node.op, x, y, type);
    return u ? Value(arith::MaxUIOp::create(b, x, y))
             : Value(arith::MaxSIOp::create(b, x, y));
  case ScalarOp::Minimum:
  case ScalarOp::ClampMax:
    if (isFloat)
      return extreme(node.op, x, y, type);
    return u ? Value(arith::MinUIOp::create(b, x, y))
             : Value(arith::MinSIOp::create(b, x, y));
  case ScalarOp::Fmax:
    if (u)
      return arith::MaxUIOp::create(b, x, y);
    return choose<arith::MaxNumFOp, arith::MaxSIOp>(isFloat, x, y);
  case ScalarOp::Fmin:
    if (u)
      return arith::MinUIOp::create(b, x, y);
    return choose<arith::MinNumFOp, arith::MinSIOp>(isFloat, x, y);
  case ScalarOp::Atan2:
    return math::Atan2Op::create(b, x, y);
  case ScalarOp::Copysign:
    return math::CopySignOp::create(b, x, y);
  case ScalarOp::BitAnd:
    return arith::AndIOp::create(b, x, y);
  case ScalarOp::BitOr:
    return arith::OrIOp::create(b, x, y);
  case ScalarOp::BitXor:
    return arith::XOrIOp::create(b, x, y);
  case ScalarOp::Shl:
  case ScalarOp::Shr:
    return shift(node.op, x, y, u);
  default:
    llvm_unreachable("not a binary node");
  }
}

Value Emitter::unary(const ScalarNode &node, Value x, Type type) {
  bool isFloat = isa<FloatType>(type);
  switch (node.op) {
  case ScalarOp::Cast:
    return cast(x, type, node.type);
  case ScalarOp::Neg:
    return isFloat ? Value(arith::NegFOp::create(b, x))
                   : Value(arith::SubIOp::create(b, constant(type, 0), x));
  case ScalarOp::Abs:
    if (isUnsigned(type))
      return x;
    return isFloat ? Value(math::AbsFOp::create(b, x))
                   : Value(math::AbsIOp::create(b, x));
  case ScalarOp::Sign: {
    Value zero = constant(type, 0), one = constant(type, 1);
    Value positive = compare(ScalarOp::Gt, x, zero, type);
    if (isUnsigned(type))
      return select(positive, one, zero);
    Value negative = compare(ScalarOp::Lt, x, zero, type);
    return select(positive, one, select(negative, constant(type, -1), zero));
  }
  case ScalarOp::Floor:
    return math::FloorOp::create(b, x);
  case ScalarOp::Ceil:
    return math::CeilOp::create(b, x);
  case ScalarOp::Trunc:
    return math::TruncOp::create(b, x);
  case ScalarOp::Round:
    return math::RoundEvenOp::create(b, x);
  case ScalarOp::Sqrt:
    return math::SqrtOp::create(b, x);
  case ScalarOp::Rsqrt:
    return math::RsqrtOp::create(b, x);
  case ScalarOp::Reciprocal:
    return arith::DivFOp::create(b, constant(type, 1), x);
  case ScalarOp::Exp:
    return math::ExpOp::create(b, x);
  case ScalarOp::Exp2:
    return math::Exp2Op::create(b, x);
  case ScalarOp::Expm1:
    return math::ExpM1Op::create(b, x);
  case ScalarOp::Log:
    return math::LogOp::create(b, x);
  case ScalarOp::Log2:
    return math::Log2Op::create(b, x);
  case ScalarOp::Log10:
    return math::Log10Op::create(b, x);
  case ScalarOp::Log1p:
    return math::Log1pOp::create(b, x);
  case ScalarOp::Sin:
    return math::SinOp::create(b, x);
  case ScalarOp::Cos:
    return math::CosOp::create(b, x);
  case ScalarOp::Tan:
    return math::TanOp::create(b, x);
  case ScalarOp::Asin:
    return math::AsinOp::create(b, x);
  case ScalarOp::Acos:
    return math::AcosOp::create(b, x);
  case ScalarOp::Atan:
    return math::AtanOp::create(b, x);
  case ScalarOp::Sinh:
    return math::SinhOp::create(b, x);
  case ScalarOp::Cosh:
    return math::CoshOp::create(b, x);
  case ScalarOp::Tanh:
    return math::TanhOp::create(b, x);
  case ScalarOp::Asinh:
    return math::AsinhOp::create(b, x);
  case ScalarOp::Acosh:
    return math::AcoshOp::create(b, x);
  case ScalarOp::Atanh:
    return math::AtanhOp::create(b, x);
  case ScalarOp::Erf:
    return math::ErfOp::create(b, x);
  case ScalarOp::Erfc:
    return math::ErfcOp::create(b, x);
  case ScalarOp::Sigmoid: {
    // exp(-x) may be infinite: the quotient is zero then, as it should be.
    Value one = constant(type, 1);
    Value e = math::ExpOp::create(b, arith::NegFOp::create(b, x));
    return arith::DivFOp::create(b, one, arith::AddFOp::create(b, one, e));
  }
  case ScalarOp::BitNot:
    return arith::XOrIOp::create(b, x,
                                 constant(type, type.isInteger(1) ? 1 : -1));
  case ScalarOp::IsNan:
    return cmpf(arith::CmpFPredicate::UNO, x, x);
  case ScalarOp::IsInf:
    return cmpf(arith::CmpFPredicate::OEQ, math::AbsFOp::create(b, x),
                constant(type, std::numeric_limits<double>::infinity()));
  case ScalarOp::SignBit: {
    if (isUnsigned(type))
      return constant(b.getI1Type(), 0);
    if (isFloat) {
      type = b.getIntegerType(type.getIntOrFloatBitWidth());
      x = arith::BitcastOp::create(b, type, x);
    }
    return cmpi(arith::CmpIPredicate::slt, x, constant(type, 0));
  }
  default:
    llvm_unreachable("not a unary node");
  }
}

Value Emitter::emit(size_t &at) {
  const ScalarNode &node = expr[at++];
  switch (node.op) {
  case ScalarOp::Input:
    return toSignless(inputs[node.index]);
  case ScalarOp::Const: {
    TypedAttr value = node.constant;
    if (node.type.isUnsignedInteger())
      value = IntegerAttr::get(signless(node.type),
                               llvm::cast<IntegerAttr>(value).getValue());
    return arith::ConstantOp::create(b, value);
  }
  case ScalarOp::Index: {
    Value index = linalg::IndexOp::create(b, node.index);
    return arith::IndexCastOp::create(b, b.getI64Type(), index);
  }
  case ScalarOp::Select: {
    Value condition = emit(at), x = emit(at), y = emit(at);
    return select(condition, x, y);
  }
  case ScalarOp::Fma: {
    Value x = emit(at), y = emit(at), z = emit(at);
    if (isa<FloatType>(node.type))
      return math::FmaOp::create(b, x, y, z);
    return arith::AddIOp::create(b, arith::MulIOp::create(b, x, y), z);
  }
  default:
    break;
  }
  Type type = expr[at].type;
  Value x = emit(at);
  if (operators::getNumChildren(node.op) == 1)
    return unary(node, x, type);
  Value y = emit(at);
  if (node.op >= ScalarOp::Eq && node.op <= ScalarOp::Ge)
    return compare(node.op, x, y, type);
  return binary(node, x, y);
}

} // namespace

StringRef whyNotEmitted(ArrayRef<ScalarNode> expr) {
  for (auto [at, node] : llvm::enumerate(expr)) {
    if (node.op == ScalarOp::Gather)
      return "an indexed read, whose indices eager checks";
    if (node.op == ScalarOp::Hypot)
      return "hypot";
    if (isa<FloatType>(node.type))
      continue;
    if (node.op == ScalarOp::Pow)
      return "an integer power";
    if (node.op == ScalarOp::TruncDiv || node.op == ScalarOp::FloorDiv ||
        node.op == ScalarOp::Remainder || node.op == ScalarOp::Fmod) {
      const ScalarNode &divisor = expr[endOf(expr, at + 1)];
      auto value = dyn_cast_or_null<IntegerAttr>(divisor.constant);
      if (divisor.op != ScalarOp::Const || !value || value.getValue().isZero())
        return "an integer division that eager checks for zero";
    }
  }
  return "";
}

Value emitScalar(OpBuilder &builder, Location loc, ArrayRef<ScalarNode> expr,
                 ValueRange inputs, bool onDevice) {
  return Emitter(builder, loc, expr, inputs, onDevice).run();
}

} // namespace pyjit
