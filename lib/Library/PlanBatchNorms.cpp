//===- PlanBatchNorms.cpp - Batch norms of training as kernels ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: values equal up to rounding. Statistics are those of two passes
// (mean, then the squares of distances from it), taken in float32; on a host
// corrected by what the first pass rounded.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Library/Passes.h"
#include "pyjit/Operators/OperatorNames.h"

#include "Calls.h"

#include "dialects/tssa/IR/Views.h"

#include "llvm/ADT/SetVector.h"

namespace pyjit::library {
#define GEN_PASS_DEF_PLANBATCHNORMSPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

/// Fewer values of a channel are no mean worth two kernels.
constexpr int64_t kMinRows = 64;

bool isImages(RankedTensorType type) {
  return type.getRank() >= 2 && type.hasStaticShape() &&
         type.getNumElements() != 0 && tssa::isDense(type) &&
         type.getDimSize(1) > 1;
}

/// Whether channels lie beside each other, so that threads walk them while rows
/// are summed up.
bool isChannelsLast(RankedTensorType type) {
  return tssa::getStrides(type)[1] == 1;
}

bool isTakenFloat(Type element) {
  return element.isF32() || element.isF16() || element.isBF16();
}

/// Arithmetic in float32 on a tensor of images and on what each of its channels
/// has.
class Channels {
public:
  Channels(tssa::AtenOp op, Value images)
      : builder(op), calls(builder, op.getLoc()),
        type(
            cast<RankedTensorType>(typeOf(images).clone(builder.getF32Type()))),
        channel(
            RankedTensorType::get({type.getDimSize(1)}, builder.getF32Type())),
        rows(type.getNumElements() / type.getDimSize(1)) {}

  /// Images in float32, in the layout of all of them.
  Value wide(Value value) {
    return typeOf(value) == type ? value : toDtype(calls, value, type);
  }
  Value wideChannel(Value value) {
    return typeOf(value) == channel ? value : toDtype(calls, value, channel);
  }
  Value narrow(Value value, Type to) {
    return value.getType() == to
               ? value
               : toDtype(calls, value, cast<RankedTensorType>(to));
  }

  // What channels have is the same for all of their images.
  Value multiply(Value a, Value b) {
    return combine(operators::aten::mul_Tensor, {a, b}, {});
  }
  Value add(Value a, Value b) {
    return combine(operators::aten::add_Tensor, {a, b}, calls.integer(1));
  }
  Value subtract(Value a, Value b) {
    return combine(operators::aten::sub_Tensor, {a, b}, calls.integer(1));
  }
  Value scale(Value a, const Argument &factor) {
    return calls.call(operators::aten::mul_Scalar, {a, factor}, a.getType());
  }
  Value scale(Value a, double factor) { return scale(a, calls.number(factor)); }
  /// `(1 - momentum) * running + momentum * batch`, as eager's kernels have it:
  /// where one of the shares is 0, what it takes nothing of must not round the
  /// other.
  Value follow(Value running, Value batch, Value momentum) {
    Argument factor = tssa::NumberOperand{momentum};
    Value ones =
        calls.call(operators::aten::full_like,
                   {running, calls.number(1), calls.none(), calls.none(),
                    calls.none(), calls.none(), calls.none()},
                   channel);
    Value rest = calls.call(operators::aten::sub_Scalar,
                            {ones, factor, calls.integer(1)}, channel);
    return add(multiply(running, rest), scale(batch, factor));
  }
  Value follow(Value running, Value batch, double momentum) {
    return add(scale(running, 1 - momentum), scale(batch, momentum));
  }
  Value inverseRoot(Value variance, double epsilon) {
    Value sum = calls.call(operators::aten::add_Scalar,
                           {variance, calls.number(epsilon), calls.integer(1)},
                           channel);
    return calls.call(operators::aten::rsqrt, {sum}, channel);
  }
  /// The sum over all that one channel has. Where the elements of one image lie
  /// beside each other, these are summed up first: more loops for threads, and
  /// sums of fewer summands, which round less.
  Value sum(Value images) {
    auto inner = llvm::to_vector(llvm::seq<int64_t>(2, type.getRank()));
    if (isChannelsLast(type)) {
      inner.insert(inner.begin(), 0);
      return sum(images, inner, channel);
    }
    auto ofEach = RankedTensorType::get(type.getShape().take_front(2),
                                        type.getElementType());
    return sum(sum(images, inner, ofEach), {0}, channel);
  }
  Value mean(Value images) { return scale(sum(images), 1.0 / double(rows)); }
  int64_t getRows() const { return rows; }

private:
  Value sum(Value value, ArrayRef<int64_t> dims, RankedTensorType to) {
    return calls.call(
        operators::aten::sum_dim_IntList,
        {value, calls.integers(dims), calls.boolean(false), calls.none()}, to);
  }
  Value combine(StringRef overload, std::array<Value, 2> operands,
                Attribute factor) {
    bool ofChannels =
        llvm::all_of(operands, [&](Value v) { return v.getType() == channel; });
    SmallVector<Argument> arguments;
    for (Value value : operands)
      arguments.push_back(
          ofChannels || value.getType() != channel ? value : spread(value));
    if (factor)
      arguments.push_back(factor);
    return calls.call(overload, arguments, ofChannels ? channel : type);
  }
  Value spread(Value value) {
    SmallVector<int64_t> sizes(type.getRank() - 1, 1);
    sizes[0] = type.getDimSize(1);
    return calls.view(value, sizes);
  }

