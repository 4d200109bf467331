//===- RulesLayers.cpp - Derivatives of layers and losses -----------------===//
//
// Formulas: torch/csrc/autograd/FunctionsManual.cpp, and the backward overloads
// that derivatives.yaml names.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"

#include "pyjit/Operators/OperatorNames.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// Half precision is computed in single precision, as eager does.
static Type computeTypeOf(Value value) {
  Type type = typeOf(value).getElementType();
  return type.isF64() ? type : Float32Type::get(type.getContext());
}

static Value inverseRoot(GradientBuilder &build, Value variance,
                         double epsilon) {
  Value sum =
      build.pointwise(operators::aten::add_Tensor,
                      {variance, build.wrapped(epsilon), build.integer(1)});
  return build.pointwise(operators::aten::rsqrt, {sum});
}

LogicalResult gradient_rules::LayerNorm(Adjoint &a) {
  GradientBuilder &build = a.build;
  std::optional<double> epsilon = a.number(4);
  auto shape = dyn_cast_or_null<ArrayAttr>(a.constant(1));
  if (!epsilon || !shape)
    return a.refuse("its numbers differ between calls");
  Value input = a.tensor(0);
  Type type = computeTypeOf(input);
  int64_t rank = typeOf(input).getRank();
  auto dims =
      llvm::to_vector(llvm::seq<int64_t>(rank - int64_t(shape.size()), rank));
  Value x = build.convert(input, type);
  Value gradient = build.convert(a.gradient(), type);
  Value centered = build.subtract(x, build.mean(x, dims));
  Value variance = build.mean(build.multiply(centered, centered), dims);
  Value inverse = inverseRoot(build, variance, *epsilon);
  Value normal = build.multiply(centered, inverse);
  if (a.wants(0u)) {
    Value scaled = gradient;
    if (Value weight = a.tensor(2))
      scaled = build.multiply(gradient, build.convert(weight, type));
    Value along = build.multiply(
        normal, build.mean(build.multiply(scaled, normal), dims));
    Value across = build.subtract(scaled, build.mean(scaled, dims));
    a.give(0, build.multiply(build.subtract(across, along), inverse));
  }
  if (a.wants(2))
    a.give(2, build.multiply(gradient, normal));
  if (a.wants(3))
    a.give(3, gradient);
  return success();
}

/// A value for each channel as one that is broadcast over images.
static Value perChannel(GradientBuilder &build, Value value, int64_t rank) {
  for (int64_t dim = 1; dim < rank - 1; ++dim)
    value = build.unsqueeze(value, dim);
  return value;
}

