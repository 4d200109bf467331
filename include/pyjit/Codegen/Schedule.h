//===- Schedule.h - How a kernel's domain becomes loops ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A schedule is data: it fixes the order of a kernel graph's dimensions, which
// of them is walked by vectors, how much one unit of parallel work covers, and
// which values are kept for a later stage. The emitter of a target carries it
// out.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CODEGEN_SCHEDULE_H
#define PYJIT_CODEGEN_SCHEDULE_H

#include "pyjit/Codegen/KernelGraph.h"

namespace pyjit::codegen {

/// Elements that far apart are taken out of vectors that hold all between them.
inline constexpr int64_t kMaxSpread = 4;

/// Products that a tile's sum takes in before it is added to the next one.
inline constexpr int64_t kTileRun = 256;

struct ScheduleOptions {
  /// Width of the target's vectors.
  unsigned vectorBits = 256;
  /// Bytes of a row that a kernel may keep on its stack.
  int64_t scratchBytes = 64 << 10;
  /// Vector registers. 0: a target that makes no tiles of rows.
  unsigned registers = 0;
  /// No result lies where an operand does: elements may be computed twice.
  bool resultsApart = false;
  /// Whether code asks for memory ahead of a core's own prefetcher.
  bool prefetch = true;
};

/// A factor of the number that a unit has.
struct UnitPart {
  unsigned dim;
  /// Numbers; an estimate where `symbolic` says how many there are in a call.
  int64_t count;
  /// Elements of the dim that one number stands for; 0: the dim is bound to the
  /// number itself.
  int64_t block;
  mlir::AffineExpr symbolic;
};

struct SavedNode {
  Node *node;
  /// The stage loop that computes and keeps it.
  unsigned stage;
};

struct Schedule {
  /// The graph's dims are ordered: parallel ones first, then reduction ones.
  unsigned numParallel = 0;
  unsigned numReduction = 0;
  /// The dim walked by vectors, always the last parallel or last reduction
  /// dim; -1 if none is.
  int vectorDim = -1;
  /// 1 where several scalars are in flight: a reduction along elements that lie
  /// too far apart for vectors.
  unsigned lanes = 1;
  /// Vectors in flight per iteration.
  unsigned unroll = 1;
  /// What whole vectors leave of the vector dim is walked by one that ends with
  /// the dim, and so computes some elements a second time, not one by one.
  bool restOverlaps = false;
  /// A second parallel dim, the last but one, of which `tileRows` elements are
  /// in flight with the vectors; -1: none. For contractions whose operands are
  /// shared (asContraction), so that each operand is loaded once for a whole
  /// tile; for kernels without reduction that read along that dim, so that a
  /// square of elements is read by vectors and transposed in registers. The dim
  /// of a contraction's rows may be symbolic.
  int tileDim = -1;
  int64_t tileRows = 1;
  /// The sums of a contraction's tile go to memory, and a loop over its rows
  /// does what follows from them: copies for each row would be most of a
  /// kernel's code, and runs' partial sums more than the registers hold.
  bool sumsInMemory = false;
  /// Not 0: a reduction over long rows, whose columns are the vector dim, is
  /// walked row by row: the sums of a block's columns lie in memory, and so
  /// many rows are taken in at a time. By a few columns at a time, each row
  /// would be a page of which a line or two are read.
  int64_t streamedRows = 0;
  /// As in ScheduleOptions.
  bool prefetch = false;
  /// Leading parallel dims that the unit index enumerates.
  unsigned unitDims = 0;
  /// If not 0, the last parallel dim is walked in blocks of this many
  /// elements, and the unit index enumerates the blocks too.
  int64_t block = 0;
  /// What the unit index enumerates, outermost first.
  llvm::SmallVector<UnitPart, 4> unitParts;
  /// Units in all, and how many are worth a task of their own.
  int64_t work = 1;
  int64_t grain = 1;
  /// These as expressions over symbols where they differ between calls; what is
  /// above are estimates then.
  mlir::AffineExpr symbolicWork, symbolicGrain;
  llvm::SmallVector<SavedNode, 2> saved;

  bool vectorInReduction() const {
    return vectorDim >= 0 && unsigned(vectorDim) >= numParallel;
  }
  void print(llvm::raw_ostream &os) const;
};

/// Reorders, splits and merges `graph`'s dims and says how to walk them.
Schedule scheduleKernel(KernelGraph &graph, const ScheduleOptions &options);

} // namespace pyjit::codegen

#endif
