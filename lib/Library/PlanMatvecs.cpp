//===- PlanMatvecs.cpp - Matrix-vector products as kernels of our own -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: values equal up to rounding; halves are added up in f32.
//
// A matmul of one row reads each element of its weight once: it costs the
// weight's way from memory, as any reduction does, and no vendor call fuses
// what stands in front of it and behind it. Nor can a captured graph hold a
// vendor call whose sizes differ between calls. Tensor cores make the same of
// up to sixteen rows in half precision.
//
//===----------------------------------------------------------------------===//

#include "pyjit/Codegen/RowsProduct.h"
#include "pyjit/Library/Passes.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/ElementTypes.h"
#include "pyjit/Operators/OperatorNames.h"

#include "Calls.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Views.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace pyjit::library {
#define GEN_PASS_DEF_PLANMATVECSPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;
using tssa::Size;

namespace {

/// One call, seen as rows times a weight. The result's last two dimensions are
/// rows and columns; the ones in front of them number the weights of a batch.
struct Matvec {
  Value input, weight, bias;
  /// The weight is out x in, as `linear` has it; else in x out.
  bool turned;
  /// What bias and sum are multiplied by.
  double beta = 1, alpha = 1;
};

/// addmm and baddbmm: self, two factors, beta, alpha. Where beta is zero, the
/// first is not looked at.
std::optional<Matvec> matchAdded(tssa::AtenOp op) {
  auto beta = numberArgument(op, 3), alpha = numberArgument(op, 4);
  if (!beta || !alpha)
    return std::nullopt;
  return Matvec{tensorArgument(op, 1),
                tensorArgument(op, 2),
                *beta == 0 ? Value() : tensorArgument(op, 0),
                false,
                *beta,
                *alpha};
}

/// What the schema says of the call, before any look at types.
std::optional<Matvec> matchOperands(tssa::AtenOp op) {
  StringRef name = op.getOverload();
  if (name == operators::aten::linear)
    return Matvec{tensorArgument(op, 0), tensorArgument(op, 1),
                  tensorArgument(op, 2), true};
  if (name == operators::aten::addmm || name == operators::aten::baddbmm)
    return matchAdded(op);
  if (name == operators::aten::mm || name == operators::aten::bmm ||
      name == operators::aten::matmul)
    return Matvec{tensorArgument(op, 0), tensorArgument(op, 1), Value(), false};
  return std::nullopt;
}

/// Where several rows are left to the vendor, which splits long sums: a block
/// of ours has sixteen columns, so that few of them leave most of the device
/// idle. By estimate (bytes in flight of a block by the memory's latency), not
/// swept.
constexpr int64_t kLongSum = 4096, kFewColumns = 1024;

struct PlanMatvecs : pyjit::library::impl::PlanMatvecsPassBase<PlanMatvecs> {
  using PlanMatvecsPassBase::PlanMatvecsPassBase;

  /// Likewise where the weight meets `rows` rows: that is a kernel of tensor
  /// cores (pyjit/Codegen/RowsProduct.h), or the weight would be read as often.
  StringRef whyNotRows(const Matvec &call, Size rows, Size in, Size columns) {
    using codegen::RowsProduct;
    if (!rows.isConstant() || rows.constant() < 2 || rows.constant() > maxRows)
      return "several rows";
    if (typeOf(call.weight).getElementType().isF32())
      return "several rows in float32";
    if (typeOf(call.weight).getRank() != 2)
      return "several rows of several weights";
    if (!in.isConstant() || in.constant() % RowsProduct::kSumMultiple != 0)
      return "several rows of a length that is no multiple of 32";
    if (!tssa::getSymbolicStrides(typeOf(call.input)).back().is(1) ||
        !tssa::getSymbolicStrides(typeOf(call.weight))[call.turned].is(1))
      return "several rows that do not lie along the sum";
    if (in.constant() > kLongSum &&
        (!columns.isConstant() || columns.constant() < kFewColumns))
      return "several rows of long sums for few columns";
    return {};
  }

