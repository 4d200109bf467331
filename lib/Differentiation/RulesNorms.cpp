//===- RulesNorms.cpp - Derivatives of normalisations ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas: torch/csrc/autograd/FunctionsManual.cpp.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"

#include "pyjit/Operators/OperatorNames.h"

#include <limits>

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;

/// Half precision is computed in single precision, as eager does.
static Type computeTypeOf(Value value) {
  Type type = typeOf(value).getElementType();
  return type.isF64() ? type : Float32Type::get(type.getContext());
}

static Value inverseRoot(GradientBuilder &build, Value variance,
                         double epsilon) {
  return build.apply(operators::aten::rsqrt,
                     build.add(variance, build.wrapped(epsilon)));
}

namespace {

/// (x - mean) / deviation over some dimensions, or x / root mean square.
class Normalised {
public:
  Normalised(GradientBuilder &build, Value x, ArrayRef<int64_t> dims,
             bool isCentered, double epsilon)
      : build(build), dims(dims), isCentered(isCentered) {
    Value centered = x;
    if (isCentered) {
      // As exact as the operator itself (Operators.td).
      Value near = build.mean(x, dims);
      Value off = build.mean(build.subtract(x, near), dims);
      Value mean = build.savedInEager(build.add(near, off));
      centered = build.subtract(x, mean);
    }
    Value variance = build.mean(build.multiply(centered, centered), dims);
    inverse = build.savedInEager(inverseRoot(build, variance, epsilon));
    value = build.multiply(centered, inverse);
  }

  Value value;

  /// The gradient of x, of the mean's, and of the deviation's reciprocal, which
  /// are given for each element, or null.
  Value throughStatistics(Value ofMean, Value ofInverse) {
    Value sum;
    if (ofInverse) {
      Value square = build.multiply(inverse, inverse);
      sum = build.negate(
          build.multiply(value, build.multiply(square, ofInverse)));
    }
    if (ofMean)
      sum = sum ? build.add(sum, ofMean) : ofMean;
    SmallVector<Size> counted;
    for (int64_t dim : dims)
      counted.push_back(tssa::getSizes(typeOf(value))[dim]);
    return build.divide(sum, build.count(counted));
  }

  /// The gradient of x, of the value's.
  Value gradient(Value ofValue) {
    Value along =
        build.multiply(value, build.mean(build.multiply(ofValue, value), dims));
    Value across = isCentered
                       ? build.subtract(ofValue, build.mean(ofValue, dims))
                       : ofValue;
    return build.multiply(build.subtract(across, along), inverse);
  }

private:
  GradientBuilder &build;
  SmallVector<int64_t> dims;
  bool isCentered;
  Value inverse;
};

/// Layer norm and RMS norm: over the last dimensions, of each of which a weight
/// and a bias have one element.
LogicalResult overLast(Adjoint &a, bool isCentered, double epsilon) {
  GradientBuilder &build = a.build;
  auto shape = dyn_cast_or_null<ArrayAttr>(a.constant(1));
  if (!shape)
    return a.refuse("its numbers differ between calls");
  if (!a.isOfFirst())
    return a.refuse("a gradient of its statistics");
  Value input = a.tensor(0);
  Type type = computeTypeOf(input);
  int64_t rank = typeOf(input).getRank();
  auto dims =
      llvm::to_vector(llvm::seq<int64_t>(rank - int64_t(shape.size()), rank));
  Normalised normal(build, build.convert(input, type), dims, isCentered,
                    epsilon);
  Value gradient = build.convert(a.gradient(), type);
  if (a.wants(0u)) {
    Value weight = a.tensor(2);
    a.give(0, normal.gradient(
                  weight ? build.multiply(gradient, build.convert(weight, type))
                         : gradient));
  }
  if (a.wants(2))
    a.give(2, build.multiply(gradient, normal.value));
  if (isCentered && a.wants(3))
    a.give(3, gradient);
  return success();
}

} // namespace

LogicalResult gradient_rules::LayerNorm(Adjoint &a) {
  std::optional<double> epsilon = a.number(4);
  if (!epsilon)
    return a.refuse("its epsilon differs between calls");
  return overLast(a, /*isCentered=*/true, *epsilon);
}

/// Without an epsilon of its own it takes that of the input's type.
static std::optional<double> ownEpsilon(Adjoint &a) {
  if (std::optional<double> given = a.number(3))
    return given;
  Attribute none = a.constant(3);
  if (!none || none != a.build.none())
    return std::nullopt;
  Type type = typeOf(a.tensor(0)).getElementType();
  if (type.isF64())
    return std::numeric_limits<double>::epsilon();
  return std::numeric_limits<float>::epsilon();
}

