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

#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

namespace pyjit::rt {

/// How a tensor lies in memory.
struct TensorLayout {
  at::DimVector sizes, strides;
  at::ScalarType type = at::kFloat;
  at::Device device = at::kCPU;

  static TensorLayout of(const at::Tensor &tensor);
  /// The layout that the gradient of such a tensor has.
  static TensorLayout ofGradient(const at::Tensor &tensor);
  /// Whether kernels that are compiled for this layout can read the tensor,
  /// device apart.
  bool fits(const at::Tensor &tensor) const;
};

struct DifferentiableBackward;

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
    /// Where it stands: an input in `reads`, a gradient's result in
    /// `differentiable`, a saved result among those that the call shows, or
    /// among those that it does not. Set by `resolve`.
    uint32_t place = 0;
  };
  struct Input {
    uint32_t index;
    /// The call writes it.
    bool written = false;
    /// The caller uses the tensor for other calls, too, or gradients of
    /// gradients ask for what was in it before the call: nodes keep a copy.
    bool copied = false;
    /// The backward program takes it; else only gradients of gradients do. Set
    /// by `resolve`.
    bool taken = false;
    /// The layout of all calls; nothing where sizes differ. Set by `resolve`.
    std::optional<TensorLayout> layout = std::nullopt;
  };

  /// Completes what is said twice. Returns whether `program` takes what `main`
  /// takes and gives; else `error` says what it does not.
  bool resolve(const TorchExecutor &main, std::string &error);
  /// Whether `other`, a second main program, gives what `main` does where the
  /// backward program takes it.
  bool takesFrom(const TorchExecutor &main, const TorchExecutor &other) const;
  /// The program for gradients of gradients, which the first call makes. Throws
  /// where there cannot be one.
  const DifferentiableBackward &getDifferentiable() const;
  /// The program for calls of which only these of the differentiable results
  /// count, whose arguments stand where this program's do. Made when it is
  /// first asked for; this program, which takes zeros for the others, where
  /// there is no other. `gradients` may be fewer.
  const BackwardProgram &getFor(const std::vector<bool> &defined) const;
  /// Whether a hook of an input may be called without a gradient: autograd goes
  /// on to all that this node has an edge to, and in eager only to what the
  /// results that count were computed from.
  bool isShownNothing(const at::Tensor *inputs) const;
  size_t numGroups() const;
  /// Where the gradients of `inputs` go.
  torch::autograd::edge_list edges(const at::Tensor *inputs) const;
  /// Owns the machine code of `program`, and outlives it.
  std::shared_ptr<const void> code;
  std::unique_ptr<TorchExecutor> program;
  std::vector<Argument> arguments;
  /// Result k of the program is the gradient of input `gradients[k]` of the
  /// main program.
  std::vector<uint32_t> gradients;
  /// By place in `gradients`: parameters, whose accumulators are kept from call
  /// to call, for autograd makes one anew where nobody holds it. Empty: none.
  std::vector<bool> parameters;
  /// Results of the main program that require grad.
  std::vector<uint32_t> differentiable;
  /// Of each gradient in `gradients`: which results in `differentiable` it
  /// depends on. Where the engine has a gradient of none of these, eager gives
  /// none.
  std::vector<std::vector<bool>> reaches;
  /// Of each entry of `differentiable`: results of other groups have other
  /// nodes in eager.
  std::vector<uint32_t> groups;
  /// Inputs of the main program that gradients depend on in any way, and for
  /// each gradient, whose elements it depends on.
  std::vector<Input> reads;
  std::vector<std::vector<bool>> uses;
  /// Inputs that the main program's results depend on without a derivative (the
  /// signs of `relu`): eager's gradients of these are zeros, not none. They
  /// stand behind `gradients`.
  std::vector<uint32_t> zeros;
  /// Results of the main program that the call shows; the others are saved.
  uint32_t numResults = 0;
  /// Makes the program for gradients of gradients; null where there is none,
  /// and `error` says why.
  using Differentiate =
      std::function<std::unique_ptr<DifferentiableBackward>(std::string &)>;
  Differentiate differentiate;
  /// Makes the program without gradients of these results of the main program;
  /// null where there is none.
  using Drop = std::function<std::unique_ptr<BackwardProgram>(
      const std::vector<uint32_t> &results)>;
  Drop drop;

  /// Results that the backward program takes: shown ones (numbers of results),
  /// then others. Set by `resolve`.
  std::vector<uint32_t> shown, hidden;
  /// Inputs whose gradients do not depend on each differentiable result. Set by
  /// `resolve`.
  std::vector<uint32_t> partlyReached;