  /// Why `call` stays a vendor call; empty where it need not.
  StringRef whyNot(const Matvec &call, RankedTensorType result) {
    Type element = result.getElementType();
    if (parametersOnly && !isFromParameters(call.weight))
      return "its weight is no parameter";
    if (element.isF32() && typeOf(call.weight).hasStaticShape() &&
        typeOf(call.weight).getNumElements() * 4 < minBytes)
      return "its weight is small";
    for (Value value : {call.input, call.weight, call.bias}) {
      if (!value)
        continue;
      if (!tssa::hasKnownSizes(typeOf(value)))
        return "sizes that are not known";
      if (typeOf(value).getElementType() != element)
        return "operands of several element types";
    }
    if (!operators::getComputeType(element).isF32())
      return "no floating point of 32 or 16 bits";
    if (!tssa::hasKnownSizes(result) || !tssa::isDense(result))
      return "a result with gaps";
    SmallVector<Size> rows = tssa::getSizes(typeOf(call.input)),
                      weight = tssa::getSizes(typeOf(call.weight)),
                      out = tssa::getSizes(result);
    if (rows.size() < 2 || weight.size() < 2 || out.size() != rows.size())
      return "operands of one dimension";
    if (weight.size() != 2 && weight.size() != rows.size())
      return "a batch that is broadcast";
    // `linear` and a weight without a batch take all that is in front as rows.
    size_t batch = weight.size() - 2;
    Size count = 1;
    for (size_t d = 0; d + 1 < rows.size(); ++d) {
      if (out[d] != rows[d] || (d < batch && weight[d] != rows[d]))
        return "a batch that is broadcast";
      if (d >= batch)
        count *= rows[d];
    }
    Size in = weight[batch + call.turned],
         columns = weight[batch + !call.turned];
    if (in != rows.back() || columns != out.back())
      return "sizes that do not fit";
    if (in.is(0))
      return "sums of nothing";
    if (!count.is(1))
      if (StringRef reason = whyNotRows(call, count, in, columns);
          !reason.empty())
        return reason;
    if (call.bias) {
      SmallVector<Size> bias = tssa::getSizes(typeOf(call.bias));
      if (bias.empty() || bias.back() != columns || bias.size() > out.size())
        return "a bias that is broadcast";
      for (auto [one, all] : llvm::zip(llvm::reverse(bias), llvm::reverse(out)))
        if (!one.is(1) && one != all)
          return "a bias of other sizes";
    }
    return {};
  }

  /// result[.., m, n] = sum of input[.., m, k] * weight[.., k, n], in f32.
  Value makeSum(OpBuilder &b, Location loc, const Matvec &call,
                RankedTensorType type) {
    MLIRContext *context = b.getContext();
    unsigned rank = type.getRank(), loops = rank + 1;
    AffineExpr n = b.getAffineDimExpr(rank - 1), k = b.getAffineDimExpr(rank);
    SmallVector<AffineExpr> input, weight, result;
    for (unsigned d = 0; d < rank; ++d)
      result.push_back(b.getAffineDimExpr(d));
    input.assign(result.begin(), result.end() - 1);
    input.push_back(k);
    for (int64_t d = 0; d + 2 < typeOf(call.weight).getRank(); ++d)
      weight.push_back(result[d]);
    weight.append({call.turned ? n : k, call.turned ? k : n});
    SmallVector<AffineMap> maps{AffineMap::get(loops, 0, input, context),
                                AffineMap::get(loops, 0, weight, context),
                                AffineMap::get(loops, 0, result, context)};
    SmallVector<utils::IteratorType> iterators(loops,
                                               utils::IteratorType::parallel);
    iterators.back() = utils::IteratorType::reduction;
    Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
    Value init =
        linalg::FillOp::create(b, loc, zero, tssa::makeEmpty(b, loc, type))
            .getResult(0);
    auto widened = [](OpBuilder &in, Location at, Value value) -> Value {
      return value.getType().isF32()
                 ? value
                 : arith::ExtFOp::create(in, at, in.getF32Type(), value);
    };
    return linalg::GenericOp::create(
               b, loc, TypeRange(type), ValueRange{call.input, call.weight},
               ValueRange(init), maps, iterators,
               [&](OpBuilder &in, Location at, ValueRange args) {
                 Value product =
                     arith::MulFOp::create(in, at, widened(in, at, args[0]),
                                           widened(in, at, args[1]));
                 Value sum = arith::AddFOp::create(in, at, args[2], product);
                 linalg::YieldOp::create(in, at, sum);
               })
        .getResult(0);
  }

  void plan(tssa::AtenOp op) {
    std::optional<Matvec> call = matchOperands(op);
    if (!call || !call->input || !call->weight || op->getNumResults() != 1 ||
        op->hasAttr(attribute::kVendorCall))
      return;
    RankedTensorType type = typeOf(op.getResult(0));
    if (StringRef reason = whyNot(*call, type); !reason.empty()) {
      if (explain)
        op.emitRemark("'") << op.getOverload()
                           << "' stays a vendor call: " << reason;
      return;
    }
    OpBuilder builder(op);
    CallBuilder calls(builder, op.getLoc());
    RankedTensorType wide = tssa::getSymbolicType(
        tssa::getSizes(type), tssa::getSymbolicStrides(type),
        builder.getF32Type());
    Value result = makeSum(builder, op.getLoc(), *call, wide);
    if (call->alpha != 1)
      result = calls.call(operators::aten::mul_Tensor,
                          {result, operators::makeWrappedNumber(
                                       builder.getF64FloatAttr(call->alpha))},
                          wide);
    if (call->bias)
      result = calls.call(
          operators::aten::add_Tensor,
          {result, call->bias,
           call->beta == 1 ? calls.integer(1) : calls.number(call->beta)},
          wide);
    if (type != wide)
      result = toDtype(calls, result, type);
    op.getResult(0).replaceAllUsesWith(result);
    op.erase();
    ++numMatvecs;
  }

  void runOnOperation() override {
    SmallVector<tssa::AtenOp> calls;
    getOperation().walk([&](tssa::AtenOp op) { calls.push_back(op); });
    for (tssa::AtenOp op : calls)
      plan(op);
  }
};

} // namespace
