//===- ExpandMath.cpp - Transcendental functions as arithmetic ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each function is a range reduction, a polynomial and selects for the special
// values, on f32 scalars or vectors alike; README.md states the error bounds,
// and a test measures them. Polynomials for exp, log, tanh, sin and cos
// follow N. Juffa's published single-precision designs.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "pyjit/Codegen/MathCoefficients.h"
#include "pyjit/Codegen/Passes.h"
#include "pyjit/Codegen/VectorMath.h"
#include "llvm/ADT/StringSwitch.h"
#include <limits>

using namespace mlir;

namespace pyjit::codegen {
#define GEN_PASS_DEF_CODEGENEXPANDMATH
#include "lib/Codegen/Passes.h.inc"

namespace {

/// Arithmetic on one f32 shape, scalar or vector.
class F32 {
public:
  F32(ImplicitLocOpBuilder &b, Type type) : b(b), type(type) {
    bits = b.getI32Type();
    if (auto vector = dyn_cast<VectorType>(type))
      bits = vector.clone(bits);
  }

  Value f(float value) { return splat(type, b.getF32FloatAttr(value)); }
  Value i(int32_t value) { return splat(bits, b.getI32IntegerAttr(value)); }
  Value fma(Value x, Value y, Value z) {
    return math::FmaOp::create(b, x, y, z);
  }
  Value fma(Value x, Value y, float z) { return fma(x, y, f(z)); }
  Value fma(Value x, float y, Value z) { return fma(x, f(y), z); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
  Value abs(Value x) { return math::AbsFOp::create(b, x); }
  Value sign(Value magnitude, Value from) {
    return math::CopySignOp::create(b, magnitude, from);
  }
  Value toBits(Value x) { return arith::BitcastOp::create(b, bits, x); }
  Value fromBits(Value x) { return arith::BitcastOp::create(b, type, x); }
  Value iadd(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value isub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value iand(Value x, Value y) { return arith::AndIOp::create(b, x, y); }
  Value shl(Value x, int n) { return arith::ShLIOp::create(b, x, i(n)); }
  Value sar(Value x, int n) { return arith::ShRSIOp::create(b, x, i(n)); }
  Value toFloat(Value x) { return arith::SIToFPOp::create(b, type, x); }
  Value less(Value x, float y) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, f(y));
  }
  Value greater(Value x, float y) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, x, f(y));
  }
  Value equal(Value x, float y) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, f(y));
  }
  Value isNan(Value x) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, x);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, condition, x, y);
  }
  /// Coefficients from the highest power down.
  Value polynomial(Value x, ArrayRef<float> coefficients) {
    Value r = f(coefficients.front());
    for (float c : coefficients.drop_front())
      r = fma(r, x, c);
    return r;
  }

  Value exp(Value x);
  Value expm1(Value x);
  Value log(Value x, bool base2 = false);
  Value log1p(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value sinCos(Value x, bool cosine);
  /// Whether sinCos' reduction holds for every lane.
  Value sinCosInRange(Value x) {
    Value big = greater(abs(x), 71476.0f);
    if (isa<VectorType>(type))
      big = vector::ReductionOp::create(b, vector::CombiningKind::OR, big);
    Value yes = arith::ConstantOp::create(b, b.getBoolAttr(true));
    return arith::XOrIOp::create(b, big, yes);
  }

  ImplicitLocOpBuilder &b;
  Type type, bits;

private:
  Value splat(Type shaped, TypedAttr value) {
    if (auto vector = dyn_cast<VectorType>(shaped))
      return arith::ConstantOp::create(b,
                                       DenseElementsAttr::get(vector, value));
    return arith::ConstantOp::create(b, value);
  }
  /// x = n ln 2 + r with |r| <= ln 2 / 2; n as bits and as r's remainder.
  std::pair<Value, Value> reduceByLn2(Value x) {
    Value shifted = fma(x, 1.442695041f, f(12582912.0f));
    Value n = isub(toBits(shifted), i(0x4b400000));
    Value nf = sub(shifted, f(12582912.0f));
    Value r = fma(nf, -6.93145752e-1f, x);
    return {n, fma(nf, -1.42860677e-6f, r)};
  }
  /// 2^n for n in [-126, 127].
  Value power2(Value n) { return fromBits(shl(iadd(n, i(127)), 23)); }
};

