//===- AttentionKernels.h - Attention by its own kernels --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_DIFFERENTIATION_ATTENTIONKERNELS_H
#define PYJIT_LIB_DIFFERENTIATION_ATTENTIONKERNELS_H

#include "Adjoint.h"

namespace pyjit::differentiation {

/// The gradients of `aten::scaled_dot_product_attention` by the kernel that
/// eager takes for them (`pyjit.takes_kernel`): the call becomes one of that
/// kernel, which also leaves the logarithms of its rows' sums, of which its
/// gradients' kernel makes the weights again, part by part (Dao et al.,
/// "FlashAttention", 2022, section 3). False, and nothing is done, where there
/// is none that fits.
bool differentiateByKernel(Adjoint &adjoint);

} // namespace pyjit::differentiation

#endif // PYJIT_LIB_DIFFERENTIATION_ATTENTIONKERNELS_H
