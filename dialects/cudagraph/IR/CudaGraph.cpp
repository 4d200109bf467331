//===- CudaGraph.cpp - the cudagraph dialect ------------------------------===//

#include "dialects/cudagraph/IR/CudaGraph.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "pyjit/Operators/CallArguments.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;
using operators::parseCallArguments;
using operators::printCallArguments;

#include "dialects/cudagraph/IR/CudaGraphDialect.cpp.inc"
#include "dialects/cudagraph/IR/CudaGraphEnums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/cudagraph/IR/CudaGraphTypes.cpp.inc"

void CudaGraphDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/cudagraph/IR/CudaGraphTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/cudagraph/IR/CudaGraphOps.cpp.inc"
      >();
}

void pyjit::cudagraph::registerCudaGraphDialect(DialectRegistry &registry) {
  registry.insert<CudaGraphDialect>();
}

Value pyjit::cudagraph::getRoot(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewOp>())
    buffer = view.getSource();
  return buffer;
}

Value pyjit::cudagraph::getExternal(Value buffer) {
  Value root = getRoot(buffer);
  Operation *maker = root.getDefiningOp();
  bool external =
      isa_and_nonnull<ExternalOp>(maker) ||
      (isa_and_nonnull<CallOp>(maker) && !maker->getParentOfType<GraphOp>());
  return external ? root : Value();
}

bool pyjit::cudagraph::isMoving(Value external) {
  auto declared = external.getDefiningOp<ExternalOp>();
  return !declared || !declared.getStable();
}

#define GET_OP_CLASSES
#include "dialects/cudagraph/IR/CudaGraphOps.cpp.inc"
