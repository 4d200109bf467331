//===- AutogradNode.cpp - Backward programs in autograd's graph -----------===//

#include "pyjit-rt/AutogradNode.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
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
  if (tensor.sizes() != at::IntArrayRef(sizes) || tensor.scalar_type() != type)
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

/// Whether what is known of the one holds for the other.
static bool sameDims(std::optional<TorchExecutor::Dims> a,
                     std::optional<TorchExecutor::Dims> b) {
  return !a || !b ||
         (a->type == b->type && a->sizes == b->sizes &&
          sameStrides(a->sizes, a->strides, b->strides));
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

namespace {

/// Compares what a backward program is said to take and give with what it and
/// the main program say.
class Resolver {
public:
  Resolver(BackwardProgram &own, const TorchExecutor &main, std::string &error)
      : own(own), main(main), error(error) {}

  bool run() {
    if (own.arguments.size() != own.program->numInputs())
      return fail("takes " + std::to_string(own.program->numInputs()) +
                  " arguments, " + std::to_string(own.arguments.size()) +
                  " are known");
    if (own.gradients.size() != own.program->numOutputs())
      return fail("gives " + std::to_string(own.program->numOutputs()) +
                  " gradients, " + std::to_string(own.gradients.size()) +
                  " are known");
    if (own.reaches.size() != own.gradients.size() ||
        own.uses.size() != own.gradients.size())
      return fail("has other gradients than are said to depend on something");
    bool known = std::all_of(own.reads.begin(), own.reads.end(),
                             [&](BackwardProgram::Input input) {
                               return input.index < main.numInputs();
                             });
    if (!known || own.numResults > main.numOutputs() ||
        !within(own.gradients, main.numInputs()) ||
        !within(own.zeros, main.numInputs()) ||
        !within(own.differentiable, own.numResults))
      return fail("names what the main program does not take or give");
    for (uint32_t i = 0; i < own.arguments.size(); ++i)
      if (!resolve(i))
        return false;
    // Gradients of gradients begin with what the call was given.
    for (BackwardProgram::Input &input : own.reads)
      input.copied |= input.written && !input.taken;
    for (BackwardProgram::Input &input : own.reads)
      if (auto dims = main.inputDims(input.index))
        input.layout = TensorLayout{at::DimVector(dims->sizes),
                                    at::DimVector(dims->strides), dims->type};
    return true;
  }

private:
  using Source = BackwardProgram::Source;

  bool resolve(uint32_t number) {
    BackwardProgram::Argument &argument = own.arguments[number];
    bool isInput = argument.source == Source::Input;
    if (argument.index >= (isInput ? main.numInputs() : main.numOutputs()))
      return fail("takes what the main program does not take or give");
    if (isInput) {
      auto found = std::find_if(own.reads.begin(), own.reads.end(),
                                [&](const BackwardProgram::Input &input) {
                                  return input.index == argument.index;
                                });
      if (found == own.reads.end())
        return fail("takes an input that no gradient depends on");
      found->taken = true;
      argument.place = uint32_t(found - own.reads.begin());
    }
    if (argument.source == Source::Gradient) {
      auto found = std::find(own.differentiable.begin(),
                             own.differentiable.end(), argument.index);
      if (found == own.differentiable.end())
        return fail("takes the gradient of a result that has none");
      argument.place = uint32_t(found - own.differentiable.begin());
    }
    if (argument.source == Source::Result) {
      auto &list = argument.index < own.numResults ? own.shown : own.hidden;
      argument.place = uint32_t(list.size());
      list.push_back(argument.index);
    }
    return sameLayout(number, isInput ? main.inputDims(argument.index)
                                      : main.outputDims(argument.index));
  }

  bool sameLayout(uint32_t number, std::optional<TorchExecutor::Dims> known) {
    if (sameDims(own.program->inputDims(number), known))
      return true;
    return fail("takes argument " + std::to_string(number) +
                " in another layout than it has");
  }

  static bool within(const std::vector<uint32_t> &numbers, uint32_t count) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](uint32_t number) { return number < count; });
  }
  bool fail(const std::string &what) {
    error = "the backward program " + what;
    return false;
  }

  BackwardProgram &own;
  const TorchExecutor &main;
  std::string &error;
};

} // namespace

bool BackwardProgram::resolve(const TorchExecutor &main, std::string &error) {
  if (!Resolver(*this, main, error).run())
    return false;
  for (size_t k = 0; k < gradients.size(); ++k)
    if (std::find(reaches[k].begin(), reaches[k].end(), false) !=
        reaches[k].end())
      partlyReached.push_back(gradients[k]);
  return true;
}

bool BackwardProgram::isShownNothing(const at::Tensor *inputs) const {
  return std::any_of(
      partlyReached.begin(), partlyReached.end(), [&](uint32_t input) {
        const autograd::AutogradMeta *meta =
            autograd::impl::get_autograd_meta(inputs[input]);
        if (!meta)
          return false;
        std::shared_ptr<autograd::Node> next =
            meta->grad_fn_ ? meta->grad_fn_ : meta->grad_accumulator_.lock();
        return !meta->hooks_.empty() ||
               (next && (!next->pre_hooks().empty() ||
                         !next->tensor_pre_hooks().empty() ||
                         !next->post_hooks().empty()));
      });
}

