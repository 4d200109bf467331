//===- Passes.h - Passes of the cudagraph dialect ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_CUDAGRAPH_TRANSFORMS_PASSES_H
#define PYJIT_DIALECTS_CUDAGRAPH_TRANSFORMS_PASSES_H

#include "dialects/cudagraph/IR/CudaGraph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace pyjit::cudagraph {

#define GEN_PASS_DECL
#include "dialects/cudagraph/Transforms/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "dialects/cudagraph/Transforms/Passes.h.inc"

/// `pyjit-cudagraph`: the passes in their order. `fuse`: equal kernels may
/// become one.
void buildGraphPipeline(mlir::OpPassManager &manager, bool fuse = true);

} // namespace pyjit::cudagraph

#endif // PYJIT_DIALECTS_CUDAGRAPH_TRANSFORMS_PASSES_H
