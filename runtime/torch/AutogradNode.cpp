//===- AutogradNode.cpp - Backward programs in autograd's graph -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/AutogradNode.h"

#include "WrappedGradients.h"
#include "pyjit-rt/Hooks.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>

using namespace pyjit::rt;
namespace autograd = torch::autograd;

//===----------------------------------------------------------------------===//
// The nodes of a call
//===----------------------------------------------------------------------===//

BackwardNodes
BackwardNodes::create(const std::shared_ptr<const BackwardProgram> &program,
                      const at::Tensor *inputs,
                      const std::shared_ptr<const Generators> &drawn) {
  BackwardNodes made;
  made.program = program;
  made.call = std::make_shared<SavedCall>();
  made.call->inputs = std::make_unique<const SavedInputs>(*program, inputs);
  made.layouts = std::make_shared<std::vector<TensorLayout>>();
  for (uint32_t group = 0; group < program->numGroups(); ++group) {
    // The deleter takes long chains of nodes apart without recursion.
    std::shared_ptr<CompiledBackward> node(
        new CompiledBackward(program, made.call, made.layouts, group),
        autograd::deleteNode);
    node->drawn = drawn;
    node->set_next_edges(program->edges(inputs, group));
    node->keeps = program->groupKeeps[group];
    made.groups.push_back(std::move(node));
  }
  // Nobody hangs hooks on gradients of gradients' results.
  if (size_t count = program->differentiable.size();
      count > 1 && program->drop) {
    made.results.resize(count);
    for (size_t k = 0; k < count; ++k)
      made.addResult(k, inputs);
  }
  return made;
}

/// Behind those that it leads to, for a node's edges are made once.
void BackwardNodes::addResult(size_t k, const at::Tensor *inputs) {
  if (results[k])
    return;
  bool leadsOn = !program->ledTo.empty() && !program->ledTo[k].empty();
  std::shared_ptr<ResultBackward> node(
      new ResultBackward(program, leadsOn ? call : nullptr, layouts, k),
      autograd::deleteNode);
  autograd::edge_list edges{{groups[program->groups[k]], uint32_t(k)}};
  if (leadsOn) {
    for (uint32_t other : program->ledTo[k]) {
      addResult(other, inputs);
      edges.emplace_back(results[other], 0);
    }
    for (uint32_t gradient : program->reached[k])
      edges.push_back(
          autograd::impl::gradient_edge(inputs[program->gradients[gradient]]));
  }
  node->set_next_edges(std::move(edges));
  results[k] = std::move(node);
}

void BackwardNodes::connect(const std::vector<at::Tensor> &outputs,
                            const std::vector<bool> *which) {
  for (size_t k = 0; k < program->differentiable.size(); ++k)
    if (uint32_t number = program->differentiable[k];
        number < program->firstView)
      connect(k, outputs[number], !which || (*which)[k]);
}

/// The k-th differentiable one, behind those in front of it.
void BackwardNodes::connect(size_t k, const at::Tensor &result, bool isOne) {
  layouts->push_back(TensorLayout::ofGradient(result));
  for (const std::shared_ptr<CompiledBackward> &node : groups)
    if (!isOne || program->groups[k] != node->group)
      node->add_input_metadata(autograd::Node::undefined_input());
    else if (results.empty())
      autograd::set_history(result, node);
    else
      node->add_input_metadata(result);
  if (!results.empty())
    autograd::set_history(result, results[k]);
}

/// To autograd they stay views: a write to one, or to its base, gives it a
/// history by way of the base.
void BackwardNodes::connectViews(const std::vector<at::Tensor> &views) {
  for (size_t k = 0; k < program->differentiable.size(); ++k)
    if (uint32_t number = program->differentiable[k];
        number >= program->firstView)
      connect(k, views[number - program->firstView], /*isOne=*/true);
}

void BackwardNodes::save(const std::vector<at::Tensor> &outputs,
                         const SavedValues &block) {
  auto isOwn = [&](const std::shared_ptr<autograd::Node> &node) {
    return !node ||
           std::find(groups.begin(), groups.end(), node) != groups.end() ||
           std::find(results.begin(), results.end(), node) != results.end();
  };
  call->block = block;
  for (uint32_t number : program->shown) {
    const at::Tensor &result = outputs[number];
    // A node that kept a tensor with its history would keep itself.
    bool own = isOwn(result.grad_fn());
    call->shown.push_back({autograd::SavedVariable(result, /*is_output=*/own),
                           TensorLayout::of(result)});
  }
  for (size_t k = 0; k < program->hidden.size(); ++k)
    if (uint32_t number = program->hidden[k]; !block.has(number)) {
      call->hidden.resize(program->hidden.size());
      call->hidden[k] = outputs[number];
    }
}

