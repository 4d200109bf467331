//===- BackwardProgram.cpp - What computes a call's gradients -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/BackwardProgram.h"

#include "pyjit-rt/Hooks.h"

#include <torch/csrc/autograd/functions/basic_ops.h>
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
        own.uses.size() != own.gradients.size() ||
        own.needs.size() != own.gradients.size())
      return fail("has other gradients than are said to depend on something");
    bool known = std::all_of(own.reads.begin(), own.reads.end(),
                             [&](BackwardProgram::Input input) {
                               return input.index < main.numInputs();
                             });
    if (!known || own.numResults > main.numOutputs() ||
        !within(own.gradients, main.numInputs()) ||
        !within(own.zeros, main.numInputs()) || !isDifferentiableKnown())
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
    bool isSeen = argument.source == Source::Seen;
    bool isInput = isSeen || argument.source == Source::Input;
    bool isOfView =
        argument.source == Source::Gradient && argument.index >= own.firstView;
    if (!isOfView &&
        argument.index >= (isInput ? main.numInputs() : main.numOutputs()))
      return fail("takes what the main program does not take or give");
    if (isInput) {
      auto found = std::find_if(own.reads.begin(), own.reads.end(),
                                [&](const BackwardProgram::Input &input) {
                                  return input.index == argument.index;
                                });
      if (found == own.reads.end())
        return fail("takes an input that no gradient depends on");
      // Of others it reads sizes.
      found->taken |= std::any_of(
          own.needs.begin(), own.needs.end(),
          [&](const std::vector<bool> &needs) { return needs[number]; });
      found->seen |= isSeen;
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
    return isOfView || // the launch does not make it
           sameLayout(number, isInput ? main.inputDims(argument.index)
                                      : main.outputDims(argument.index));
  }

  bool sameLayout(uint32_t number, std::optional<TorchExecutor::Dims> known) {
    if (sameDims(own.program->inputDims(number), known))
      return true;
    return fail("takes argument " + std::to_string(number) +
                " in another layout than it has");
  }

  /// Views stand behind all results.
  bool isDifferentiableKnown() const {
    return std::is_sorted(own.differentiable.begin(),
                          own.differentiable.end()) &&
           std::none_of(own.differentiable.begin(), own.differentiable.end(),
                        [&](uint32_t number) {
                          return number >= own.numResults &&
                                 number < main.numOutputs();
                        });
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
  firstView = main.numOutputs();
  if (!Resolver(*this, main, error).run())
    return false;
  for (size_t k = 0; k < gradients.size(); ++k)
    for (size_t i = 0; i < groups.size(); ++i)
      if (!reaches[k][i] && reachesFrom(groups[i], k)) {
        partlyReached.push_back(gradients[k]);
        break;
      }
  findWays();
  return true;
}

/// What follows from `leads` and `keeps`.
void BackwardProgram::findWays() {
  ledTo.resize(leads.size());
  reached.resize(leads.size());
  for (uint32_t k = 0; k < leads.size(); ++k) {
    for (uint32_t i = 0; i < leads.size(); ++i)
      if (leads[k][i])
        ledTo[k].push_back(i);
    for (uint32_t i = 0; i < gradients.size() && !ledTo[k].empty(); ++i)
      if (reachesDirectly[i][k])
        reached[k].push_back(i);
  }
  bool any = !shown.empty() || !hidden.empty() ||
             std::any_of(reads.begin(), reads.end(),
                         [](const Input &input) { return input.taken; });
  groupKeeps.assign(numGroups(), any && keeps.empty());
  for (uint32_t k = 0; k < keeps.size(); ++k) {
    // By way of other results, too.
    std::vector<uint32_t> way{k};
    for (size_t i = 0; i < way.size(); ++i) {
      groupKeeps[groups[k]] = groupKeeps[groups[k]] || keeps[way[i]];
      if (!ledTo.empty())
        for (uint32_t other : ledTo[way[i]])
          if (std::find(way.begin(), way.end(), other) == way.end())
            way.push_back(other);
    }
  }
}

bool BackwardProgram::isShownNothing(const at::Tensor *inputs) const {
  return std::any_of(partlyReached.begin(), partlyReached.end(),
                     [&](uint32_t input) { return isHookedAt(inputs[input]); });
}

/// Autograd's queue hands out accumulators, which are equally urgent, in any
/// order. Each gets a node in front of it, of which the queue takes the one
/// that was made last.
void BackwardProgram::keepOrder(autograd::edge_list &edges,
                                const at::Tensor *inputs) const {
  for (size_t k = gradients.size(); k-- > 0;) {
    const at::Tensor &input = inputs[gradients[k]];
    if (!edges[k].is_valid() || !input.is_leaf())
      continue;
    auto node = std::make_shared<autograd::Identity>();
    node->add_input_metadata(input);
    node->add_next_edge(std::move(edges[k]));
    edges[k] = {std::move(node), 0};
  }
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
    if (again && preferred)
      again->prefer(*preferred);
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
    size_t known = placeOf(argument);
    if (known == arguments.size())
      return false;
    argument.place = arguments[known].place;
  }
  return true;
}

