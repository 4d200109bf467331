//===- KernelsToPtx.h - GPU kernels as text ---------------------*- C++ -*-===//

#ifndef PYJIT_TOOLS_PYJIT_TRANSLATE_KERNELSTOPTX_H
#define PYJIT_TOOLS_PYJIT_TRANSLATE_KERNELSTOPTX_H

namespace pyjit {
void registerKernelsToPtx();
} // namespace pyjit

#endif
