//===- EmitKernel.h - A scheduled kernel as loops and vectors ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_CODEGEN_X86_EMITKERNEL_H
#define PYJIT_LIB_CODEGEN_X86_EMITKERNEL_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "pyjit/Codegen/Schedule.h"

namespace pyjit::x86 {

/// Fills `function`, of type (ptr, i64, i64) -> (), with the loops of `graph`.
/// `inputs` are the values behind the first buffer pointers; results follow.
/// Returns whether a pointer to the call's symbols has to follow these.
bool emitKernel(mlir::func::FuncOp function, codegen::KernelGraph &graph,
                const codegen::Schedule &schedule,
                llvm::ArrayRef<mlir::Value> inputs);

} // namespace pyjit::x86

#endif
