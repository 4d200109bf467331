//===- Pipelines.h - The order of the stages --------------------*- C++ -*-===//
//
// The only place that knows every stage.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_COMPILER_PIPELINES_H
#define PYJIT_COMPILER_PIPELINES_H

#include "pyjit/Compiler/Target.h"

#include "mlir/Pass/PassManager.h"

namespace pyjit::compiler {

/// What a compilation may vary.
struct CompileOptions {
  Target target;
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
  /// Where the IR goes that each stage leaves; empty: nowhere.
  std::string dumpDirectory;
};

/// `pyjit-frontend`: a trace becomes guards, mock and a functional tensor
/// program.
void buildFrontendPipeline(mlir::OpPassManager &manager,
                           const CompileOptions &options);
/// A tensor program on handles (the imperative level of tssa) becomes a
/// functional one; the end of `pyjit-frontend`.
void buildFunctionalPipeline(mlir::OpPassManager &manager,
                             const CompileOptions &options);
/// `pyjit-fuse`: a functional tensor program becomes calls of kernels (linalg
/// on tensors) and of libraries.
void buildFusePipeline(mlir::OpPassManager &manager,
                       const CompileOptions &options);
/// `pyjit-x86`: kernels become LLVM IR for the host.
void buildX86Pipeline(mlir::OpPassManager &manager,
                      const CompileOptions &options);
/// `pyjit-cpu`: all of the above.
void buildCpuPipeline(mlir::OpPassManager &manager,
                      const CompileOptions &options);

/// `pyjit-launch`: a functional tensor program of a device becomes a launch
/// program and kernels on tensors.
void buildLaunchPipeline(mlir::OpPassManager &manager,
                         const CompileOptions &options);
/// `pyjit-ptx`: kernels become LLVM IR for NVIDIA GPUs.
void buildPtxPipeline(mlir::OpPassManager &manager,
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
