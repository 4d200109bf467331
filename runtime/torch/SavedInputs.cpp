//===- SavedInputs.cpp - Inputs that calls keep for their gradients -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/SavedInputs.h"

namespace pyjit::rt {

SavedInputs::SavedInputs(const BackwardProgram &program,
                         const at::Tensor *inputs) {
  saved.reserve(program.reads.size());
  for (const BackwardProgram::Input &input : program.reads) {
    const at::Tensor &tensor = inputs[input.index];
    saved.push_back(
        {input.copied ? tensor.clone() : tensor,
         input.copied ? 0 : uint32_t(tensor._version()), tensor.device(),
         input.layout
             ? nullptr
             : std::make_unique<TensorLayout>(TensorLayout::of(tensor))});
    if (input.seen && !input.copied && tensor.has_storage()) {
      saved.back().memory = tensor.storage();
      saved.back().offset = tensor.storage_offset();
    }
  }
  std::lock_guard<std::mutex> guard(alive().lock);
  behind = alive().first;
  if (behind)
    behind->before = this;
  alive().first = this;
}

SavedInputs::~SavedInputs() {
  std::lock_guard<std::mutex> guard(alive().lock);
  if (behind)
    behind->before = before;
  if (before)
    before->behind = behind;
  else
    alive().first = behind;
}

/// Tensors do not know who saved them, so the list is process state.
SavedInputs::Alive &SavedInputs::alive() {
  static Alive *all = new Alive; // outlives the interpreter
  return *all;
}

void SavedInputs::count(
    std::unordered_map<const c10::TensorImpl *, References> &references) {
  std::lock_guard<std::mutex> guard(alive().lock);
  for (const SavedInputs *call = alive().first; call; call = call->behind)
    for (const Input &input : call->saved)
      if (auto known = references.find(input.tensor.unsafeGetTensorImpl());
          known != references.end()) {
        ++known->second.tensor;
        known->second.memory +=
            input.memory && input.memory.is_alias_of(input.tensor.storage());
      }
}

} // namespace pyjit::rt
