//===- SeenInputs.h - Inputs that eager keeps views of ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Eager's nodes save an input itself or a view of it. Where the program makes
// the tensor show other memory (`x.data = y`) before the backward comes, the
// first shows the new memory, the second what was there. In front of
// differentiation, what eager has a view of reads `pyjit::seen(input)`.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_LIB_DIFFERENTIATION_SEENINPUTS_H
#define PYJIT_LIB_DIFFERENTIATION_SEENINPUTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pyjit::differentiation {

/// Each view of an input, and each operator that saves one, gets a
/// `pyjit::seen` of its own in front of it: gradients come to the input in the
/// order in which they come to the operators.
void markSeenInputs(mlir::func::FuncOp function);
/// Leaves one for each input, at the beginning.
void mergeSeenInputs(mlir::Block &block);
/// The input, where the value is what an input showed; else null.
mlir::BlockArgument getSeenInput(mlir::Value value);

} // namespace pyjit::differentiation

#endif // PYJIT_LIB_DIFFERENTIATION_SEENINPUTS_H
