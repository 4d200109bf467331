//===- TensorOpFacts.cpp - What the recorder knows of operators -----------===//

#include "tensors/TensorOpFacts.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <set>

using namespace pyjit::capture;

bool pyjit::capture::isKept(const std::string &name) {
  static const std::set<std::string> names = {
      "aten::linear", "aten::layer_norm", "aten::group_norm",
      "aten::batch_norm", "aten::scaled_dot_product_attention", "aten::conv1d",
      "aten::conv2d", "aten::conv3d", "aten::matmul", "aten::softmax.int",
      "aten::log_softmax.int",
      "aten::max_pool1d", // fills its result behind the dispatcher's back
      "aten::max_pool2d",
      // Check the factorisation's outcome and raise.
      "aten::linalg_inv", "aten::linalg_solve", "aten::linalg_cholesky",
      "aten::linalg_lu_factor", "aten::linalg_ldl_factor", "aten::inverse",
      "aten::adaptive_avg_pool3d", // restrides its result in place
      "aten::adaptive_avg_pool2d", "aten::rms_norm"};
  return names.count(name);
}

bool pyjit::capture::isEmptyFactory(const std::string &name) {
  return name.rfind("aten::empty", 0) == 0 ||
         name.rfind("aten::new_empty", 0) == 0;
}

bool pyjit::capture::isFactory(const std::string &name) {
  std::string base = name.substr(0, name.find('.'));
  return name.rfind("aten::new_", 0) == 0 ||
         (base.size() > 5 && base.compare(base.size() - 5, 5, "_like") == 0);
}

bool pyjit::capture::isQuestion(const std::string &name) {
  static const std::set<std::string> names = {
      "aten::is_same_size",
      "aten::is_set_to",
      "aten::is_pinned",
      "aten::_fused_sdp_choice",
      "aten::_use_cudnn_ctc_loss",
      "aten::_use_cudnn_ctc_loss.Tensor",
      "aten::_use_miopen_ctc_loss",
      "aten::_use_miopen_ctc_loss.Tensor",
      "aten::_has_same_storage_numel"};
  return names.count(name);
}

bool pyjit::capture::isShapeKnown(const std::string &name) {
  static const std::set<std::string> foreign = {
      "torchvision::roi_align", "torchvision::roi_pool",
      "torchvision::ps_roi_align", "torchvision::ps_roi_pool",
      "torchvision::deform_conv2d"};
  return name.rfind("aten::", 0) == 0 || name.rfind("prims::", 0) == 0 ||
         name.rfind("mkldnn::", 0) == 0 || foreign.count(name);
}

bool pyjit::capture::isShapeChange(const std::string &name) {
  static const std::set<std::string> names = {
      "aten::squeeze_",   "aten::squeeze_.dim", "aten::squeeze_.dims",
      "aten::unsqueeze_", "aten::transpose_",   "aten::t_"};
  return names.count(name);
}

bool pyjit::capture::isTrainingBatchNorm(
    const std::string &name, const std::vector<c10::IValue> &inputs) {
  bool batchNorm = name == "aten::batch_norm" ||
                   name == "aten::native_batch_norm" ||
                   name == "aten::_batch_norm_impl_index" ||
                   name == "aten::cudnn_batch_norm";
  auto isGiven = [&](size_t i) {
    return inputs[i].isTensor() && inputs[i].toTensor().defined();
  };
  return batchNorm && inputs.size() > 5 && inputs[5].isBool() &&
         inputs[5].toBool() && (isGiven(3) || isGiven(4));
}

void pyjit::capture::asLeakyRelu(std::optional<c10::OperatorHandle> &handle,
                                 std::string &name,
                                 std::vector<c10::IValue> &inputs) {
  bool inplace = name == "aten::rrelu_with_noise_";
  if ((!inplace && name != "aten::rrelu_with_noise") || inputs.size() < 5 ||
      !inputs[4].isBool() || inputs[4].toBool() || !inputs[2].isScalar() ||
      !inputs[3].isScalar())
    return;
  double slope =
      (inputs[2].toScalar().toDouble() + inputs[3].toScalar().toDouble()) / 2;
  name = inplace ? "aten::leaky_relu_" : "aten::leaky_relu";
  inputs = {inputs[0], c10::IValue(slope)};
  handle = c10::Dispatcher::singleton().findSchema({name, ""});
}

bool pyjit::capture::fillEmpty(std::string &name,
                               const std::vector<c10::IValue> &inputs) {
  if (at::globalContext().deterministicAlgorithms())
    return false; // filled by eager
  if (name == "aten::new_empty") {
    name = "aten::new_zeros";
  } else if (name == "aten::empty_like") {
    name = "aten::zeros_like";
  } else if (name == "aten::empty.memory_format" && inputs.back().isNone()) {
    name = "aten::zeros";
    return true;
  }
  return false;
}
