//===- AutogradNode.cpp - Backward programs in autograd's graph -----------===//

#include "pyjit-rt/AutogradNode.h"

#include "WrappedGradients.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>

using namespace pyjit::rt;
namespace autograd = torch::autograd;

BackwardNodes
BackwardNodes::create(const std::shared_ptr<const BackwardProgram> &program,
                      const at::Tensor *inputs,
                      const std::shared_ptr<const Generators> &drawn) {
  BackwardNodes made;
  auto saved = std::make_shared<const SavedInputs>(*program, inputs);
  for (uint32_t group = 0; group < program->numGroups(); ++group) {
    // The deleter takes long chains of nodes apart without recursion.
    std::shared_ptr<CompiledBackward> node(new CompiledBackward(program, group),
                                           autograd::deleteNode);
    node->drawn = drawn;
    node->inputs = saved;
    node->set_next_edges(program->edges(inputs, group));
    for (const BackwardProgram::Input &input : program->reads)
      node->keeps |= input.taken;
    made.nodes.push_back(std::move(node));
  }
  return made;
}

void BackwardNodes::connect(const std::vector<at::Tensor> &results,
                            const std::vector<bool> *which) {
  for (const std::shared_ptr<CompiledBackward> &node : nodes)
    node->connect(results, which);
}

void BackwardNodes::save(const std::vector<at::Tensor> &results,
                         const SavedValues &block) {
  for (const std::shared_ptr<CompiledBackward> &node : nodes)
    node->save(results, block);
}

void CompiledBackward::connect(const std::vector<at::Tensor> &results,
                               const std::vector<bool> *which) {
  for (size_t k = 0; k < program->differentiable.size(); ++k) {
    const at::Tensor &result = results[program->differentiable[k]];
    layouts.push_back(TensorLayout::ofGradient(result));
    if (program->groups[k] == group && (!which || (*which)[k]))
      autograd::set_history(result, shared_from_this());
    else
      add_input_metadata(autograd::Node::undefined_input());
  }
}

void CompiledBackward::save(const std::vector<at::Tensor> &results,
                            const SavedValues &left) {
  block = left;
  for (uint32_t number : program->shown) {
    const at::Tensor &result = results[number];
    std::shared_ptr<autograd::Node> made = result.grad_fn();
    bool isOwn = !made || made.get() == this;
    shown.push_back({autograd::SavedVariable(result, /*is_output=*/isOwn),
                     TensorLayout::of(result)});
  }
  for (size_t k = 0; k < program->hidden.size(); ++k)
    if (uint32_t number = program->hidden[k]; !block.has(number)) {
      hidden.resize(program->hidden.size());
      hidden[k] = results[number];
    }
  keeps |= !shown.empty() || !program->hidden.empty();
}

void CompiledBackward::release_variables() {
  std::lock_guard<std::mutex> lock(mutex_);
  inputs.reset();
  for (SavedResult &result : shown)
    result.variable.reset_data();
  hidden.clear();
  block.reset();
  released = true;
}

