//===- TensorOpFacts.cpp - What the recorder knows of operators -----------===//

#include "tensors/TensorOpFacts.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

using namespace pyjit;
using namespace pyjit::capture;

PyjitOperatorFacts pyjit::capture::factsOf(const std::string &name) {
  return pyjitOperatorFacts({name.data(), name.size()});
}

bool pyjit::capture::isTrainingBatchNorm(
    const PyjitOperatorFacts &facts, const std::vector<c10::IValue> &inputs) {
  auto isGiven = [&](size_t i) {
    return inputs[i].isTensor() && inputs[i].toTensor().defined();
  };
  return facts.batchStatistics && inputs.size() > 5 && inputs[5].isBool() &&
         inputs[5].toBool() && (isGiven(3) || isGiven(4));
}

void pyjit::capture::asLeakyRelu(std::optional<c10::OperatorHandle> &handle,
                                 std::string &name,
                                 std::vector<c10::IValue> &inputs) {
  bool inplace = name == operators::aten::rrelu_with_noise_;
  if ((!inplace && name != operators::aten::rrelu_with_noise) ||
      inputs.size() < 5 || !inputs[4].isBool() || inputs[4].toBool() ||
      !inputs[2].isScalar() || !inputs[3].isScalar())
    return;
  double slope =
      (inputs[2].toScalar().toDouble() + inputs[3].toScalar().toDouble()) / 2;
  name = inplace ? operators::aten::leaky_relu_ : operators::aten::leaky_relu;
  inputs = {inputs[0], c10::IValue(slope)};
  handle = c10::Dispatcher::singleton().findSchema({name, ""});
}

bool pyjit::capture::fillEmpty(std::string &name,
                               const std::vector<c10::IValue> &inputs) {
  if (at::globalContext().deterministicAlgorithms())
    return false; // filled by eager
  if (name == operators::aten::new_empty) {
    name = operators::aten::new_zeros;
  } else if (name == operators::aten::empty_like) {
    name = operators::aten::zeros_like;
  } else if (name == operators::aten::empty_memory_format &&
             inputs.back().isNone()) {
    name = operators::aten::zeros;
    return true;
  }
  return false;
}
