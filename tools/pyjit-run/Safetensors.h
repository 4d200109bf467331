//===- Safetensors.h - Tensors of .safetensors files ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_TOOLS_PYJIT_RUN_SAFETENSORS_H
#define PYJIT_TOOLS_PYJIT_RUN_SAFETENSORS_H

#include "Npy.h"

#include <string>
#include <vector>

namespace pyjit::run {

/// Reads the tensor `name` of a .safetensors file.
llvm::Expected<OwnedArray> readSafetensors(llvm::StringRef path,
                                           llvm::StringRef name);

/// The names of a file's tensors in the order in which a program takes them:
/// its metadata's `pyjit_inputs`, a JSON list. An error where it has none.
llvm::Expected<std::vector<std::string>> readInputNames(llvm::StringRef path);

} // namespace pyjit::run

#endif // PYJIT_TOOLS_PYJIT_RUN_SAFETENSORS_H
