//===- Pipelines.h - The order of the stages --------------------*- C++ -*-===//
//
// The only place that knows every stage.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_PIPELINES_PIPELINES_H
#define PYJIT_PIPELINES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace pyjit::pipelines {

/// What the compilation of one module may vary. The pipelines take the same
/// options by name.
struct Options : mlir::PassPipelineOptions<Options> {
  Option<bool> eagerRounding{
      *this, "eager-rounding",
      llvm::cl::desc("Keep eager's intermediate roundings in half precision"),
      llvm::cl::init(false)};
  Option<std::string> accelerator{
      *this, "accelerator",
      llvm::cl::desc("Treat this device as a GPU (\"cpu\": a software device, "
                     "for tests); empty: every device but the CPU"),
      llvm::cl::init("")};
  Option<bool> pinSizes{*this, "pin-sizes",
                        llvm::cl::desc("Compile for the recorded sizes only"),
                        llvm::cl::init(false)};
};

/// `pyjit-frontend`: a trace becomes guards, mock and a functional tensor
/// program.
void buildFrontendPipeline(mlir::OpPassManager &manager,
                           const Options &options);
/// A tensor program on handles (the imperative level of tssa) becomes a
/// functional one; the end of `pyjit-frontend`.
void buildFunctionalPipeline(mlir::OpPassManager &manager);
/// `pyjit-fuse`: a functional tensor program becomes calls of kernels (linalg
/// on tensors) and of libraries.
void buildFusePipeline(mlir::OpPassManager &manager, const Options &options);
/// `pyjit-x86`: kernels become LLVM IR for the host.
void buildX86Pipeline(mlir::OpPassManager &manager, const Options &options);
/// `pyjit-cpu`: all of the above.
void buildCpuPipeline(mlir::OpPassManager &manager, const Options &options);

/// A functional tensor program of a device becomes a launch program and kernels
/// on tensors.
void buildLaunchPipeline(mlir::OpPassManager &manager, const Options &options);

/// `pyjit-ptx`: kernels become LLVM IR for NVIDIA GPUs.
void buildPtxPipeline(mlir::OpPassManager &manager, const Options &options);
/// `pyjit-cuda`: all stages for a GPU.
void buildCudaPipeline(mlir::OpPassManager &manager, const Options &options);

/// Registers the pipelines under the names above.
void registerPipelines();
/// Registers every dialect that a pipeline meets, and what their translation to
/// LLVM IR needs.
void registerDialects(mlir::DialectRegistry &registry);

} // namespace pyjit::pipelines

#endif // PYJIT_PIPELINES_PIPELINES_H
