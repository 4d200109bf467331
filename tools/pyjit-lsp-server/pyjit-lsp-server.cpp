//===- pyjit-lsp-server.cpp - pyjit's IR in an editor ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's language server with pyjit's dialects: errors, definitions and uses of
// dumped IR in any editor that speaks the protocol.
//
//===----------------------------------------------------------------------===//

#include "pyjit/Compiler/Pipelines.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  pyjit::compiler::registerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
