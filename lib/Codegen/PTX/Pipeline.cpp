//===- Pipeline.cpp - The PTX stage as one pipeline -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "mlir/IR/BuiltinOps.h"
#include "pyjit/Codegen/PTX/Passes.h"
#include "pyjit/Codegen/Passes.h"

using namespace mlir;

namespace pyjit::ptx {

void buildPtxPipeline(OpPassManager &pm, const PtxOptions &options) {
  Machine machine = options.machine;
  machine.dependentLaunch &= !options.simulate;
  pm.addPass(
      createPtxSplitReductions(optionsFor<PtxSplitReductionsOptions>(machine)));
  pm.addPass(createPtxEmitKernels(optionsFor<PtxEmitKernelsOptions>(machine)));
  pm.addNestedPass<ModuleOp>(createPtxExpandMath());
  codegen::CodegenExpandMathOptions math;
  math.nativeBF16 = !options.simulate;
  pm.addNestedPass<ModuleOp>(codegen::createCodegenExpandMath(math));
  PtxLowerKernelsOptions lower;
  lower.simulate = options.simulate;
  pm.addPass(createPtxLowerKernels(lower));
}

void registerPtxCodegenPasses() { registerPtxPasses(); }

} // namespace pyjit::ptx
