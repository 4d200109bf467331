//===- RulesWindows.cpp - Derivatives of what goes over images ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// By the backward overloads that derivatives.yaml names. Pools whose derivative
// is one call are lines of Derivatives.td.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"

#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;

static RankedTensorType withElements(RankedTensorType type, Type elementType) {
  return RankedTensorType::get(type.getShape(), elementType,
                               type.getEncoding());
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

namespace {

/// How a convolution's window moves: the arguments that aten::convolution and
/// aten::convolution_backward share.
struct Geometry {
  Attribute stride, padding, dilation, transposed, outputPadding, groups;

  SmallVector<Argument> arguments() const {
    return {stride, padding, dilation, transposed, outputPadding, groups};
  }
};

Value convolve(GradientBuilder &build, Value input, Value weight,
               const Geometry &geometry, Type type) {
  SmallVector<Argument> arguments{input, weight, build.none()};
  llvm::append_range(arguments, geometry.arguments());
  return build.call(operators::aten::convolution, arguments, type);
}

/// The gradients of a convolution's input and weight, those of them that are
/// wanted, by that of its result.
std::pair<Value, Value> convolveBackward(GradientBuilder &build, Value gradient,
                                         Value input, Value weight,
                                         const Geometry &geometry, bool ofInput,
                                         bool ofWeight) {
  RankedTensorType of = typeOf(weight);
  SmallVector<Argument> arguments{gradient, input, weight, build.none()};
  llvm::append_range(arguments, geometry.arguments());
  arguments.push_back(build.list(
      {build.boolean(ofInput), build.boolean(ofWeight), build.boolean(false)}));
  ValueRange gradients = build.callAll(
      operators::aten::convolution_backward, arguments,
      {gradientTypeOf(typeOf(input)), gradientTypeOf(of),
       RankedTensorType::get({of.getDimSize(0)}, of.getElementType())});
  return {gradients[0], gradients[1]};
}

/// A list with an entry for each of `count` dimensions, of which a list of one
/// stands for all.
Attribute forEach(GradientBuilder &build, Attribute given, int64_t count) {
  auto list = dyn_cast_or_null<ArrayAttr>(given);
  if (!list || list.size() != 1)
    return given;
  SmallVector<Attribute> entries(count, list[0]);
  return build.list(entries);
}

LogicalResult ofConvolution(Adjoint &a, const Geometry &geometry) {
  GradientBuilder &build = a.build;
  Value input = a.tensor(0), weight = a.tensor(1), gradient = a.gradient();
  // A single image is a batch of one.
  bool isSingle = typeOf(input).getRank() < typeOf(weight).getRank();
  if (isSingle) {
    input = build.unsqueeze(input, 0);
    gradient = build.unsqueeze(gradient, 0);
  }
  if (a.wants(0u) || a.wants(1)) {
    auto [ofInput, ofWeight] = convolveBackward(
        build, gradient, input, weight, geometry, a.wants(0u), a.wants(1));
    if (a.wants(0u))
      a.give(0, build.reshape(ofInput, typeOf(a.tensor(0))));
    if (a.wants(1))
      a.give(1, ofWeight);
  }
  if (a.wants(2)) {
    Value shape = a.tensor(2);
    for (int64_t dim = 1; dim < typeOf(gradient).getRank() - 1; ++dim)
      shape = build.unsqueeze(shape, dim);
    Value sum = build.sumTo(gradient, typeOf(shape));
    a.give(2, build.reshape(sum, typeOf(a.tensor(2))));
  }
  return success();
}

} // namespace

LogicalResult gradient_rules::Convolution(Adjoint &a) {
  GradientBuilder &build = a.build;
  int64_t spatial = typeOf(a.tensor(1)).getRank() - 2;
  if (!isa_and_nonnull<ArrayAttr>(a.constant(4)))
    return a.refuse("its padding is a word");
  SmallVector<int64_t> none(spatial, 0);
  return ofConvolution(a, {forEach(build, a.constant(3), spatial),
                           forEach(build, a.constant(4), spatial),
                           forEach(build, a.constant(5), spatial),
                           build.boolean(false), build.integers(none),
                           a.constant(6)});
}

LogicalResult gradient_rules::GeneralConvolution(Adjoint &a) {
  int64_t spatial = typeOf(a.tensor(1)).getRank() - 2;
  auto list = [&](unsigned index) {
    return forEach(a.build, a.constant(index), spatial);
  };
  return ofConvolution(
      a, {list(3), list(4), list(5), a.constant(6), list(7), a.constant(8)});
}

/// A convolution and both of its gradients are linear in each of what they are
/// given; the bias' is a sum for each channel.
LogicalResult gradient_rules::ConvolutionBackward(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value gradient = a.tensor(0), input = a.tensor(1), weight = a.tensor(2);
  Value ofInput = a.gradient(0), ofWeight = a.gradient(1);
  Geometry geometry{a.constant(4), a.constant(5), a.constant(6),
                    a.constant(7), a.constant(8), a.constant(9)};
  if (a.wants(0u)) {
    RankedTensorType type = gradientTypeOf(typeOf(gradient));
    if (Value ofBias = a.gradient(2)) {
      for (int64_t dim = 1; dim < typeOf(gradient).getRank() - 1; ++dim)
        ofBias = build.unsqueeze(ofBias, dim);
      a.give(0, build.expand(ofBias, type));
    }
    if (ofInput)
      a.give(0, convolve(build, ofInput, weight, geometry, type));
    if (ofWeight)
      a.give(0, convolve(build, input, ofWeight, geometry, type));
  }
  if (a.wants(1) && ofWeight)
    a.give(1, convolveBackward(build, gradient, input, ofWeight, geometry, true,
                               false)
                  .first);
  if (a.wants(2) && ofInput)
    a.give(2, convolveBackward(build, gradient, ofInput, weight, geometry,
                               false, true)
                  .second);
  return success();
}

//===----------------------------------------------------------------------===//
// Pools, samplers
//===----------------------------------------------------------------------===//

/// The call is replaced by the one that also says where the greatest elements
/// are, as eager's is.
LogicalResult gradient_rules::MaxPool(Adjoint &a) {
  OpBuilder ahead(a.call);
  GradientBuilder forward(ahead, a.call.getLoc());
  SmallVector<Argument> arguments{a.tensor(0)};
  for (unsigned i = 1; i < 6; ++i)
    arguments.push_back(a.constant(i));
  RankedTensorType shown = typeOf(a.call.getResult(0));
  ValueRange found = forward.callAll(
      operators::aten::max_pool2d_with_indices, arguments,
      {shown, withElements(shown, IntegerType::get(shown.getContext(), 64))});
  a.call.getResult(0).replaceAllUsesWith(found[0]);
  arguments.insert(arguments.begin(), a.gradient());
  arguments.push_back(found[1]);
  a.give(0, a.build.call(operators::aten::max_pool2d_with_indices_backward,
                         arguments, gradientTypeOf(typeOf(a.tensor(0)))));
  a.call.erase();
  return success();
}

/// What was sent to places of images, or is taken from them: the gradient is
/// read there. Places count over the last two or three dimensions.
LogicalResult gradient_rules::PooledPlaces(Adjoint &a) {
  GradientBuilder &build = a.build;
  StringRef overload = a.call.getOverload();
  bool isSolid =
      overload == operators::aten::max_pool3d_with_indices_backward ||
      overload == operators::aten::adaptive_max_pool3d_backward ||
      overload == operators::aten::fractional_max_pool3d_backward ||
      overload == operators::aten::max_unpool3d;
  Value places = a.call.getOperands().back(), given = a.tensor(0);
  if (a.wants(1)) // what was pooled decides nothing but the shape
    a.give(1, build.zerosBy(a.gradient()));
  if (!a.wants(0u))
    return success();
  auto flat = [&](Value value) {
    SmallVector<Size> sizes = tssa::getSizes(typeOf(value));
    size_t lead = sizes.size() - (isSolid ? 3 : 2);
    SmallVector<Size> joined(sizes.begin(), sizes.begin() + lead);
    joined.push_back(countOf(ArrayRef(sizes).drop_front(lead)));
    return build.reshape(value,
                         rowMajorType(joined, typeOf(value).getElementType()));
  };
  Value source = flat(a.gradient());
  Value read = build.gather(source, typeOf(source).getRank() - 1, flat(places));
  a.give(0, build.reshape(read, typeOf(given)));
  return success();
}

LogicalResult gradient_rules::GridSampler(Adjoint &a) {
  GradientBuilder &build = a.build;
  bool isSolid = a.call.getOverload() == operators::aten::grid_sampler_3d;
  ValueRange gradients = build.callAll(
      isSolid ? operators::aten::grid_sampler_3d_backward
              : operators::aten::grid_sampler_2d_backward,
      {a.gradient(), a.tensor(0), a.tensor(1), a.constant(2), a.constant(3),
       a.constant(4),
       build.list({build.boolean(a.wants(0u)), build.boolean(true)})},
      {gradientTypeOf(typeOf(a.tensor(0))),
       gradientTypeOf(typeOf(a.tensor(1)))});
  for (unsigned i : {0u, 1u})
    if (a.wants(i))
      a.give(i, gradients[i]);
  return success();
}

/// One direction of a layer of an LSTM, as oneDNN computes it: the input, four
/// weights and biases, and the states.
LogicalResult gradient_rules::RnnLayer(Adjoint &a) {
  constexpr unsigned kOperands = 7, kShown = 3;
  GradientBuilder &build = a.build;
  SmallVector<Argument> arguments;
  SmallVector<Type> types;
  for (unsigned i = 0; i < kOperands; ++i) {
    if (!a.tensor(i))
      return a.refuse("it has no biases");
    arguments.push_back(a.tensor(i));
    // In single precision whatever the operands are.
    RankedTensorType type = typeOf(a.tensor(i));
    types.push_back(
        gradientTypeOf(type.clone(Float32Type::get(type.getContext()))));
  }
  for (unsigned i = 0; i < kShown; ++i)
    arguments.push_back(Value(a.call.getResult(i)));
  for (unsigned i = 0; i < kShown; ++i)
    arguments.push_back(build.optional(a.gradient(i)));
  // reverse, mode, hidden_size, num_layers, has_biases, train, bidirectional,
  // batch_sizes, batch_first
  for (unsigned i : {7, 9, 10, 11, 12, 15, 13, 8, 14})
    arguments.push_back(a.constant(i));
  arguments.push_back(Value(a.call.getResult(kShown)));
  ValueRange gradients = build.callAll(
      operators::aten::mkldnn_rnn_layer_backward, arguments, types);
  for (unsigned i = 0; i < kOperands; ++i)
    if (a.wants(i))
      a.give(i, gradients[i]);
  return success();
}
