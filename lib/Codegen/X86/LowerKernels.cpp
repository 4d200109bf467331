//===- LowerKernels.cpp - Emitted kernels to the LLVM dialect -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "pyjit/Codegen/KernelModule.h"
#include "pyjit/Codegen/X86/Passes.h"

using namespace mlir;

namespace pyjit::x86 {
#define GEN_PASS_DEF_X86LOWERKERNELS
#include "lib/Codegen/X86/Passes.h.inc"

namespace {

struct LowerKernelsPass : impl::X86LowerKernelsBase<LowerKernelsPass> {
  using X86LowerKernelsBase::X86LowerKernelsBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    X86LowerKernelsBase::getDependentDialects(registry);
    registry.insert<cf::ControlFlowDialect>();
  }

  LogicalResult lower(ModuleOp kernels) {
    MLIRContext *context = &getContext();
    // LLVM has no vectors of bf16 on most hosts and calls a function for each
    // element; before the conversion, whose own patterns would win.
    RewritePatternSet expand(context);
    arith::populateExpandBFloat16Patterns(expand);
    if (failed(applyPatternsGreedily(kernels, std::move(expand))))
      return failure();
    return codegen::convertToLLVM(kernels);
  }

  void runOnOperation() override {
    auto lowerOne = [&](ModuleOp kernels) { return lower(kernels); };
    if (failed(codegen::lowerKernels(getOperation(), lowerOne)))
      signalPassFailure();
  }
};

} // namespace
} // namespace pyjit::x86
