//===- Composites.h - Operators that are made of others ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A composite operator is recorded as its parts. Some of what these are given
// Torch computed of sizes, in C++: to the recorder literals like any other,
// wrong as soon as the sizes differ. So a composite either is known to pass on
// only what it was given; or it is known how it computes the numbers that it
// passes on, which are then written as expressions; or all sizes that it was
// given keep their values.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CAPTURE_COMPOSITES_H
#define PYJIT_CAPTURE_COMPOSITES_H

#include "TraceWriter.h"
#include "pyjit-c/Operators.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pyjit::capture {

class Recording;
struct TensorOpArguments;

class Composites {
public:
  explicit Composites(Recording &recording) : s(recording) {}

  /// Recorded whole once sizes matter: what the parts are given is known of the
  /// whole only.
  bool keepsWhole(const std::string &name, const PyjitOperatorFacts &facts,
                  const std::vector<c10::IValue> &inputs) const;
  bool runsForLengths(const PyjitOperatorFacts &facts,
                      const std::vector<c10::IValue> &inputs) const;
  /// Such an operator is about to run, and has run.
  void begin(const std::string &name, const PyjitOperatorFacts &facts,
             const std::vector<c10::IValue> &inputs);
  void end() { running.pop_back(); }
  bool isIn(std::string_view name) const {
    return !running.empty() && running.back().name == name;
  }
  /// Whether a running composite has made this memory itself.
  bool owns(const at::Tensor &tensor) const;
  /// One that answers a question about tensors.
  void question(const std::string &name, const PyjitOperatorFacts &facts,
                const std::vector<c10::IValue> &inputs);
  /// Argument `i` of a part of a composite, where it is an expression of the
  /// composite's sizes; empty: what stands there.
  PyjitAttribute argument(const std::string &overload,
                          const PyjitOperatorFacts &facts,
                          const std::vector<c10::IValue> &inputs, size_t i,
                          TensorOpArguments &arguments);

private:
  /// The sizes that Torch gives to the views of a value that is assigned to a
  /// part of a tensor.
  PyjitAttribute assigned(const std::string &name,
                          const std::vector<c10::IValue> &inputs,
                          TensorOpArguments &arguments);
  /// A number that Torch computes of sizes: `plus` and `times` the product of
  /// sizes of tensors, divided by `by` and rounded down.
  struct Computed {
    std::vector<std::pair<at::Tensor, int64_t>> sizes = {};
    int64_t times = 1, plus = 0, by = 1;
  };
  using Numbers = std::vector<Computed>;
  struct Composite {
    std::string name;
    PyjitOperatorFacts facts;
    std::vector<at::Tensor> tensors;
    /// What it gives to its parts: lists, and numbers.
    std::vector<Numbers> lists;
    Numbers numbers;
    /// Of the last two operands that an `einsum` made matrices of, the
    /// dimensions in each of their three.
    std::vector<std::array<Numbers, 3>> matrices;
    bool repeats = false;     ///< it widens by what it was told to
    bool specialized = false; ///< its sizes keep their values
  };

  static Computed sizeOf(const at::Tensor &tensor, int64_t dim);
  static Numbers sizesOf(const at::Tensor &tensor);
  static Computed product(const Numbers &numbers);
  static int64_t evaluate(const Computed &number);
  static std::vector<int64_t> evaluate(const Numbers &list);
  bool describe(Composite &composite, const std::vector<c10::IValue> &inputs);
  bool describeLoss(Composite &composite,
                    const std::vector<c10::IValue> &inputs);
  bool describeAttention(Composite &composite,
                         const std::vector<c10::IValue> &inputs);
  void describeResize(Composite &composite,
                      const std::vector<c10::IValue> &inputs);
  bool describeTransform(const std::vector<c10::IValue> &inputs);
  bool describeChunk(Composite &composite,
                     const std::vector<c10::IValue> &inputs);
  bool describeJoin(Composite &composite,
                    const std::vector<c10::IValue> &inputs);
  /// Argument `i` of a part, where it is one number.
  PyjitAttribute number(const std::string &overload,
                        const std::vector<c10::IValue> &inputs, size_t i,
                        TensorOpArguments &arguments);
  bool specializeDim(const at::Tensor &tensor, int64_t dim);
  void specialize(Composite &composite);
  void specializeRunning();
  int write(const Computed &number);
  PyjitAttribute write(const Numbers &list, TensorOpArguments &arguments);
  /// The one list of sizes that is known to be handed on and has these values;
  /// null: there is none, or (`several`) which of them it is is not known.
  const Numbers *findList(const std::vector<int64_t> &values,
                          bool &several) const;
  /// What a part of an `einsum` shows `self` in.
  std::optional<Numbers> regroup(const std::string &name,
                                 const at::Tensor &self,
                                 const std::vector<int64_t> &values);
  PyjitAttribute list(const std::string &name,
                      const std::vector<c10::IValue> &inputs,
                      TensorOpArguments &arguments);

  Recording &s;
  std::vector<Composite> running;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_COMPOSITES_H
