//===- KernelsToPtx.cpp - GPU kernels as text -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What `pyjit-opt --pyjit-ptx` wrote, through LLVM's NVPTX back end.
//
//===----------------------------------------------------------------------===//

#include "KernelsToPtx.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "pyjit/Codegen/PTX/Compile.h"
#include "pyjit/Compiler/Pipelines.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;
using namespace pyjit;

static llvm::cl::opt<std::string>
    chip("chip", llvm::cl::desc("GPU that --kernels-to-ptx writes code for"),
         llvm::cl::init("sm_90"));

static LogicalResult translate(Operation *op, raw_ostream &os) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    return op->emitError("expected a module");
  auto code = pyjit::ptx::compileKernels(module, {chip});
  if (!code)
    return op->emitError(llvm::toString(code.takeError()));
  for (const std::string &part : code->modules)
    os << part;
  return success();
}

void pyjit::registerKernelsToPtx() {
  static TranslateFromMLIRRegistration registration(
      "kernels-to-ptx", "GPU kernels in the LLVM dialect to PTX", translate,
      compiler::registerDialects);
}
