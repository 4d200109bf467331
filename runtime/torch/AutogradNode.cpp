//===- AutogradNode.cpp - Backward programs in autograd's graph -----------===//

#include "pyjit-rt/AutogradNode.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>

using namespace pyjit::rt;
namespace autograd = torch::autograd;

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

TensorLayout TensorLayout::of(const at::Tensor &tensor) {
  return {at::DimVector(tensor.sizes()), at::DimVector(tensor.strides()),
          tensor.scalar_type(), tensor.device()};
}

/// As the compiler has it: that of the tensor, or row-major where the tensor
/// has gaps.
TensorLayout TensorLayout::ofGradient(const at::Tensor &tensor) {
  TensorLayout layout = of(tensor);
  if (tensor.is_non_overlapping_and_dense())
    return layout;
  int64_t stride = 1;
  for (int64_t i = tensor.dim(); i-- > 0;) {
    layout.strides[i] = stride;
    stride *= std::max<int64_t>(1, layout.sizes[i]);
  }
  return layout;
}

/// Whether strides show the same elements: those of dimensions of one show
/// nothing.
static bool sameStrides(at::IntArrayRef sizes, at::IntArrayRef a,
                        at::IntArrayRef b) {
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1 && a[i] != b[i])
      return false;
  return true;
}

bool TensorLayout::fits(const at::Tensor &tensor) const {
  if (tensor.sizes() != at::IntArrayRef(sizes) ||
      tensor.scalar_type() != type || tensor.device() != device)
    return false;
  return tensor.numel() == 0 || sameStrides(sizes, tensor.strides(), strides);
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

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

size_t BackwardProgram::placeOf(uint32_t result) const {
  return std::find(differentiable.begin(), differentiable.end(), result) -
         differentiable.begin();
}

bool BackwardProgram::validate(const TorchExecutor &main,
                               std::string &error) const {
  auto fail = [&](const std::string &what) {
    error = "the backward program " + what;
    return false;
  };
  if (arguments.size() != program->numInputs())
    return fail("takes " + std::to_string(program->numInputs()) +
                " arguments, " + std::to_string(arguments.size()) +
                " are known");
  if (gradients.size() != program->numOutputs())
    return fail("gives " + std::to_string(program->numOutputs()) +
                " gradients, " + std::to_string(gradients.size()) +
                " are known");
  auto within = [](const std::vector<uint32_t> &numbers, uint32_t count) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](uint32_t number) { return number < count; });
  };
  if (!reaches.empty() && reaches.size() != gradients.size())
    return fail("has other gradients than are said to depend on results");
  if (numResults > main.numOutputs() || !within(gradients, main.numInputs()) ||
      !within(differentiable, numResults))
    return fail("names what the main program does not take or give");
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    const Argument &argument = arguments[i];
    bool input = argument.source == Source::Input;
    if (argument.index >= (input ? main.numInputs() : main.numOutputs()))
      return fail("takes what the main program does not take or give");
    if (argument.source == Source::Gradient &&
        placeOf(argument.index) == differentiable.size())
      return fail("takes the gradient of a result that has none");
    auto wanted = program->inputDims(i),
         known = input ? main.inputDims(argument.index)
                       : main.outputDims(argument.index);
    if (wanted && known &&
        (wanted->type != known->type || wanted->sizes != known->sizes ||
         !sameStrides(wanted->sizes, wanted->strides, known->strides)))
      return fail("takes argument " + std::to_string(i) +
                  " in another layout than it has");
  }
  return true;
}

//===----------------------------------------------------------------------===//
// The node of a call
//===----------------------------------------------------------------------===//

std::shared_ptr<CompiledBackward>
CompiledBackward::create(std::shared_ptr<const BackwardProgram> program,
                         const at::Tensor *inputs) {
  // The deleter takes long chains of nodes apart without recursion.
  std::shared_ptr<CompiledBackward> node(
      new CompiledBackward(std::move(program)), autograd::deleteNode);
  const BackwardProgram &own = *node->program;
  autograd::edge_list edges;
  edges.reserve(own.gradients.size());
  for (uint32_t input : own.gradients)
    edges.push_back(autograd::impl::gradient_edge(inputs[input]));
  node->set_next_edges(std::move(edges));
  for (size_t i = 0; i < own.arguments.size(); ++i) {
    const BackwardProgram::Argument &argument = own.arguments[i];
    node->keeps |= argument.source != BackwardProgram::Source::Gradient;
    if (argument.source != BackwardProgram::Source::Input)
      continue;
    if (argument.copied)
      node->saved[i].value = inputs[argument.index].clone();
    else
      node->keep(node->saved[i], inputs[argument.index], /*isOutput=*/false);
  }
  return node;
}

void CompiledBackward::keep(Saved &place, const at::Tensor &tensor,
                            bool isOutput) {
  place.variable = autograd::SavedVariable(tensor, isOutput);
  place.layout = TensorLayout::of(tensor);
}

void CompiledBackward::connect(const std::vector<at::Tensor> &results) {
  for (uint32_t number : program->differentiable) {
    autograd::set_history(results[number], shared_from_this());
    layouts.push_back(TensorLayout::ofGradient(results[number]));
  }
}

