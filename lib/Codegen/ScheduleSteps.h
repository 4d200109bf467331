//===- ScheduleSteps.h - The steps of scheduleKernel ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CODEGEN_SCHEDULESTEPS_H
#define PYJIT_CODEGEN_SCHEDULESTEPS_H

#include "pyjit/Codegen/Schedule.h"

namespace pyjit::codegen {

//===--- The domain rewritten, without a change of meaning (ScheduleDims.cpp)

/// A merged dimension that is read apart is walked as two, so that the accesses
/// are linear again.
void splitDims(KernelGraph &graph);
/// Parallel dims first, outermost first, each group by falling stride, with the
/// vector dim last in its group.
void orderDims(KernelGraph &graph, int &vectorDim);
/// Merges neighbours that every access walks as one.
void mergeDims(KernelGraph &graph, int &vectorDim);
/// Puts the parallel dims in the order `order` of their present numbers.
void permuteDims(KernelGraph &graph, llvm::ArrayRef<unsigned> order);

//===--- Several rows in flight beside the vectors (ScheduleTiles.cpp)

/// Sums of products: which dim gives a tile its rows, in which order the other
/// dims are walked, and how large a unit is.
void chooseTile(KernelGraph &graph, Schedule &schedule,
                const ScheduleOptions &options);
/// A transposing copy or its like: another operand is dense along a dim that is
/// not the one walked by vectors. As many rows of that dim as there are lanes
/// are read as vectors and transposed in registers, in blocks that a cache
/// holds. `cost`: of one element, as in `Node`.
void chooseTranspose(KernelGraph &graph, Schedule &schedule,
                     const ScheduleOptions &options, unsigned cost);

//===--- Parts

/// A kernel whose elements cost more than so many operations (see `Node::cost`)
/// is bound by computing, not by memory.
inline constexpr unsigned kComputeBound = 48;

/// A part of the unit's number for each index of a dim.
inline UnitPart wholeDim(const KernelGraph &graph, unsigned d) {
  return {d, graph.dims[d].estimate(), 0, graph.dims[d].extent};
}

inline unsigned bytesOf(mlir::Type type) {
  return std::max(1u, type.getIntOrFloatBitWidth() / 8);
}

} // namespace pyjit::codegen

#endif // PYJIT_CODEGEN_SCHEDULESTEPS_H
