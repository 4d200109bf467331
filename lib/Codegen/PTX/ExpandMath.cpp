//===- ExpandMath.cpp - Functions for which a GPU has instructions --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What codegen-expand-math would do without the special function unit. Runs
// before it and leaves the rest to it.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "pyjit/Codegen/MathCoefficients.h"
#include "pyjit/Codegen/PTX/Passes.h"

using namespace mlir;

namespace pyjit::ptx {
#define GEN_PASS_DEF_PTXEXPANDMATH
#include "lib/Codegen/PTX/Passes.h.inc"

namespace {

Value constant(ImplicitLocOpBuilder &b, Type type, float value) {
  TypedAttr attr = b.getF32FloatAttr(value);
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, ArrayRef<Attribute>(attr));
  return arith::ConstantOp::create(b, attr);
}

Value constant(ImplicitLocOpBuilder &b, Type type, int32_t value) {
  TypedAttr attr = b.getI32IntegerAttr(value);
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, ArrayRef<Attribute>(attr));
  return arith::ConstantOp::create(b, attr);
}

/// Calls `make` with every lane of `x`.
Value eachLane(ImplicitLocOpBuilder &b, ValueRange operands,
               llvm::function_ref<Value(ValueRange)> make) {
  auto vector = dyn_cast<VectorType>(operands[0].getType());
  if (!vector)
    return make(operands);
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
    SmallVector<Value> scalars;
    for (Value operand : operands)
      scalars.push_back(vector::ExtractOp::create(b, operand, lane));
    lanes.push_back(make(scalars));
  }
  auto type = VectorType::get(vector.getShape(), lanes[0].getType());
  return vector::FromElementsOp::create(b, type, lanes);
}

/// 2^n * 2^r with n = rint(x / ln 2), n kept in the range of normal numbers:
/// beyond it r grows instead, and the special function over- or underflows.
Value expF32(ImplicitLocOpBuilder &b, Value x) {
  Type type = x.getType(), bits = b.getI32Type();
  if (auto vector = dyn_cast<VectorType>(type))
    bits = vector.clone(bits);
  auto number = [&](float value) { return constant(b, type, value); };
  // Adding 1.5 * 2^23 rounds to an integer, which the lowest bits then show.
  constexpr float magic = 12582912.0f;
  Value shifted =
      math::FmaOp::create(b, x, number(0x1.715476p+0f), number(magic));
  shifted = arith::MaxNumFOp::create(b, shifted, number(magic - 126));
  shifted = arith::MinNumFOp::create(b, shifted, number(magic + 127));
  Value n = arith::SubFOp::create(b, shifted, number(magic));
  Value r = math::FmaOp::create(b, x, number(0x1.715476p+0f),
                                arith::NegFOp::create(b, n));
  r = math::FmaOp::create(b, x, number(0x1.4ae0c0p-26f), r);
  Value power = eachLane(b, r, [&](ValueRange lane) -> Value {
    return LLVM::CallIntrinsicOp::create(
               b, b.getF32Type(), b.getStringAttr("llvm.nvvm.ex2.approx"), lane)
        .getResult(0);
  });
  Value scale = arith::BitcastOp::create(b, bits, shifted);
  // magic's own bits are a multiple of 2^9 up there: only n and the bias of the
  // exponent have to be right.
  scale = arith::ShLIOp::create(b, scale, constant(b, bits, 23));
  scale = arith::AddIOp::create(b, scale, constant(b, bits, 127 << 23));
  scale = arith::BitcastOp::create(b, type, scale);
  return arith::MulFOp::create(b, power, scale);
}

//===--- Where results are rounded to half precision ------------------------//

/// An instruction on f32.
Value instruction(ImplicitLocOpBuilder &b, StringRef name,
                  ValueRange operands) {
  return eachLane(b, operands, [&](ValueRange lane) -> Value {
    return LLVM::CallIntrinsicOp::create(b, b.getF32Type(),
                                         b.getStringAttr(name), lane)
        .getResult(0);
  });
}

/// 2^(x / ln 2) as the special function unit has it: the product's rounding is
/// a relative error of up to 2^-17, results below 2^-126 are zero.
Value expForHalf(ImplicitLocOpBuilder &b, Value x) {
  Value power =
      arith::MulFOp::create(b, x, constant(b, x.getType(), 0x1.715476p+0f));
  return instruction(b, "llvm.nvvm.ex2.approx.ftz", power);
}

/// A relative error of 2^-22; of x above 2^126 it is zero.
Value reciprocal(ImplicitLocOpBuilder &b, Value x) {
  return instruction(b, "llvm.nvvm.rcp.approx.ftz.f", x);
}

Value polynomial(ImplicitLocOpBuilder &b, Value x, ArrayRef<float> factors) {
  Value sum = constant(b, x.getType(), factors.front());
  for (float factor : factors.drop_front())
    sum = math::FmaOp::create(b, sum, x, constant(b, x.getType(), factor));
  return sum;
}

Value select(ImplicitLocOpBuilder &b, Value x, float below, Value yes,
             Value no) {
  Value less = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x,
                                     constant(b, x.getType(), below));
  return arith::SelectOp::create(b, less, yes, no);
}

