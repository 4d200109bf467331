//===- AttentionCalls.cpp - Attention that draws numbers ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PyTorch's memory-efficient attention keeps the seed and the offset of its
// dropout for the backward pass: in tensors of the CPU, or, while a stream is
// captured, in such of the device; and its backward takes them where the same
// question puts them then
// (aten/src/ATen/native/transformers/cuda/attention_backward.cu). A program's
// values have one place, and which parts of a program are captured changes from
// call to call: here both lie on the device.
//
//===----------------------------------------------------------------------===//

#include "OwnCalls.h"
#include "TorchDevice.h"

#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include <array>
#include <limits>
#include <optional>
#include <tuple>

using namespace pyjit::rt;
using std::optional;

namespace {

/// The kernel reads rows of the bias in vectors of so many elements, and fills
/// whole parts of so many rows of its sums.
constexpr int64_t kAlignBias = 8, kAlignSums = 32;

bool isCaptured(c10::Device device) {
  std::string error;
  auto driver = cuda::openDriver(error);
  if (!driver)
    throw std::runtime_error(error);
  bool captured = false;
  cuda::check(
      *driver,
      driver->isCapturing(TorchDevice::currentStream(device), &captured),
      "the stream");
  return captured;
}

int64_t missing(int64_t size, int64_t alignment) {
  return (alignment - size % alignment) % alignment;
}

/// A mask that is added, broadcast and in rows as the kernel reads them: what
/// `scaled_dot_product_attention` makes of it (preprocess_mask, attention.cpp).
optional<at::Tensor> biasOf(const optional<at::Tensor> &mask,
                            const at::Tensor &query, const at::Tensor &key) {
  if (!mask || !mask->defined())
    return std::nullopt;
  at::Tensor bias = *mask;
  bool aligned = bias.dim() == 0 || bias.stride(-1) == 1;
  for (int64_t i = 0; i + 1 < bias.dim(); ++i)
    aligned &= bias.stride(i) % kAlignBias == 0;
  if (!aligned) {
    int64_t columns = bias.size(-1);
    bias = at::constant_pad_nd(bias, {0, missing(columns, kAlignBias)})
               .narrow(-1, 0, columns);
  }
  return bias.expand(
      {query.size(0), query.size(1), query.size(2), key.size(2)});
}

/// Returns what attention is, the logarithms of its sums, and the seed and the
/// offset that its numbers were drawn by.
std::tuple<at::Tensor, at::Tensor, at::Tensor>
attention(const at::Tensor &query, const at::Tensor &key,
          const at::Tensor &value, const optional<at::Tensor> &mask,
          double dropout, bool causal, optional<double> scale) {
  auto [output, sums, seed, offset] =
      at::_scaled_dot_product_efficient_attention(
          query, key, value, biasOf(mask, query, key),
          /*compute_log_sumexp=*/true, dropout, causal, scale);
  at::Tensor numbers;
  if (seed.is_cpu()) {
    numbers = at::empty({2}, query.options().dtype(at::kLong));
    numbers.select(0, 0).fill_(seed.item<int64_t>());
    numbers.select(0, 1).fill_(offset.item<int64_t>());
  } else {
    numbers = at::stack({seed, offset});
  }
  return {output, sums.narrow(2, 0, query.size(2)).contiguous(), numbers};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor>
attentionBackward(const at::Tensor &gradient, const at::Tensor &query,
                  const at::Tensor &key, const at::Tensor &value,
                  const optional<at::Tensor> &mask, const at::Tensor &output,
                  const at::Tensor &sums, const at::Tensor &numbers,
                  double dropout, bool causal, optional<double> scale) {
  // Outside of a capture the kernel's launcher reads them: the host waits.
  at::Tensor drawn =
      isCaptured(query.device()) ? numbers : numbers.to(at::kCPU);
  at::Tensor padded =
      at::constant_pad_nd(sums, {0, missing(query.size(2), kAlignSums)},
                          std::numeric_limits<double>::infinity());
  auto [ofQuery, ofKey, ofValue, ofMask] =
      at::_scaled_dot_product_efficient_attention_backward(
          gradient, query, key, value,
          biasOf(mask, query, key).value_or(at::Tensor()), output, padded,
          drawn.select(0, 0), drawn.select(0, 1), dropout,
          std::array<bool, 4>{true, true, true, false}, causal, scale);
  return {ofQuery, ofKey, ofValue};
}

} // namespace

void pyjit::rt::defineAttentionCalls(torch::Library &library) {
  library.def("efficient_attention(Tensor query, Tensor key, Tensor value, "
              "Tensor? attn_bias, float dropout_p, bool is_causal, "
              "float? scale) -> (Tensor, Tensor, Tensor)",
              &attention);
  library.def("efficient_attention_backward(Tensor grad_out, Tensor query, "
              "Tensor key, Tensor value, Tensor? attn_bias, Tensor output, "
              "Tensor logsumexp, Tensor numbers, float dropout_p, "
              "bool is_causal, float? scale) -> (Tensor, Tensor, Tensor)",
              &attentionBackward);
}
