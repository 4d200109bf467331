//===- Safetensors.h - Tensors of .safetensors files ------------*- C++ -*-===//

#ifndef PYJIT_TOOLS_PYJIT_RUN_SAFETENSORS_H
#define PYJIT_TOOLS_PYJIT_RUN_SAFETENSORS_H

#include "Npy.h"

namespace pyjit::run {

/// Reads the tensor `name` of a .safetensors file.
llvm::Expected<OwnedArray> readSafetensors(llvm::StringRef path,
                                           llvm::StringRef name);

} // namespace pyjit::run

#endif // PYJIT_TOOLS_PYJIT_RUN_SAFETENSORS_H
