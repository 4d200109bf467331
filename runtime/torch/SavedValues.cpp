//===- SavedValues.cpp - What calls leave for their backward programs -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/SavedValues.h"

#include <ATen/ops/empty.h>

using namespace pyjit::rt;

std::shared_ptr<const SavedPlan> SavedPlan::of(const Program &program) {
  std::vector<std::optional<uint64_t>> begins(program.numSlots());
  bool any = false;
  for (uint32_t i = 0; i < program.numSlots(); ++i)
    if (const Slot &slot = program.slots()[i]; slot.flags & kSlotSaved) {
      begins[i] = slot.place;
      any = true;
    }
  if (!any)
    return nullptr;
  // Views begin at a place that is known: those of no loop are made once.
  for (uint32_t i = 0; i < program.numSteps(); ++i) {
    const Step &step = program.steps()[i];
    if (step.kind != StepKind::View || step.flags & kStepDynamic ||
        !begins[step.b])
      continue;
    auto type = static_cast<c10::ScalarType>(program.slots()[step.a].dtype);
    begins[step.a] =
        *begins[step.b] + program.ints()[step.c] * c10::elementSize(type);
  }
  auto plan = std::make_shared<SavedPlan>();
  plan->parts.resize(program.numOutputs());
  for (uint32_t i = program.header().firstSaved; i < program.numOutputs();
       ++i) {
    uint32_t index = program.outputSlot(i);
    if (program.isInPlace(i) || !begins[index])
      continue;
    const Slot &slot = program.slots()[index];
    const int64_t *dims = program.ints() + slot.dims;
    plan->parts[i] = {*begins[index], at::DimVector(dims, dims + slot.rank),
                      at::DimVector(dims + slot.rank, dims + 2 * slot.rank),
                      static_cast<c10::ScalarType>(slot.dtype)};
  }
  return plan;
}

at::Tensor SavedPlan::show(uint32_t output, const at::Tensor &block) const {
  const Part &part = *parts[output];
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(block.storage()), block.key_set(),
      c10::scalarTypeToTypeMeta(part.type));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
      part.sizes, part.strides,
      int64_t(part.begin / c10::elementSize(part.type)));
  return tensor;
}
