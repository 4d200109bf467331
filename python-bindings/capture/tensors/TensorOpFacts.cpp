//===- TensorOpFacts.cpp - What the recorder knows of operators -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/TensorOpFacts.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <limits>

using namespace pyjit;
using namespace pyjit::capture;

PyjitOperatorFacts pyjit::capture::factsOf(const std::string &name) {
  return pyjitOperatorFacts({name.data(), name.size()});
}

bool pyjit::capture::drawsNumbers(const c10::OperatorHandle &handle,
                                  const PyjitOperatorFacts &facts,
                                  const std::vector<c10::IValue> &inputs) {
  if (!facts.drawsByProbability)
    return false;
  auto index = handle.schema().argumentIndexWithName(facts.drawsByProbability);
  return index && inputs.size() > size_t(*index) && inputs[*index].isDouble() &&
         inputs[*index].toDouble() > 0;
}

bool pyjit::capture::isTrainingBatchNorm(
    const PyjitOperatorFacts &facts, const std::vector<c10::IValue> &inputs) {
  return facts.batchStatistics && inputs.size() > 5 && inputs[5].isBool() &&
         inputs[5].toBool();
}

static bool isGiven(const c10::IValue &input) {
  return input.isTensor() && input.toTensor().defined();
}

bool pyjit::capture::keepsStatistics(const std::vector<c10::IValue> &inputs) {
  return isGiven(inputs[3]) || isGiven(inputs[4]);
}

bool pyjit::capture::asStatisticsUpdate(
    std::optional<c10::OperatorHandle> &handle, std::string &name,
    std::vector<c10::IValue> &inputs) {
  if ((name != operators::aten::native_batch_norm &&
       name != operators::aten::cudnn_batch_norm) ||
      inputs.size() != 8 || isGiven(inputs[3]) != isGiven(inputs[4]))
    return false;
  for (size_t i : {3, 4})
    if (isGiven(inputs[i]) && inputs[i].toTensor().requires_grad())
      return false;
  const char *overload = "";
  name = operators::aten::_native_batch_norm_legit;
  if (!isGiven(inputs[3])) {
    inputs.erase(inputs.begin() + 3, inputs.begin() + 5);
    name = operators::aten::_native_batch_norm_legit_no_stats;
    overload = "no_stats";
  }
  handle = c10::Dispatcher::singleton().findSchema(
      {operators::aten::_native_batch_norm_legit, overload});
  return true;
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

void pyjit::capture::asDiagonal(std::optional<c10::OperatorHandle> &handle,
                                std::string &name,
                                std::vector<c10::IValue> &inputs) {
  if (name != operators::aten::as_strided || inputs.size() != 4 ||
      !inputs[0].isTensor() || inputs[0].toTensor().dim() != 2 ||
      !inputs[1].isIntList() || !inputs[2].isIntList() || !inputs[3].isInt())
    return;
  const at::Tensor &source = inputs[0].toTensor();
  std::vector<int64_t> sizes = inputs[1].toIntVector(),
                       strides = inputs[2].toIntVector();
  if (sizes != std::vector{std::min(source.size(0), source.size(1))} ||
      strides != std::vector{source.stride(0) + source.stride(1)} ||
      inputs[3].toInt() != source.storage_offset())
    return;
  name = operators::aten::diagonal;
  inputs = {inputs[0], c10::IValue(0), c10::IValue(0), c10::IValue(1)};
  handle = c10::Dispatcher::singleton().findSchema({name, ""});
}

bool pyjit::capture::drawsUniformNumbers(const std::string &name) {
  return name == operators::aten::rand || name == operators::aten::rand_like;
}

bool pyjit::capture::isAlikeForUniform(const std::string &name,
                                       const std::vector<c10::IValue> &inputs) {
  if (inputs.size() != 2 || !(inputs[1].isInt() || inputs[1].isDouble()))
    return false;
  double number = inputs[1].toScalar().toDouble();
  if (name == operators::aten::lt_Scalar || name == operators::aten::ge_Scalar)
    return number <= 0 || number >= 1;
  if (name == operators::aten::gt_Scalar || name == operators::aten::le_Scalar)
    return number < 0 || number >= 1;
  return false;
}

bool pyjit::capture::countsElements(const std::string &name,
                                    const at::Tensor &operand) {
  if (name == operators::aten::count_nonzero ||
      name == operators::aten::count_nonzero_dim_IntList)
    return true;
  return operand.scalar_type() == at::kBool &&
         (name == operators::aten::sum ||
          name == operators::aten::sum_dim_IntList);
}

/// What eager fills memory with that a program asks for, in deterministic mode.
static c10::Scalar deterministicFilling(at::ScalarType type) {
  if (at::isFloatingType(type))
    return std::numeric_limits<double>::quiet_NaN();
  switch (type) {
  case at::kBool:
    return true;
  case at::kByte:
    return int64_t(std::numeric_limits<uint8_t>::max());
  case at::kChar:
    return int64_t(std::numeric_limits<int8_t>::max());
  case at::kShort:
    return int64_t(std::numeric_limits<int16_t>::max());
  case at::kInt:
    return int64_t(std::numeric_limits<int32_t>::max());
  default:
    return std::numeric_limits<int64_t>::max();
  }
}

EmptyFilling pyjit::capture::fillEmpty(std::string &name,
                                       const std::vector<c10::IValue> &inputs,
                                       at::ScalarType type) {
  EmptyFilling filling;
  bool filled = at::globalContext().deterministicAlgorithms();
  bool known = type == at::kBool || at::isFloatingType(type) ||
               at::isIntegralType(type, /*includeBool=*/false);
  if (filled &&
      (!at::globalContext().deterministicFillUninitializedMemory() || !known))
    return filling;
  if (name == operators::aten::new_empty) {
    name = filled ? operators::aten::new_full : operators::aten::new_zeros;
    filling.place = 2;
  } else if (name == operators::aten::empty_like) {
    name = filled ? operators::aten::full_like : operators::aten::zeros_like;
    filling.place = 1;
  } else if (name == operators::aten::empty_memory_format &&
             inputs.back().isNone()) {
    name = filled ? operators::aten::full : operators::aten::zeros;
    filling.place = 1;
    filling.dropsLast = true;
  } else {
    return filling;
  }
  if (filled)
    filling.value = deterministicFilling(type);
  return filling;
}
