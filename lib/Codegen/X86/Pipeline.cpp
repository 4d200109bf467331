//===- Pipeline.cpp - The x86 stage as one pipeline -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "mlir/IR/BuiltinOps.h"
#include "pyjit/Codegen/Passes.h"
#include "pyjit/Codegen/X86/Passes.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;

namespace pyjit::x86 {

unsigned hostVectorBits() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  if (features.lookup("avx512f") && features.lookup("avx512vl") &&
      features.lookup("avx512bw") && features.lookup("avx512dq"))
    return 512;
  return features.lookup("avx2") ? 256 : 128;
}

MatmulLimits matmulLimits(unsigned vectorBits, bool amd) {
  if (vectorBits < 256)
    return {0, 0, INT64_MAX};
  constexpr int64_t fewRows = 64;
  if (!amd)
    return {2 * vectorBits / 32, fewRows, INT64_MAX};
  return {2 * vectorBits / 32, INT64_MAX, vectorBits == 512 ? 32 : 256};
}

static bool isHostAmd() {
  return llvm::sys::getHostCPUName().starts_with("znver");
}

MatmulLimits hostMatmulLimits() {
  return matmulLimits(hostVectorBits(), isHostAmd());
}

bool hostPrefetches() { return !isHostAmd(); }

void buildX86Pipeline(OpPassManager &pm, const X86Options &options) {
  X86EmitKernelsOptions emit;
  emit.vectorBits = options.vectorBits;
  emit.prefetch = options.prefetch;
  pm.addPass(createX86EmitKernels(emit));
  pm.addPass(createX86ShareKernels());
  // Only what was emitted holds math operations outside of kernels' linalg.
  codegen::CodegenExpandMathOptions math;
  math.vectorMathBits = options.vectorMath ? options.vectorBits : 0;
  pm.addNestedPass<ModuleOp>(codegen::createCodegenExpandMath(math));
  pm.addPass(createX86LowerKernels());
}

void registerCodegenPasses() {
  registerX86Passes();
  codegen::registerCodegenPasses();
}

} // namespace pyjit::x86
