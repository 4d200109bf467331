//===- BackwardProgram.h - What computes a call's gradients -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The launch program of a specialization's gradients, where its arguments come
// from, and where what it computes goes.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_BACKWARDPROGRAM_H
#define PYJIT_RT_BACKWARDPROGRAM_H

#include "pyjit-rt/TorchExecutor.h"

#include <torch/csrc/autograd/function.h>

#include <functional>
#include <map>
#include <optional>

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
    Input,    ///< of the main program
    Result,   ///< of the main program
    Gradient, ///< of a result of the main program
    Seen      ///< the memory that an input of the main program showed then
  };
  struct Argument {
    Source source;
    uint32_t index;
    /// Where it stands: an input, seen or not, in `reads`, a gradient's result
    /// in `differentiable`, a saved result among those that the call shows, or
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
    /// The backward program reads its elements; else only gradients of
    /// gradients do, or a size is read. Set by `resolve`.
    bool taken = false;
    /// Eager's nodes keep a view of it, which shows the same memory whatever
    /// the tensor is made to show (`x.data = y`). Set by `resolve`.
    bool seen = false;
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
  /// The program that takes the gradient of the k-th differentiable result
  /// alone and stops at results (`stops`); null where there is none.
  const BackwardProgram *getStopping(size_t k) const;
  /// Which arguments the wanted ones of the program's results are computed
  /// from: `backward(inputs=...)` does not want all, and eager looks at nothing
  /// that the others have saved.
  std::vector<bool> findNeeded(const std::vector<bool> &wanted) const;
  /// The argument's place among this program's, of one of a program for fewer
  /// results.
  size_t placeOf(const Argument &argument) const;
  /// Whether a hook of an input may be called without a gradient: autograd goes
  /// on to all that this node has an edge to, and in eager only to what the
  /// results that count were computed from.
  bool isShownNothing(const at::Tensor *inputs) const;
  size_t numGroups() const;
  /// Whether input `gradients[gradient]` has a gradient of a group's results.
  bool reachesFrom(uint32_t group, size_t gradient) const;
  /// Whether eager's engine goes from a group's results to the input.
  bool leadsFrom(uint32_t group, size_t gradient) const;
  /// As `TorchExecutor::prefer`, of it and of what is made from it.
  void prefer(Variant variant) const;
  /// How it and those made for fewer results are launched, as
  /// `TorchExecutor::report`.
  std::string report() const;
  /// Where the gradients of `inputs` go.
  torch::autograd::edge_list edges(const at::Tensor *inputs,
                                   uint32_t group) const;
  /// Owns the machine code of `program`, and outlives it.
  std::shared_ptr<const void> code;
  std::unique_ptr<TorchExecutor> program;
  std::vector<Argument> arguments;
  /// Result k of the program is the gradient of input `gradients[k]` of the
  /// main program. In the order in which eager's engine hands them out.
  std::vector<uint32_t> gradients;
  /// By place in `gradients`: those of parameters.
  std::vector<bool> parameters;
  /// Results of the main program that require grad, and then views of its
  /// results and inputs that have nodes of their own: of view k, the number is
  /// `firstView + k`.
  std::vector<uint32_t> differentiable;
  uint32_t firstView = 0; ///< the number of the main program's outputs
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
  /// Of each gradient in `gradients`: the arguments that it is computed from.
  std::vector<std::vector<bool>> needs;
  /// Inputs that the main program's results depend on without a derivative (the
  /// signs of `relu`): eager's gradients of these are zeros, not none. They
  /// stand behind `gradients`.
  std::vector<uint32_t> zeros;
  /// Of each gradient in `gradients`: which results in `differentiable` depend
  /// on the input in this way alone. Empty: none.
  std::vector<std::vector<bool>> vanishes;
  /// Of each differentiable result, those that it was computed from without
  /// another one in between. Empty: none was.
  std::vector<std::vector<bool>> leads;
  /// Where `leads` is not empty: as `reaches`, but not by way of other results.
  std::vector<std::vector<bool>> reachesDirectly;
  /// Of each of several differentiable results, whether something is saved
  /// between it and inputs, or what it leads to.
  std::vector<bool> keeps;
  /// Behind the gradients of inputs, the program gives gradients of these
  /// results of the main program.
  std::vector<uint32_t> stops;
  /// Results of the main program that the call shows; the others are saved.
  uint32_t numResults = 0;
  /// Makes the program for gradients of gradients; null where there is none,
  /// and `error` says why.
  using Differentiate =
      std::function<std::unique_ptr<DifferentiableBackward>(std::string &)>;
  Differentiate differentiate;
  /// Makes the program without gradients of these results of the main program;
  /// `stops`: one that stops at them. Null where there is none.
  using Drop = std::function<std::unique_ptr<BackwardProgram>(
      const std::vector<uint32_t> &results, bool stops)>;
  Drop drop;

  /// Results that the backward program takes: shown ones (numbers of results),
  /// then others. Set by `resolve`.
  std::vector<uint32_t> shown, hidden;
  /// Of each differentiable result, by place: the results that it leads to, and
  /// the gradients that it reaches beside these. Empty: none leads on. Set by
  /// `resolve`.
  std::vector<std::vector<uint32_t>> ledTo, reached;
  /// Of each group, whether something is saved for its gradients. Set by
  /// `resolve`.
  std::vector<bool> groupKeeps;
  /// Inputs whose gradients do not depend on each differentiable result. Set by
  /// `resolve`.
  std::vector<uint32_t> partlyReached;

private:
  mutable std::mutex programsLock; ///< of `partial` and `stopping`
  bool adopt(BackwardProgram &other) const;
  void findWays();
  void keepOrder(torch::autograd::edge_list &edges,
                 const at::Tensor *inputs) const;
  mutable std::optional<Variant> preferred;
  mutable std::unique_ptr<DifferentiableBackward> again;
  using Partial = std::map<std::vector<bool>, std::unique_ptr<BackwardProgram>>;
  const BackwardProgram *getPartial(Partial &programs,
                                    const std::vector<bool> &defined,
                                    bool stops) const;
  mutable Partial partial, stopping; ///< by which results count
};

/// Computes what a backward program computes, from the inputs of the main
/// program and then the gradients of its differentiable results, and can be
/// differentiated itself.
struct DifferentiableBackward {
  /// As `TorchExecutor::prefer`, of both programs.
  void prefer(Variant variant) const;

  std::shared_ptr<const void> code;
  std::unique_ptr<TorchExecutor> program;
  std::shared_ptr<const BackwardProgram> backward;
};

} // namespace pyjit::rt

#endif // PYJIT_RT_BACKWARDPROGRAM_H
