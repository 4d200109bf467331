//===- Passes.h - Passes shared by the code generators ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CODEGEN_PASSES_H
#define PYJIT_CODEGEN_PASSES_H

#include "mlir/Pass/Pass.h"

namespace pyjit::codegen {

#define GEN_PASS_DECL
#include "lib/Codegen/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "lib/Codegen/Passes.h.inc"

} // namespace pyjit::codegen

#endif
