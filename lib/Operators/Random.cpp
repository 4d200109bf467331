//===- Random.cpp - Calls of random operators that draw nothing -----------===//

#include "pyjit/Operators/Random.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace pyjit::operators;

namespace {

/// What of an operator's arguments switches it off.
struct Switch {
  /// The probability that skips the drawing where it is 0. Not every operator
  /// with a probability has one: `bernoulli(0.0)` and `native_dropout(x, 0.0)`
  /// draw, and throw away what they drew.
  StringRef probability;
  /// The flag without which nothing is drawn.
  StringRef training;
};

/// As ATen's kernels test their arguments (Dropout.cpp, RNN.cpp,
/// attention.cpp).
Switch getSwitch(StringRef name) {
  name.consume_back("_");
  if (name == "aten::dropout" || name == "aten::feature_dropout" ||
      name == "aten::alpha_dropout" || name == "aten::feature_alpha_dropout")
    return {"p", "train"};
  if (name == "aten::native_dropout")
    return {"", "train"};
  if (name == "aten::scaled_dot_product_attention")
    return {"dropout_p", ""};
  if (name == "aten::lstm" || name == "aten::gru" || name == "aten::rnn_tanh" ||
      name == "aten::rnn_relu")
    return {"dropout", "train"};
  if (name == "aten::rrelu_with_noise")
    return {"", "training"};
  return {};
}

} // namespace

bool pyjit::operators::drawsNothing(const OperatorInfo &info, ArrayAttr args) {
  Switch off = getSwitch(StringRef(info.name).split('.').first);
  auto getArgument = [&](StringRef name) -> Attribute {
    int index = name.empty() ? -1 : info.findArgument(name);
    return index < 0 || index >= int(args.size()) ? Attribute() : args[index];
  };
  if (auto number = dyn_cast_or_null<FloatAttr>(getArgument(off.probability)))
    if (number.getValue().isZero())
      return true;
  if (auto flag = dyn_cast_or_null<BoolAttr>(getArgument(off.training)))
    return !flag.getValue();
  return false;
}
