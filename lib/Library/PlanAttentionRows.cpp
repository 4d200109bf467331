//===- PlanAttentionRows.cpp - Attention of one query or a few ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: values equal up to rounding; halves are added up in f32.
//
// A step of a generation attends with one query to all keys so far, whose
// number is another one in each step. A vendor call with such sizes is another
// call in each step, and no captured graph can hold it; kernels of ours read
// the number when they run.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Library/Passes.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/ElementTypes.h"
#include "pyjit/Operators/OperatorNames.h"

#include "Calls.h"

#include "dialects/tssa/IR/Views.h"

#include <cmath>
#include <limits>

namespace pyjit::library {
#define GEN_PASS_DEF_PLANATTENTIONROWSPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;
using tssa::Size;
using tssa::ViewAttr;
using tssa::ViewKind;

namespace {

/// Sizes of one call: batch, heads of keys, heads of queries for each of them,
/// queries, keys, and what a head is wide.
struct Sizes {
  int64_t batch, heads, group, queries;
  Size keys;
  int64_t width, valueWidth;
};

struct Attention {
  tssa::AtenOp op;
  Value query, key, value, mask;
  double scale;
  Sizes sizes;
};

/// The calls that an attention consists of. Scores are batch x heads x group x
/// queries x keys.
class RowBuilder : public CallBuilder {
public:
  RowBuilder(OpBuilder &b, Location loc, const Sizes &sizes)
      : CallBuilder(b, loc), types(b.getContext()), sizes(sizes) {}

  Value toF32(Value value) {
    if (typeOf(value).getElementType().isF32())
      return value;
    return convert(value, rowMajor(typeOf(value), types.getF32Type()));
  }
  /// In the result's element type and layout.
  Value convert(Value value, RankedTensorType result) {
    if (typeOf(value) == result)
      return value;
    if (typeOf(value).getElementType() == result.getElementType())
      return call(operators::aten::clone, {value, none()}, result);
    return toDtype(*this, value, result);
  }
  /// A new dimension of one element.
  Value unsqueeze(Value value, int64_t dim) {
    return access(value,
                  ViewAttr::get(types.getContext(), ViewKind::unsqueeze, dim));
  }
  Value multiply(Value a, Value b, RankedTensorType result) {
    return call(operators::aten::mul_Tensor, {a, b}, result);
  }
  Value sum(Value value, int64_t dim, RankedTensorType result) {
    return call(operators::aten::sum_dim_IntList,
                {value, integers({dim}), boolean(false), none()}, result);
  }
  /// Batch x heads x group x queries, and what follows.
  RankedTensorType rows(ArrayRef<Size> last, Type element) {
    SmallVector<Size> shape{sizes.batch, sizes.heads, sizes.group,
                            sizes.queries};
    llvm::append_range(shape, last);
    return tssa::getSymbolicType(shape, tssa::getRowMajorStrides(shape),
                                 element);
  }
  RankedTensorType rows(ArrayRef<Size> last) {
    return rows(last, types.getF32Type());
  }

  Value scores(Value query, Value key, double scale) {
    Value q = view(query, {sizes.batch, sizes.heads, sizes.group, sizes.queries,
                           1, sizes.width});
    Value k = unsqueeze(unsqueeze(key, 2), 2);
    Value product =
        multiply(toF32(q), toF32(k), rows({sizes.keys, sizes.width}));
    return call(operators::aten::mul_Tensor,
                {sum(product, -1, rows({sizes.keys})),
                 operators::makeWrappedNumber(types.getF64FloatAttr(scale))},
                rows({sizes.keys}));
  }

  /// Adds the mask, or puts -inf where it says no.
  Value masked(Value score, Value mask) {
    while (typeOf(mask).getRank() < 4)
      mask = unsqueeze(mask, 0);
    mask = unsqueeze(mask, 2);
    RankedTensorType type = typeOf(score);
    if (!typeOf(mask).getElementType().isInteger(1))
      return call(operators::aten::add_Tensor, {score, toF32(mask), integer(1)},
                  type);
    Value hidden = call(operators::aten::logical_not, {mask},
                        rowMajor(typeOf(mask), types.getI1Type()));
    return call(
        operators::aten::masked_fill_Scalar,
        {score, hidden, number(-std::numeric_limits<double>::infinity())},
        type);
  }

  Value softmax(Value score) {
    return call(operators::aten::softmax_int, {score, integer(-1), none()},
                score.getType());
  }
  /// A query that sees no key gets zeros, as from ATen.
  Value safeSoftmax(Value score) {
    RankedTensorType row = rows({1});
    RankedTensorType flags = rows({1}, types.getI1Type());
    Value largest = call(operators::aten::amax,
                         {score, integers({-1}), boolean(true)}, row);
    Value blind = call(
        operators::aten::eq_Scalar,
        {largest, number(-std::numeric_limits<double>::infinity())}, flags);
    return call(operators::aten::masked_fill_Scalar,
                {softmax(score), blind, number(0.0)}, score.getType());
  }

