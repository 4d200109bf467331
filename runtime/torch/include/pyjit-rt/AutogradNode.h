//===- AutogradNode.h - Backward programs in autograd's graph ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The outputs of a compiled call that require grad have nodes of autograd's as
// their `grad_fn`. When the engine runs them, they run launch programs on what
// the call was given, gave, and saved.
//
//   inputs <── CompiledBackward <── ResultBackward of a result
//                               <── ResultBackward of another one, which was
//                                   computed from the first: goes there, too
//
// A call with one such output has the left node only.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_AUTOGRADNODE_H
#define PYJIT_RT_AUTOGRADNODE_H

#include "pyjit-rt/SavedInputs.h"

#include <torch/csrc/autograd/function.h>

namespace pyjit::rt {

/// What one call keeps for its backward.
struct SavedCall {
  /// One that the call shows.
  struct Result {
    torch::autograd::SavedVariable variable;
    TensorLayout layout;
  };
  std::unique_ptr<const SavedInputs> inputs;
  std::vector<Result> shown; ///< by place in the program's `shown`
  /// Results that the call does not show; nobody else can write them.
  SavedValues block;
  std::vector<at::Tensor> hidden; ///< those that are not in the block, by place
};

/// A node that runs backward programs of a call.
class SavingNode : public torch::autograd::Node {
public:
  std::string name() const override { return "PyjitBackward"; }

protected:
  using Gradients = torch::autograd::variable_list;
  using Layouts = std::vector<TensorLayout>;
  SavingNode(std::shared_ptr<const BackwardProgram> program,
             std::shared_ptr<const SavedCall> call,
             std::shared_ptr<const Layouts> layouts)
      : program(std::move(program)), call(std::move(call)),
        layouts(std::move(layouts)) {}

  void release();
  void checkNotReleased(bool needed) const;
  at::Tensor unpack(size_t input) const;
  at::Tensor layOut(const at::Tensor &gradient, size_t place) const;
  /// The arguments of a backward program. `wanted`: which of its results the
  /// engine asks for; called where an argument was written meanwhile.
  std::vector<at::Tensor>
  collect(const BackwardProgram &chosen, const Gradients &incoming, bool keeps,
          const std::function<std::vector<bool>()> &wanted);

  std::shared_ptr<const BackwardProgram> program;
  std::shared_ptr<const SavedCall> call;  ///< until it is freed
  std::shared_ptr<const Layouts> layouts; ///< of incoming gradients
  bool released = false;

private:
  void checkVersion(const SavedInputs::Input &input) const;
  at::Tensor unpackSeen(size_t input) const;
  at::Tensor unpack(const SavedCall::Result &saved);
  at::Tensor show(const BackwardProgram::Argument &argument);
  at::Tensor zerosFor(const BackwardProgram::Argument &argument) const;
};

/// Autograd's node for the results of one group of a call.
class CompiledBackward final : public SavingNode {
public:
  void release_variables() override;

protected:
  torch::autograd::variable_list
  apply(torch::autograd::variable_list &&gradients) override;

private:
  friend class BackwardNodes;
  CompiledBackward(std::shared_ptr<const BackwardProgram> program,
                   std::shared_ptr<const SavedCall> call,
                   std::shared_ptr<const Layouts> layouts, uint32_t group)
      : SavingNode(std::move(program), std::move(call), std::move(layouts)),
        group(group) {}
  bool isReached(size_t gradient, const Gradients &incoming) const;
  bool vanishes(size_t gradient, const Gradients &incoming) const;
  at::Tensor zerosAt(size_t edge) const;
  std::vector<bool> findWanted(const BackwardProgram &chosen) const;
  void noteUsed(const BackwardProgram &chosen);
  void noteUnused();
  std::vector<at::Tensor> collectInputs();
  Gradients run(const Gradients &incoming);
  Gradients runDifferentiably(const Gradients &incoming);

  /// Gradients of gradients draw once more what the call drew.
  std::shared_ptr<const Generators> drawn;
  uint32_t group;
  bool keeps = false; ///< some argument is saved
  /// What the last run's gradients were computed from, and those of the runs
  /// that were freed: by place in the program's `arguments`. Eager frees the
  /// nodes that the engine has come to; other inputs' gradients may follow.
  std::vector<bool> used, freed;
  bool usedAll = true;
};

/// Autograd's node for one result of a call with several: hands its gradient on
/// to the group's node. Where the result was computed from other results of the
/// call and somebody looks at the gradient of one of these, it runs a program
/// that stops there.
class ResultBackward final : public SavingNode {
public:
  void release_variables() override { release(); }

protected:
  torch::autograd::variable_list
  apply(torch::autograd::variable_list &&gradients) override;

private:
  friend class BackwardNodes;
  ResultBackward(std::shared_ptr<const BackwardProgram> program,
                 std::shared_ptr<const SavedCall> call,
                 std::shared_ptr<const Layouts> layouts, size_t result)
      : SavingNode(std::move(program), std::move(call), std::move(layouts)),
        result(result) {}
  std::vector<ResultBackward *> findWay() const;
  bool isWatched() const;
  bool isAskedFor() const;
  void checkWay() const;
  Gradients runStopping(const Gradients &incoming);

  /// Other results, to which the edges behind the first one go; further ones go
  /// to inputs that the result reaches beside these.
  const std::vector<uint32_t> &ledTo() const;
  ResultBackward &other(size_t i) const {
    return static_cast<ResultBackward &>(*next_edge(1 + i).function);
  }

  size_t result; ///< by place in the program's `differentiable`
};

/// Autograd's nodes for one call: one for each group of results, so that the
/// engine comes to those inputs that it would come to in eager, and one for
/// each result where there are several. Made in three steps; while they are
/// taken, nobody else writes the tensors or gives them a history.
class BackwardNodes {
public:
  /// Before the launch: where gradients go, and the inputs that are saved, in
  /// their present versions.
  /// `drawn`: the generators before the launch, if it draws.
  static BackwardNodes
  create(const std::shared_ptr<const BackwardProgram> &program,
         const at::Tensor *inputs,
         const std::shared_ptr<const Generators> &drawn);
  /// After the launch: the results that require grad do. `which`: only these
  /// of the differentiable ones.
  void connect(const std::vector<at::Tensor> &results,
               const std::vector<bool> *which = nullptr);
  /// When the views of results and inputs that the call shows have been made,
  /// and have their final versions: some have nodes of their own.
  void connectViews(const std::vector<at::Tensor> &views);
  /// When all that the call shows has its final version. `block` has the saved
  /// results that are undefined in `results`.
  void save(const std::vector<at::Tensor> &results, const SavedValues &block);

  bool empty() const { return groups.empty(); }
  void clear() { *this = {}; }

private:
  void addResult(size_t k, const at::Tensor *inputs);
  void connect(size_t k, const at::Tensor &result, bool isOne);

  std::shared_ptr<const BackwardProgram> program;
  std::shared_ptr<SavedCall> call;
  std::shared_ptr<std::vector<TensorLayout>> layouts;
  std::vector<std::shared_ptr<CompiledBackward>> groups;
  /// By place in the program's `differentiable`; none where there is one.
  std::vector<std::shared_ptr<ResultBackward>> results;
};

} // namespace pyjit::rt

#endif // PYJIT_RT_AUTOGRADNODE_H