/// With running statistics, which are constants; in training mode the recorder
/// refuses it.
LogicalResult gradient_rules::BatchNorm(Adjoint &a) {
  GradientBuilder &build = a.build;
  std::optional<double> epsilon = a.number(7);
  if (a.flag(5) || !epsilon || !a.tensor(3) || !a.tensor(4))
    return a.refuse("it takes statistics of the batch");
  Value input = a.tensor(0);
  Type type = computeTypeOf(input);
  int64_t rank = typeOf(input).getRank();
  auto channel = [&](unsigned index) {
    return perChannel(build, build.convert(a.tensor(index), type), rank);
  };
  Value gradient = build.convert(a.gradient(), type);
  Value inverse = inverseRoot(build, channel(4), *epsilon);
  // The sum over all but the channels.
  auto give = [&](unsigned index, Value value) {
    Value shape = perChannel(build, a.tensor(index), rank);
    value = build.sumTo(value, typeOf(shape));
    a.give(index, build.reshape(value, typeOf(a.tensor(index))));
  };
  if (a.wants(0u)) {
    Value scale = a.tensor(1) ? build.multiply(inverse, channel(1)) : inverse;
    a.give(0, build.multiply(gradient, scale));
  }
  if (a.wants(1)) {
    Value centered = build.subtract(build.convert(input, type), channel(3));
    give(1, build.multiply(gradient, build.multiply(centered, inverse)));
  }
  if (a.wants(2))
    give(2, gradient);
  return success();
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// A list with an entry for each of `count` dimensions, of which a list of one
/// stands for all.
static Attribute forEach(GradientBuilder &build, Attribute given,
                         int64_t count) {
  auto list = dyn_cast_or_null<ArrayAttr>(given);
  if (!list || list.size() != 1)
    return given;
  SmallVector<Attribute> entries(count, list[0]);
  return build.list(entries);
}

LogicalResult gradient_rules::Convolution(Adjoint &a) {
  GradientBuilder &build = a.build;
  RankedTensorType input = typeOf(a.tensor(0)), weight = typeOf(a.tensor(1));
  int64_t spatial = weight.getRank() - 2;
  if (input.getRank() != spatial + 2)
    return a.refuse("its input is a single image");
  if (!isa_and_nonnull<ArrayAttr>(a.constant(4)))
    return a.refuse("its padding is a word");
  SmallVector<int64_t> none(spatial, 0);
  Attribute wanted =
      build.list({build.boolean(a.wants(0u)), build.boolean(a.wants(1)),
                  build.boolean(false)});
  if (a.wants(0u) || a.wants(1)) {
    ValueRange gradients = build.callAll(
        operators::aten::convolution_backward,
        {a.gradient(), a.tensor(0), a.tensor(1), build.none(),
         forEach(build, a.constant(3), spatial),
         forEach(build, a.constant(4), spatial),
         forEach(build, a.constant(5), spatial), build.boolean(false),
         build.integers(none), a.constant(6), wanted},
        {gradientTypeOf(input), gradientTypeOf(weight),
         RankedTensorType::get({weight.getDimSize(0)},
                               weight.getElementType())});
    for (unsigned i : {0u, 1u})
      if (a.wants(i))
        a.give(i, gradients[i]);
  }
  if (a.wants(2)) {
    Value shape = perChannel(build, a.tensor(2), input.getRank());
    Value sum = build.sumTo(a.gradient(), typeOf(shape));
    a.give(2, build.reshape(sum, typeOf(a.tensor(2))));
  }
  return success();
}

/// Where the greatest elements are is found once more.
LogicalResult gradient_rules::MaxPool(Adjoint &a) {
  GradientBuilder &build = a.build;
  SmallVector<Argument> arguments{a.tensor(0)};
  for (unsigned i = 1; i < 6; ++i)
    arguments.push_back(a.constant(i));
  RankedTensorType shown = typeOf(a.call.getResult(0));
  auto places = RankedTensorType::get(shown.getShape(),
                                      IntegerType::get(shown.getContext(), 64),
                                      shown.getEncoding());
  ValueRange found = build.callAll(operators::aten::max_pool2d_with_indices,
                                   arguments, {shown, places});
  arguments.insert(arguments.begin(), a.gradient());
  arguments.push_back(found[1]);
  a.give(0, build.call(operators::aten::max_pool2d_with_indices_backward,
                       arguments, gradientTypeOf(typeOf(a.tensor(0)))));
  return success();
}

LogicalResult gradient_rules::AveragePool(Adjoint &a) {
  SmallVector<Argument> arguments{a.gradient(), a.tensor(0)};
  for (unsigned i = 1; i < 7; ++i)
    arguments.push_back(a.constant(i));
  a.give(0, a.build.call(operators::aten::avg_pool2d_backward, arguments,
                         gradientTypeOf(typeOf(a.tensor(0)))));
  return success();
}

LogicalResult gradient_rules::AdaptiveAveragePool(Adjoint &a) {
  a.give(0, a.build.call(operators::aten::_adaptive_avg_pool2d_backward,
                         {a.gradient(), a.tensor(0)},
                         gradientTypeOf(typeOf(a.tensor(0)))));
  return success();
}

//===----------------------------------------------------------------------===//
// Attention, dropout
//===----------------------------------------------------------------------===//

/// The second result says what stayed.
LogicalResult gradient_rules::Dropout(Adjoint &a) {
  std::optional<double> p = a.number(1);
  if (!p)
    return a.refuse("its probability differs between calls");
  // All is zero where nothing stays.
  double scale = *p == 1.0 ? 0.0 : 1.0 / (1.0 - *p);
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
    if (a.flag(7))
      return a.refuse("grouped heads");
    if (a.wants(3))
      return a.refuse("its mask requires grad");
    SmallVector<Size> sizes = tssa::getSizes(typeOf(query));
    batch.assign(sizes.begin(), sizes.end() - 2);
    for (Value operand : {key, value}) {
      SmallVector<Size> own = tssa::getSizes(typeOf(operand));
      own.pop_back_n(2);
      if (own != batch)
        return a.refuse("its operands are broadcast");
    }
    if (!sizes.back().isConstant())
      return a.refuse("the size of its heads differs between calls");
    scale =
        a.number(6).value_or(1 / std::sqrt(double(sizes.back().constant())));
    type = typeOf(query).getElementType();
    return differentiate(query, key, value);
  }

private:
  LogicalResult differentiate(Value query, Value key, Value value) {
    Value weights = probabilities(query, key);
    Value gradient = stack(a.gradient());
    if (a.wants(2))
      give(2, build.product(transposed(weights), gradient));
    Value ofWeights = build.product(gradient, transposed(stack(value)));
    Value product = build.multiply(weights, ofWeights);
    Value sum = build.sum(product, {typeOf(product).getRank() - 1});
    Value ofScores =
        build.multiply(build.subtract(product, build.multiply(weights, sum)),
                       build.wrapped(scale));
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
      mask =
          build.expand(mask, rowMajorType(full, typeOf(mask).getElementType()));
      mask =
          build.reshape(mask, rowMajorType(own, typeOf(mask).getElementType()));
      scores = typeOf(mask).getElementType().isInteger(1)
                   ? build.select(mask, scores, build.wrapped(kNever))
                   : build.add(scores, mask);
    }
    if (a.flag(5)) {
      Value ones =
          build.call(operators::aten::ones,
                     {build.sizes(typeOf(scores)), build.integer(kBool),
                      build.none(), build.none(), build.none()},
                     rowMajorType(tssa::getSizes(typeOf(scores)),
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

  static constexpr int64_t kBool = 11; // c10::ScalarType::Bool

  /// The first dimensions as one.
  Value stack(Value value) {
    SmallVector<Size> sizes = tssa::getSizes(typeOf(value));
    SmallVector<Size> joined{countOf(batch)};
    joined.append(sizes.end() - 2, sizes.end());
    return build.reshape(value,
                         rowMajorType(joined, typeOf(value).getElementType()));
  }
  Value transposed(Value value) { return build.transpose(value, 1, 2); }
  void give(unsigned index, Value value) {
    a.give(index, build.reshape(value, typeOf(a.tensor(index))));
  }

  Adjoint &a;
  GradientBuilder &build;
  SmallVector<Size> batch;
  double scale = 1;
  Type type;
};

} // namespace

LogicalResult gradient_rules::Attention(Adjoint &a) {
  return AttentionRule(a).run();
}

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

/// Of the differences of two tensors.
LogicalResult gradient_rules::Loss(Adjoint &a) {
  constexpr double kMean = 1;
  GradientBuilder &build = a.build;
  std::optional<double> reduction = a.number(2);
  if (!reduction)
    return a.refuse("its reduction differs between calls");
  Value difference = build.subtract(a.tensor(0), a.tensor(1));
  bool isSquare = a.call.getOverload() == operators::aten::mse_loss;
  Value each = isSquare ? build.multiply(difference, build.wrapped(2))
                        : build.pointwise(operators::aten::sign, {difference});
  if (*reduction == kMean)
    each = build.divide(each, build.count(tssa::getSizes(typeOf(difference))));
  Value gradient = build.multiply(each, a.gradient());
  if (a.wants(0u))
    a.give(0, gradient);
  if (a.wants(1))
    a.give(1, build.pointwise(operators::aten::neg, {gradient}));
  return success();
}

/// Of chosen classes. The second result is the sum of the weights.
LogicalResult gradient_rules::ClassLoss(Adjoint &a) {
  GradientBuilder &build = a.build;
  bool ofImages = a.call.getOverload() == operators::aten::nll_loss2d_forward;
  if (!a.gradient())
    return a.refuse("a gradient of the sum of its weights");
  a.give(0, build.call(ofImages ? operators::aten::nll_loss2d_backward
                                : operators::aten::nll_loss_backward,
                       {a.gradient(), a.tensor(0), a.tensor(1),
                        build.optional(a.tensor(2)), a.constant(3),
                        a.constant(4), Value(a.call.getResult(1))},
                       gradientTypeOf(typeOf(a.tensor(0)))));
  return success();
}
