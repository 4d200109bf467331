//===- Stages.h - The stages of a compilation -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A stage has one name, in dumps, in statistics and as a pipeline
// (`pyjit-fuse`). A module says which one it has been through last, so that
// whatever reads it goes on from there.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_COMPILER_STAGES_H
#define PYJIT_COMPILER_STAGES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>
#include <optional>

namespace pyjit::compiler {

struct CompileOptions;

/// The steps of a compilation, in order; which of them there are depends on
/// what is compiled and for what.
enum class Stage {
  Parse,
  Frontend,
  Library,
  Fuse,
  CudaGraph,
  Alignments,
  X86,
  Ptx,
  Jit,
  Encode
};
llvm::StringRef getName(Stage stage);

/// Where the tensors of a program are.
enum class Placement {
  Host,            ///< on the CPU
  Device,          ///< on a GPU
  SimulatedDevice, ///< on the CPU, launched on as on a GPU (`Target`)
};
Placement getPlacement(mlir::ModuleOp module);

/// The last stage that the module has been through: as it says itself
/// (`pyjit.stage`), or as its operations show. Nothing: it is a trace, or a
/// tensor program that was written by hand.
std::optional<Stage> getStage(mlir::ModuleOp module);
void setStage(mlir::ModuleOp module, Stage stage);

/// Whether `pyjit-frontend` is still to come: there are traces, or tensors that
/// are handles.
bool isBeforeFrontend(mlir::ModuleOp module);

/// A stage as a pass, which refuses a module that has been through it, or that
/// still has `pyjit-frontend` before it. `placement`: which of the stage's
/// pipelines it runs, if not the one for where the module's tensors are.
std::unique_ptr<mlir::Pass>
createStagePass(Stage stage, const CompileOptions &options,
                std::optional<Placement> placement = std::nullopt);

} // namespace pyjit::compiler

#endif // PYJIT_COMPILER_STAGES_H