void CompiledBackward::checkNotReleased(bool needed) const {
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
at::Tensor CompiledBackward::unpack(size_t place) const {
  const SavedInputs::Input &input = (*inputs)[place];
  const BackwardProgram::Input &known = program->reads[place];
  if (known.copied)
    return input.tensor;
  int64_t version = input.tensor._version();
  if (version != input.version) {
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
  checkReadable(input.tensor, known.layout ? *known.layout : *input.layout,
                input.device);
  return input.tensor;
}

at::Tensor CompiledBackward::unpack(const SavedResult &saved) {
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

/// Whether some gradient that came in is one that it depends on.
bool CompiledBackward::isReached(size_t gradient,
                                 const Gradients &incoming) const {
  for (size_t i = 0; i < incoming.size(); ++i)
    if (incoming[i].defined() && program->reaches[gradient][i])
      return true;
  return false;
}

/// Which arguments the gradients that the engine wants are computed from:
/// `backward(inputs=...)` does not want all, and eager looks at nothing that
/// the others have saved.
std::vector<bool>
CompiledBackward::findNeeded(const BackwardProgram &chosen) const {
  std::vector<bool> needed(chosen.arguments.size());
  for (size_t i = 0; i < chosen.gradients.size(); ++i) {
    auto own = std::find(program->gradients.begin(), program->gradients.end(),
                         chosen.gradients[i]);
    if (!task_should_compute_output(size_t(own - program->gradients.begin())))
      continue;
    for (size_t k = 0; k < needed.size(); ++k)
      needed[k] = needed[k] || chosen.needs[i][k];
  }
  return needed;
}

/// An argument that is saved; it may have been written meanwhile.
at::Tensor CompiledBackward::show(const BackwardProgram::Argument &argument) {
  if (argument.source == BackwardProgram::Source::Input)
    return unpack(argument.place);
  if (argument.index < program->numResults)
    return unpack(shown[argument.place]);
  return block.has(argument.index) ? block.show(argument.index)
                                   : hidden[argument.place];
}

/// In place of a saved argument that cannot be shown.
at::Tensor
CompiledBackward::zerosFor(const BackwardProgram::Argument &argument) const {
  if (argument.source == BackwardProgram::Source::Result)
    return zerosOf(shown[argument.place].layout);
  const SavedInputs::Input &input = (*inputs)[argument.place];
  const auto &known = program->reads[argument.place].layout;
  TensorLayout layout = known ? *known : *input.layout;
  layout.device = input.device;
  return zerosOf(layout);
}

/// The arguments of a backward program.
std::vector<at::Tensor> CompiledBackward::collect(const BackwardProgram &chosen,
                                                  const Gradients &incoming) {
  std::lock_guard<std::mutex> lock(mutex_);
  checkNotReleased(keeps);
  std::vector<bool> needed; // asked for where an argument has been written
  std::vector<at::Tensor> arguments;
  arguments.reserve(chosen.arguments.size());
  for (const BackwardProgram::Argument &argument : chosen.arguments) {
    if (argument.source == BackwardProgram::Source::Gradient) {
      arguments.push_back(
          laidOut(incoming[argument.place], layouts[argument.place]));
      continue;
    }
    try {
      arguments.push_back(show(argument));
    } catch (const c10::Error &) {
      if (needed.empty())
        needed = findNeeded(chosen);
      if (needed[arguments.size()])
        throw;
      arguments.push_back(zerosFor(argument));
    }
  }
  return arguments;
}

autograd::variable_list CompiledBackward::run(const Gradients &incoming) {
  std::vector<bool> defined;
  for (const at::Tensor &gradient : incoming)
    defined.push_back(gradient.defined());
  const BackwardProgram &chosen = program->getFor(defined);
  c10::AutoGradMode noGrad(false);
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  std::vector<at::Tensor> arguments = collect(chosen, incoming);
  Gradients given(chosen.gradients.size());
  TORCH_CHECK(chosen.program->run(arguments.data(), nullptr, given.data()),
              "pyjit: ", kUnanswered);
  if (&chosen == program.get())
    return given;
  // An input is in the list once.
  Gradients results(program->gradients.size());
  for (size_t i = 0; i < given.size(); ++i)
    for (size_t k = 0; k < results.size(); ++k)
      if (program->gradients[k] == chosen.gradients[i])
        results[k] = std::move(given[i]);
  return results;
}

//===----------------------------------------------------------------------===//
// Gradients of gradients
//===----------------------------------------------------------------------===//

/// By place in `reads`.
std::vector<at::Tensor> CompiledBackward::collectInputs() {
  std::lock_guard<std::mutex> lock(mutex_);
  size_t count = program->reads.size();
  checkNotReleased(count != 0);
  std::vector<at::Tensor> tensors;
  tensors.reserve(count);
  for (size_t i = 0; i < count; ++i)
    tensors.push_back(unpack(i));
  return tensors;
}

/// By another program than the first time, from the inputs of the call: saved
/// results have no history.
autograd::variable_list
CompiledBackward::runDifferentiably(const Gradients &incoming) {
  const BackwardProgram &own = *program;
  std::vector<at::Tensor> known = collectInputs(), gradients;
  for (size_t i = 0; i < incoming.size(); ++i)
    gradients.push_back(laidOut(incoming[i], layouts[i]));
  std::vector<bool> needed(own.gradients.size());
  for (size_t k = 0; k < needed.size(); ++k) {
    for (size_t i = 0; i < known.size(); ++i)
      needed[k] = needed[k] || (own.uses[k][i] && known[i].requires_grad());
    for (size_t i = 0; i < gradients.size(); ++i)
      needed[k] =
          needed[k] || (own.reaches[k][i] && gradients[i].requires_grad());
  }
  if (std::find(needed.begin(), needed.end(), true) == needed.end())
    return run(incoming);

  const DifferentiableBackward &again = own.getDifferentiable();
  std::vector<at::Tensor> arguments(again.program->numInputs());
  for (size_t i = 0; i < known.size(); ++i)
    arguments[own.reads[i].index] = std::move(known[i]);
  std::move(gradients.begin(), gradients.end(),
            arguments.end() - ptrdiff_t(gradients.size()));
  BackwardNodes nodes =
      BackwardNodes::create(again.backward, arguments.data(), drawn);
  Gradients results(again.program->numOutputs());
  SavedValues block;
  {
    c10::AutoGradMode noGrad(false);
    at::AutoDispatchBelowADInplaceOrView belowAutograd;
    TorchExecutor &run = *again.program;
    bool answered =
        drawn ? run.runAgain(*drawn, arguments.data(), results.data(), &block)
              : run.run(arguments.data(), nullptr, results.data(), &block);
    TORCH_CHECK(answered, "pyjit: ", kUnanswered);
  }
  nodes.connect(results, &needed);
  nodes.save(results, block);
  results.resize(own.gradients.size());
  return results;
}

autograd::variable_list
CompiledBackward::apply(autograd::variable_list &&gradients) {
  if (areWrapped(gradients))
    return runUnwrapped(
        gradients, [&](Gradients &&plain) { return apply(std::move(plain)); });
  std::vector<bool> reached(program->gradients.size());
  for (size_t i = 0; i < reached.size(); ++i)
    reached[i] = isReached(i, gradients);
  Gradients results(reached.size());
  if (std::find(reached.begin(), reached.end(), true) != reached.end())
    results = c10::GradMode::is_enabled() ? runDifferentiably(gradients)
                                          : run(gradients);
  for (size_t i = 0; i < reached.size(); ++i)
    if (!reached[i])
      results[i].reset();
  for (size_t i = reached.size(); i < num_outputs(); ++i) {
    const autograd::Edge &edge = next_edge(i);
    results.push_back(
        edge.is_valid()
            ? edge.function->input_metadata(edge.input_nr).zeros_like()
            : at::Tensor());
  }
  return results;
}