LogicalResult gradient_rules::RmsNorm(Adjoint &a) {
  std::optional<double> epsilon = ownEpsilon(a);
  if (!epsilon)
    return a.refuse("its epsilon differs between calls");
  return overLast(a, /*isCentered=*/false, *epsilon);
}

//===----------------------------------------------------------------------===//
// Of channels
//===----------------------------------------------------------------------===//

/// A value for each channel as one that is broadcast over images.
static Value perChannel(GradientBuilder &build, Value value, int64_t rank) {
  for (int64_t dim = 1; dim < rank - 1; ++dim)
    value = build.unsqueeze(value, dim);
  return value;
}

/// Gives an argument with an element for each channel its gradient: the sum
/// over all else.
static void giveChannels(Adjoint &a, unsigned index, Value gradient) {
  int64_t rank = typeOf(gradient).getRank();
  Value shape = perChannel(a.build, a.tensor(index), rank);
  gradient = a.build.sumTo(gradient, typeOf(shape));
  a.give(index, a.build.reshape(gradient, typeOf(a.tensor(index))));
}

namespace {
/// Where the arguments of two overloads are.
struct GroupArguments {
  unsigned groups, weight, bias, epsilon;
};
} // namespace

LogicalResult gradient_rules::GroupNorm(Adjoint &a) {
  bool isWhole = a.call.getOverload() == operators::aten::group_norm;
  GroupArguments at =
      isWhole ? GroupArguments{1, 2, 3, 4} : GroupArguments{6, 1, 2, 7};
  GradientBuilder &build = a.build;
  std::optional<double> epsilon = a.number(at.epsilon);
  std::optional<double> groups = a.number(at.groups);
  if (!epsilon || !groups)
    return a.refuse("its numbers differ between calls");
  Value input = a.tensor(0);
  Type type = computeTypeOf(input);
  SmallVector<Size> sizes = tssa::getSizes(typeOf(input));
  std::optional<Size> length =
      countOf(ArrayRef(sizes).drop_front()).dividedBy(int64_t(*groups));
  if (!length)
    return a.refuse("the size of its groups differs between calls");
  RankedTensorType whole = rowMajorType(sizes, type);
  RankedTensorType grouped =
      rowMajorType({sizes[0], int64_t(*groups), *length}, type);
  Value x = build.reshape(build.convert(input, type), grouped);
  Normalised normal(build, x, {2}, /*isCentered=*/true, *epsilon);
  auto ofGroups = [&](unsigned result) {
    Value given = a.gradient(result);
    return given ? build.unsqueeze(build.convert(given, type), 2) : Value();
  };
  Value ofMean = ofGroups(1), ofInverse = ofGroups(2);
  if (a.wants(0u) && (ofMean || ofInverse))
    a.give(0, build.reshape(
                  build.expand(normal.throughStatistics(ofMean, ofInverse),
                               grouped),
                  whole));
  if (!a.gradient())
    return success();
  Value gradient = build.convert(a.gradient(), type);
  if (a.wants(0u)) {
    Value scaled = gradient;
    if (Value weight = a.tensor(at.weight))
      scaled = build.multiply(
          gradient,
          perChannel(build, build.convert(weight, type), sizes.size()));
    Value given = normal.gradient(build.reshape(scaled, grouped));
    a.give(0, build.reshape(given, whole));
  }
  if (a.wants(at.weight))
    giveChannels(a, at.weight,
                 build.multiply(gradient, build.reshape(normal.value, whole)));
  if (a.wants(at.bias))
    giveChannels(a, at.bias, gradient);
  return success();
}