private:
  /// Of the parameter that the last call had.
  struct Accumulator {
    const c10::TensorImpl *parameter = nullptr;
    std::shared_ptr<torch::autograd::Node> node; ///< holds the parameter
  };
  /// A compilation holds the one for its programs; calls, which hold the
  /// interpreter's lock, take the other.
  mutable std::mutex programsLock, accumulatorsLock;
  bool adopt(BackwardProgram &other) const;
  mutable std::unique_ptr<DifferentiableBackward> again;
  mutable std::map<std::vector<bool>, std::unique_ptr<BackwardProgram>> partial;
  mutable std::vector<Accumulator> accumulators; ///< by place in `gradients`
};

/// Computes what a backward program computes, from the inputs of the main
/// program and then the gradients of its differentiable results, and can be
/// differentiated itself.
struct DifferentiableBackward {
  std::shared_ptr<const void> code;
  std::unique_ptr<TorchExecutor> program;
  std::shared_ptr<const BackwardProgram> backward;
};

/// Autograd's node for one call, made in three steps. While they are taken,
/// nobody else writes the tensors or gives them a history.
class CompiledBackward final : public torch::autograd::Node {
public:
  /// Before the launch: where gradients go, and the inputs that are saved, in
  /// their present versions.
  /// `drawn`: the generators before the launch, if it draws.
  static std::shared_ptr<CompiledBackward>
  create(std::shared_ptr<const BackwardProgram> program,
         const at::Tensor *inputs, std::shared_ptr<const Generators> drawn);
  /// After the launch: the results that require grad do. `which`: only these
  /// of the differentiable ones.
  void connect(const std::vector<at::Tensor> &results,
               const std::vector<bool> *which = nullptr);
  /// When all that the call shows has its final version. `block` has the saved
  /// results that are undefined in `results`.
  void save(const std::vector<at::Tensor> &results, SavedValues block);

  /// Adds to each entry how many references nodes that are alive hold to that
  /// tensor as a saved input; nodes that are just running are left out.
  static void
  countSaved(std::unordered_map<const c10::TensorImpl *, size_t> &references);

  ~CompiledBackward() override;
  void release_variables() override;
  std::string name() const override { return "PyjitBackward"; }

protected:
  torch::autograd::variable_list
  apply(torch::autograd::variable_list &&gradients) override;

private:
  explicit CompiledBackward(std::shared_ptr<const BackwardProgram> program)
      : program(std::move(program)) {}

  /// All nodes that are alive, in a list through `before` and `behind`.
  struct Alive {
    std::mutex lock;
    CompiledBackward *first = nullptr;
  };
  static Alive &alive();
  void enlist();

  using Gradients = torch::autograd::variable_list;
  /// As autograd's SavedVariable keeps an input: the tensor itself, and its
  /// version; of those there are many, and this takes no time.
  struct SavedInput {
    at::Tensor tensor;
    uint32_t version;
    c10::Device device;
    std::unique_ptr<TensorLayout> layout; ///< where the program has none
  };
  /// One that the call shows, whose history is this node.
  struct SavedResult {
    torch::autograd::SavedVariable variable;
    TensorLayout layout;
  };
  at::Tensor unpack(size_t input) const;
  at::Tensor unpack(const SavedResult &saved);
  void checkNotReleased(bool needed) const;
  /// The groups of the results that have a gradient.
  std::vector<bool> groupsOf(const Gradients &incoming) const;
  bool isReached(size_t gradient, const Gradients &incoming) const;
  std::vector<at::Tensor> collect(const BackwardProgram &chosen,
                                  const Gradients &incoming);
  std::vector<at::Tensor> collectInputs();
  Gradients run(const Gradients &incoming);
  Gradients runDifferentiably(const Gradients &incoming);

  std::shared_ptr<const BackwardProgram> program;
  /// Gradients of gradients draw once more what the call drew.
  std::shared_ptr<const Generators> drawn;
  std::vector<SavedInput> inputs; ///< by place in `reads`
  std::vector<SavedResult> shown; ///< by place in the program's `shown`
  /// Results that the call does not show; nobody else can write them.
  SavedValues block;
  std::vector<at::Tensor> hidden; ///< those that are not in the block, by place
  std::vector<TensorLayout> layouts; ///< of incoming gradients
  bool keeps = false;                ///< some argument is saved
  /// What eager would have freed: groups of results that the engine has been
  /// through without keeping the graph. Values are freed with the last one.
  std::vector<bool> released;
  std::vector<bool> visited; ///< groups of the last run
  CompiledBackward *before = nullptr, *behind = nullptr;
};

} // namespace pyjit::rt

#endif // PYJIT_RT_AUTOGRADNODE_H