size_t BackwardProgram::numGroups() const {
  auto last = std::max_element(groups.begin(), groups.end());
  return last == groups.end() ? 0 : *last + 1;
}

bool BackwardProgram::takesFrom(const TorchExecutor &main,
                                const TorchExecutor &other) const {
  if (other.numInputs() != main.numInputs() ||
      other.numOutputs() != main.numOutputs())
    return false;
  for (uint32_t i = 0; i < main.numOutputs(); ++i)
    if (!sameDims(main.outputDims(i), other.outputDims(i)) ||
        main.updatedInput(i) != other.updatedInput(i))
      return false;
  return true;
}

const DifferentiableBackward &BackwardProgram::getDifferentiable() const {
  std::lock_guard<std::mutex> guard(programsLock);
  if (!again) {
    std::string error;
    again = differentiate(error);
    TORCH_CHECK(again,
                "pyjit: a compiled call has no gradients of gradients "
                "(create_graph=True): ",
                error,
                "; call the function that was compiled instead of what "
                "pyjit.compile returned");
  }
  return *again;
}

/// Lets the arguments of a program for fewer results stand where this one's do.
bool BackwardProgram::adopt(BackwardProgram &other) const {
  for (Argument &argument : other.arguments) {
    auto known = std::find_if(
        arguments.begin(), arguments.end(), [&](const Argument &own) {
          return own.source == argument.source && own.index == argument.index;
        });
    if (known == arguments.end())
      return false;
    argument.place = known->place;
  }
  return true;
}

const BackwardProgram &
BackwardProgram::getFor(const std::vector<bool> &defined) const {
  if (!drop ||
      std::find(defined.begin(), defined.end(), false) == defined.end())
    return *this;
  std::lock_guard<std::mutex> guard(programsLock);
  auto [known, isNew] = partial.try_emplace(defined);
  if (isNew) {
    std::vector<uint32_t> results;
    for (size_t k = 0; k < defined.size(); ++k)
      if (!defined[k])
        results.push_back(differentiable[k]);
    known->second = drop(results);
    if (known->second && !adopt(*known->second))
      known->second.reset();
  }
  return known->second ? *known->second : *this;
}

/// Autograd gives a leaf another accumulator when its data become those of
/// another type or device. Compares without counting an owner.
static bool isAccumulatorOf(const at::Tensor &leaf,
                            const std::shared_ptr<autograd::Node> &node) {
  const auto &own = autograd::impl::get_autograd_meta(leaf)->grad_accumulator_;
  return !own.owner_before(node) && !node.owner_before(own);
}

autograd::edge_list BackwardProgram::edges(const at::Tensor *inputs) const {
  autograd::edge_list made;
  made.reserve(gradients.size() + zeros.size());
  std::lock_guard<std::mutex> guard(accumulatorsLock);
  accumulators.resize(parameters.size());
  for (size_t k = 0; k < gradients.size(); ++k) {
    const at::Tensor &input = inputs[gradients[k]];
    if (k >= parameters.size() || !parameters[k] || !input.is_leaf()) {
      made.push_back(autograd::impl::gradient_edge(input));
      continue;
    }
    Accumulator &known = accumulators[k];
    if (known.parameter != input.unsafeGetTensorImpl() ||
        !isAccumulatorOf(input, known.node))
      known = {input.unsafeGetTensorImpl(),
               autograd::impl::gradient_edge(input).function};
    made.emplace_back(known.node, 0);
  }
  for (uint32_t input : zeros)
    made.push_back(autograd::impl::gradient_edge(inputs[input]));
  return made;
}

//===----------------------------------------------------------------------===//
// The node of a call
//===----------------------------------------------------------------------===//

std::shared_ptr<CompiledBackward>
CompiledBackward::create(std::shared_ptr<const BackwardProgram> program,
                         const at::Tensor *inputs,
                         std::shared_ptr<const Generators> drawn) {
  // The deleter takes long chains of nodes apart without recursion.
  std::shared_ptr<CompiledBackward> node(
      new CompiledBackward(std::move(program)), autograd::deleteNode);
  node->drawn = std::move(drawn);
  const BackwardProgram &own = *node->program;
  node->set_next_edges(own.edges(inputs));
  node->inputs.reserve(own.reads.size());
  for (const BackwardProgram::Input &input : own.reads) {
    const at::Tensor &tensor = inputs[input.index];
    node->keeps |= input.taken;
    node->inputs.push_back(
        {input.copied ? tensor.clone() : tensor,
         input.copied ? 0 : uint32_t(tensor._version()), tensor.device(),
         input.layout
             ? nullptr
             : std::make_unique<TensorLayout>(TensorLayout::of(tensor))});
  }
  node->enlist();
  return node;
}