/// With running statistics, which are constants; or, where there are none, with
/// those of the batch.
LogicalResult gradient_rules::BatchNorm(Adjoint &a) {
  GradientBuilder &build = a.build;
  if (!a.gradient()) // statistics have none
    return success();
  std::optional<double> epsilon = a.number(7);
  if (!epsilon)
    return a.refuse("its epsilon differs between calls");
  Value input = a.tensor(0);
  Type type = computeTypeOf(input);
  int64_t rank = typeOf(input).getRank();
  auto channel = [&](unsigned index) {
    return perChannel(build, build.convert(a.tensor(index), type), rank);
  };
  Value x = build.convert(input, type);
  Value gradient = build.convert(a.gradient(), type), scaled = gradient, normal;
  if (a.tensor(1))
    scaled = build.multiply(gradient, channel(1));
  if (a.flag(5) || !a.tensor(3) || !a.tensor(4)) {
    SmallVector<int64_t> dims{0};
    llvm::append_range(dims, llvm::seq<int64_t>(2, rank));
    Normalised ofBatch(build, x, dims, /*isCentered=*/true, *epsilon);
    normal = ofBatch.value;
    if (a.wants(0u))
      a.give(0, ofBatch.gradient(scaled));
  } else {
    Value inverse = inverseRoot(build, channel(4), *epsilon);
    normal = build.multiply(build.subtract(x, channel(3)), inverse);
    if (a.wants(0u))
      a.give(0, build.multiply(scaled, inverse));
  }
  if (a.wants(1))
    giveChannels(a, 1, build.multiply(gradient, normal));
  if (a.wants(2))
    giveChannels(a, 2, gradient);
  return success();
}

//===----------------------------------------------------------------------===//
// Of gradients
//===----------------------------------------------------------------------===//

namespace {

/// What the gradients of a normalisation are made of, r P(u) where
/// n = (x - mean) r is normal and P(u) = u - mean(u) - n mean(u n), or u itself
/// where the statistics are constants. By x, dr = -r^2 n / count and
/// d sum(u n) = r P(u).
class Projection {
public:
  Projection(GradientBuilder &build, Value centered, Value inverse,
             ArrayRef<int64_t> dims, bool ofBatch)
      : inverse(inverse), normal(build.multiply(centered, inverse)),
        build(build), dims(dims), ofBatch(ofBatch) {}

  Value inverse, normal;

  Value operator()(Value u) {
    if (!ofBatch)
      return u;
    Value along = build.multiply(normal, mean(build.multiply(u, normal)));
    return build.subtract(build.subtract(u, mean(u)), along);
  }
  Value scaled(Value u) { return build.multiply((*this)(u), inverse); }

  /// The gradient of x, of sum(h r P(u)); `ofH` is P(h).
  Value throughStatistics(Value h, Value ofH, Value u) {
    Value ofInverse = build.multiply(normal, mean(build.multiply(ofH, u)));
    Value ofNormal =
        build.add(build.multiply(ofH, mean(build.multiply(u, normal))),
                  build.multiply((*this)(u), mean(build.multiply(h, normal))));
    Value square = build.multiply(inverse, inverse);
    return build.negate(build.multiply(square, build.add(ofInverse, ofNormal)));
  }

private:
  Value mean(Value value) { return build.mean(value, dims); }

  GradientBuilder &build;
  SmallVector<int64_t> dims;
  bool ofBatch;
};

/// The derivative of native_batch_norm_backward, in each channel
///   ofInput  = weight r P(g),  ofWeight = sum(g n),  ofBias = sum(g)
class BatchNormBackwardRule {
public:
  explicit BatchNormBackwardRule(Adjoint &a)
      : a(a), build(a.build), type(computeTypeOf(a.tensor(1))),
        rank(typeOf(a.tensor(1)).getRank()), ofBatch(a.flag(7)) {}

  LogicalResult run() {
    std::optional<double> epsilon = a.number(8);
    if (!epsilon)
      return a.refuse("its epsilon differs between calls");
    if (!a.tensor(0) || !a.tensor(ofBatch ? 5 : 3) ||
        !a.tensor(ofBatch ? 6 : 4))
      return a.refuse("a gradient or statistics that are no tensors");
    SmallVector<int64_t> dims{0};
    llvm::append_range(dims, llvm::seq<int64_t>(2, rank));
    Value x = build.convert(a.tensor(1), type);
    Value inverse = ofBatch
                        ? channel(a.tensor(6))
                        : inverseRoot(build, channel(a.tensor(4)), *epsilon);
    Value mean = channel(a.tensor(ofBatch ? 5 : 3));
    Projection project(build, build.subtract(x, mean), inverse, dims, ofBatch);
    gradient = build.convert(a.tensor(0), type);
    if (a.tensor(2))
      weight = channel(a.tensor(2));
    if (Value second = a.gradient(0))
      differentiateInput(project, build.convert(second, type));
    if (Value second = a.gradient(1))
      differentiateWeight(project, channel(second));
    // Without a weight, eager has none of the bias' gradient.
    if (Value second = a.gradient(2); second && weight && a.wants(0u))
      a.give(0, build.expand(channel(second),
                             tssa::getRowMajorType(typeOf(gradient))));
    return success();
  }

private:
  Value channel(Value value) {
    return perChannel(build, build.convert(value, type), rank);
  }
  Value scaled(Value value) {
    return weight ? build.multiply(value, weight) : value;
  }

