//===- Registration.cpp - everything that pyjit's tools know --------------===//

#include "Registration.h"
#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/tssa/IR/TSSA.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/Passes.h"
#include "pyjit/Codegen/X86/Passes.h"
#include "pyjit/Fusion/Passes.h"

void pyjit::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::LLVM::LLVMDialect, mlir::linalg::LinalgDialect,
                  mlir::math::MathDialect, mlir::scf::SCFDialect,
                  mlir::tensor::TensorDialect, mlir::vector::VectorDialect>();
  refgraph::registerRefGraphDialect(registry);
  tssa::registerTSSADialect(registry);
}

void pyjit::registerPasses() {
  mlir::registerTransformsPasses();
  x86::registerCodegenPasses();
  refgraph::registerRefGraphPasses();
  fusion::registerFusionPasses();
}
