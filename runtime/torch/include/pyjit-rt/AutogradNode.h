//===- AutogradNode.h - Backward programs in autograd's graph ---*- C++ -*-===//
//
// The outputs of a compiled call that require grad have one node of autograd's
// as their `grad_fn`. When the engine runs it, it runs a launch program on what
// the call was given, gave, and saved.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_AUTOGRADNODE_H
#define PYJIT_RT_AUTOGRADNODE_H

#include "pyjit-rt/TorchExecutor.h"

#include <torch/csrc/autograd/function.h>

namespace pyjit::rt {

/// How a tensor lies in memory.
struct TensorLayout {
  at::DimVector sizes, strides;
  at::ScalarType type = at::kFloat;
  at::Device device = at::kCPU;

  static TensorLayout of(const at::Tensor &tensor);
  /// The layout that the gradient of such a tensor has.
  static TensorLayout ofGradient(const at::Tensor &tensor);
  /// Whether kernels that are compiled for this layout can read the tensor.
  bool fits(const at::Tensor &tensor) const;
};

/// The backward program of a specialization, and where its arguments come from.
struct BackwardProgram {
  enum class Source : uint8_t {
    Input,   ///< of the main program
    Result,  ///< of the main program
    Gradient ///< of a result of the main program
  };
  struct Argument {
    Source source;
    uint32_t index;
    /// The caller uses the tensor for other calls, too: nodes keep a copy.
    bool copied = false;
  };

  /// Whether `program` takes what `main` takes and gives.
  bool validate(const TorchExecutor &main, std::string &error) const;
  /// Which of the results that require grad a result of the main program is.
  size_t placeOf(uint32_t result) const;

  /// Owns the machine code of `program`, and outlives it.
  std::shared_ptr<const void> code;
  std::unique_ptr<TorchExecutor> program;
  std::vector<Argument> arguments;
  /// Result k of the program is the gradient of input `gradients[k]` of the
  /// main program.
  std::vector<uint32_t> gradients;
  /// Results of the main program that require grad.
  std::vector<uint32_t> differentiable;
  /// Of each gradient in `gradients`: which results in `differentiable` it
  /// depends on. Where the engine has a gradient of none of these, eager gives
  /// none. Empty: each depends on all.
  std::vector<std::vector<bool>> reaches;
  /// Results of the main program that the call shows; the others are saved.
  uint32_t numResults = 0;
};

/// Autograd's node for one call, made in three steps. While they are taken,
/// nobody else writes the tensors or gives them a history.
class CompiledBackward final : public torch::autograd::Node {
public:
  /// Before the launch: where gradients go, and the inputs that are saved, in
  /// their present versions.
  static std::shared_ptr<CompiledBackward>
  create(std::shared_ptr<const BackwardProgram> program,
         const at::Tensor *inputs);
  /// After the launch: the results that require grad do.
  void connect(const std::vector<at::Tensor> &results);
  /// When all that the call shows has its final version.
  void save(const std::vector<at::Tensor> &results);

  void release_variables() override;
  std::string name() const override { return "PyjitBackward"; }

protected:
  torch::autograd::variable_list
  apply(torch::autograd::variable_list &&gradients) override;

private:
  explicit CompiledBackward(std::shared_ptr<const BackwardProgram> program)
      : program(std::move(program)), saved(this->program->arguments.size()) {}

  /// An argument that is no gradient.
  struct Saved {
    torch::autograd::SavedVariable variable;
    at::Tensor value; ///< nobody else can write it; undefined: `variable`
    TensorLayout layout;
  };
  void keep(Saved &place, const at::Tensor &tensor, bool isOutput);
  std::vector<at::Tensor>
  collect(const torch::autograd::variable_list &gradients);
  at::Tensor unpack(const Saved &saved);
  void layOut(std::vector<at::Tensor> &arguments) const;
  bool isReached(size_t gradient,
                 const torch::autograd::variable_list &incoming) const;
  void checkDoubleBackward(const std::vector<at::Tensor> &arguments) const;

  std::shared_ptr<const BackwardProgram> program;
  std::vector<Saved> saved;          ///< by argument
  std::vector<TensorLayout> layouts; ///< of incoming gradients
  bool keeps = false;                ///< some argument is saved
  bool released = false;
};

} // namespace pyjit::rt

#endif // PYJIT_RT_AUTOGRADNODE_H
