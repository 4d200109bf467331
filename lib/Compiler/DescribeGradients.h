//===- DescribeGradients.h - What a backward program takes and gives ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_COMPILER_DESCRIBEGRADIENTS_H
#define PYJIT_LIB_COMPILER_DESCRIBEGRADIENTS_H

#include "pyjit/Compiler/Executable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pyjit::compiler {

/// Of functional programs: later stages know nothing of where a program's
/// arguments come from.
Executable::Gradients describeGradients(mlir::func::FuncOp forward,
                                        mlir::func::FuncOp backward);

} // namespace pyjit::compiler

#endif // PYJIT_LIB_COMPILER_DESCRIBEGRADIENTS_H