Value F32::exp(Value x) {
  // Beyond these ends the result is infinite or zero, and nan stays. A zero is
  // chosen and not computed: a product that underflows takes a hundred cycles,
  // and masks of attention give a great many.
  Value isZero = less(x, -104.0f);
  Value clamped = select(greater(x, 89.0f), f(89.0f), x);
  clamped = select(isZero, f(0.0f), clamped);
  auto [n, r] = reduceByLn2(clamped);
  Value p = polynomial(r, {1.37805939e-3f, 8.37312452e-3f, 4.16695364e-2f,
                           1.66664720e-1f, 4.99999851e-1f, 1.0f, 1.0f});
  // Two factors, so that denormal results are reached without a special case.
  Value half = sar(n, 1);
  Value result = mul(mul(p, power2(half)), power2(isub(n, half)));
  return select(isZero, f(0.0f), result);
}

Value F32::expm1(Value x) {
  Value clamped = select(greater(x, 89.0f), f(89.0f), x);
  clamped = select(less(clamped, -30.0f), f(-30.0f), clamped);
  auto [n, r] = reduceByLn2(clamped);
  Value q = polynomial(r, {1.97350979e-4f, 1.39309070e-3f, 8.33336543e-3f,
                           4.16668020e-2f, 1.66666672e-1f, 0.5f});
  Value p = fma(mul(r, r), q, r);
  // 2^n - 1 + 2^n p, halved so that n = 128 does not overflow too early.
  Value scale = power2(isub(n, i(1)));
  Value half = fma(scale, p, sub(scale, f(0.5f)));
  Value result = add(half, half);
  // Small arguments are their own result: denormals and -0 keep their value.
  return select(less(abs(x), 1e-8f), x, result);
}

Value F32::log(Value x, bool base2) {
  Value tiny = less(x, 1.17549435e-38f);
  Value a = select(tiny, mul(x, f(8388608.0f)), x);
  Value exponent0 = select(tiny, f(-23.0f), f(0.0f));
  Value raw = toBits(a);
  Value e = iand(isub(raw, i(0x3f2aaaab)), i(int32_t(0xff800000)));
  Value m = sub(fromBits(isub(raw, e)), f(1.0f));
  Value exponent = fma(toFloat(e), 1.19209290e-7f, exponent0);
  Value s = mul(m, m);
  Value r = f(-0.130310059f), t = f(0.140869141f);
  r = fma(r, s, -0.121483512f);
  t = fma(t, s, 0.139814854f);
  r = fma(r, s, -0.166846126f);
  t = fma(t, s, 0.200120345f);
  r = fma(r, s, -0.249996200f);
  r = fma(t, m, r);
  r = fma(r, m, 0.333331972f);
  r = fma(r, m, -0.5f);
  if (base2) {
    // Exact at powers of two: the mantissa's part is zero there. The leading
    // factor m is kept apart, as log2(e) m carries the rounding.
    Value low = mul(r, s);
    Value p = fma(m, 1.44269502e+0f, mul(m, f(1.92596303e-8f)));
    p = fma(low, 1.44269502e+0f, p);
    r = add(exponent, p);
  } else {
    r = fma(r, s, m);
    r = fma(exponent, 0.693147182f, r);
  }
  const float inf = std::numeric_limits<float>::infinity();
  r = select(equal(x, 0.0f), f(-inf), r);
  r = select(equal(x, inf), x, r);
  r = select(less(x, 0.0f), f(std::numeric_limits<float>::quiet_NaN()), r);
  return select(isNan(x), x, r);
}

