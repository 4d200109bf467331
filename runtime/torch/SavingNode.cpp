//===- SavingNode.cpp - What a call keeps for its backward ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/AutogradNode.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/anomaly_mode.h>

using namespace pyjit::rt;
namespace autograd = torch::autograd;

void SavingNode::release() {
  std::lock_guard<std::mutex> lock(mutex_);
  call.reset();
  released = true;
}

void SavingNode::checkNotReleased(bool needed) const {
  TORCH_CHECK(!released || !needed, autograd::ERR_BACKWARD_TWICE);
}

/// Not a wrapper around other tensors, whose memory is somewhere else.
static bool hasMemory(const at::Tensor &tensor) {
  constexpr c10::DispatchKeySet kWrappers(
      {c10::DispatchKey::Python, c10::DispatchKey::FuncTorchBatched,
       c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Functionalize,
       c10::DispatchKey::ZeroTensor, c10::DispatchKey::Conjugate,
       c10::DispatchKey::Negative});
  return tensor.layout() == at::kStrided && tensor.has_storage() &&
         !tensor.key_set().has_any(kWrappers);
}

/// One that became another tensor (`x.data = y`) has to be one that the program
/// can read.
static void checkReadable(const at::Tensor &tensor, const TensorLayout &layout,
                          c10::Device device) {
  TORCH_CHECK(
      layout.fits(tensor) && tensor.device() == device && hasMemory(tensor) &&
          tensor.storage().nbytes() >=
              at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(),
                                               tensor.dtype().itemsize(),
                                               tensor.storage_offset()),
      "pyjit: a tensor that a compiled call saved for its backward has "
      "other sizes, strides or memory than it had then: ",
      tensor.toString(), " of sizes ", tensor.sizes());
}

/// Raises what eager's SavedVariable raises for a tensor that was written
/// meanwhile.
void SavingNode::checkVersion(const SavedInputs::Input &input) const {
  int64_t version = input.tensor._version();
  if (version == input.version)
    return;
  std::shared_ptr<autograd::Node> made = input.tensor.grad_fn();
  TORCH_CHECK(
      false,
      "one of the variables needed for gradient computation has been "
      "modified by an inplace operation: [",
      input.tensor.toString(), " ", input.tensor.sizes(), "]",
      made ? c10::str(", which is output ", input.tensor.output_nr(), " of ",
                      made->name(), ",")
           : "",
      " is at version ", version, "; expected version ", input.version,
      " instead. Hint: ",
      autograd::AnomalyMode::is_enabled()
          ? "the backtrace further above shows the operation that failed to "
            "compute its gradient. The variable in question was changed in "
            "there or anywhere later. Good luck!"
          : "enable anomaly detection to find the operation that failed to "
            "compute its gradient, with torch.autograd.set_detect_anomaly("
            "True, check_nan=False).");
}

at::Tensor SavingNode::unpack(size_t place) const {
  const SavedInputs::Input &input = (*call->inputs)[place];
  const BackwardProgram::Input &known = program->reads[place];
  if (known.copied)
    return input.tensor;
  checkVersion(input);
  checkReadable(input.tensor, known.layout ? *known.layout : *input.layout,
                input.device);
  return input.tensor;
}

/// What a view of the input shows that was made in the call.
at::Tensor SavingNode::unpackSeen(size_t place) const {
  const SavedInputs::Input &input = (*call->inputs)[place];
  const BackwardProgram::Input &known = program->reads[place];
  const at::Tensor &now = input.tensor;
  if (!input.memory ||
      (now.has_storage() && now.storage().is_alias_of(input.memory) &&
       now.storage_offset() == input.offset))
    return unpack(place);
  checkVersion(input);
  const TensorLayout &layout = known.layout ? *known.layout : *input.layout;
  auto options = at::TensorOptions().dtype(layout.type).device(input.device);
  at::Tensor then = at::empty({0}, options);
  return then.set_(input.memory, input.offset, layout.sizes, layout.strides);
}

