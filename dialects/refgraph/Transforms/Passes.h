//===- Passes.h - passes of the refgraph dialect ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_PASSES_H
#define PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace pyjit::refgraph {

#define GEN_PASS_DECL
#include "dialects/refgraph/Transforms/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "dialects/refgraph/Transforms/Passes.h.inc"

/// Of the module: what refgraph-lift-sizes says of sizes that keep their value,
/// for readers.
inline constexpr llvm::StringLiteral kSpecializedSizes =
    "refgraph.specialized_sizes";

/// From traces to guards, mock and graph. `specializeSizes`: sizes keep the
/// values that were recorded.
void buildSpecializationPipeline(mlir::OpPassManager &manager,
                                 bool specializeSizes = false);

} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_PASSES_H
