//===- RefGraph.h - the refgraph dialect ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_REFGRAPH_IR_REFGRAPH_H
#define PYJIT_DIALECTS_REFGRAPH_IR_REFGRAPH_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "pyjit/Analysis/SizePolynomial.h"

#include "dialects/refgraph/IR/RefGraphDialect.h.inc"
#include "dialects/refgraph/IR/RefGraphEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/refgraph/IR/RefGraphTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/refgraph/IR/RefGraphOps.h.inc"

namespace pyjit::refgraph {
void registerRefGraphDialect(mlir::DialectRegistry &registry);

/// "file:line" of the innermost of the frames that a location nests, or "".
std::string lineOf(mlir::Location loc);
} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_IR_REFGRAPH_H
