//===- Passes.h - From planned functions to launch programs -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CONVERSION_TSSATOCUDAGRAPH_PASSES_H
#define PYJIT_CONVERSION_TSSATOCUDAGRAPH_PASSES_H

#include "mlir/Pass/Pass.h"

namespace pyjit {

#define GEN_PASS_DECL
#include "lib/Conversion/TSSAToCudaGraph/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Conversion/TSSAToCudaGraph/Passes.h.inc"

} // namespace pyjit

#endif // PYJIT_CONVERSION_TSSATOCUDAGRAPH_PASSES_H
