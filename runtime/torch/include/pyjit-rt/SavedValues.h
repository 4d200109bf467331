// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- SavedValues.h - What calls leave for their backward programs -*- C++
//-*-===//

#ifndef PYJIT_RT_SAVEDVALUES_H
#define PYJIT_RT_SAVEDVALUES_H

#include "pyjit-rt/Program.h"

#include <ATen/core/DimVector.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

namespace pyjit::rt {

/// Which outputs of a program lie in the block that a call leaves for its
/// backward program (kSlotSaved), and where.
class SavedPlan {
public:
  struct Part {
    uint64_t begin; ///< in bytes
    at::DimVector sizes, strides;
    at::ScalarType type;
  };
  /// Null where a call leaves no block.
  static std::shared_ptr<const SavedPlan> of(const Program &program);

  bool has(uint32_t output) const { return parts[output].has_value(); }
  /// The output as a tensor, which keeps the block.
  at::Tensor show(uint32_t output, const at::Tensor &block) const;

private:
  std::vector<std::optional<Part>> parts; ///< by output
};

/// The block of one call.
struct SavedValues {
  std::shared_ptr<const SavedPlan> plan; ///< null: no output lies in a block
  at::Tensor block;

  bool has(uint32_t output) const { return plan && plan->has(output); }
  at::Tensor show(uint32_t output) const { return plan->show(output, block); }
  void reset() {
    plan.reset();
    block.reset();
  }
};

} // namespace pyjit::rt

#endif // PYJIT_RT_SAVEDVALUES_H
