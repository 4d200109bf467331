//===- CastBatch.h - Weights' casts, made together --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Autocast casts weight after weight, and autograd takes a gradient after the
// other back: some hundred launches in each direction, which take longer than
// the forward of a model whose own launches are one graph. Here the casts that
// autocast has not kept yet are computed by one call, and have one node.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_TENSORS_CASTBATCH_H
#define PYJIT_CAPTURE_TENSORS_CASTBATCH_H

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <vector>

namespace pyjit::capture {

/// Asks for the casts of some weights as `keptCast` does. The first of them
/// that autocast has not kept yet is made together with those behind it.
/// Autocast itself is given them by `keep`: eager's call, which answers where
/// ours does not, may not come to them, and casts a weight later that somebody
/// writes meanwhile.
class CastBatch {
public:
  CastBatch() = default;
  explicit CastBatch(size_t count) { wanted.reserve(count); }

  void add(const at::Tensor &weight, at::ScalarType type) {
    wanted.push_back({weight, type, {}});
  }
  size_t size() const { return wanted.size(); }
  /// The cast of weight `i`; they are asked for in order. Undefined where
  /// eager's would raise.
  at::Tensor take(size_t i);
  /// Lets autocast keep what was made.
  void keep();

private:
  struct Kernel;
  struct Wanted {
    at::Tensor weight;
    at::ScalarType type;
    at::Tensor made;      ///< filled, and not yet autocast's
    bool isWhole = false; ///< `made` has its history
  };

  void makeFrom(size_t first);
  void finish(Wanted &cast);

  std::vector<Wanted> wanted;
  size_t asked = 0;  ///< place of what is asked for now
  at::Tensor asking; ///< its weight, until it is known not to be kept
  bool hasMade = false;
  bool isKeeping = false;
  std::shared_ptr<torch::autograd::Node> node; ///< of those that were made
};

/// Whether autocast has made this of the weight, by itself or in a batch.
bool isCastOf(const at::Tensor &cast, const at::Tensor &weight);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSORS_CASTBATCH_H