Value F32::log1p(Value x) {
  Value u = add(x, f(1.0f));
  // What rounding 1 + x has lost, to first order.
  Value lost = sub(x, sub(u, f(1.0f)));
  Value correction = div(lost, u);
  Value r = add(log(u), correction);
  const float inf = std::numeric_limits<float>::infinity();
  r = select(equal(u, 0.0f), f(-inf), r);
  r = select(equal(x, inf), x, r);
  return select(less(abs(x), 5.9e-8f), x, r);
}

Value F32::tanh(Value x) {
  Value t = abs(x);
  Value e = exp(add(t, t));
  Value large = sub(f(1.0f), div(f(2.0f), add(e, f(1.0f))));
  Value s = mul(x, x);
  Value p = polynomial(s, kTanh);
  Value small = fma(mul(p, s), x, x);
  // The sign of zero is lost in the fused products.
  return sign(select(less(t, kTanhSmall), small, large), x);
}

Value F32::erf(Value x) {
  // A rational function of x on the range where erf is not yet one (as XLA
  // does it): half the work of exp and two polynomials.
  Value c = select(greater(x, kErfLast), f(kErfLast), x);
  c = select(less(c, -kErfLast), f(-kErfLast), c);
  Value s = mul(c, c);
  Value p = polynomial(s, kErfAbove), q = polynomial(s, kErfBelow);
  Value r = div(mul(c, p), q);
  // Rounding must not lead out of the function's range.
  r = select(greater(r, 1.0f), f(1.0f), r);
  r = select(less(r, -1.0f), f(-1.0f), r);
  // From here on erf is one: gelu multiplies what is left of 1 - erf by x.
  r = select(greater(x, kErfOne), f(1.0f), r);
  return select(less(x, -kErfOne), f(-1.0f), r);
}

Value F32::sinCos(Value x, bool cosine) {
  Value shifted = fma(x, 0.636619747f, f(12582912.0f));
  Value q = toBits(shifted);
  if (cosine)
    q = iadd(q, i(1));
  Value n = sub(shifted, f(12582912.0f));
  Value r = fma(n, -0x1.921fb0p+0f, x);
  r = fma(n, -0x1.5110b4p-22f, r);
  r = fma(n, -0x1.846988p-48f, r);
  Value s = mul(r, r);
  Value odd = polynomial(
      s, {2.86567956e-6f, -1.98559923e-4f, 8.33338592e-3f, -1.66666672e-1f});
  odd = sign(fma(mul(odd, s), r, r), r);
  Value even = polynomial(
      s, {2.44677067e-5f, -1.38877297e-3f, 4.16666567e-2f, -0.5f, 1.0f});
  Value useEven =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ne, iand(q, i(1)), i(0));
  Value result = select(useEven, even, odd);
  Value flip = shl(iand(q, i(2)), 30);
  Value signedBits = arith::XOrIOp::create(b, toBits(result), flip);
  return fromBits(signedBits);
}

/// The C library's name of a math operation's function on doubles.
StringRef libraryName(Operation *op) {
  return llvm::StringSwitch<StringRef>(op->getName().stripDialect())
      .Cases({"exp", "exp2", "expm1", "log", "log2", "log10", "log1p"},
             op->getName().stripDialect())
      .Cases({"sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh"},
             op->getName().stripDialect())
      .Cases(
          {"tanh", "asinh", "acosh", "atanh", "erf", "erfc", "cbrt", "atan2"},
          op->getName().stripDialect())
      .Case("powf", "pow")
      .Case("round", "round")
      .Default("");
}

