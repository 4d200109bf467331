//===- KernelModule.h - The module that holds emitted code ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every target emits its kernels into a nested `module @kernels` and leaves
// declarations behind; what the targets' passes share about it is here.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CODEGEN_KERNELMODULE_H
#define PYJIT_CODEGEN_KERNELMODULE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "pyjit/Codegen/Attention.h"
#include "pyjit/Codegen/KernelGraph.h"

namespace pyjit::codegen {

/// A kernel that has a body. What its attribute `pyjit.may_overlap` claims is
/// proven once more. `batch`: its body is so many equal parts, of which the
/// first one is taken (`pyjit.batch`).
struct KernelBody {
  explicit KernelBody(mlir::func::FuncOp kernel, unsigned batch = 1);

  llvm::SmallVector<mlir::Value> inputs, roots;
  /// One of these, or none if the kernel cannot be scheduled, which has been
  /// reported.
  std::unique_ptr<KernelGraph> graph;
  std::optional<Attention> attention;

  bool isKernel() const { return graph || attention; }
};

/// A remark with what the kernel computes, and how.
void remarkSchedule(mlir::func::FuncOp kernel, const KernelGraph &graph,
                    llvm::function_ref<void(llvm::raw_ostream &)> print);

/// Makes `module @kernels` at the end of `module` and calls `emit(kernel, it)`
/// for each function with a body and the attribute `pyjit.kernel`. Nothing is
/// made where there is no such function. Goes on after a failure, so that every
/// kernel's diagnostic appears.
mlir::LogicalResult
emitKernels(mlir::ModuleOp module,
            llvm::function_ref<mlir::LogicalResult(mlir::func::FuncOp kernel,
                                                   mlir::ModuleOp into)>
                emit);

/// Calls `lower` for the nested `module @kernels`, where there is one.
mlir::LogicalResult
lowerKernels(mlir::ModuleOp module,
             llvm::function_ref<mlir::LogicalResult(mlir::ModuleOp)> lower);

/// Emitted kernels (arith, math, vector, scf, func) to the LLVM dialect.
mlir::LogicalResult convertToLLVM(mlir::ModuleOp kernels);

} // namespace pyjit::codegen

#endif // PYJIT_CODEGEN_KERNELMODULE_H
