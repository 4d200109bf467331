//===- Registration.cpp - everything that pyjit's tools know --------------===//

#include "Registration.h"
#include "dialects/refgraph/IR/RefGraph.h"
#include "mlir/Transforms/Passes.h"

void pyjit::registerDialects(mlir::DialectRegistry &registry) {
  refgraph::registerRefGraphDialect(registry);
}

void pyjit::registerPasses() { mlir::registerTransformsPasses(); }