/// As codegen-expand-math has it, with exp and the division of this unit: an
/// error of 2^-16.
Value tanhForHalf(ImplicitLocOpBuilder &b, Value x) {
  Type type = x.getType();
  Value one = constant(b, type, 1.0f), size = math::AbsFOp::create(b, x);
  Value e = expForHalf(b, arith::AddFOp::create(b, size, size));
  Value part = reciprocal(b, arith::AddFOp::create(b, e, one));
  Value large = math::FmaOp::create(b, part, constant(b, type, -2.0f), one);
  Value s = arith::MulFOp::create(b, x, x);
  Value p = polynomial(b, s, codegen::kTanh);
  Value small =
      math::FmaOp::create(b, arith::MulFOp::create(b, p, s), size, size);
  return math::CopySignOp::create(
      b, select(b, size, codegen::kTanhSmall, small, large), x);
}

/// The rational function of codegen-expand-math: its error is the division's.
Value erfForHalf(ImplicitLocOpBuilder &b, Value x) {
  Type type = x.getType();
  Value one = constant(b, type, 1.0f), size = math::AbsFOp::create(b, x);
  Value c =
      arith::MinimumFOp::create(b, size, constant(b, type, codegen::kErfLast));
  Value s = arith::MulFOp::create(b, c, c);
  Value p = polynomial(b, s, codegen::kErfAbove);
  Value q = polynomial(b, s, codegen::kErfBelow);
  Value r = arith::MulFOp::create(b, arith::MulFOp::create(b, c, p),
                                  reciprocal(b, q));
  r = arith::MinimumFOp::create(b, r, one);
  // From here on it is one: gelu multiplies what is left of 1 - erf by x. What
  // is no number stays one.
  Value isOne = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, size,
                                      constant(b, type, codegen::kErfOne));
  r = arith::SelectOp::create(b, isOne, one, r);
  return math::CopySignOp::create(b, r, x);
}

struct ExpandMathPass : impl::PtxExpandMathBase<ExpandMathPass> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) {
      if (isa<math::ExpOp, arith::RemFOp>(op) || isForHalf(op))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      ImplicitLocOpBuilder b(op->getLoc(), op);
      Value value = isa<arith::RemFOp>(op) ? remainder(b, op) : expand(b, op);
      if (!value)
        continue;
      op->getResult(0).replaceAllUsesWith(value);
      op->erase();
    }
  }

  /// Half precision is computed in f32 and rounded once.
  Value through(ImplicitLocOpBuilder &b, ValueRange operands,
                llvm::function_ref<Value(ValueRange)> make) {
    Type type = operands[0].getType();
    Type element = getElementTypeOrSelf(type);
    if (!element.isF16() && !element.isBF16())
      return make(operands);
    Type wide = b.getF32Type();
    if (auto vector = dyn_cast<VectorType>(type))
      wide = vector.clone(wide);
    SmallVector<Value> widened;
    for (Value operand : operands)
      widened.push_back(arith::ExtFOp::create(b, wide, operand));
    return arith::TruncFOp::create(b, type, make(widened));
  }

  /// Whether its kernel rounds results to half precision (`fastmath<afn>`).
  static bool isForHalf(Operation *op) {
    auto flags = dyn_cast<arith::ArithFastMathInterface>(op);
    return isa<math::ExpOp, math::TanhOp, math::ErfOp, arith::DivFOp>(op) &&
           flags &&
           arith::bitEnumContainsAll(flags.getFastMathFlagsAttr().getValue(),
                                     arith::FastMathFlags::afn);
  }

  Value expand(ImplicitLocOpBuilder &b, Operation *op) {
    if (getElementTypeOrSelf(op->getResult(0).getType()).isF64())
      return {};
    return through(b, op->getOperands(), [&](ValueRange x) {
      if (isa<math::TanhOp>(op))
        return tanhForHalf(b, x[0]);
      if (isa<math::ErfOp>(op))
        return erfForHalf(b, x[0]);
      if (isa<arith::DivFOp>(op)) // of all numbers, two units in the last place
        return instruction(b, "llvm.nvvm.div.full", x);
      return isForHalf(op) ? expForHalf(b, x[0]) : expF32(b, x[0]);
    });
  }

  /// The target's remainder is the rounded quotient's; the C library's is
  /// exact.
  Value remainder(ImplicitLocOpBuilder &b, Operation *op) {
    return through(b, op->getOperands(), [&](ValueRange operands) {
      Type element = getElementTypeOrSelf(operands[0].getType());
      StringRef name = element.isF64() ? "fmod" : "fmodf";
      Operation *table = getOperation();
      auto callee = dyn_cast_or_null<func::FuncOp>(
          SymbolTable::lookupSymbolIn(table, name));
      if (!callee) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(&table->getRegion(0).front());
        callee = func::FuncOp::create(
            b, name, b.getFunctionType({element, element}, {element}));
        callee.setPrivate();
      }
      return eachLane(b, operands, [&](ValueRange lane) -> Value {
        return func::CallOp::create(b, callee, lane).getResult(0);
      });
    });
  }
};

} // namespace
} // namespace pyjit::ptx
