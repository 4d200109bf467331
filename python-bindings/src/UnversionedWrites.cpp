//===- UnversionedWrites.cpp - Writes that no version counts --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Torch has no kernel of its own for these operators where in-place operators
// count versions; what is registered here counts, and goes on.
//
//===----------------------------------------------------------------------===//

#include "UnversionedWrites.h"

#include <torch/library.h>

namespace pyjit::python {

std::atomic<uint32_t> UnversionedWrites::writes = 0;

/// Noted before and behind: who looks meanwhile looks again.
static void count(const c10::OperatorHandle &op, c10::DispatchKeySet keys,
                  torch::jit::Stack *stack) {
  UnversionedWrites::note();
  op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
  UnversionedWrites::note();
}

TORCH_LIBRARY_IMPL(aten, ADInplaceOrView, m) {
  for (const char *name :
       {"_fused_adagrad_", "_fused_adagrad_.tensor_lr", "_fused_adam_",
        "_fused_adam_.tensor_lr", "_fused_adamw_", "_fused_adamw_.tensor_lr",
        "_fused_sgd_", "_fused_sgd_.tensor_lr"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&count>());
}

} // namespace pyjit::python