  /// Sums of values, laid out as the call's result is.
  Value weighted(Value share, Value value, RankedTensorType result) {
    Value v = unsqueeze(unsqueeze(value, 2), 2);
    Value product = multiply(unsqueeze(share, 5), toF32(v),
                             rows({sizes.keys, sizes.valueWidth}));
    Value total = sum(product, 4, rows({sizes.valueWidth}));
    // Row-major, or as a projection is laid out, heads beside each other: then
    // the sum is stored so, and the result is a view of it.
    int64_t heads = sizes.heads * sizes.group, width = sizes.valueWidth;
    int64_t all = heads * width;
    SmallVector<int64_t> beside{sizes.queries * all, width, all, 1};
    Type element = result.getElementType();
    if (tssa::getStrides(result) == beside) {
      total = convert(
          total,
          tssa::getTensorType(
              {sizes.batch, sizes.heads, sizes.group, sizes.queries, width},
              {sizes.queries * all, sizes.group * width, width, all, 1},
              element));
      Value flat = view(permute(total, {0, 3, 1, 2, 4}),
                        {sizes.batch, sizes.queries, heads, width});
      return permute(flat, {0, 2, 1, 3});
    }
    if (!result.getEncoding())
      return view(convert(total, rows({width}, element)), result.getShape());
    return convert(view(total, result.getShape()), result);
  }

private:
  static RankedTensorType rowMajor(RankedTensorType type, Type element) {
    SmallVector<Size> shape = tssa::getSizes(type);
    return tssa::getSymbolicType(shape, tssa::getRowMajorStrides(shape),
                                 element);
  }

  Builder types;
  const Sizes &sizes;
};

struct PlanAttentionRows
    : pyjit::library::impl::PlanAttentionRowsPassBase<PlanAttentionRows> {
  using PlanAttentionRowsPassBase::PlanAttentionRowsPassBase;

  /// Whether the mask has a place for each key, and is the same for all heads,
  /// or another one for each, where each has keys of its own (T5's biases).
  static bool fits(Value mask, const Sizes &sizes) {
    if (!tssa::hasKnownSizes(typeOf(mask)) ||
        !(operators::getComputeType(typeOf(mask).getElementType()).isF32() ||
          typeOf(mask).getElementType().isInteger(1)))
      return false;
    SmallVector<Size> have = tssa::getSizes(typeOf(mask));
    if (have.size() < 2 || have.size() > 4)
      return false;
    have.insert(have.begin(), 4 - have.size(), Size(1));
    bool ofHeads =
        have[1].is(1) || (sizes.group == 1 && have[1].is(sizes.heads));
    return (have[0].is(1) || have[0].is(sizes.batch)) && ofHeads &&
           (have[2].is(1) || have[2].is(sizes.queries)) &&
           (have[3].is(1) || have[3] == sizes.keys);
  }

  std::optional<Attention> match(tssa::AtenOp op) {
    Value query = tensorArgument(op, 0), key = tensorArgument(op, 1),
          value = tensorArgument(op, 2), mask = tensorArgument(op, 3);
    auto scale = numberArgument(op, 6);
    auto causal = dyn_cast<BoolAttr>(constantArgument(op, 5)),
         grouped = dyn_cast<BoolAttr>(constantArgument(op, 7));
    bool unscaled = operators::isNoneArgument(constantArgument(op, 6));
    if (op->hasAttr(attribute::kVendorCall) ||
        op->hasAttr(attribute::kTakesKernel) || numberArgument(op, 4) != 0.0 ||
        !causal || causal.getValue() || !grouped || !(scale || unscaled) ||
        (!mask && !operators::isNoneArgument(constantArgument(op, 3))))
      return std::nullopt;
    RankedTensorType q = typeOf(query), k = typeOf(key), v = typeOf(value);
    for (RankedTensorType type : {q, k, v})
      if (type.getRank() != 4 || !tssa::hasKnownSizes(type) ||
          type.getElementType() != q.getElementType())
        return std::nullopt;
    RankedTensorType result = typeOf(op.getResult(0));
    if (!operators::getComputeType(q.getElementType()).isF32() ||
        !q.hasStaticShape() || q.getNumElements() == 0 ||
        q.getDimSize(2) > maxQueries || !result.hasStaticShape() ||
        !tssa::isDense(result))
      return std::nullopt;
    SmallVector<Size> keys = tssa::getSizes(k), values = tssa::getSizes(v);
    int64_t heads = k.getDimSize(1), width = v.getDimSize(3);
    // A number of keys that is the same in all calls is the library's.
    if (keys[2].isConstant() || values[2] != keys[2] ||
        !keys[0].is(q.getDimSize(0)) || !values[0].is(q.getDimSize(0)) ||
        heads <= 0 || !values[1].is(heads) || q.getDimSize(1) % heads != 0 ||
        (heads != q.getDimSize(1) && !grouped.getValue()) ||
        !keys[3].is(q.getDimSize(3)) || width <= 0)
      return std::nullopt;
    Sizes sizes{q.getDimSize(0),
                heads,
                q.getDimSize(1) / heads,
                q.getDimSize(2),
                keys[2],
                q.getDimSize(3),
                width};
    if (mask && !fits(mask, sizes))
      return std::nullopt;
    return Attention{
        op,   query,
        key,  value,
        mask, scale ? double(*scale) : 1 / std::sqrt(double(sizes.width)),
        sizes};
  }

  void runOnOperation() override {
    SmallVector<tssa::AtenOp> found;
    getOperation().walk([&](tssa::AtenOp op) {
      if (op.getOverload() == operators::aten::scaled_dot_product_attention)
        found.push_back(op);
    });
    for (tssa::AtenOp op : found) {
      std::optional<Attention> attention = match(op);
      if (!attention)
        continue;
      OpBuilder builder(op);
      RowBuilder build(builder, op.getLoc(), attention->sizes);
      Value score =
          build.scores(attention->query, attention->key, attention->scale);
      Value share =
          attention->mask
              ? build.safeSoftmax(build.masked(score, attention->mask))
              : build.softmax(score);
      Value result =
          build.weighted(share, attention->value, typeOf(op.getResult(0)));
      if (build.hasFailed())
        return signalPassFailure();
      op.getResult(0).replaceAllUsesWith(result);
      op.erase();
      ++numExpanded;
    }
  }
};

} // namespace
