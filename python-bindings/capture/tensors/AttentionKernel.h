// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- AttentionKernel.h - Which kernel eager takes for attention -*- C++ -*-=//

#ifndef PYJIT_CAPTURE_TENSORS_ATTENTIONKERNEL_H
#define PYJIT_CAPTURE_TENSORS_ATTENTIONKERNEL_H

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace pyjit::capture {

/// Of `aten::scaled_dot_product_attention` with these arguments: "flash_cpu",
/// "efficient" or "cudnn", kernels that leave behind what their gradients need.
/// Null where eager writes the formula out, and of other operators.
const char *attentionKernel(const std::string &overload,
                            const std::vector<c10::IValue> &arguments);

/// Whether that kernel has gradients for dropout, too, which draws the same
/// numbers in a CUDA graph and out of it.
bool drawsInAttention(const std::string &overload,
                      const std::vector<c10::IValue> &arguments);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSORS_ATTENTIONKERNEL_H