//===----------------------------------------------------------------------===//
// A group of results
//===----------------------------------------------------------------------===//

/// Whether some gradient that came in is one that it depends on.
bool CompiledBackward::isReached(size_t gradient,
                                 const Gradients &incoming) const {
  for (size_t i = 0; i < incoming.size(); ++i)
    if (incoming[i].defined() && program->reaches[gradient][i])
      return true;
  return false;
}

/// Whether some gradient that came in depends on it without a derivative:
/// eager's is zeros.
bool CompiledBackward::vanishes(size_t gradient,
                                const Gradients &incoming) const {
  if (program->vanishes.empty())
    return false;
  for (size_t i = 0; i < incoming.size(); ++i)
    if (incoming[i].defined() && program->vanishes[gradient][i])
      return true;
  return false;
}

/// Undefined where the gradient goes nowhere.
at::Tensor CompiledBackward::zerosAt(size_t edge) const {
  const autograd::Edge &next = next_edge(edge);
  return next.is_valid()
             ? next.function->input_metadata(next.input_nr).zeros_like()
             : at::Tensor();
}

/// `backward(inputs=...)` does not want all.
std::vector<bool>
CompiledBackward::findWanted(const BackwardProgram &chosen) const {
  std::vector<bool> wanted;
  for (uint32_t input : chosen.gradients) {
    auto own =
        std::find(program->gradients.begin(), program->gradients.end(), input);
    wanted.push_back(
        task_should_compute_output(size_t(own - program->gradients.begin())));
  }
  return wanted;
}

/// Before a run. Where the engine does not want all gradients, notes what those
/// that it wants are computed from, and raises what eager raises if some of it
/// was freed.
void CompiledBackward::noteUsed(const BackwardProgram &chosen) {
  std::lock_guard<std::mutex> lock(mutex_);
  usedAll = true;
  const auto *tasks = autograd::get_current_graph_task_exec_info();
  if (freed.empty() && (!tasks || tasks->empty()))
    return;
  std::vector<bool> wanted = findWanted(chosen);
  usedAll = std::find(wanted.begin(), wanted.end(), false) == wanted.end();
  if (freed.empty() && usedAll)
    return;
  std::vector<bool> needed = chosen.findNeeded(wanted);
  used.assign(program->arguments.size(), false);
  for (size_t k = 0; k < needed.size(); ++k) {
    const BackwardProgram::Argument &argument = chosen.arguments[k];
    if (!needed[k] || argument.source == BackwardProgram::Source::Gradient)
      continue;
    size_t place = program->placeOf(argument);
    TORCH_CHECK(freed.empty() || !freed[place], autograd::ERR_BACKWARD_TWICE);
    used[place] = true;
  }
}

/// The engine came by on its way to an input that no result was computed from
/// whose gradient is there: in eager it would not have come.
void CompiledBackward::noteUnused() {
  std::lock_guard<std::mutex> lock(mutex_);
  usedAll = false;
  used.assign(program->arguments.size(), false);
}

void CompiledBackward::release_variables() {
  // Sizes are there for another backward, which is none too many then.
  if (!keeps)
    return;
  if (usedAll)
    return release();
  std::lock_guard<std::mutex> lock(mutex_);
  freed.resize(used.size());
  for (size_t k = 0; k < used.size(); ++k)
    freed[k] = freed[k] || used[k];
}

autograd::variable_list CompiledBackward::run(const Gradients &incoming) {
  std::vector<bool> defined;
  for (const at::Tensor &gradient : incoming)
    defined.push_back(gradient.defined());
  const BackwardProgram &chosen = program->getFor(defined);
  c10::AutoGradMode noGrad(false);
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  noteUsed(chosen);
  std::vector<at::Tensor> arguments =
      collect(chosen, incoming, keeps, [&] { return findWanted(chosen); });
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
    gradients.push_back(layOut(incoming[i], i));
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

  usedAll = true;
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
  std::vector<bool> reached(program->gradients.size()),
      vanishing(reached.size());
  for (size_t i = 0; i < reached.size(); ++i) {
    reached[i] = isReached(i, gradients);
    vanishing[i] = !reached[i] && vanishes(i, gradients);
  }
  Gradients results(reached.size());
  if (std::find(reached.begin(), reached.end(), true) != reached.end())
    results = c10::GradMode::is_enabled() ? runDifferentiably(gradients)
                                          : run(gradients);
  else
    noteUnused();
  for (size_t i = 0; i < reached.size(); ++i)
    if (!reached[i])
      results[i] = vanishing[i] ? zerosAt(i) : at::Tensor();
  for (size_t i = reached.size(); i < num_outputs(); ++i)
    results.push_back(zerosAt(i));
  return results;
}

