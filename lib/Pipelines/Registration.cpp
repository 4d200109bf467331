//===- Registration.cpp - Every dialect that a pipeline meets -------------===//
//
// A file of its own: it is slow to compile.
//
//===----------------------------------------------------------------------===//

#include "pyjit/Pipelines/Pipelines.h"

#include "dialects/cudagraph/IR/CudaGraph.h"
#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/tssa/IR/TSSA.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

void pyjit::pipelines::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::LLVM::LLVMDialect, mlir::linalg::LinalgDialect,
                  mlir::math::MathDialect, mlir::scf::SCFDialect,
                  mlir::tensor::TensorDialect, mlir::vector::VectorDialect>();
  refgraph::registerRefGraphDialect(registry);
  tssa::registerTSSADialect(registry);
  cudagraph::registerCudaGraphDialect(registry);
}
