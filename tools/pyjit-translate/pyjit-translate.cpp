//===- pyjit-translate.cpp - pyjit IR into other forms --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "KernelsToPtx.h"
#include "OperatorTables.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "pyjit/Compiler/Pipelines.h"
#include "pyjit/Executable/MockProgram.h"
#include "pyjit/Executable/ProgramText.h"

using namespace mlir;
using namespace pyjit;

/// Each specialization's guards and mock, encoded and printed.
static LogicalResult printSpecializations(Operation *top, raw_ostream &os) {
  auto module = dyn_cast<ModuleOp>(top);
  if (!module)
    return top->emitError("expected a module");
  for (auto guards : module.getOps<refgraph::GuardsOp>()) {
    executable::GuardProgram guardProgram;
    if (failed(executable::encodeGuards(guards, guardProgram)))
      return failure();
    os << "@" << guards.getSpecialization() << "\n";
    executable::printProgram(*guardProgram.get(), os);
    for (auto mock : module.getOps<refgraph::MockOp>()) {
      if (mock.getSpecializationAttr() != guards.getSpecializationAttr())
        continue;
      executable::MockProgram mockProgram;
      if (failed(executable::encodeMock(mock, guardProgram, mockProgram)))
        return failure();
      executable::printProgram(*mockProgram.get(), os);
    }
  }
  return success();
}

int main(int argc, char **argv) {
  TranslateFromMLIRRegistration records(
      "specialization-to-text",
      "flat guard and mock programs of each specialization",
      printSpecializations, compiler::registerDialects);
  registerOperatorTableTranslations();
  registerKernelsToPtx();
  return failed(mlirTranslateMain(argc, argv, "pyjit translation driver\n"));
}
