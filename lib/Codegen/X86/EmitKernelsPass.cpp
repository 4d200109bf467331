//===- EmitKernelsPass.cpp - Kernels on tensors to loops over vectors -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "EmitKernel.h"
#include "dialects/pyjit/IR/Attributes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "pyjit/Codegen/KernelModule.h"
#include "pyjit/Codegen/X86/Passes.h"
#include "pyjit/Operators/CallArguments.h"

using namespace mlir;

namespace pyjit::x86 {
#define GEN_PASS_DEF_X86EMITKERNELS
#include "lib/Codegen/X86/Passes.h.inc"

namespace {

struct EmitKernelsPass : impl::X86EmitKernelsBase<EmitKernelsPass> {
  using X86EmitKernelsBase::X86EmitKernelsBase;

  LogicalResult emit(func::FuncOp kernel, ModuleOp into) {
    codegen::KernelBody body(kernel);
    if (body.attention)
      return kernel.emitError("kernel '")
             << kernel.getName()
             << "' is a softmax between two sums, which GPUs alone have in one "
                "kernel (fusion-outline{attention})";
    if (!body.graph)
      return failure();
    codegen::KernelGraph &graph = *body.graph;
    codegen::ScheduleOptions options;
    options.vectorBits = vectorBits;
    options.registers = vectorBits >= 512 ? 32 : 16;
    options.prefetch = prefetch;
    options.resultsApart = !kernel->hasAttr(attribute::kMayOverlap);
    codegen::Schedule schedule = codegen::scheduleKernel(graph, options);
    if (printSchedules)
      codegen::remarkSchedule(kernel, graph,
                              [&](raw_ostream &os) { schedule.print(os); });
    OpBuilder b(into.getBodyRegion());
    b.setInsertionPointToEnd(into.getBody());
    Type ptr = LLVM::LLVMPointerType::get(b.getContext());
    auto type = b.getFunctionType({ptr, b.getI64Type(), b.getI64Type()}, {});
    auto emitted =
        func::FuncOp::create(b, kernel.getLoc(), kernel.getName(), type);
    if (emitKernel(emitted, graph, schedule, body.inputs))
      kernel->setAttr(attribute::kReadsSymbols, b.getUnitAttr());

    auto setNumber = [&](StringRef name, int64_t value, AffineExpr symbolic) {
      kernel->setAttr(name, symbolic ? operators::makeSizeArgument(symbolic)
                                     : b.getI64IntegerAttr(value));
    };
    setNumber(attribute::kWork, schedule.work, schedule.symbolicWork);
    setNumber(attribute::kGrain, schedule.grain, schedule.symbolicGrain);
    kernel.eraseBody();
    kernel.setPrivate();
    return success();
  }

  void runOnOperation() override {
    if (vectorBits < 32 || !llvm::isPowerOf2_32(vectorBits)) {
      getOperation().emitError("vector-bits is a power of two of at least 32, "
                               "not ")
          << vectorBits;
      return signalPassFailure();
    }
    auto emitOne = [&](func::FuncOp kernel, ModuleOp into) {
      return emit(kernel, into);
    };
    if (failed(codegen::emitKernels(getOperation(), emitOne)))
      signalPassFailure();
  }
};

} // namespace
} // namespace pyjit::x86
