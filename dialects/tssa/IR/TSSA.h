//===- TSSA.h - the tssa dialect --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_TSSA_IR_TSSA_H
#define PYJIT_DIALECTS_TSSA_IR_TSSA_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/tssa/IR/TSSADialect.h.inc"
#include "dialects/tssa/IR/TSSAEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/tssa/IR/TSSAAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/tssa/IR/TSSATypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/tssa/IR/TSSAOps.h.inc"

namespace pyjit::tssa {

/// Whether `op` does nothing besides computing its results, but raise for some
/// operands: it may run earlier or later, or once for several iterations, and
/// only may not be left out (`isMemoryEffectFree`).
bool mayMove(mlir::Operation *op);

/// Adds the dialect to a registry.
void registerTSSADialect(mlir::DialectRegistry &registry);

} // namespace pyjit::tssa

#endif // PYJIT_DIALECTS_TSSA_IR_TSSA_H
