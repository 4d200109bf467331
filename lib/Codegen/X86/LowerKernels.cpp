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

/// Where nothing is to be expanded, the walk over all operations is left out.
bool convertsBFloat16(ModuleOp kernels) {
  auto isBFloat16 = [](Value value) {
    return getElementTypeOrSelf(value.getType()).isBF16();
  };
  return kernels
      .walk([&](Operation *op) {
        bool found =
            isa<arith::ExtFOp, arith::TruncFOp>(op) &&
            (isBFloat16(op->getOperand(0)) || isBFloat16(op->getResult(0)));
        return found ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

struct LowerKernelsPass : impl::X86LowerKernelsBase<LowerKernelsPass> {
  using X86LowerKernelsBase::X86LowerKernelsBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    X86LowerKernelsBase::getDependentDialects(registry);
    registry.insert<cf::ControlFlowDialect>();
  }

  LogicalResult lower(ModuleOp kernels) {
    if (convertsBFloat16(kernels)) {
      // LLVM has no vectors of bf16 on most hosts and calls a function for each
      // element; before the conversion, whose own patterns would win.
      RewritePatternSet expand(&getContext());
      arith::populateExpandBFloat16Patterns(expand);
      if (failed(applyPatternsGreedily(kernels, std::move(expand))))
        return failure();
    }
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
