//===- TensorGradients.cpp - What a backward in a call leaves behind ------===//

#include "TensorGradients.h"

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
  return THPVariable_Check(object)
             ? THPVariable_Wrap(THPVariable_Unpack(object).grad())
             : nullptr;
}

void setGradient(PyObject *object, PyObject *gradient) {
  THPVariable_Unpack(object).mutable_grad() =
      gradient == Py_None ? at::Tensor() : THPVariable_Unpack(gradient);
}

bool isUnhooked(PyObject *object) {
  const auto *meta = static_cast<const autograd::AutogradMeta *>(
      THPVariable_Unpack(object).unsafeGetTensorImpl()->autograd_meta());
  if (!meta)
    return true;
  if (!meta->hooks_.empty() || meta->post_acc_grad_hooks_ ||
      meta->grad_dtype_ || meta->allow_grad_dtype_mismatch_)
    return false;
  std::shared_ptr<autograd::Node> node = meta->grad_accumulator_.lock();
  return !node || (node->pre_hooks().empty() && node->post_hooks().empty());
}

void markFreed(PyObject *object) {
  const at::Tensor &tensor = THPVariable_Unpack(object);
  auto node = std::make_shared<FreedBackward>();
  uint32_t number = node->add_input_metadata(tensor);
  autograd::impl::set_gradient_edge(tensor, {std::move(node), number});
}

} // namespace pyjit::python
