//===- Schedule.h - How a kernel's domain becomes threads -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A schedule is data: it stands on the kernel as the attribute
// `pyjit.schedule`, where a test can read it and put another in its place. The
// cost model (lib/Codegen/PTX/CostModel.cpp) chooses one where none is given;
// the verifier says why one does not fit a kernel; the emitter carries it out.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CODEGEN_PTX_SCHEDULE_H
#define PYJIT_CODEGEN_PTX_SCHEDULE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "pyjit/Codegen/Attention.h"
#include "pyjit/Codegen/KernelGraph.h"
#include <optional>

namespace pyjit::ptx {

enum class Family {
  /// Every point on its own: threads walk the flattened domain.
  Flat,
  /// Reductions along what vectors walk: a group of threads shares a row.
  Row,
  /// Reductions across what vectors walk: threads side by side hold columns.
  Column,
  /// A copy whose source is contiguous along another dim than its result:
  /// square tiles pass through shared memory.
  Tile,
  /// A matmul of few rows in half precision (pyjit/Codegen/RowsProduct.h):
  /// warps share the sum, tensor cores multiply.
  Product,
  /// Few queries' softmax over all keys (pyjit/Codegen/Attention.h): the blocks
  /// of a cluster share the keys.
  Attention
};

/// Of a product: columns and rows of one instruction (mma.m16n8k16), elements
/// of the sum that a warp takes at a step, and those of one load of a thread.
struct ProductTile {
  static constexpr int64_t columns = 16, rows = 8, run = 32, load = 8;
};

struct Schedule {
  Family family = Family::Flat;
  /// Elements of a vector: what one memory access of a thread covers.
  unsigned lanes = 1;
  /// Vectors of one thread in flight. Product: of each operand. Attention: of
  /// keys, and as many of values.
  unsigned vectors = 1;
  /// Threads of a block.
  unsigned threads = 256;
  /// Row: threads that share a row. Column: threads that share a column; the
  /// rest stand side by side. Product: a block has so many times 16 columns.
  /// Attention: blocks of a cluster.
  unsigned group = 1;
  /// Row, Column: what a thread holds of its row is the whole of it, so that
  /// every value is loaded and computed once and stays in registers.
  bool resident = false;
  /// Blocks that a multiprocessor has room for at least: bounds the registers
  /// of a thread. 0: no bound.
  unsigned blocks = 0;
  /// Tile: the dim that operands are read along.
  int across = -1;

  mlir::DictionaryAttr toAttr(mlir::MLIRContext *context) const;
  /// Null and a reason if `attr` is no schedule.
  static std::optional<Schedule> fromAttr(mlir::DictionaryAttr attr,
                                          std::string &reason);
  void print(llvm::raw_ostream &os) const;
};

/// A kernel's graph with its dims in walking order.
struct Domain {
  std::shared_ptr<codegen::KernelGraph> graph;
  /// Parallel dims come first.
  unsigned numParallel = 0, numReduction = 0;
  /// The dim that vectors walk, the last of its group; -1 if none is.
  int vectorDim = -1;
  /// Product of the parallel, and of the reduction dims. Estimates where these
  /// differ between calls.
  int64_t rows = 1, rowElements = 1;
  /// The same, in every call.
  analysis::Size rowCount = 1, rowSize = 1;
  /// Whether an extent of a parallel dim is zero: nothing is computed.
  bool empty = false;

  bool vectorInReduction() const {
    return vectorDim >= 0 && unsigned(vectorDim) >= numParallel;
  }
  int64_t vectorSize() const {
    return vectorDim < 0 ? 1 : graph->dims[vectorDim].estimate();
  }
  /// Whether vectors of `lanes` elements leave no rest, in any call.
  bool isDividedBy(unsigned lanes) const {
    return lanes == 1 ||
           (vectorDim >= 0 && graph->dims[vectorDim].isMultipleOf(lanes));
  }
};

Domain arrange(std::unique_ptr<codegen::KernelGraph> graph);

/// The same of a graph whose dims are in order. `vectorDim`: what vectors walk.
Domain describe(std::shared_ptr<codegen::KernelGraph> graph, int vectorDim);

/// What the stage has to know of the GPU. Without one to ask or a name for it
/// (pyjit/Compiler/Target.h), an H200.
struct Machine {
  unsigned multiprocessors = 132;
  unsigned threadsPerMultiprocessor = 2048;
  /// Whether a kernel may be launched before the one in front of it has ended,
  /// and wait for its end (programmatic dependent launch). Code that waits runs
  /// from compute capability 9.0 on.
  bool dependentLaunch = false;
};

Schedule chooseSchedule(const Domain &domain, const Machine &machine);
Schedule chooseSchedule(const codegen::Attention &attention,
                        const Machine &machine);

/// The largest divisor of `extent` that is at most `most`.
int64_t largestDivisor(int64_t extent, int64_t most);

/// In how many parts a reduction that reads `bytes` is worth being computed; 1
/// if `schedule` keeps the machine busy as it is.
int64_t chooseParts(const Domain &domain, const Schedule &schedule,
                    const Machine &machine, int64_t bytes);

/// Shared memory in which the threads of a column schedule meet.
int64_t columnBytes(const Schedule &schedule, const Domain &domain);

/// Product: elements from one row of sums in shared memory to the next one. The
/// four rows that a warp stores at once begin in banks of their own.
int64_t productPitch(const Schedule &schedule);
/// Shared memory in which the warps of a product of so many rows meet.
int64_t productBytes(const Schedule &schedule, int64_t rows);

/// Attention: threads that share a key, a vector of it each.
unsigned threadsPerKey(const Schedule &schedule,
                       const codegen::Attention &attention);
/// Elements from one query's sums to the next one's in shared memory.
int64_t attentionPitch(const Schedule &schedule,
                       const codegen::Attention &attention);
/// Shared memory in which the warps of a block meet, and the cluster's blocks.
int64_t attentionBytes(const Schedule &schedule,
                       const codegen::Attention &attention);

/// Whether `schedule` can carry out `domain`.
bool verifySchedule(const Schedule &schedule, const Domain &domain,
                    std::string &reason);
bool verifySchedule(const Schedule &schedule,
                    const codegen::Attention &attention, std::string &reason);

} // namespace pyjit::ptx

#endif