size_t BackwardProgram::placeOf(const Argument &argument) const {
  auto known = std::find_if(
      arguments.begin(), arguments.end(), [&](const Argument &own) {
        return own.source == argument.source && own.index == argument.index;
      });
  return size_t(known - arguments.begin());
}

std::vector<bool>
BackwardProgram::findNeeded(const std::vector<bool> &wanted) const {
  std::vector<bool> needed(arguments.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    for (size_t k = 0; wanted[i] && k < needed.size(); ++k)
      needed[k] = needed[k] || needs[i][k];
  return needed;
}

const BackwardProgram *
BackwardProgram::getPartial(Partial &programs, const std::vector<bool> &defined,
                            bool stops) const {
  std::lock_guard<std::mutex> guard(programsLock);
  auto [known, isNew] = programs.try_emplace(defined);
  if (isNew) {
    std::vector<uint32_t> results;
    for (size_t k = 0; k < defined.size(); ++k)
      if (!defined[k])
        results.push_back(differentiable[k]);
    known->second = drop(results, stops);
    if (known->second && !adopt(*known->second))
      known->second.reset();
    if (known->second && preferred)
      known->second->prefer(*preferred);
  }
  return known->second.get();
}

const BackwardProgram &
BackwardProgram::getFor(const std::vector<bool> &defined) const {
  if (!drop ||
      std::find(defined.begin(), defined.end(), false) == defined.end())
    return *this;
  const BackwardProgram *made = getPartial(partial, defined, /*stops=*/false);
  return made ? *made : *this;
}

const BackwardProgram *BackwardProgram::getStopping(size_t k) const {
  std::vector<bool> defined(differentiable.size());
  defined[k] = true;
  return drop ? getPartial(stopping, defined, /*stops=*/true) : nullptr;
}

void BackwardProgram::prefer(Variant variant) const {
  program->prefer(variant);
  std::lock_guard<std::mutex> guard(programsLock);
  preferred = variant;
  for (const Partial *programs : {&partial, &stopping})
    for (const auto &[defined, made] : *programs)
      if (made)
        made->prefer(variant);
  if (again)
    again->prefer(variant);
}

void DifferentiableBackward::prefer(Variant variant) const {
  program->prefer(variant);
  backward->prefer(variant);
}

std::string BackwardProgram::report() const {
  std::string text;
  auto add = [&](const std::string &of, const BackwardProgram &made) {
    if (std::string own = made.program->report(); !own.empty())
      text += "backward" + of + ": " + own;
  };
  add("", *this);
  std::lock_guard<std::mutex> guard(programsLock);
  for (const Partial *programs : {&partial, &stopping})
    for (const auto &[defined, made] : *programs) {
      std::string of = " of result";
      for (size_t k = 0; k < defined.size(); ++k)
        if (defined[k])
          of += " " + std::to_string(differentiable[k]);
      if (made)
        add(of, *made);
    }
  return text;
}

bool BackwardProgram::reachesFrom(uint32_t group, size_t gradient) const {
  for (size_t i = 0; i < groups.size(); ++i)
    if (groups[i] == group && reaches[gradient][i])
      return true;
  return false;
}

bool BackwardProgram::leadsFrom(uint32_t group, size_t gradient) const {
  bool found = reachesFrom(group, gradient);
  for (size_t i = 0; i < groups.size() && !vanishes.empty(); ++i)
    found = found || (groups[i] == group && vanishes[gradient][i]);
  return found;
}

autograd::edge_list BackwardProgram::edges(const at::Tensor *inputs,
                                           uint32_t group) const {
  autograd::edge_list made;
  made.reserve(gradients.size() + zeros.size());
  bool several = numGroups() > 1, watched = false;
  for (size_t k = 0; k < gradients.size(); ++k) {
    const at::Tensor &input = inputs[gradients[k]];
    watched |= input.is_leaf() && isHookedAt(input);
    if (several && !leadsFrom(group, k)) {
      made.emplace_back();
      continue;
    }
    // A leaf's accumulator is made anew where nobody holds it, as in eager: one
    // that outlives the graph knows the size that `.data` had.
    made.push_back(autograd::impl::gradient_edge(input));
  }
  if (watched)
    keepOrder(made, inputs);
  for (uint32_t input : zeros)
    made.push_back(autograd::impl::gradient_edge(inputs[input]));
  return made;
}
