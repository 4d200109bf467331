//===- TensorGradients.cpp - What a backward in a call leaves behind ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "TensorGradients.h"

#include "pyjit-rt/Hooks.h"

#include "capture/tensors/TensorObject.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

namespace autograd = torch::autograd;

namespace pyjit::python {

namespace {

/// Stands for a graph whose saved tensors are freed.
struct FreedBackward final : autograd::Node {
  autograd::variable_list apply(autograd::variable_list &&) override {
    throw std::runtime_error(autograd::ERR_BACKWARD_TWICE);
  }
  std::string name() const override { return "PyjitBackward"; }
};

} // namespace

PyObject *readGradient(PyObject *object) {
  return capture::isTensorObject(object)
             ? THPVariable_Wrap(THPVariable_Unpack(object).grad())
             : nullptr;
}

void setGradient(PyObject *object, PyObject *gradient) {
  THPVariable_Unpack(object).mutable_grad() =
      gradient == Py_None ? at::Tensor() : THPVariable_Unpack(gradient);
}

bool isUnhooked(PyObject *object) {
  // Somebody looks at what is saved, or for numbers that are none.
  if (autograd::AnomalyMode::is_enabled() ||
      !at::SavedTensorDefaultHooks::get_tls_state().stack.empty())
    return false;
  const at::Tensor &leaf = THPVariable_Unpack(object);
  const auto *meta = static_cast<const autograd::AutogradMeta *>(
      leaf.unsafeGetTensorImpl()->autograd_meta());
  return !meta || (!meta->grad_dtype_ && !meta->allow_grad_dtype_mismatch_ &&
                   !rt::isHookedAt(leaf));
}

PyObject *readNumber(PyObject *object) {
  if (!capture::isTensorObject(object))
    return nullptr;
  const at::Tensor &t = THPVariable_Unpack(object);
  if (t.dim() || !t.device().is_cpu() || t.layout() != c10::kStrided)
    return nullptr;
  switch (t.scalar_type()) {
  case at::kFloat:
    return PyFloat_FromDouble(*static_cast<const float *>(t.const_data_ptr()));
  case at::kDouble:
    return PyFloat_FromDouble(*static_cast<const double *>(t.const_data_ptr()));
  case at::kLong:
    return PyLong_FromLongLong(
        *static_cast<const int64_t *>(t.const_data_ptr()));
  default:
    return nullptr;
  }
}

void setNumber(PyObject *object, PyObject *number) {
  const at::Tensor &t = THPVariable_Unpack(object);
  if (t.scalar_type() == at::kFloat)
    *static_cast<float *>(t.mutable_data_ptr()) =
        float(PyFloat_AsDouble(number));
  else if (t.scalar_type() == at::kDouble)
    *static_cast<double *>(t.mutable_data_ptr()) = PyFloat_AsDouble(number);
  else
    *static_cast<int64_t *>(t.mutable_data_ptr()) = PyLong_AsLongLong(number);
}

void markFreed(PyObject *object) {
  const at::Tensor &tensor = THPVariable_Unpack(object);
  auto node = std::make_shared<FreedBackward>();
  uint32_t number = node->add_input_metadata(tensor);
  autograd::impl::set_gradient_edge(tensor, {std::move(node), number});
}

} // namespace pyjit::python
