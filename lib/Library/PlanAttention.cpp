//===- PlanAttention.cpp - Attention and encoder layers in their parts ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: values equal up to rounding. Calls that ATen has for whole layers
// hide what fusion and our own matmuls do better; the calls that this pass puts
// in their place are what the passes behind it plan.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Library/Passes.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorNames.h"

#include "Calls.h"
#include "PackedMatmul.h"

#include "dialects/tssa/IR/Views.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace pyjit::library {
#define GEN_PASS_DEF_PLANATTENTIONPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;
using tssa::ViewAttr;
using tssa::ViewKind;

namespace {

bool isNone(tssa::AtenOp op, unsigned argument) {
  return operators::isNoneArgument(constantArgument(op, argument));
}

bool isFalse(tssa::AtenOp op, unsigned argument) {
  auto value = dyn_cast<BoolAttr>(constantArgument(op, argument));
  return value && !value.getValue();
}

/// A layer's self-attention: what `_native_multi_head_attention` is given, from
/// its weights on.
struct Heads {
  int64_t count;
  Value inWeight, inBias, outWeight, outBias;
};

/// Builds the parts of layers over rows of `E` f32 elements.
class LayerBuilder : public CallBuilder {
public:
  LayerBuilder(OpBuilder &b, Location loc) : CallBuilder(b, loc), b(b) {}

  Value linear(Value x, Value weight, Value bias) {
    SmallVector<int64_t> shape(typeOf(x).getShape());
    shape.back() = typeOf(weight).getDimSize(0);
    return call(operators::aten::linear, {x, weight, bias},
                RankedTensorType::get(shape, typeOf(x).getElementType()));
  }
  Value norm(Value x, Value weight, Value bias, double epsilon) {
    return call(operators::aten::layer_norm,
                {x, integers({typeOf(x).getShape().back()}), weight, bias,
                 number(epsilon), boolean(true)},
                x.getType());
  }
  Value sum(Value x, Value y) {
    return call(operators::aten::add_Tensor, {x, y, integer(1)}, x.getType());
  }
  Value activation(Value x, bool gelu) {
    return gelu ? call(operators::aten::gelu, {x, string("none")}, x.getType())
                : call(operators::aten::relu, {x}, x.getType());
  }

