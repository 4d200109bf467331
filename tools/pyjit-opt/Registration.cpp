//===- Registration.cpp - everything that pyjit's tools know --------------===//

#include "Registration.h"
#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/tssa/IR/TSSA.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/Passes.h"

void pyjit::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::scf::SCFDialect>();
  refgraph::registerRefGraphDialect(registry);
  tssa::registerTSSADialect(registry);
}

void pyjit::registerPasses() { mlir::registerTransformsPasses(); }