void CompiledBackward::save(const std::vector<at::Tensor> &results) {
  for (size_t i = 0; i < saved.size(); ++i) {
    const BackwardProgram::Argument &argument = program->arguments[i];
    if (argument.source != BackwardProgram::Source::Result)
      continue;
    if (argument.index < program->numResults)
      keep(saved[i], results[argument.index], /*isOutput=*/true);
    else
      saved[i].value = results[argument.index];
  }
}

void CompiledBackward::release_variables() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Saved &place : saved) {
    place.variable.reset_data();
    place.value.reset();
  }
  released = true;
}

/// Raises what eager raises for a tensor that was written meanwhile. One that
/// became another tensor (`x.data = y`) has to be one that the program can
/// read.
at::Tensor CompiledBackward::unpack(const Saved &place) {
  if (place.value.defined())
    return place.value;
  at::Tensor tensor = place.variable.unpack(shared_from_this());
  TORCH_CHECK(place.layout.fits(tensor) && hasMemory(tensor) &&
                  tensor.storage().nbytes() >=
                      at::detail::computeStorageNbytes(
                          tensor.sizes(), tensor.strides(),
                          tensor.dtype().itemsize(), tensor.storage_offset()),
              "pyjit: a tensor that a compiled call saved for its backward has "
              "other sizes, strides or memory than it had then: ",
              tensor.toString(), " of sizes ", tensor.sizes());
  return tensor;
}

/// An incoming gradient, laid out as the program takes it; zeros where nobody
/// asked for the result's.
static at::Tensor laidOut(const at::Tensor &gradient,
                          const TensorLayout &layout) {
  auto options = at::TensorOptions().dtype(layout.type).device(layout.device);
  if (!gradient.defined())
    return at::empty_strided(layout.sizes, layout.strides, options).zero_();
  at::Tensor plain = gradient;
  if (plain.layout() != at::kStrided)
    plain = plain.to_dense();
  plain = plain.resolve_conj().resolve_neg();
  if (plain._is_zerotensor())
    return at::empty_strided(layout.sizes, layout.strides, options).zero_();
  TORCH_CHECK(hasMemory(plain),
              "pyjit: the gradient of a compiled call's result is a ",
              plain.toString(),
              ", a kind of tensor that a compiled backward "
              "cannot read; call the function that was compiled instead");
  TORCH_CHECK(plain.sizes() == at::IntArrayRef(layout.sizes),
              "pyjit: the gradient of a compiled call's result has sizes ",
              plain.sizes(), ", the result ", at::IntArrayRef(layout.sizes));
  if (layout.fits(plain))
    return plain;
  at::Tensor own = at::empty_strided(layout.sizes, layout.strides, options);
  own.copy_(plain);
  return own;
}

std::vector<at::Tensor>
CompiledBackward::collect(const autograd::variable_list &gradients) {
  std::vector<at::Tensor> arguments;
  arguments.reserve(saved.size());
  for (size_t i = 0; i < saved.size(); ++i) {
    const BackwardProgram::Argument &argument = program->arguments[i];
    arguments.push_back(argument.source == BackwardProgram::Source::Gradient
                            ? gradients[program->placeOf(argument.index)]
                            : unpack(saved[i]));
  }
  return arguments;
}

void CompiledBackward::layOut(std::vector<at::Tensor> &arguments) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const BackwardProgram::Argument &argument = program->arguments[i];
    if (argument.source == BackwardProgram::Source::Gradient)
      arguments[i] =
          laidOut(arguments[i], layouts[program->placeOf(argument.index)]);
  }
}

/// What the program gives has no history. Where an argument has one, eager's
/// gradients do; saved results were computed from inputs that require grad.
void CompiledBackward::checkDoubleBackward(
    const std::vector<at::Tensor> &arguments) const {
  if (!c10::GradMode::is_enabled())
    return;
  bool history = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const at::Tensor &argument = arguments[i];
    bool computed =
        program->arguments[i].source == BackwardProgram::Source::Result;
    history |=
        argument.defined() && (argument.requires_grad() ||
                               (computed && argument.is_floating_point()));
  }
  TORCH_CHECK(!history,
              "pyjit: gradients of gradients (create_graph=True) of a compiled "
              "call are not supported; call the function that was compiled "
              "instead of what pyjit.compile returned");
}

/// Whether some gradient that came in is one that it depends on.
bool CompiledBackward::isReached(
    size_t gradient, const autograd::variable_list &incoming) const {
  for (size_t i = 0; i < incoming.size(); ++i)
    if (incoming[i].defined() &&
        (program->reaches.empty() || program->reaches[gradient][i]))
      return true;
  return false;
}

autograd::variable_list
CompiledBackward::apply(autograd::variable_list &&gradients) {
  const BackwardProgram &own = *program;
  autograd::variable_list results(own.gradients.size());
  std::vector<bool> reached(results.size());
  for (size_t i = 0; i < results.size(); ++i)
    reached[i] = isReached(i, gradients);
  if (std::find(reached.begin(), reached.end(), true) == reached.end())
    return results;
  std::vector<at::Tensor> arguments;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(!released || !keeps, autograd::ERR_BACKWARD_TWICE);
    arguments = collect(gradients);
  }
  checkDoubleBackward(arguments);
  c10::AutoGradMode noGrad(false);
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  layOut(arguments);
  TORCH_CHECK(
      own.program->run(arguments.data(), /*cached=*/nullptr, results.data()),
      "pyjit: ", kUnanswered);
  for (size_t i = 0; i < results.size(); ++i)
    if (!reached[i])
      results[i].reset();
  return results;
}
