//===- Pipelines.h - The order of the stages --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The only place that knows every stage.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_COMPILER_PIPELINES_H
#define PYJIT_COMPILER_PIPELINES_H

#include "pyjit/Compiler/Stages.h"
#include "pyjit/Compiler/Target.h"

#include "mlir/Pass/PassManager.h"

namespace pyjit::compiler {

/// How far a program is compiled; behind that it runs by the simplest means
/// that there are. Each adds one thing to the one before, so the first that
/// gives a wrong answer names what is wrong (`pyjit.bisect`).
enum class Depth {
  Operators, ///< each operator is a call of Torch's own
  Library,   ///< calls of vendor libraries are planned, parameters prepared
  Kernels,   ///< what can be a kernel is one, each operation its own
  Fusion     ///< operations share kernels, and write in place: everything
};

/// The name of a depth: `operators`, `library`, `kernels`, `fusion`.
llvm::StringRef getName(Depth depth);
std::optional<Depth> symbolizeDepth(llvm::StringRef name);

/// What a compilation may vary.
struct CompileOptions {
  Target target;
  Depth depth = Depth::Fusion;
  /// Keep eager's intermediate roundings in half-precision chains.
  bool eagerRounding = false;
  /// Compile for the recorded sizes only.
  bool specializeSizes = false;
  /// Run the verifier of every operation behind each pass, not only the passes
  /// that state a stage's contract (docs/StageContracts.md).
  bool verify = false;
  /// 1: the program, and where it is in grad mode its backward program. 2: the
  /// program of its gradients and the backward program of that, and so on.
  unsigned gradientOrder = 1;
  /// Which of the programs is made: the main program with guards, mock and
  /// backward, the main program alone, or the backward program alone.
  enum class Part { Whole, Main, Backward };
  Part part = Part::Whole;
  /// Parameters with gradients stay what they are for several calls: what is
  /// computed from them is kept.
  bool parametersLast = false;
  /// Results that the backward program is given no gradients of.
  std::vector<uint32_t> droppedGradients;
  /// Gradients that come to one of them go no further, and are given.
  bool stopsAtDropped = false;
  /// Code of GPU kernels for the host, one call a thread.
  bool simulatePtx = false;
  /// Where the IR goes that each stage leaves; empty: nowhere.
  std::string dumpDirectory;
};

/// The passes of one stage, for tensors that are where `placement` says; a
/// stage that is no pipeline of passes has none. `pyjit-NAME` for each of them
/// is a pipeline that looks at the module for that (`createStagePass`).
void buildStage(mlir::OpPassManager &manager, Stage stage,
                const CompileOptions &options, Placement placement);
/// `pyjit-cpu`: all stages for the host, wherever tensors are.
void buildCpuPipeline(mlir::OpPassManager &manager,
                      const CompileOptions &options);
/// `pyjit-cuda`: all stages for a GPU.
void buildCudaPipeline(mlir::OpPassManager &manager,
                       const CompileOptions &options);

/// Registers the pipelines under the names above, with options by name.
void registerPipelines();
/// Registers every pass and pipeline of pyjit.
void registerPasses();
/// Registers every dialect that a pipeline meets, and what their translation to
/// LLVM IR needs.
void registerDialects(mlir::DialectRegistry &registry);

} // namespace pyjit::compiler

#endif // PYJIT_COMPILER_PIPELINES_H
