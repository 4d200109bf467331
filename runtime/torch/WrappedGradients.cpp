//===- WrappedGradients.cpp - Gradients of vmap and of forward mode -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "WrappedGradients.h"

#include <ATen/functorch/BatchedTensorImpl.h>
// Behind the other: both have functions of the same names, of a Tensor.
#include <ATen/LegacyBatchedTensorImpl.h>

#include <ATen/ops/_make_dual.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <optional>

using namespace pyjit::rt;

namespace {

/// The vmap that a batch belongs to: one of functorch's, or one of those that
/// torch.autograd.grad(is_grads_batched=True) still runs.
struct Level {
  bool legacy = false;
  int64_t number = 0;
  bool operator==(const Level &other) const {
    return legacy == other.legacy && number == other.number;
  }
};

/// A tensor whose outermost wrapper is a batch's.
class Batch {
public:
  static std::optional<Batch> of(const at::Tensor &tensor);
  Level level() const { return at; }
  int64_t size() const { return value.size(dim); }
  at::Tensor element(int64_t i) const { return wrapped(value.select(dim, i)); }
  /// Of the sizes of an element, where there is none.
  at::Tensor zeros() const { return wrapped(value.sum(dim)); }
  static at::Tensor make(const at::Tensor &all, Level level);

private:
  Level at;
  at::Tensor value;
  int64_t dim = 0;
  at::BatchDims others; ///< older vmaps keep all their levels in one wrapper
  at::Tensor wrapped(const at::Tensor &element) const {
    return others.empty() ? element : at::makeBatched(element, others);
  }
};

} // namespace

std::optional<Batch> Batch::of(const at::Tensor &tensor) {
  if (!tensor.defined())
    return std::nullopt;
  Batch batch;
  if (auto *impl = at::functorch::maybeGetBatchedImpl(tensor)) {
    batch.at = {false, impl->level()};
    batch.value = impl->value();
    batch.dim = impl->bdim();
    return batch;
  }
  auto *impl = at::maybeGetBatchedImpl(tensor);
  if (!impl)
    return std::nullopt;
  at::BatchDim last = impl->bdims().back();
  batch.at = {true, last.level()};
  batch.value = impl->value();
  batch.dim = last.dim();
  for (const at::BatchDim &other :
       impl->bdims().slice(0, impl->bdims().size() - 1))
    batch.others.emplace_back(other.level(),
                              other.dim() - (other.dim() > last.dim()));
  return batch;
}

at::Tensor Batch::make(const at::Tensor &all, Level level) {
  return level.legacy
             ? at::addBatchDim(all, level.number, /*dim=*/0)
             : at::functorch::makeBatched(all, /*dim=*/0, level.number);
}

/// The innermost vmap that runs, whose wrapper is the outermost one.
static std::optional<Level> findLevel(const Gradients &gradients) {
  std::optional<Level> innermost;
  for (const at::Tensor &gradient : gradients)
    if (std::optional<Batch> batch = Batch::of(gradient)) {
      Level level = batch->level();
      if (!innermost || (innermost->legacy && !level.legacy) ||
          (innermost->legacy == level.legacy &&
           innermost->number < level.number))
        innermost = level;
    }
  return innermost;
}

static bool hasTangent(const at::Tensor &gradient) {
  return gradient.defined() && gradient._fw_grad(/*level=*/0).defined();
}

bool pyjit::rt::areWrapped(const Gradients &gradients) {
  return std::any_of(gradients.begin(), gradients.end(), hasTangent) ||
         findLevel(gradients);
}

static Gradients runDual(const Gradients &gradients, const Backward &backward) {
  Gradients primals = gradients, tangents(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!hasTangent(gradients[i]))
      continue;
    tangents[i] = gradients[i]._fw_grad(/*level=*/0);
    primals[i] = gradients[i]._fw_primal(/*level=*/0);
  }
  Gradients results = backward(std::move(primals));
  Gradients slopes = backward(std::move(tangents));
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].defined() && slopes[i].defined())
      results[i] = at::_make_dual(results[i], slopes[i], /*level=*/0);
  return results;
}

static Gradients runBatch(const Gradients &gradients, Level level,
                          const Backward &backward) {
  std::vector<std::optional<Batch>> batches;
  int64_t count = 0;
  for (const at::Tensor &gradient : gradients) {
    std::optional<Batch> batch = Batch::of(gradient);
    if (batch && !(batch->level() == level))
      batch.reset();
    if (batch)
      count = batch->size();
    batches.push_back(std::move(batch));
  }
  // Of an empty batch, the sizes of the results are still to be known.
  std::vector<Gradients> elements;
  for (int64_t i = 0; i < std::max<int64_t>(count, 1); ++i) {
    Gradients given = gradients;
    for (size_t k = 0; k < given.size(); ++k)
      if (batches[k])
        given[k] = count ? batches[k]->element(i) : batches[k]->zeros();
    elements.push_back(backward(std::move(given)));
  }
  Gradients results(elements[0].size());
  for (size_t k = 0; k < results.size(); ++k) {
    if (!elements[0][k].defined())
      continue;
    std::vector<at::Tensor> parts;
    for (const Gradients &element : elements)
      parts.push_back(element[k]);
    results[k] = Batch::make(at::stack(parts).narrow(0, 0, count), level);
  }
  return results;
}

Gradients pyjit::rt::runUnwrapped(const Gradients &gradients,
                                  const Backward &backward) {
  std::optional<Level> level = findLevel(gradients);
  return level ? runBatch(gradients, *level, backward)
               : runDual(gradients, backward);
}
