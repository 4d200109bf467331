//===- MockViews.cpp - Results that are views of other tensors ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Mock.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/detach.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/GradMode.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>

namespace pyjit::python {

/// Everything in the storage of `tensor` as numbers of another type, made with
/// the operators that a program would have used.
static at::Tensor retyped(const at::Tensor &tensor, c10::ScalarType type) {
  int64_t from = tensor.element_size(), to = c10::elementSize(type);
  int64_t bytes = tensor.storage().nbytes(), unit = std::max(from, to);
  int64_t count = bytes / unit * unit / from;
  if (at::isComplexType(tensor.scalar_type()) &&
      c10::toRealValueType(tensor.scalar_type()) == type)
    return at::view_as_real(at::as_strided(tensor, {count}, {1}, 0));
  if (at::isComplexType(type) &&
      c10::toRealValueType(type) == tensor.scalar_type())
    return at::view_as_complex(
        at::as_strided(tensor, {count / 2, 2}, {2, 1}, 0));
  return at::as_strided(tensor, {count}, {1}, 0).view(type);
}

/// What `detach()` of a view gives, the same memory and version counter, and
/// nothing that autograd knows of; or its `.data`, with another counter.
static at::Tensor detachedPart(const at::Tensor &tensor, at::IntArrayRef sizes,
                               at::IntArrayRef strides, int64_t offset,
                               bool isData) {
  at::Tensor whole = isData ? tensor.variable_data() : tensor.detach();
  auto *impl = whole.unsafeGetTensorImpl();
  impl->set_allow_tensor_metadata_change(true);
  impl->set_sizes_and_strides(sizes, strides, offset);
  impl->set_allow_tensor_metadata_change(false);
  return whole;
}

/// The view of all of a tensor, as it is or, of a row-major one, in another
/// shape or order, by operators whose gradients are views again, where one by
/// strides is a copy. Undefined where it is another one.
static at::Tensor rearranged(const at::Tensor &base, at::IntArrayRef sizes,
                             at::IntArrayRef strides) {
  if (!base.is_contiguous() && base.sizes() == sizes &&
      base.strides() == strides)
    return base.view(sizes);
  std::vector<int64_t> order(sizes.size()), ordered, places(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return strides[a] > strides[b];
  });
  for (size_t i = 0; i < order.size(); ++i) {
    ordered.push_back(sizes[order[i]]);
    places[order[i]] = int64_t(i);
  }
  if (!base.is_contiguous() || base.numel() != c10::multiply_integers(sizes))
    return {};
  at::Tensor view = base.view(ordered);
  if (!std::is_sorted(order.begin(), order.end()))
    view = view.permute(places);
  return view.strides() == strides ? view : at::Tensor();
}

/// Puts what depends on symbols into sizes and strides; returns what is added
/// to the offset.
static int64_t computeDims(const int64_t *code,
                           const std::vector<PyObject *> &registers,
                           std::vector<int64_t> &dims) {
  int64_t count = *code++;
  std::vector<int64_t> symbols;
  for (int64_t i = 0; i < count; ++i)
    symbols.push_back(PyLong_AsLongLong(registers[*code++]));
  // No larger than what the guards computed and the launch has made.
  auto next = [&] {
    int64_t sum = 0;
    for (int64_t terms = *code++; terms > 0; --terms) {
      int64_t product = *code++;
      for (int64_t degree = *code++; degree > 0; --degree)
        product *= symbols[*code++];
      sum += product;
    }
    return sum;
  };
  for (int64_t &dim : dims)
    if (dim == PYJIT_ANY_DIM)
      dim = next();
  return next();
}

/// The tensor that the memory was made with, as if it had been given the shape
/// of `view` in place: no view, with the view's history. What was saved of the
/// memory shares its version counter.
static at::Tensor reshaped(const at::Tensor &tensor, const at::Tensor &view) {
  at::Tensor own = detachedPart(tensor, view.sizes(), view.strides(),
                                view.storage_offset(), /*isData=*/false);
  if (view.requires_grad())
    torch::autograd::impl::set_gradient_edge(
        own, {view.grad_fn(), uint32_t(view.output_nr())});
  return own;
}

PyObject *Mock::makeView(const PyjitInst &inst,
                         const std::vector<PyObject *> &registers) const {
  at::Tensor tensor = THPVariable_Unpack(registers[inst.a]);
  const PyjitTensorMeta &meta = program->pools.tensors[inst.imm];
  const int64_t *known = program->pools.ints + meta.dims;
  std::vector<int64_t> dims(known, known + 2 * meta.rank);
  int64_t offset = meta.offset;
  if (inst.b)
    offset += computeDims(program->pools.ints + inst.b - 1, registers, dims);
  at::IntArrayRef sizes(dims.data(), meta.rank),
      strides(dims.data() + meta.rank, meta.rank);
  auto type = c10::ScalarType(meta.dtype);
  try {
    std::optional<c10::AutoGradMode> mode;
    if (inst.flags & (PYJIT_MOCK_FLAG_NO_GRAD | PYJIT_MOCK_FLAG_GRAD))
      mode.emplace(inst.flags & PYJIT_MOCK_FLAG_GRAD);
    if (inst.flags & PYJIT_MOCK_FLAG_OF_DETACHED)
      tensor = tensor.detach();
    bool isData = inst.flags & PYJIT_MOCK_FLAG_DATA;
    if ((isData || inst.flags & PYJIT_MOCK_FLAG_DETACHED) &&
        tensor.scalar_type() == type)
      return THPVariable_Wrap(detachedPart(
          tensor, sizes, strides, tensor.storage_offset() + offset, isData));
    if (tensor.scalar_type() != type) {
      // A guard has compared the base's offset.
      int64_t begin = tensor.storage_offset() * tensor.element_size() /
                      int64_t(c10::elementSize(type));
      return THPVariable_Wrap(at::as_strided(retyped(tensor, type), sizes,
                                             strides, begin + offset));
    }
    at::Tensor view;
    if (offset == 0 && tensor.requires_grad())
      view = rearranged(tensor, sizes, strides);
    if (!view.defined())
      view = at::as_strided(tensor, sizes, strides,
                            tensor.storage_offset() + offset);
    if (inst.flags & PYJIT_MOCK_FLAG_SEVERAL)
      if (auto *meta = torch::autograd::impl::get_view_autograd_meta(view))
        meta->set_creation_meta(
            torch::autograd::CreationMeta::MULTI_OUTPUT_NODE);
    if (inst.flags & PYJIT_MOCK_FLAG_RESHAPED)
      view = reshaped(tensor, view);
    return THPVariable_Wrap(view);
  } catch (const std::exception &error) {
    PyErr_Format(PyExc_RuntimeError, "pyjit: view of a result: %s",
                 error.what());
    return nullptr;
  }
}

} // namespace pyjit::python
