//===- RulesAttention.cpp - Derivatives of attention and dropout ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "AttentionKernels.h"

#include "pyjit/Operators/OperatorNames.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;

/// The second result says what stayed.
LogicalResult gradient_rules::Dropout(Adjoint &a) {
  std::optional<double> p = a.number(1);
  if (!p)
    return a.refuse("its probability differs between calls");
  // All is zero where nothing stays.
  double scale = !a.flag(2) ? 1.0 : *p == 1.0 ? 0.0 : 1.0 / (1.0 - *p);
  GradientBuilder &build = a.build;
  Type type = typeOf(a.gradient()).getElementType();
  Value stayed = build.convert(a.call.getResult(1), type);
  a.give(0, build.multiply(build.multiply(a.gradient(), stayed),
                           build.wrapped(scale)));
  return success();
}

namespace {

/// softmax(q k^T scale + mask) v, differentiated as it is written.
class AttentionRule {
public:
  AttentionRule(Adjoint &a) : a(a), build(a.build) {}

  LogicalResult run() {
    Value query = a.tensor(0), key = a.tensor(1), value = a.tensor(2);
    if (a.number(4) != 0.0)
      return a.refuse("attention with dropout");
    for (Value operand : {query, key, value})
      if (typeOf(operand).getRank() < 2)
        return a.refuse("its operands are no matrices");
    SmallVector<Size> sizes = tssa::getSizes(typeOf(query));
    if (failed(findBatch(query, key, value)))
      return failure();
    if (!sizes.back().isConstant())
      return a.refuse("the size of its heads differs between calls");
    scale =
        a.number(6).value_or(1 / std::sqrt(double(sizes.back().constant())));
    type = typeOf(query).getElementType();
    return differentiate(query, key, value);
  }

private:
  static SmallVector<Size> firstSizes(Value value) {
    SmallVector<Size> sizes = tssa::getSizes(typeOf(value));
    sizes.pop_back_n(2);
    return sizes;
  }

  /// The first dimensions that all operands are broadcast to. With grouped
  /// heads, each head of a key or a value is that of several queries.
  LogicalResult findBatch(Value query, Value &key, Value &value) {
    if (a.flag(7))
      for (Value *operand : {&key, &value}) {
        Size heads = firstSizes(query).back(),
             own = firstSizes(*operand).back();
        std::optional<Size> times = heads.dividedBy(own);
        if (!times)
          return a.refuse("how many heads a group has differs between calls");
        *operand = repeatHeads(*operand, *times);
      }
    for (Value operand : {query, key, value, a.gradient()}) {
      SmallVector<Size> own = firstSizes(operand);
      if (own.size() > batch.size())
        batch.insert(batch.begin(), own.size() - batch.size(), Size(1));
      size_t lead = batch.size() - own.size();
      for (auto [i, size] : llvm::enumerate(own))
        if (batch[lead + i].is(1))
          batch[lead + i] = size;
    }
    return success();
  }

  Value repeatHeads(Value value, const Size &times) {
    if (times.is(1))
      return value;
    SmallVector<Size> sizes = tssa::getSizes(typeOf(value));
    size_t heads = sizes.size() - 3;
    Type elementType = typeOf(value).getElementType();
    SmallVector<Size> split(sizes), joined(sizes);
    split.insert(split.begin() + heads + 1, times);
    joined[heads] *= times;
    value = build.unsqueeze(value, int64_t(heads) + 1);
    value = build.expand(value, rowMajorType(split, elementType));
    return build.reshape(value, rowMajorType(joined, elementType));
  }

  LogicalResult differentiate(Value query, Value key, Value value) {
    Value weights = probabilities(query, key);
    Value gradient = stack(a.gradient());
    if (a.wants(2))
      give(2, build.product(transposed(weights), gradient));
    Value ofWeights = build.product(gradient, transposed(stack(value)));
    Value product = build.multiply(weights, ofWeights);
    Value sum = build.sum(product, {typeOf(product).getRank() - 1});
    Value ofScores = build.subtract(product, build.multiply(weights, sum));
    if (a.wants(3))
      a.give(3, unstacked(ofScores));
    ofScores = build.multiply(ofScores, build.wrapped(scale));
    if (a.wants(0u))
      give(0, build.product(ofScores, stack(key)));
    if (a.wants(1))
      give(1, build.product(transposed(ofScores), stack(query)));
    return success();
  }