//===----------------------------------------------------------------------===//
// One of several results
//===----------------------------------------------------------------------===//

/// Whether the engine hands out what comes to the node.
static bool isCaptured(autograd::Node &node) {
  const auto *tasks = autograd::get_current_graph_task_exec_info();
  if (!tasks)
    return false;
  auto known = tasks->find(&node);
  return known != tasks->end() && known->second.captures_ &&
         !known->second.captures_->empty();
}

const std::vector<uint32_t> &ResultBackward::ledTo() const {
  static const std::vector<uint32_t> none;
  return program->ledTo.empty() ? none : program->ledTo[result];
}

/// The nodes of results that the engine comes to from here.
std::vector<ResultBackward *> ResultBackward::findWay() const {
  std::vector<ResultBackward *> way;
  auto add = [&](const ResultBackward &from) {
    for (size_t i = 0; i < from.ledTo().size(); ++i)
      if (ResultBackward *other = &from.other(i);
          from.task_should_compute_output(1 + i) &&
          std::find(way.begin(), way.end(), other) == way.end())
        way.push_back(other);
  };
  add(*this);
  for (size_t i = 0; i < way.size(); ++i)
    add(*way[i]);
  return way;
}

/// Whether somebody looks at the gradient of a result that this one's goes to.
bool ResultBackward::isWatched() const {
  std::vector<ResultBackward *> way = findWay();
  return std::any_of(way.begin(), way.end(), [](ResultBackward *other) {
    return isHooked(*other) || isCaptured(*other);
  });
}

/// The engine comes here on the way to any input of the group, in eager only to
/// what this result was computed from.
bool ResultBackward::isAskedFor() const {
  const auto *tasks = autograd::get_current_graph_task_exec_info();
  if (!tasks || tasks->empty() || isWatched())
    return true;
  const autograd::Node &group = *next_edge(0).function;
  for (size_t i = 0; i < program->gradients.size(); ++i)
    if (program->reaches[i][result] && group.task_should_compute_output(i))
      return true;
  return false;
}

/// In eager the engine goes by way of those results.
void ResultBackward::checkWay() const {
  if (!ledTo().empty())
    checkNotReleased(program->keeps[result]);
  for (ResultBackward *other : findWay())
    if (!other->ledTo().empty())
      other->checkNotReleased(program->keeps[other->result]);
}

/// By edge.
autograd::variable_list ResultBackward::runStopping(const Gradients &incoming) {
  TORCH_CHECK(!c10::GradMode::is_enabled(),
              "pyjit: with create_graph=True, a compiled call cannot show the "
              "gradient of one of its results by another one; call the "
              "function that was compiled instead of what pyjit.compile "
              "returned");
  const BackwardProgram *chosen = program->getStopping(result);
  TORCH_CHECK(chosen, "pyjit: a compiled call cannot show the gradient of one "
                      "of its results by another one; call the function that "
                      "was compiled instead of what pyjit.compile returned");
  // Of each of the program's results, the edge that it goes to.
  const std::vector<uint32_t> &reached = program->reached[result];
  std::vector<size_t> edges;
  for (uint32_t input : chosen->gradients)
    for (size_t i = 0; i < reached.size(); ++i)
      if (program->gradients[reached[i]] == input)
        edges.push_back(1 + ledTo().size() + i);
  for (uint32_t number : chosen->stops)
    for (size_t i = 0; i < ledTo().size(); ++i)
      if (program->differentiable[ledTo()[i]] == number)
        edges.push_back(1 + i);
  size_t count = chosen->gradients.size() + chosen->stops.size();
  TORCH_INTERNAL_ASSERT(edges.size() == count);
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  std::vector<at::Tensor> arguments =
      collect(*chosen, incoming, program->keeps[result], [&] {
        std::vector<bool> wanted;
        for (size_t edge : edges)
          wanted.push_back(task_should_compute_output(edge));
        return wanted;
      });
  Gradients given(count), all(num_outputs());
  TORCH_CHECK(chosen->program->run(arguments.data(), nullptr, given.data()),
              "pyjit: ", kUnanswered);
  for (size_t i = 0; i < count; ++i)
    all[edges[i]] = std::move(given[i]);
  return all;
}

autograd::variable_list
ResultBackward::apply(autograd::variable_list &&gradients) {
  Gradients all(num_outputs());
  if (!gradients[0].defined() || !isAskedFor())
    return all;
  if (!isWatched()) {
    checkWay();
    all[0] = std::move(gradients[0]);
    return all;
  }
  if (areWrapped(gradients))
    return runUnwrapped(
        gradients, [&](Gradients &&plain) { return apply(std::move(plain)); });
  Gradients incoming(program->differentiable.size());
  incoming[result] = std::move(gradients[0]);
  return runStopping(incoming);
}
