// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- SavedInputs.h - Inputs that calls keep for their gradients -*- C++
//-*-===//
//
// What the nodes of one call keep of its inputs, and who else keeps them.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_SAVEDINPUTS_H
#define PYJIT_RT_SAVEDINPUTS_H

#include "pyjit-rt/BackwardProgram.h"

#include <unordered_map>

namespace pyjit::rt {

/// The inputs that a call saves for its backward, in their versions before the
/// launch, by place in `BackwardProgram::reads`.
class SavedInputs {
public:
  /// As autograd's SavedVariable keeps an input: the tensor itself, and its
  /// version; of those there are many, and this takes no time.
  struct Input {
    at::Tensor tensor;
    uint32_t version;
    c10::Device device;
    std::unique_ptr<TensorLayout> layout; ///< where the program has none
    /// What it showed, where eager keeps a view.
    c10::Storage memory = {};
    int64_t offset = 0;
  };
  /// References to a tensor, and beside its own to its memory.
  struct References {
    size_t tensor = 0, memory = 0;
  };

  SavedInputs(const BackwardProgram &program, const at::Tensor *inputs);
  ~SavedInputs();
  SavedInputs(const SavedInputs &) = delete;
  SavedInputs &operator=(const SavedInputs &) = delete;

  const Input &operator[](size_t place) const { return saved[place]; }

  /// Adds to each entry how many references calls whose backward has not freed
  /// them hold to that tensor and to its memory.
  static void
  count(std::unordered_map<const c10::TensorImpl *, References> &references);

private:
  /// All that are alive, in a list through `before` and `behind`.
  struct Alive {
    std::mutex lock;
    SavedInputs *first = nullptr;
  };
  static Alive &alive();

  std::vector<Input> saved;
  SavedInputs *before = nullptr, *behind = nullptr;
};

} // namespace pyjit::rt

#endif // PYJIT_RT_SAVEDINPUTS_H
