//===- KernelsToPtx.h - GPU kernels as text ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_TOOLS_PYJIT_TRANSLATE_KERNELSTOPTX_H
#define PYJIT_TOOLS_PYJIT_TRANSLATE_KERNELSTOPTX_H

namespace pyjit {
void registerKernelsToPtx();
} // namespace pyjit

#endif