  void differentiateInput(Projection &project, Value second) {
    Value projected = project(second);
    if (a.wants(0u))
      a.give(0, scaled(build.multiply(projected, project.inverse)));
    if (a.wants(2))
      giveChannels(
          a, 2,
          build.multiply(build.multiply(projected, gradient), project.inverse));
    if (a.wants(1) && ofBatch)
      a.give(1, scaled(project.throughStatistics(second, projected, gradient)));
  }

  void differentiateWeight(Projection &project, Value second) {
    if (a.wants(0u))
      a.give(0, build.multiply(second, project.normal));
    if (a.wants(1))
      a.give(1, build.multiply(project.scaled(gradient), second));
  }

  Adjoint &a;
  GradientBuilder &build;
  Type type;
  int64_t rank;
  bool ofBatch;
  Value gradient, weight;
};

} // namespace

LogicalResult gradient_rules::BatchNormBackward(Adjoint &a) {
  return BatchNormBackwardRule(a).run();
}

/// Of native_layer_norm_backward, over the last dimensions:
///   ofInput = r P(g weight),  ofWeight = sum(g n),  ofBias = sum(g)
LogicalResult gradient_rules::LayerNormBackward(Adjoint &a) {
  GradientBuilder &build = a.build;
  auto shape = dyn_cast_or_null<ArrayAttr>(a.constant(2));
  if (!shape || !a.tensor(0))
    return a.refuse("its numbers differ between calls");
  Type type = computeTypeOf(a.tensor(1));
  auto converted = [&](Value value) {
    return value ? build.convert(value, type) : Value();
  };
  int64_t rank = typeOf(a.tensor(1)).getRank();
  auto dims =
      llvm::to_vector(llvm::seq<int64_t>(rank - int64_t(shape.size()), rank));
  Value gradient = converted(a.tensor(0)), weight = converted(a.tensor(5));
  Value centered =
      build.subtract(converted(a.tensor(1)), converted(a.tensor(3)));
  Projection project(build, centered, converted(a.tensor(4)), dims,
                     /*ofBatch=*/true);
  if (Value second = converted(a.gradient(0))) {
    Value projected = project(second);
    Value scaled = build.multiply(projected, project.inverse);
    if (a.wants(0u))
      a.give(0, weight ? build.multiply(scaled, weight) : scaled);
    if (a.wants(5))
      a.give(5, build.multiply(scaled, gradient));
    if (a.wants(1))
      a.give(1, project.throughStatistics(
                    second, projected,
                    weight ? build.multiply(gradient, weight) : gradient));
  }
  if (Value second = converted(a.gradient(1))) {
    if (a.wants(0u))
      a.give(0, build.multiply(project.normal, second));
    if (a.wants(1))
      a.give(1, project.scaled(build.multiply(gradient, second)));
  }
  if (a.gradient(2) && !weight)
    return a.refuse("a gradient of the bias' gradient, without a weight: eager "
                    "has none");
  if (Value second = converted(a.gradient(2)); second && a.wants(0u))
    a.give(0, build.expand(second, tssa::getRowMajorType(typeOf(gradient))));
  return success();
}

/// v * (g / |v|), where |v| is over all dimensions but one: the second result.
LogicalResult gradient_rules::WeightNorm(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value v = a.tensor(0), g = a.tensor(1), norm = a.call.getResult(1);
  Type type = typeOf(norm).getElementType();
  int64_t rank = typeOf(v).getRank();
  int64_t own = a.dimensions(2, rank).front();
  SmallVector<int64_t> dims;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (dim != own)
      dims.push_back(dim);
  v = build.convert(v, type);
  // A gradient divides by the norm, which ATen takes for a constant when that
  // gradient is differentiated (`_weight_norm_differentiable_backward`).
  if (!a.gradient())
    return success();
  Value gradient = build.convert(a.gradient(), type);
  Value along =
      build.divide(build.sum(build.multiply(gradient, v), dims), norm);
  if (a.wants(0u)) {
    Value across =
        build.subtract(gradient, build.multiply(v, build.divide(along, norm)));
    a.give(0,
           build.multiply(across, build.divide(build.convert(g, type), norm)));
  }
  if (a.wants(1))
    a.give(1, along);
  return success();
}
