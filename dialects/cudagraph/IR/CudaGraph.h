//===- CudaGraph.h - the cudagraph dialect ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_CUDAGRAPH_IR_CUDAGRAPH_H
#define PYJIT_DIALECTS_CUDAGRAPH_IR_CUDAGRAPH_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

#include "dialects/cudagraph/IR/CudaGraphDialect.h.inc"
#include "dialects/cudagraph/IR/CudaGraphEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/cudagraph/IR/CudaGraphTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/cudagraph/IR/CudaGraphOps.h.inc"

namespace pyjit::cudagraph {

/// Adds the dialect to a registry.
void registerCudaGraphDialect(mlir::DialectRegistry &registry);

/// The buffer that a chain of views ends in.
mlir::Value getRoot(mlir::Value buffer);
/// Whether it shows all of the buffer that its chain of views ends in.
bool isWhole(mlir::Value buffer);
/// The external memory that `buffer` is a part of, or null: what the call
/// brings along, or what a vendor call outside of graphs allocated, anew at
/// each call.
mlir::Value getExternal(mlir::Value buffer);
/// Whether the address of this external memory may differ from call to call.
bool isMoving(mlir::Value external);

/// The operands that `op` itself writes, not what its regions do.
llvm::SmallVector<mlir::Value> getWritten(mlir::Operation *op);

/// Buffers of a launch that has an indirect version: an encoded step says in
/// one word which of them are indirect.
inline constexpr unsigned kMostIndirect = 63;

/// When a planned buffer holds something, in numbers that grow with the order
/// of the stream. -1: never used.
struct Lifetime {
  int64_t first = -1, last = -1;
};
/// Of every `cudagraph.buffer`. What one iteration may leave for a later one
/// lives as long as the loop; what each one writes before it reads does not.
llvm::MapVector<mlir::Value, Lifetime> getLifetimes(ProgramOp program);

} // namespace pyjit::cudagraph

#endif // PYJIT_DIALECTS_CUDAGRAPH_IR_CUDAGRAPH_H
