//===- Registration.cpp - Every dialect and every pass --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file of its own: it is slow to compile.
//
//===----------------------------------------------------------------------===//

#include "pyjit/Compiler/Pipelines.h"

#include "dialects/cudagraph/IR/CudaGraph.h"
#include "dialects/cudagraph/Transforms/Passes.h"
#include "dialects/pyjit/IR/Pyjit.h"
#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/Transforms/Passes.h"
#include "pyjit/Codegen/PTX/Passes.h"
#include "pyjit/Codegen/X86/Passes.h"
#include "pyjit/Conversion/RefGraphToTSSA/Passes.h"
#include "pyjit/Conversion/TSSAToCudaGraph/Passes.h"
#include "pyjit/Differentiation/Passes.h"
#include "pyjit/Fusion/Passes.h"
#include "pyjit/Library/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"

void pyjit::compiler::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::LLVM::LLVMDialect, mlir::linalg::LinalgDialect,
                  mlir::math::MathDialect, mlir::scf::SCFDialect,
                  mlir::tensor::TensorDialect, mlir::vector::VectorDialect>();
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  registerPyjitDialect(registry);
  refgraph::registerRefGraphDialect(registry);
  tssa::registerTSSADialect(registry);
  cudagraph::registerCudaGraphDialect(registry);
}

/// A former name of a pass, for one release: a pipeline of this name, which
/// takes the pass's options.
static void registerFormerName(llvm::StringRef former, llvm::StringRef present,
                               mlir::PassAllocatorFunction create) {
  mlir::registerPassPipeline(
      former, ("The former name of " + present).str(),
      [create = std::move(create)](
          mlir::OpPassManager &manager, llvm::StringRef options,
          llvm::function_ref<llvm::LogicalResult(const llvm::Twine &)> error)
          -> llvm::LogicalResult {
        std::unique_ptr<mlir::Pass> pass = create();
        if (llvm::failed(pass->initializeOptions(options, error)))
          return llvm::failure();
        manager.addPass(std::move(pass));
        return llvm::success();
      },
      [](llvm::function_ref<void(const mlir::detail::PassOptions &)>) {});
}

void pyjit::compiler::registerPasses() {
  mlir::registerTransformsPasses();
  refgraph::registerRefGraphPasses();
  registerRefGraphToTSSAPasses();
  tssa::registerTSSAPasses();
  tssa::registerFunctionalizePipeline();
  differentiation::registerDifferentiationPasses();
  library::registerLibraryPasses();
  fusion::registerFusionPasses();
  registerTSSAToCudaGraphPasses();
  cudagraph::registerCudaGraphPasses();
  x86::registerCodegenPasses();
  ptx::registerPtxCodegenPasses();
  registerPipelines();
  registerFormerName("refgraph-reroll-loops", "refgraph-form-loops",
                     [] { return refgraph::createFormLoopsPass(); });
  registerFormerName("tssa-hoist-expectations", "tssa-hoist-speculations",
                     [] { return tssa::createHoistSpeculationsPass(); });
  registerFormerName("library-plan-products", "library-plan-matmuls",
                     [] { return library::createPlanMatmulsPass(); });
}
