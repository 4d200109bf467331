//===- AutogradNode.h - Backward programs in autograd's graph ---*- C++ -*-===//
//
// The outputs of a compiled call that require grad have a node of autograd's as
// their `grad_fn`. When the engine runs it, it runs a launch program on what
// the call was given, gave, and saved.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_AUTOGRADNODE_H
#define PYJIT_RT_AUTOGRADNODE_H

#include "pyjit-rt/SavedInputs.h"

#include <torch/csrc/autograd/function.h>

namespace pyjit::rt {

/// Autograd's node for the results of one group of a call.
class CompiledBackward final : public torch::autograd::Node {
public:
  void release_variables() override;
  std::string name() const override { return "PyjitBackward"; }

protected:
  torch::autograd::variable_list
  apply(torch::autograd::variable_list &&gradients) override;

private:
  friend class BackwardNodes;
  CompiledBackward(std::shared_ptr<const BackwardProgram> program,
                   uint32_t group)
      : program(std::move(program)), group(group) {}
  void connect(const std::vector<at::Tensor> &results,
               const std::vector<bool> *which);
  void save(const std::vector<at::Tensor> &results, const SavedValues &block);

  using Gradients = torch::autograd::variable_list;
  /// One that the call shows.
  struct SavedResult {
    torch::autograd::SavedVariable variable;
    TensorLayout layout;
  };
  at::Tensor unpack(size_t input) const;
  at::Tensor unpack(const SavedResult &saved);
  void checkNotReleased(bool needed) const;
  bool isReached(size_t gradient, const Gradients &incoming) const;
  at::Tensor show(const BackwardProgram::Argument &argument);
  at::Tensor zerosFor(const BackwardProgram::Argument &argument) const;
  std::vector<bool> findNeeded(const BackwardProgram &chosen) const;
  std::vector<at::Tensor> collect(const BackwardProgram &chosen,
                                  const Gradients &incoming);
  std::vector<at::Tensor> collectInputs();
  Gradients run(const Gradients &incoming);
  Gradients runDifferentiably(const Gradients &incoming);

  std::shared_ptr<const BackwardProgram> program;
  /// Gradients of gradients draw once more what the call drew.
  std::shared_ptr<const Generators> drawn;
  uint32_t group;
  std::shared_ptr<const SavedInputs> inputs; ///< of all groups
  std::vector<SavedResult> shown; ///< by place in the program's `shown`
  /// Results that the call does not show; nobody else can write them.
  SavedValues block;
  std::vector<at::Tensor> hidden; ///< those that are not in the block, by place
  std::vector<TensorLayout> layouts; ///< of incoming gradients
  bool keeps = false;                ///< some argument is saved
  bool released = false;
};

/// Autograd's nodes for one call: one for each group of results, so that the
/// engine comes to those inputs that it would come to in eager. Made in three
/// steps; while they are taken, nobody else writes the tensors or gives them a
/// history.
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
  /// When all that the call shows has its final version. `block` has the saved
  /// results that are undefined in `results`.
  void save(const std::vector<at::Tensor> &results, const SavedValues &block);

  bool empty() const { return nodes.empty(); }
  void clear() { nodes.clear(); }

private:
  std::vector<std::shared_ptr<CompiledBackward>> nodes;
};

} // namespace pyjit::rt

#endif // PYJIT_RT_AUTOGRADNODE_H