at::Tensor SavingNode::unpack(const SavedCall::Result &saved) {
  at::Tensor tensor = saved.variable.unpack(shared_from_this());
  checkReadable(tensor, saved.layout, saved.layout.device);
  return tensor;
}

static at::Tensor zerosOf(const TensorLayout &layout) {
  auto options = at::TensorOptions().dtype(layout.type).device(layout.device);
  return at::empty_strided(layout.sizes, layout.strides, options).zero_();
}

/// An incoming gradient, laid out as the program takes it; zeros where nobody
/// asked for the result's.
static at::Tensor laidOut(const at::Tensor &gradient,
                          const TensorLayout &layout) {
  if (!gradient.defined())
    return zerosOf(layout);
  at::Tensor plain = gradient;
  if (plain.layout() != at::kStrided)
    plain = plain.to_dense();
  plain = plain.resolve_conj().resolve_neg();
  if (plain._is_zerotensor())
    return zerosOf(layout);
  TORCH_CHECK(hasMemory(plain),
              "pyjit: the gradient of a compiled call's result is a ",
              plain.toString(),
              ", a kind of tensor that a compiled backward "
              "cannot read; call the function that was compiled instead");
  TORCH_CHECK(plain.sizes() == at::IntArrayRef(layout.sizes),
              "pyjit: the gradient of a compiled call's result has sizes ",
              plain.sizes(), ", the result ", at::IntArrayRef(layout.sizes));
  if (layout.fits(plain) && plain.device() == layout.device)
    return plain;
  auto options = at::TensorOptions().dtype(layout.type).device(layout.device);
  at::Tensor own = at::empty_strided(layout.sizes, layout.strides, options);
  own.copy_(plain);
  return own;
}

at::Tensor SavingNode::layOut(const at::Tensor &gradient, size_t place) const {
  return laidOut(gradient, (*layouts)[place]);
}

/// An argument that is saved; it may have been written meanwhile.
at::Tensor SavingNode::show(const BackwardProgram::Argument &argument) {
  if (argument.source == BackwardProgram::Source::Input)
    return unpack(argument.place);
  if (argument.source == BackwardProgram::Source::Seen)
    return unpackSeen(argument.place);
  if (argument.index < program->numResults)
    return unpack(call->shown[argument.place]);
  return call->block.has(argument.index) ? call->block.show(argument.index)
                                         : call->hidden[argument.place];
}

/// In place of a saved argument that cannot be shown.
at::Tensor
SavingNode::zerosFor(const BackwardProgram::Argument &argument) const {
  if (argument.source == BackwardProgram::Source::Result)
    return zerosOf(call->shown[argument.place].layout);
  const SavedInputs::Input &input = (*call->inputs)[argument.place];
  const auto &known = program->reads[argument.place].layout;
  TensorLayout layout = known ? *known : *input.layout;
  layout.device = input.device;
  return zerosOf(layout);
}

std::vector<at::Tensor>
SavingNode::collect(const BackwardProgram &chosen, const Gradients &incoming,
                    bool keeps,
                    const std::function<std::vector<bool>()> &wanted) {
  std::lock_guard<std::mutex> lock(mutex_);
  checkNotReleased(keeps);
  std::vector<bool> needed; // asked for where an argument has been written
  std::vector<at::Tensor> arguments;
  arguments.reserve(chosen.arguments.size());
  for (const BackwardProgram::Argument &argument : chosen.arguments) {
    if (argument.source == BackwardProgram::Source::Gradient) {
      arguments.push_back(layOut(incoming[argument.place], argument.place));
      continue;
    }
    checkNotReleased(/*needed=*/true);
    try {
      arguments.push_back(show(argument));
    } catch (const c10::Error &) {
      if (needed.empty())
        needed = chosen.findNeeded(wanted());
      if (needed[arguments.size()])
        throw;
      arguments.push_back(zerosFor(argument));
    }
  }
  return arguments;
}