  Value attention(Value x, const Heads &heads) {
    ArrayRef<int64_t> shape = typeOf(x).getShape();
    int64_t batch = shape[0], length = shape[1], width = shape[2];
    int64_t each = width / heads.count;
    Value all = linear(x, heads.inWeight, heads.inBias);
    auto view = [&](ViewKind kind, ArrayRef<int64_t> numbers) {
      return ViewAttr::get(b.getContext(), kind, numbers);
    };
    auto part = [&](int64_t which) {
      return access(
          all, {view(ViewKind::view, {batch, length, 3, heads.count, each}),
                view(ViewKind::permute, {2, 0, 3, 1, 4}),
                view(ViewKind::select, {0, which})});
    };
    // As ATen lays it out: heads beside each other again.
    auto type = tssa::getTensorType({batch, heads.count, length, each},
                                    {length * width, each, width, 1},
                                    typeOf(x).getElementType());
    Value result = call(operators::aten::scaled_dot_product_attention,
                        {part(0), part(1), part(2), none(), number(0.0),
                         boolean(false), none(), boolean(false)},
                        type);
    Value rows = access(result, {view(ViewKind::permute, {0, 2, 1, 3}),
                                 view(ViewKind::view, {batch, length, width})});
    return linear(rows, heads.outWeight, heads.outBias);
  }

private:
  OpBuilder &b;
};

/// Whether the call's tensors are f32, row-major and not empty, and the first
/// of them batch x length x width, with so many heads.
bool isPlainLayer(tssa::AtenOp op, int64_t width, int64_t heads) {
  if (op->hasAttr(attribute::kVendorCall) || op.getMutates() || heads <= 0 ||
      width % heads != 0)
    return false;
  RankedTensorType type = typeOf(op.getInputs()[0]);
  return type.getRank() == 3 && type.getDimSize(2) == width &&
         llvm::all_of(op.getInputs(),
                      [](Value value) {
                        return isRowMajorF32(value) &&
                               typeOf(value).hasStaticShape() &&
                               typeOf(value).getNumElements() != 0;
                      }) &&
         isRowMajorF32(op.getResult(0));
}

Value expandEncoderLayer(tssa::AtenOp op) {
  auto width = numberArgument(op, 1), heads = numberArgument(op, 2),
       epsilon = numberArgument(op, 9);
  auto gelu = dyn_cast<BoolAttr>(constantArgument(op, 7)),
       first = dyn_cast<BoolAttr>(constantArgument(op, 8));
  if (!width || !heads || !epsilon || !gelu || !first || !isNone(op, 18) ||
      !isPlainLayer(op, *width, *heads))
    return {};
  auto tensor = [&](unsigned argument) { return tensorArgument(op, argument); };
  OpBuilder b(op);
  LayerBuilder build(b, op.getLoc());
  auto normal = [&](Value x, unsigned weight) {
    return build.norm(x, tensor(weight), tensor(weight + 1), *epsilon);
  };
  Value x = tensor(0);
  Value attended = build.attention(
      first.getValue() ? normal(x, 10) : x,
      {int64_t(*heads), tensor(3), tensor(4), tensor(5), tensor(6)});
  x = build.sum(attended, x);
  if (!first.getValue())
    x = normal(x, 10);
  Value inner = first.getValue() ? normal(x, 12) : x;
  inner = build.activation(build.linear(inner, tensor(14), tensor(15)),
                           gelu.getValue());
  x = build.sum(build.linear(inner, tensor(16), tensor(17)), x);
  return first.getValue() ? x : normal(x, 12);
}

Value expandSelfAttention(tssa::AtenOp op) {
  auto width = numberArgument(op, 3), heads = numberArgument(op, 4);
  if (!width || !heads || tensorArgument(op, 0) != tensorArgument(op, 1) ||
      tensorArgument(op, 0) != tensorArgument(op, 2) || !isNone(op, 9) ||
      !isFalse(op, 10) || !isPlainLayer(op, *width, *heads) ||
      llvm::any_of(op.getResults().drop_front(),
                   [](Value weights) { return !weights.use_empty(); }))
    return {};
  OpBuilder b(op);
  LayerBuilder build(b, op.getLoc());
  return build.attention(tensorArgument(op, 0),
                         {int64_t(*heads), tensorArgument(op, 5),
                          tensorArgument(op, 6), tensorArgument(op, 7),
                          tensorArgument(op, 8)});
}

struct PlanAttention
    : pyjit::library::impl::PlanAttentionPassBase<PlanAttention> {
  using PlanAttentionPassBase::PlanAttentionPassBase;

  /// Products, a softmax, products. Keys are as many as panels have columns:
  /// those behind the last one are zeros, which the softmax does not see.
  Value writeOut(tssa::AtenOp op) {
    Value query = tensorArgument(op, 0), key = tensorArgument(op, 1),
          value = tensorArgument(op, 2);
    auto isPlain = [](Value v) {
      return typeOf(v).getRank() == 4 && typeOf(v).getElementType().isF32() &&
             typeOf(v).hasStaticShape() && tssa::hasKnownSizes(typeOf(v)) &&
             typeOf(v).getNumElements() != 0;
    };
    if (op->hasAttr(attribute::kVendorCall) ||
        op->hasAttr(attribute::kTakesKernel) || !isNone(op, 3) ||
        numberArgument(op, 4) != 0.0 || !isFalse(op, 5) || !isFalse(op, 7) ||
        !isPlain(query) || !isPlain(key) || !isPlain(value) ||
        !tssa::isDense(typeOf(op.getResult(0))))
      return {};
    ArrayRef<int64_t> q = typeOf(query).getShape(), k = typeOf(key).getShape();
    ArrayRef<int64_t> v = typeOf(value).getShape();
    int64_t keys = llvm::alignTo(k[2], columns / 2);
    auto scale =
        isNone(op, 6) ? 1 / std::sqrt(double(q[3])) : numberArgument(op, 6);
    if (q.take_front(2) != k.take_front(2) ||
        q.take_front(2) != v.take_front(2) || !scale || q[2] < packRows ||
        panelWidth(v[3], columns) == 0 ||
        q[0] * q[1] * q[2] * keys * 4 > scoreBytes)
      return {};

    OpBuilder b(op);
    CallBuilder calls(b, op.getLoc());
    auto scores = [&](int64_t count) {
      return RankedTensorType::get({q[0], q[1], q[2], count}, b.getF32Type());
    };
    if (keys != k[2])
      key = calls.call(
          operators::aten::constant_pad_nd,
          {key, calls.integers({0, 0, 0, keys - k[2]}), calls.number(0.0)},
          RankedTensorType::get({k[0], k[1], keys, k[3]}, b.getF32Type()));
    Value score =
        calls.call(operators::aten::matmul,
                   {query, calls.permute(key, {0, 1, 3, 2})}, scores(keys));
    score = calls.call(
        operators::aten::mul_Tensor,
        {score, operators::makeWrappedNumber(b.getF64FloatAttr(*scale))},
        scores(keys));
    if (keys != k[2])
      score = calls.access(score, ViewAttr::get(b.getContext(), ViewKind::slice,
                                                {3, 0, k[2], 1}));
    Value share =
        calls.call(operators::aten::softmax_int,
                   {score, calls.integer(-1), calls.none()}, scores(k[2]));
    return calls.call(operators::aten::matmul, {share, value},
                      op.getResult(0).getType());
  }

  template <typename F> void rewrite(StringRef overload, F build) {
    SmallVector<tssa::AtenOp> found;
    getOperation().walk([&](tssa::AtenOp op) {
      if (op.getOverload() == overload)
        found.push_back(op);
    });
    for (tssa::AtenOp op : found)
      if (Value result = build(op)) {
        op.getResult(0).replaceAllUsesWith(result);
        op.erase();
        ++numExpanded;
      }
  }

  void runOnOperation() override {
    if (columns % 2) { // blocks of keys are half a panel
      getOperation().emitError("columns is an even number, not ") << columns;
      return signalPassFailure();
    }
    rewrite(operators::aten::_transformer_encoder_layer_fwd,
            expandEncoderLayer);
    rewrite(operators::aten::_native_multi_head_attention, expandSelfAttention);
    if (columns != 0)
      rewrite(operators::aten::scaled_dot_product_attention,
              [&](tssa::AtenOp op) { return writeOut(op); });
  }
};

} // namespace