  /// A row that is masked as a whole gives zeros, as eager's kernels do.
  Value probabilities(Value query, Value key) {
    Value scores =
        build.multiply(build.product(stack(query), transposed(stack(key))),
                       build.wrapped(scale));
    constexpr double kNever = -std::numeric_limits<double>::infinity();
    if (Value mask = a.tensor(3)) {
      SmallVector<Size> full(batch), own = tssa::getSizes(typeOf(scores));
      full.append(own.end() - 2, own.end());
      Type elementType = typeOf(mask).getElementType();
      mask = build.expand(mask, rowMajorType(full, elementType));
      mask = build.reshape(mask, rowMajorType(own, elementType));
      scores = typeOf(mask).getElementType().isInteger(1)
                   ? build.select(mask, scores, build.wrapped(kNever))
                   : build.add(scores, mask);
    }
    if (a.flag(5)) {
      Value ones =
          build.ones(rowMajorType(tssa::getSizes(typeOf(scores)),
                                  IntegerType::get(type.getContext(), 1)));
      Value seen =
          build.pointwise(operators::aten::tril, {ones, build.integer(0)});
      scores = build.select(seen, scores, build.wrapped(kNever));
    }
    int64_t last = typeOf(scores).getRank() - 1;
    SmallVector<Size> column = tssa::getSizes(typeOf(scores));
    column.back() = 1;
    Value top =
        build.call(operators::aten::amax,
                   {scores, build.integers({last}), build.boolean(true)},
                   rowMajorType(column, typeOf(scores).getElementType()));
    Value isMasked = build.pointwise(operators::aten::eq_Tensor,
                                     {top, build.wrapped(kNever)});
    Value weights = build.call(
        operators::aten::_softmax,
        {scores, build.integer(last), build.boolean(false)}, typeOf(scores));
    return build.select(isMasked, build.wrapped(0), weights);
  }

  /// Broadcast, and the first dimensions as one.
  Value stack(Value value) {
    SmallVector<Size> sizes = tssa::getSizes(typeOf(value));
    Type elementType = typeOf(value).getElementType();
    SmallVector<Size> joined{countOf(batch)}, full(batch);
    full.append(sizes.end() - 2, sizes.end());
    joined.append(sizes.end() - 2, sizes.end());
    value = build.expand(value, rowMajorType(full, elementType));
    return build.reshape(value, rowMajorType(joined, elementType));
  }
  Value unstacked(Value value) {
    SmallVector<Size> sizes = tssa::getSizes(typeOf(value)), full(batch);
    full.append(sizes.end() - 2, sizes.end());
    return build.reshape(value,
                         rowMajorType(full, typeOf(value).getElementType()));
  }
  Value transposed(Value value) { return build.transpose(value, 1, 2); }
  void give(unsigned index, Value value) {
    value = unstacked(value);
    SmallVector<Size> own = tssa::getSizes(typeOf(a.tensor(index)));
    SmallVector<Size> sizes = tssa::getSizes(typeOf(value));
    // Summed over the queries of each group of heads.
    if (index && a.flag(7) && own[own.size() - 3] != sizes[sizes.size() - 3]) {
      size_t heads = sizes.size() - 3;
      Size times = *sizes[heads].dividedBy(own[own.size() - 3]);
      sizes[heads] = own[own.size() - 3];
      sizes.insert(sizes.begin() + heads + 1, times);
      value = build.sum(build.reshape(value, rowMajorType(sizes, type)),
                        {int64_t(heads) + 1});
      sizes.erase(sizes.begin() + heads + 1);
      value = build.reshape(value, rowMajorType(sizes, type));
    }
    a.give(index, value);
  }

  Adjoint &a;
  GradientBuilder &build;
  SmallVector<Size> batch;
  double scale = 1;
  Type type;
};

} // namespace

LogicalResult gradient_rules::Attention(Adjoint &a) {
  return differentiateByKernel(a) ? success() : AttentionRule(a).run();
}