struct ExpandMathPass : impl::CodegenExpandMathBase<ExpandMathPass> {
  using CodegenExpandMathBase::CodegenExpandMathBase;

  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) {
      if (isa_and_nonnull<math::MathDialect>(op->getDialect()))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      ImplicitLocOpBuilder b(op->getLoc(), op);
      if (Value value = expand(b, op)) {
        op->getResult(0).replaceAllUsesWith(value);
        op->erase();
      }
    }
    computeBF16InF32();
    if (vectorMathBits)
      expandRemainders();
    if (nativeBF16)
      return;
    // Last, as half precision functions have made conversions.
    ops.clear();
    getOperation()->walk([&](Operation *op) {
      if (isa<arith::ExtFOp, arith::TruncFOp>(op))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      ImplicitLocOpBuilder b(op->getLoc(), op);
      if (Value value = convertBF16(b, op)) {
        op->getResult(0).replaceAllUsesWith(value);
        op->erase();
      }
    }
    storeBF16AsBits();
  }

  static bool isBF16(Type type) { return getElementTypeOrSelf(type).isBF16(); }

  /// Comparisons with bf16 numbers, conversions from them and the like.
  void computeBF16InF32() {
    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) {
      if (isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
              op->getDialect()) &&
          !isa<arith::ExtFOp, arith::TruncFOp, arith::BitcastOp,
               arith::SelectOp, arith::ConstantOp>(op) &&
          (llvm::any_of(op->getOperandTypes(), isBF16) ||
           llvm::any_of(op->getResultTypes(), isBF16)))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      ImplicitLocOpBuilder b(op->getLoc(), op);
      auto wide = [&](Type type) -> Type {
        if (auto vector = dyn_cast<VectorType>(type))
          return vector.clone(b.getF32Type());
        return b.getF32Type();
      };
      for (OpOperand &operand : op->getOpOperands())
        if (isBF16(operand.get().getType()))
          operand.set(arith::ExtFOp::create(b, wide(operand.get().getType()),
                                            operand.get()));
      b.setInsertionPointAfter(op);
      for (Value result : op->getResults()) {
        Type type = result.getType();
        if (!isBF16(type))
          continue;
        result.setType(wide(type));
        auto narrow = arith::TruncFOp::create(b, type, result);
        result.replaceAllUsesExcept(narrow, narrow);
      }
    }
  }

  /// The host has no bf16 registers: a value that lives from one block to the
  /// next would be widened and narrowed by a function of compiler-rt, which is
  /// not there. What is left of bf16 is only moved about, so it moves as bits.
  void storeBF16AsBits() {
    auto bitsOf = [](Type type) -> Type {
      Type i16 = IntegerType::get(type.getContext(), 16);
      if (auto vector = dyn_cast<VectorType>(type))
        return vector.getElementType().isBF16() ? Type(vector.clone(i16))
                                                : type;
      return type.isBF16() ? i16 : type;
    };
    SmallVector<arith::BitcastOp> casts;
    getOperation()->walk([&](Operation *op) {
      if (auto constant = dyn_cast<arith::ConstantOp>(op);
          constant && bitsOf(constant.getType()) != constant.getType()) {
        if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
          constant.setValueAttr(IntegerAttr::get(
              bitsOf(constant.getType()), number.getValue().bitcastToAPInt()));
        else
          constant.setValueAttr(
              cast<DenseFPElementsAttr>(constant.getValue())
                  .mapValues(IntegerType::get(op->getContext(), 16),
                             [](const APFloat &value) {
                               return value.bitcastToAPInt();
                             }));
      }
      for (Value result : op->getResults())
        result.setType(bitsOf(result.getType()));
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            argument.setType(bitsOf(argument.getType()));
      if (auto bitcast = dyn_cast<arith::BitcastOp>(op))
        casts.push_back(bitcast);
      if (auto function = dyn_cast<func::FuncOp>(op)) {
        auto inputs = llvm::map_to_vector(function.getArgumentTypes(), bitsOf);
        auto results = llvm::map_to_vector(function.getResultTypes(), bitsOf);
        function.setType(FunctionType::get(op->getContext(), inputs, results));
      }
    });
    for (arith::BitcastOp bitcast : casts) {
      if (bitcast.getIn().getType() != bitcast.getType())
        continue;
      bitcast.replaceAllUsesWith(bitcast.getIn());
      bitcast.erase();
    }
  }

  /// bf16 is the upper half of f32's bits; narrowing rounds to nearest even.
  Value convertBF16(ImplicitLocOpBuilder &b, Operation *op) {
    Value x = op->getOperand(0);
    Type from = getElementTypeOrSelf(x.getType());
    Type to = getElementTypeOrSelf(op->getResult(0).getType());
    if (!from.isBF16() && !to.isBF16())
      return {};
    auto like = [&](Type element) -> Type {
      if (auto vector = dyn_cast<VectorType>(x.getType()))
        return vector.clone(element);
      return element;
    };
    Type f32 = like(b.getF32Type()), i32 = like(b.getI32Type()),
         i16 = like(b.getI16Type());
    F32 m(b, f32);
    if (from.isBF16()) {
      Value bits = arith::BitcastOp::create(b, i16, x);
      bits = m.shl(arith::ExtUIOp::create(b, i32, bits), 16);
      Value wide = m.fromBits(bits);
      if (to.isF32())
        return wide;
      if (to.isF64())
        return arith::ExtFOp::create(b, like(to), wide);
      return {};
    }
    if (from.isF64())
      x = arith::TruncFOp::create(b, f32, x);
    else if (!from.isF32())
      x = arith::ExtFOp::create(b, f32, x);
    Value bits = m.toBits(x);
    Value last = m.iand(arith::ShRUIOp::create(b, bits, m.i(16)), m.i(1));
    Value rounded = m.iadd(bits, m.iadd(last, m.i(0x7fff)));
    rounded = arith::ShRUIOp::create(b, rounded, m.i(16));
    rounded = m.select(m.isNan(x), m.i(0x7fc0), rounded);
    Value half = arith::TruncIOp::create(b, i16, rounded);
    return arith::BitcastOp::create(b, like(to), half);
  }

  Value expand(ImplicitLocOpBuilder &b, Operation *op) {
    Type type = op->getResult(0).getType();
    Type element = getElementTypeOrSelf(type);
    if (auto rsqrt = dyn_cast<math::RsqrtOp>(op)) {
      Value one = arith::ConstantOp::create(b, b.getFloatAttr(element, 1.0));
      if (auto vector = dyn_cast<VectorType>(type))
        one = vector::BroadcastOp::create(b, vector, one);
      return arith::DivFOp::create(b, one,
                                   math::SqrtOp::create(b, rsqrt.getOperand()));
    }
    if (libraryName(op).empty())
      return {};
    if (element.isF16() || element.isBF16())
      return throughF32(b, op, type);
    if (element.isF32())
      if (Value value = expandF32(b, op, type))
        return value;
    return callLibrary(b, op);
  }

  /// On vectors, if there is such a function, or lane by lane.
  Value callLibrary(ImplicitLocOpBuilder &b, Operation *op) {
    StringRef name = libraryName(op);
    if (vectorMathBits)
      if (const VectorFunction *function = findVectorFunction(name))
        return callOnVectors(b, op, *function);
    bool isFloat = getElementTypeOrSelf(op->getResult(0).getType()).isF32();
    return call(b, op, name.str() + (isFloat ? "f" : ""));
  }

  /// `arith.remf` in f32, of which LLVM makes a call for each lane.
  void expandRemainders() {
    SmallVector<arith::RemFOp> ops;
    getOperation()->walk([&](arith::RemFOp op) {
      if (getElementTypeOrSelf(op.getType()).isF32())
        ops.push_back(op);
    });
    for (arith::RemFOp op : ops) {
      ImplicitLocOpBuilder b(op.getLoc(), op);
      op.replaceAllUsesWith(remainder(b, op));
      op.erase();
    }
  }

  /// x - trunc(x / y) * y in double precision. The product has 28 + 24 bits at
  /// most, so it is exact; and a quotient below 2^28 that is no integer is
  /// farther from one than a division rounds: x and y are multiples of y's unit
  /// in the last place, so it is at least 2^-24, a relative 2^-52. Larger
  /// quotients are the C library's.
  Value remainder(ImplicitLocOpBuilder &b, arith::RemFOp op) {
    Type type = op.getType(), wide = b.getF64Type();
    auto vector = dyn_cast<VectorType>(type);
    if (vector)
      wide = vector.clone(wide);
    auto constant = [&](double value) -> Value {
      Value scalar = arith::ConstantOp::create(b, b.getF64FloatAttr(value));
      return vector ? vector::BroadcastOp::create(b, wide, scalar).getResult()
                    : scalar;
    };
    Value infinity = constant(std::numeric_limits<double>::infinity());
    using Predicate = arith::CmpFPredicate;
    Value x = arith::ExtFOp::create(b, wide, op.getLhs());
    Value y = arith::ExtFOp::create(b, wide, op.getRhs());
    Value quotient = arith::DivFOp::create(b, x, y);
    Value size = math::AbsFOp::create(b, quotient);
    // What is no number, or infinite by y = 0, has no remainder anyway.
    Value isLarge = arith::AndIOp::create(
        b, arith::CmpFOp::create(b, Predicate::OGE, size, constant(0x1p28)),
        arith::CmpFOp::create(b, Predicate::OLT, size, infinity));
    Value anyLarge =
        vector
            ? vector::ReductionOp::create(b, vector::CombiningKind::OR, isLarge)
                  .getResult()
            : isLarge;
    auto choice = scf::IfOp::create(
        b, anyLarge,
        [&](OpBuilder &builder, Location loc) {
          ImplicitLocOpBuilder in(loc, builder);
          scf::YieldOp::create(in, call(in, op, "fmodf"));
        },
        [&](OpBuilder &builder, Location loc) {
          ImplicitLocOpBuilder in(loc, builder);
          Value whole = math::TruncOp::create(in, quotient);
          Value rest =
              math::FmaOp::create(in, arith::NegFOp::create(in, whole), y, x);
          // Of a finite x by an infinite y nothing is taken away.
          Value isInfinite = arith::CmpFOp::create(
              in, Predicate::OEQ, math::AbsFOp::create(in, y), infinity);
          Value isFinite = arith::CmpFOp::create(
              in, Predicate::OLT, math::AbsFOp::create(in, x), infinity);
          rest = arith::SelectOp::create(
              in, arith::AndIOp::create(in, isInfinite, isFinite), x, rest);
          // A zero has the sign of x.
          rest = math::CopySignOp::create(in, rest, x);
          scf::YieldOp::create(in,
                               Value(arith::TruncFOp::create(in, type, rest)));
        });
    return choice.getResult(0);
  }

  Value expandF32(ImplicitLocOpBuilder &b, Operation *op, Type type) {
    F32 m(b, type);
    Value x = op->getOperand(0);
    if (isa<math::ExpOp>(op))
      return m.exp(x);
    if (isa<math::ExpM1Op>(op))
      return m.expm1(x);
    if (isa<math::LogOp>(op))
      return m.log(x);
    if (isa<math::Log2Op>(op))
      return m.log(x, /*base2=*/true);
    if (isa<math::Log1pOp>(op))
      return m.log1p(x);
    if (isa<math::TanhOp>(op))
      return m.tanh(x);
    if (isa<math::ErfOp>(op))
      return m.erf(x);
    if (isa<math::SinOp, math::CosOp>(op)) {
      bool cosine = isa<math::CosOp>(op);
      auto choice = scf::IfOp::create(
          b, m.sinCosInRange(x),
          [&](OpBuilder &builder, Location loc) {
            ImplicitLocOpBuilder in(loc, builder);
            Value r = F32(in, type).sinCos(x, cosine);
            scf::YieldOp::create(in, r);
          },
          [&](OpBuilder &builder, Location loc) {
            ImplicitLocOpBuilder in(loc, builder);
            scf::YieldOp::create(in, callLibrary(in, op));
          });
      return choice.getResult(0);
    }
    return {};
  }

  /// Half precision is computed in f32 and rounded once.
  Value throughF32(ImplicitLocOpBuilder &b, Operation *op, Type type) {
    Type wide = b.getF32Type();
    if (auto vector = dyn_cast<VectorType>(type))
      wide = vector.clone(wide);
    OperationState state(op->getLoc(), op->getName());
    for (Value operand : op->getOperands())
      state.addOperands(Value(arith::ExtFOp::create(b, wide, operand)));
    state.addTypes(wide);
    Operation *widened = b.create(state);
    Value value = arith::TruncFOp::create(b, type, widened->getResult(0));
    ImplicitLocOpBuilder inner(op->getLoc(), widened);
    if (Value expanded = expand(inner, widened)) {
      widened->getResult(0).replaceAllUsesWith(expanded);
      widened->erase();
    }
    return value;
  }

  /// The function of that name, of operands and a result of `type`.
  func::FuncOp declare(ImplicitLocOpBuilder &b, Operation *op,
                       const std::string &name, Type type) {
    Operation *table = getOperation();
    auto callee = dyn_cast_or_null<func::FuncOp>(
        SymbolTable::lookupSymbolIn(table, name));
    if (callee)
      return callee;
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&table->getRegion(0).front());
    SmallVector<Type> types(op->getNumOperands(), type);
    callee = func::FuncOp::create(b, name, b.getFunctionType(types, {type}));
    callee.setPrivate();
    return callee;
  }

  /// Scalars and short vectors, too, fill whole ones: a number gives the same
  /// result wherever it stands.
  Value callOnVectors(ImplicitLocOpBuilder &b, Operation *op,
                      const VectorFunction &function) {
    Type type = op->getResult(0).getType();
    Type element = getElementTypeOrSelf(type);
    int64_t lanes = vectorMathBits / element.getIntOrFloatBitWidth();
    auto whole = VectorType::get({lanes}, element);
    func::FuncOp callee = declare(
        b, op, vectorName(function, vectorMathBits, element.isF64()), whole);
    auto given = dyn_cast<VectorType>(type);
    int64_t count = given ? given.getNumElements() : 1;
    SmallVector<Value> parts;
    for (int64_t begin = 0; begin < count; begin += lanes) {
      SmallVector<Value> operands;
      for (Value operand : op->getOperands())
        operands.push_back(
            given ? lanesOf(b, operand, begin, lanes)
                  : vector::BroadcastOp::create(b, whole, operand).getResult());
      parts.push_back(func::CallOp::create(b, callee, operands).getResult(0));
    }
    if (!given)
      return vector::ExtractOp::create(b, parts[0], 0);
    for (; parts.size() > 1; parts.resize(parts.size() / 2))
      for (size_t i = 0; i < parts.size() / 2; ++i)
        parts[i] = join(b, parts[2 * i], parts[2 * i + 1]);
    return lanesOf(b, parts[0], 0, count);
  }

  /// So many lanes from `begin` on, those of a shorter vector again and again.
  static Value lanesOf(ImplicitLocOpBuilder &b, Value vector, int64_t begin,
                       int64_t count) {
    int64_t all = cast<VectorType>(vector.getType()).getNumElements();
    if (begin == 0 && count == all)
      return vector;
    SmallVector<int64_t> lanes;
    for (int64_t lane = begin; lane < begin + count; ++lane)
      lanes.push_back(lane % all);
    return vector::ShuffleOp::create(b, vector, vector, lanes);
  }

  static Value join(ImplicitLocOpBuilder &b, Value x, Value y) {
    int64_t each = cast<VectorType>(x.getType()).getNumElements();
    return vector::ShuffleOp::create(
        b, x, y, llvm::to_vector(llvm::seq<int64_t>(0, 2 * each)));
  }

  Value call(ImplicitLocOpBuilder &b, Operation *op, const std::string &name) {
    Type type = op->getResult(0).getType();
    func::FuncOp callee = declare(b, op, name, getElementTypeOrSelf(type));
    auto vector = dyn_cast<VectorType>(type);
    if (!vector)
      return func::CallOp::create(b, callee, op->getOperands()).getResult(0);
    SmallVector<Value> lanes;
    for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
      SmallVector<Value> operands;
      for (Value operand : op->getOperands())
        operands.push_back(vector::ExtractOp::create(b, operand, lane));
      lanes.push_back(func::CallOp::create(b, callee, operands).getResult(0));
    }
    return vector::FromElementsOp::create(b, vector, lanes);
  }
};

} // namespace
} // namespace pyjit::codegen
