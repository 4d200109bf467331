//===- AttentionKernel.cpp - Which kernel eager takes for attention -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/AttentionKernel.h"

#include "pyjit-c/Operators.h"

#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/record_function.h>

#include <string_view>

namespace operators = pyjit::operators;

const char *
pyjit::capture::attentionKernel(const std::string &overload,
                                const std::vector<c10::IValue> &arguments) {
  if (overload != operators::aten::scaled_dot_product_attention)
    return nullptr;
  at::DisableRecordFunctionGuard unseen;
  const at::Tensor &query = arguments[0].toTensor();
  // at::_SDPBackend, by the numbers of `torch.nn.attention.SDPBackend`.
  constexpr int64_t kFlash = 1, kEfficient = 2, kCuDNN = 3;
  switch (at::_fused_sdp_choice(
      query, arguments[1].toTensor(), arguments[2].toTensor(),
      arguments[3].toOptional<at::Tensor>(), arguments[4].toDouble(),
      arguments[5].toBool(), arguments[6].toOptional<double>(),
      arguments[7].toBool())) {
  case kFlash:
    return query.is_cpu() ? "flash_cpu" : nullptr;
  case kEfficient:
    return "efficient";
  case kCuDNN:
    return "cudnn";
  default:
    return nullptr;
  }
}

bool pyjit::capture::drawsInAttention(
    const std::string &overload, const std::vector<c10::IValue> &arguments) {
  std::string_view cudnn = "cudnn", efficient = "efficient";
  const char *kernel = attentionKernel(overload, arguments);
  if (!kernel || (kernel != cudnn && kernel != efficient))
    return false;
  bool groups = arguments[7].toBool();
  return !groups &&
         !(arguments[3].isTensor() && arguments[3].toTensor().requires_grad());
}
