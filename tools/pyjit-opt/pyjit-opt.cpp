//===- pyjit-opt.cpp - run passes on pyjit IR -----------------------------===//

#include "pyjit/Compiler/Pipelines.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  pyjit::compiler::registerDialects(registry);
  pyjit::compiler::registerPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "pyjit optimizer driver\n", registry));
}