/// Tensors know their nodes and not the other way round, so the list is process
/// state.
CompiledBackward::Alive &CompiledBackward::alive() {
  static Alive *all = new Alive; // outlives the interpreter
  return *all;
}

void CompiledBackward::enlist() {
  std::lock_guard<std::mutex> guard(alive().lock);
  behind = alive().first;
  if (behind)
    behind->before = this;
  alive().first = this;
}

CompiledBackward::~CompiledBackward() {
  std::lock_guard<std::mutex> guard(alive().lock);
  if (behind)
    behind->before = before;
  if (before)
    before->behind = behind;
  else if (alive().first == this)
    alive().first = behind;
}

void CompiledBackward::countSaved(
    std::unordered_map<const c10::TensorImpl *, size_t> &references) {
  std::lock_guard<std::mutex> guard(alive().lock);
  for (CompiledBackward *node = alive().first; node; node = node->behind) {
    // A node that is running may wait for the caller's interpreter lock.
    std::unique_lock<std::mutex> lock(node->mutex_, std::try_to_lock);
    if (!lock)
      continue;
    for (const SavedInput &input : node->inputs)
      if (auto known = references.find(input.tensor.unsafeGetTensorImpl());
          known != references.end())
        ++known->second;
  }
}

void CompiledBackward::connect(const std::vector<at::Tensor> &results,
                               const std::vector<bool> *which) {
  for (size_t k = 0; k < program->differentiable.size(); ++k) {
    const at::Tensor &result = results[program->differentiable[k]];
    layouts.push_back(TensorLayout::ofGradient(result));
    if (!which || (*which)[k])
      autograd::set_history(result, shared_from_this());
    else
      add_input_metadata(autograd::Node::undefined_input());
  }
}

void CompiledBackward::save(const std::vector<at::Tensor> &results,
                            SavedValues left) {
  block = std::move(left);
  for (uint32_t number : program->shown)
    shown.push_back(
        {autograd::SavedVariable(results[number], /*is_output=*/true),
         TensorLayout::of(results[number])});
  for (size_t k = 0; k < program->hidden.size(); ++k)
    if (uint32_t number = program->hidden[k]; !block.has(number)) {
      hidden.resize(program->hidden.size());
      hidden[k] = results[number];
    }
  keeps |= !shown.empty() || !program->hidden.empty();
}

void CompiledBackward::release_variables() {
  std::lock_guard<std::mutex> lock(mutex_);
  released.resize(program->numGroups());
  for (size_t group = 0; group < released.size(); ++group)
    released[group] = released[group] || visited.empty() || visited[group];
  if (std::find(released.begin(), released.end(), false) != released.end())
    return;
  for (SavedInput &input : inputs)
    input.tensor.reset();
  for (SavedResult &result : shown)
    result.variable.reset_data();
  hidden.clear();
  block.reset();
}

void CompiledBackward::checkNotReleased(bool needed) const {
  for (size_t group = 0; group < released.size(); ++group)
    TORCH_CHECK(!needed || !released[group] || !visited[group],
                autograd::ERR_BACKWARD_TWICE);
}

std::vector<bool> CompiledBackward::groupsOf(const Gradients &incoming) const {
  std::vector<bool> found(program->numGroups());
  for (size_t i = 0; i < incoming.size(); ++i)
    if (incoming[i].defined())
      found[program->groups[i]] = true;
  return found;
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
  const SavedInput &input = inputs[place];
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
  if (layout.fits(plain) && plain.device() == layout.device)
    return plain;
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

/// The arguments of a backward program.
std::vector<at::Tensor> CompiledBackward::collect(const BackwardProgram &chosen,
                                                  const Gradients &incoming) {
  std::lock_guard<std::mutex> lock(mutex_);
  checkNotReleased(keeps);
  std::vector<at::Tensor> arguments;
  arguments.reserve(chosen.arguments.size());
  for (const BackwardProgram::Argument &argument : chosen.arguments) {
    switch (argument.source) {
    case BackwardProgram::Source::Input:
      arguments.push_back(unpack(argument.place));
      break;
    case BackwardProgram::Source::Result:
      arguments.push_back(
          argument.index < program->numResults ? unpack(shown[argument.place])
          : block.has(argument.index)          ? block.show(argument.index)
                                               : hidden[argument.place]);
      break;
    case BackwardProgram::Source::Gradient:
      arguments.push_back(
          laidOut(incoming[argument.place], layouts[argument.place]));
      break;
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
  checkNotReleased(!inputs.empty());
  std::vector<at::Tensor> tensors;
  tensors.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
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
  auto node = create(again.backward, arguments.data(), drawn);
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
  node->connect(results, &needed);
  node->save(results, std::move(block));
  results.resize(own.gradients.size());
  return results;
}

autograd::variable_list
CompiledBackward::apply(autograd::variable_list &&gradients) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    visited = groupsOf(gradients);
  }
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
