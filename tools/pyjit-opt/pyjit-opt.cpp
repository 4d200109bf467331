//===- pyjit-opt.cpp - run passes on pyjit IR -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/LibraryOptions.h"

#include "pyjit/Compiler/Pipelines.h"

#include "mlir/Debug/Counter.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

#include "llvm/Support/InitLLVM.h"

using namespace llvm;

/// `--help` lists categories by name: passes and pipelines stay in "General
/// options", and the driver's own options come behind them.
static void arrangeHelp(mlir::DialectRegistry &registry) {
  static cl::OptionCategory driver("Reading, printing and debugging");
  pyjit::tools::hideLibraryOptions();
  mlir::MlirOptMainConfig::registerCLOptions(registry);
  mlir::registerAsmPrinterCLOptions();
  mlir::registerMLIRContextCLOptions();
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  mlir::tracing::DebugCounter::registerCLOptions();
  for (auto &entry : cl::getRegisteredOptions()) {
    cl::Option &option = *entry.second;
    // The list of passes has no name of its own.
    bool runsPasses = option.ArgStr.empty() || option.ArgStr == "pass-pipeline";
    if (!runsPasses && option.getOptionHiddenFlag() == cl::NotHidden &&
        option.Categories.front() == &cl::getGeneralCategory())
      option.addCategory(driver);
  }
}

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  mlir::DialectRegistry registry;
  pyjit::compiler::registerDialects(registry);
  pyjit::compiler::registerPasses();
  arrangeHelp(registry);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "pyjit optimizer driver\n", registry));
}