  OpBuilder builder;
  CallBuilder calls;
  RankedTensorType type, channel;
  int64_t rows;
};

struct PlanBatchNorms
    : pyjit::library::impl::PlanBatchNormsPassBase<PlanBatchNorms> {
  using PlanBatchNormsPassBase::PlanBatchNormsPassBase;

  void runOnOperation() override;

private:
  bool plan(tssa::AtenOp op);
  bool planForward(tssa::AtenOp op, bool tracks, unsigned numbers);
  bool planBackward(tssa::AtenOp op);
  bool isTakenImage(Value images) const {
    if (!images || !isImages(typeOf(images)))
      return false;
    RankedTensorType type = typeOf(images);
    return (host ? type.getElementType().isF32()
                 : isChannelsLast(type) &&
                       isTakenFloat(type.getElementType())) &&
           type.getNumElements() / type.getDimSize(1) >= kMinRows;
  }
};

/// Replaces the batch norm of a batch's own statistics, which moves running
/// ones towards these if it `tracks`; its numbers begin with argument
/// `numbers`. Returns whether it did.
/// Ioffe and Szegedy, "Batch Normalization" (2015), algorithm 1.
bool PlanBatchNorms::planForward(tssa::AtenOp op, bool tracks,
                                 unsigned numbers) {
  Value images = tensorArgument(op, 0);
  auto training = dyn_cast_or_null<BoolAttr>(constantArgument(op, numbers));
  auto momentum = numberArgument(op, numbers + 1);
  // One that differs between calls is an operand.
  Value given = numberOperand(op, numbers + 1);
  auto epsilon = numberArgument(op, numbers + 2);
  if (!isTakenImage(images) || !training || !training.getValue() || !epsilon ||
      (tracks && !momentum && !given) ||
      typeOf(op.getResult(0)) != typeOf(images))
    return false;

  Channels c(op, images);
  Value mean = c.mean(c.wide(images));
  Value centered = c.subtract(c.wide(images), mean);
  Value variance = c.mean(c.multiply(centered, centered));
  if (host) {
    // Eager sums in double precision there. What the rounded mean has left is
    // taken away: Chan, Golub and LeVeque, "Algorithms for Computing the Sample
    // Variance" (1983), the corrected two-pass algorithm.
    Value rest = c.mean(centered);
    mean = c.add(mean, rest);
    centered = c.subtract(centered, rest);
    variance = c.subtract(variance, c.multiply(rest, rest));
  }
  Value inverse = c.inverseRoot(variance, *epsilon);
  Value factor = inverse;
  if (Value weight = tensorArgument(op, 1))
    factor = c.multiply(inverse, c.wideChannel(weight));
  Value result = c.multiply(centered, factor);
  if (Value bias = tensorArgument(op, 2))
    result = c.add(result, c.wideChannel(bias));
  auto replace = [&](unsigned number, Value value) {
    Value old = op.getResult(number);
    old.replaceAllUsesWith(c.narrow(value, old.getType()));
  };
  replace(0, result);
  if (op.getNumResults() == 1)
    return true;
  replace(1, mean);
  replace(2, inverse);
  if (!tracks)
    return true;
  auto follow = [&](unsigned argument, Value batch) {
    Value running = c.wideChannel(tensorArgument(op, argument));
    return momentum ? c.follow(running, batch, *momentum)
                    : c.follow(running, batch, given);
  };
  double unbiased = double(c.getRows()) / double(c.getRows() - 1);
  replace(3, follow(3, mean));
  replace(4, follow(4, c.scale(variance, unbiased)));
  return true;
}

/// Likewise for its gradients, of which only those that are used are computed.
bool PlanBatchNorms::planBackward(tssa::AtenOp op) {
  Value gradient = tensorArgument(op, 0), images = tensorArgument(op, 1);
  Value mean = tensorArgument(op, 5), inverse = tensorArgument(op, 6);
  auto training = dyn_cast_or_null<BoolAttr>(constantArgument(op, 7));
  if (!isTakenImage(images) || !gradient || !mean || !inverse || !training ||
      !training.getValue() || !isTakenFloat(typeOf(gradient).getElementType()))
    return false;

  Channels c(op, images);
  Value wide = c.wide(gradient);
  Value centered = c.subtract(c.wide(images), c.wideChannel(mean));
  inverse = c.wideChannel(inverse);
  Value sum = c.sum(wide), product = c.sum(c.multiply(wide, centered));
  Value ofWeight = c.multiply(product, inverse);
  double part = 1.0 / double(c.getRows());
  // What the mean and the variance take away again.
  Value slope = c.scale(c.multiply(ofWeight, inverse), part);
  Value ofInput = c.subtract(c.subtract(wide, c.scale(sum, part)),
                             c.multiply(centered, slope));
  Value factor = inverse;
  if (Value weight = tensorArgument(op, 2))
    factor = c.multiply(inverse, c.wideChannel(weight));
  Value results[] = {c.multiply(ofInput, factor), ofWeight, sum};
  for (auto [old, value] : llvm::zip(op.getResults(), results))
    if (!old.use_empty())
      old.replaceAllUsesWith(c.narrow(value, old.getType()));
  return true;
}

bool PlanBatchNorms::plan(tssa::AtenOp op) {
  using namespace operators::aten;
  StringRef name = op.getOverload();
  if (name == native_batch_norm_backward)
    return planBackward(op);
  if (name == _native_batch_norm_legit_functional)
    return planForward(op, /*tracks=*/true, /*numbers=*/5);
  if (name == _native_batch_norm_legit_no_stats)
    return planForward(op, /*tracks=*/false, /*numbers=*/3);
  return name == batch_norm && !tensorArgument(op, 3) &&
         !tensorArgument(op, 4) &&
         planForward(op, /*tracks=*/false, /*numbers=*/5);
}

void PlanBatchNorms::runOnOperation() {
  SmallVector<tssa::AtenOp> norms;
  getOperation().walk([&](tssa::AtenOp op) {
    if (!op->hasAttr(attribute::kVendorCall))
      norms.push_back(op);
  });
  llvm::SmallSetVector<Block *, 4> blocks;
  for (tssa::AtenOp op : norms) {
    if (!plan(op))
      continue;
    blocks.insert(op->getBlock());
    op->erase();
    ++numPlanned;
  }
  for (Block *block : blocks)
    tssa::eraseUnused(*block);
}

} // namespace
