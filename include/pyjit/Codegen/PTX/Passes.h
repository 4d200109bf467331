//===- Passes.h - Kernels to PTX --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CODEGEN_PTX_PASSES_H
#define PYJIT_CODEGEN_PTX_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "pyjit/Codegen/PTX/Schedule.h"

namespace pyjit::ptx {

#define GEN_PASS_DECL
#include "lib/Codegen/PTX/Passes.h.inc"

struct PtxOptions {
  /// Code for the host, to run schedules where there is no GPU.
  bool simulate = false;
  /// The GPU that schedules are chosen for.
  Machine machine = {};
};

/// The options of a pass that chooses schedules, for a GPU.
template <typename PassOptions> PassOptions optionsFor(const Machine &machine) {
  PassOptions options;
  options.multiprocessors = machine.multiprocessors;
  options.threadsPerMultiprocessor = machine.threadsPerMultiprocessor;
  options.dependentLaunch = machine.dependentLaunch;
  return options;
}

/// Kernels on tensors to kernels in the LLVM dialect (pipeline `pyjit-ptx`).
void buildPtxPipeline(mlir::OpPassManager &pm, const PtxOptions &options);

#define GEN_PASS_REGISTRATION
#include "lib/Codegen/PTX/Passes.h.inc"

/// Passes of lib/Codegen/PTX.
void registerPtxCodegenPasses();

} // namespace pyjit::ptx

#endif
