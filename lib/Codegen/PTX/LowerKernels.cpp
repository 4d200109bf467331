//===- LowerKernels.cpp - Emitted GPU kernels to the LLVM dialect ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/pyjit/IR/Attributes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "pyjit/Codegen/KernelModule.h"
#include "pyjit/Codegen/PTX/Passes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace pyjit::ptx {
#define GEN_PASS_DEF_PTXLOWERKERNELS
#include "lib/Codegen/PTX/Passes.h.inc"

namespace {

struct LowerKernelsPass : impl::PtxLowerKernelsBase<LowerKernelsPass> {
  using PtxLowerKernelsBase::PtxLowerKernelsBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    PtxLowerKernelsBase::getDependentDialects(registry);
    registry.insert<cf::ControlFlowDialect>();
  }

  /// A GPU refuses a vector access whose address is not what the instruction
  /// says; the host may not mind. So every one is reported first.
  void reportAccesses(ModuleOp kernels) {
    OpBuilder b(kernels.getBodyRegion());
    auto report = [&](Operation *op, Value address, Type type,
                      std::optional<uint64_t> aligned) {
      auto vector = dyn_cast<VectorType>(type);
      if (!vector)
        return;
      uint64_t bytes = vector.getNumElements() *
                       vector.getElementType().getIntOrFloatBitWidth() / 8;
      Location loc = op->getLoc();
      func::FuncOp callee = declare(kernels, "pyjit_sim_access",
                                    {b.getI64Type(), b.getI64Type()}, {});
      b.setInsertionPoint(op);
      Value at = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), address);
      Value multiple = LLVM::ConstantOp::create(
          b, loc, b.getI64IntegerAttr(aligned.value_or(bytes)));
      func::CallOp::create(b, loc, callee, ValueRange{at, multiple});
    };
    SmallVector<Operation *> accesses;
    kernels.walk([&](Operation *op) {
      if (isa<LLVM::LoadOp, LLVM::StoreOp>(op))
        accesses.push_back(op);
    });
    for (Operation *op : accesses)
      if (auto load = dyn_cast<LLVM::LoadOp>(op))
        report(op, load.getAddr(), load.getType(), load.getAlignment());
      else if (auto store = dyn_cast<LLVM::StoreOp>(op))
        report(op, store.getAddr(), store.getValue().getType(),
               store.getAlignment());
  }

  /// A function that the simulator defines.
  static func::FuncOp declare(ModuleOp kernels, StringRef name,
                              TypeRange arguments, TypeRange results) {
    if (auto known = kernels.lookupSymbol<func::FuncOp>(name))
      return known;
    auto b = OpBuilder::atBlockBegin(kernels.getBody());
    auto callee = func::FuncOp::create(b, kernels.getLoc(), name,
                                       b.getFunctionType(arguments, results));
    callee.setPrivate();
    return callee;
  }

  /// An instruction of tensor cores: a call of the whole warp, then one for
  /// each sum of this thread, since C has no such structs in registers.
  static void simulateProduct(ModuleOp kernels, LLVM::CallIntrinsicOp op) {
    OpBuilder b(op);
    Location loc = op.getLoc();
    SmallVector<Value> operands;
    for (Value operand : op.getArgs())
      operands.push_back(
          isa<VectorType>(operand.getType())
              ? LLVM::BitcastOp::create(b, loc, b.getI32Type(), operand)
                    .getResult()
              : operand);
    Value bf16 = LLVM::ConstantOp::create(
        b, loc, b.getI32IntegerAttr(op.getIntrin().ends_with("bf16")));
    operands.push_back(bf16);
    func::CallOp::create(b, loc,
                         declare(kernels, "pyjit_sim_multiply",
                                 ValueRange(operands).getTypes(), {}),
                         operands);
    Type f32 = b.getF32Type(), type = op.getResult(0).getType();
    func::FuncOp sum =
        declare(kernels, "pyjit_sim_sum", {b.getI32Type()}, {f32});
    Value all = LLVM::UndefOp::create(b, loc, type);
    for (int64_t i : llvm::seq<int64_t>(
             0, cast<LLVM::LLVMStructType>(type).getBody().size())) {
      Value number = LLVM::ConstantOp::create(b, loc, b.getI32IntegerAttr(i));
      Value one = func::CallOp::create(b, loc, sum, number).getResult(0);
      all = LLVM::InsertValueOp::create(b, loc, all, one, i);
    }
    op.getResult(0).replaceAllUsesWith(all);
    op.erase();
  }

  /// Each block has shared memory of its own.
  static void simulateShared(ModuleOp kernels) {
    SmallVector<LLVM::AddressOfOp> addresses;
    kernels.walk([&](LLVM::AddressOfOp op) { addresses.push_back(op); });
    for (LLVM::AddressOfOp op : addresses) {
      OpBuilder b(op->getBlock(), std::next(op->getIterator()));
      Type pointer = op.getType();
      auto call = func::CallOp::create(
          b, op.getLoc(),
          declare(kernels, "pyjit_sim_shared", {pointer}, {pointer}),
          op.getResult());
      op.getResult().replaceAllUsesExcept(call.getResult(0), call);
    }
  }

  /// What only a GPU has becomes calls of functions that the simulator defines.
  void simulated(ModuleOp kernels) {
    OpBuilder b(kernels.getBodyRegion());
    SmallVector<LLVM::CallIntrinsicOp> calls;
    kernels.walk([&](LLVM::CallIntrinsicOp op) { calls.push_back(op); });
    for (LLVM::CallIntrinsicOp op : calls) {
      if (op.getIntrin().starts_with("llvm.nvvm.mma.m16n8k16.row.col.")) {
        simulateProduct(kernels, op);
        continue;
      }
      StringRef name =
          llvm::StringSwitch<StringRef>(op.getIntrin())
              .Case("llvm.nvvm.read.ptx.sreg.tid.x", "pyjit_sim_thread")
              .Case("llvm.nvvm.read.ptx.sreg.ctaid.x", "pyjit_sim_block")
              .Case("llvm.nvvm.barrier.cta.sync.aligned.all",
                    "pyjit_sim_barrier")
              .Case("llvm.nvvm.barrier.cluster.arrive.aligned",
                    "pyjit_sim_arrive")
              .Case("llvm.nvvm.barrier.cluster.wait.aligned", "pyjit_sim_wait")
              .Case("llvm.nvvm.mapa.shared.cluster", "pyjit_sim_shared_of")
              .Case("llvm.nvvm.shfl.sync.bfly.i32", "pyjit_sim_exchange")
              .Cases({"llvm.nvvm.ex2.approx", "llvm.nvvm.ex2.approx.ftz"},
                     "pyjit_sim_power2")
              .Case("llvm.nvvm.rcp.approx.ftz.f", "pyjit_sim_reciprocal")
              .Case("llvm.nvvm.div.full", "pyjit_sim_quotient")
              .Default("");
      if (name.empty())
        continue;
      func::FuncOp callee =
          declare(kernels, name, op.getArgs().getTypes(), op->getResultTypes());
      b.setInsertionPoint(op);
      auto call = func::CallOp::create(b, op.getLoc(), callee, op.getArgs());
      op->replaceAllUsesWith(call.getResults());
      op.erase();
    }
    simulateShared(kernels);
    SmallVector<func::FuncOp> functions(kernels.getOps<func::FuncOp>());
    for (func::FuncOp function : functions) {
      if (function.isExternal() || !function->hasAttr(attribute::kEntry))
        continue;
      b.setInsertionPointToEnd(kernels.getBody());
      Location loc = function.getLoc();
      Type pointer = LLVM::LLVMPointerType::get(b.getContext());
      auto entry =
          func::FuncOp::create(b, loc, ("sim_" + function.getName()).str(),
                               b.getFunctionType({pointer}, {}));
      Block *block = entry.addEntryBlock();
      b.setInsertionPointToStart(block);
      SmallVector<Value> arguments;
      for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
        Value slot = LLVM::GEPOp::create(
            b, loc, pointer, pointer, block->getArgument(0),
            ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
        arguments.push_back(LLVM::LoadOp::create(b, loc, type, slot));
      }
      func::CallOp::create(b, loc, function, arguments);
      func::ReturnOp::create(b, loc);
    }
  }

  LogicalResult lower(ModuleOp kernels) {
    if (simulate) {
      reportAccesses(kernels);
      simulated(kernels);
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
} // namespace pyjit::ptx
