//===- ScheduleTiles.cpp - Several rows in flight beside the vectors ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two kinds of kernel keep the elements of a second parallel dim in registers:
// sums of products, whose operands are then loaded once for a whole tile, and
// transposing copies, whose squares are transposed in registers.
//
//===----------------------------------------------------------------------===//

#include "ScheduleSteps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace pyjit::codegen {

/// In elements, between neighbouring rows of a tile. x86 has displacements of
/// 32 bits: 16 rows of 8-byte elements reach 2^31 bytes.
static constexpr int64_t kMaxDisplacement = int64_t(1) << 24;

/// Rows of a tile over `size` elements: as many as the registers hold, or fewer
/// where that leaves less of a rest. A rest is code of its own.
static int64_t chooseRows(int64_t size, int64_t most) {
  int64_t least = std::max<int64_t>(2, most / 2 + 1), best = most;
  int64_t bestCost = std::numeric_limits<int64_t>::max();
  // A tile of few rows waits for its own sums: it costs what `least` rows cost.
  for (int64_t rows = std::min(most, size); rows >= std::min(least, size);
       --rows) {
    int64_t rest = size % rows;
    int64_t cost = size / rows * std::max(rows, least) +
                   (rest ? std::max(rest, least) + 1 : 0);
    if (cost < bestCost) {
      bestCost = cost;
      best = rows;
    }
  }
  return best;
}

namespace {

/// The one sum of products that a kernel computes: `columns` is read by
/// vectors, `rows` is the same for all lanes.
struct VectorContraction {
  Node *columns, *rows;
  /// Elements of `rows` that one sum reads.
  int64_t rowElements = 1;

  static std::optional<VectorContraction> find(const KernelGraph &graph,
                                               unsigned vector);
  int64_t rowBytes() const { return rowElements * bytesOf(rows->type); }
};

/// In which order the parallel dims beside tile and vectors are walked.
struct WalkOrder {
  SmallVector<unsigned> dims;
  /// The rows are the larger operand: they are walked once, and the columns
  /// again for each part of them.
  bool rowsOutside;
  /// How many of the dims stand outside of the blocks of rows.
  unsigned outside;
};

} // namespace

std::optional<VectorContraction>
VectorContraction::find(const KernelGraph &graph, unsigned vector) {
  std::optional<Contraction> contraction;
  unsigned sums = 0;
  for (auto &node : graph.nodes)
    if (node->kind == Node::Kind::Reduce) {
      ++sums;
      contraction = asContraction(node.get());
    }
  if (sums != 1 || !contraction)
    return std::nullopt;
  VectorContraction found{contraction->left, contraction->right};
  if (!found.columns->dims.test(vector))
    std::swap(found.columns, found.rows);
  if (!found.columns->dims.test(vector) || found.rows->dims.test(vector))
    return std::nullopt;
  for (const Dim &dim : graph.dims)
    if (dim.reduction)
      found.rowElements *= dim.estimate();
  return found;
}

/// Whether the rows of a tile along `dim` are at constant displacements from
/// its first one, in each access.
static bool isNearIn(const LinearForm &form, unsigned dim) {
  return !form.isNonlinearIn(dim) &&
         std::abs(form.coefficient(dim)) < kMaxDisplacement;
}

/// The longest dim that only the rows have, or -1.
static int chooseTileDim(const KernelGraph &graph, const Schedule &schedule,
                         const VectorContraction &contraction) {
  int tile = -1;
  for (int d = 0; d < int(schedule.numParallel); ++d) {
    if (d == schedule.vectorDim || contraction.columns->dims.test(d) ||
        !contraction.rows->dims.test(d))
      continue;
    bool usable = graph.dims[d].estimate() > 1;
    graph.forEachIndex([&](AffineExpr expr, unsigned, bool) {
      usable &= isNearIn(linearize(expr), d);
    });
    if (usable &&
        (tile < 0 || graph.dims[d].estimate() > graph.dims[tile].estimate()))
      tile = d;
  }
  return tile;
}

static WalkOrder chooseWalk(const KernelGraph &graph, const Schedule &schedule,
                            const VectorContraction &contraction, int tile) {
  int64_t rowBytes = contraction.rowBytes(), columnBytes = rowBytes;
  SmallVector<unsigned> both, rows, columns;
  for (int d = 0; d < int(schedule.numParallel); ++d) {
    bool inRows = contraction.rows->dims.test(d);
    bool inColumns = contraction.columns->dims.test(d);
    if (inRows && !inColumns)
      rowBytes *= graph.dims[d].estimate();
    if (inColumns && !inRows)
      columnBytes *= graph.dims[d].estimate();
    if (d == tile || d == schedule.vectorDim)
      continue;
    (inRows == inColumns ? both : inRows ? rows : columns).push_back(d);
  }
  WalkOrder walk;
  // Of rows whose number differs between calls there may be many.
  walk.rowsOutside = graph.dims[tile].isSymbolic() || rowBytes > columnBytes;
  walk.outside = both.size() + (walk.rowsOutside ? rows.size() : 0);
  walk.dims = both;
  llvm::append_range(walk.dims, walk.rowsOutside ? rows : columns);
  llvm::append_range(walk.dims, walk.rowsOutside ? columns : rows);
  return walk;
}

/// Rows that the second-level cache holds while all columns pass; where the
/// columns are walked once, all rows. Enough units for the threads. Where the
/// number of rows is not known, columns that come from memory are to be read
/// seldom: a tile takes far longer than its rows take from the last level.
static int64_t chooseRowBlock(const KernelGraph &graph,
                              const Schedule &schedule,
                              const VectorContraction &contraction,
                              bool rowsOutside) {
  constexpr int64_t cacheBytes = 160 << 10, enoughUnits = 16, unknownRows = 256;
  const Dim &walked = graph.dims[schedule.tileDim];
  if (walked.isSymbolic())
    return llvm::alignDown(unknownRows, schedule.tileRows);
  int64_t length = walked.size, block = length;
  if (rowsOutside)
    block = std::clamp<int64_t>(
        cacheBytes / std::max<int64_t>(1, contraction.rowBytes()),
        schedule.tileRows, length);
  int64_t others = 1;
  for (unsigned d = 0; d + 2 < schedule.numParallel; ++d)
    others *= graph.dims[d].estimate();
  while (others * llvm::divideCeil(length, block) < enoughUnits &&
         block > schedule.tileRows)
    block = llvm::divideCeil(block, 2);
  return llvm::alignTo(block, schedule.tileRows);
}

/// Blocks of `block` elements of a dim as a part of the unit's number.
static UnitPart blocksOf(const KernelGraph &graph, unsigned d, int64_t block) {
  const Dim &dim = graph.dims[d];
  return {d, int64_t(llvm::divideCeil(dim.estimate(), block)), block,
          dim.isSymbolic() ? dim.extent.ceilDiv(block) : AffineExpr()};
}

/// `walk`, then the tile, then the vectors.
static void orderForTile(KernelGraph &graph, Schedule &schedule,
                         ArrayRef<unsigned> walk, unsigned tile) {
  SmallVector<unsigned> order(walk);
  order.push_back(tile);
  order.push_back(schedule.vectorDim);
  permuteDims(graph, order);
  schedule.tileDim = schedule.numParallel - 2;
  schedule.vectorDim = schedule.numParallel - 1;
  schedule.unitDims = schedule.numParallel - 2;
}

static bool hasSymbolicSum(const KernelGraph &graph) {
  return llvm::any_of(graph.dims, [](const Dim &dim) {
    return dim.reduction && dim.isSymbolic();
  });
}

/// Whether sums are taken in several parts, or enough follows from them to
/// outweigh a store and a load.
static bool wantsSumsInMemory(const KernelGraph &graph,
                              const Schedule &schedule,
                              const VectorContraction &contraction) {
  constexpr unsigned few = 4;
  unsigned cost = 0;
  for (const Store &store : graph.stores) {
    // Stored beside the sum.
    for (unsigned d = schedule.numParallel; d < graph.dims.size(); ++d)
      if (store.dims.test(d))
        return false;
    cost += store.node->cost;
  }
  return hasSymbolicSum(graph) || contraction.rowElements > 2 * kTileRun ||
         cost > few;
}

void chooseTile(KernelGraph &graph, Schedule &schedule,
                const ScheduleOptions &options) {
  if (options.registers == 0 || schedule.vectorDim < 0 ||
      schedule.vectorInReduction() || schedule.numReduction == 0 ||
      schedule.numParallel < 2 || graph.dims[schedule.vectorDim].isSymbolic())
    return;
  std::optional<VectorContraction> contraction =
      VectorContraction::find(graph, schedule.vectorDim);
  if (!contraction)
    return;
  schedule.unroll = std::min<int64_t>(2, graph.dims[schedule.vectorDim].size /
                                             schedule.lanes);
  int tile = chooseTileDim(graph, schedule, *contraction);
  if (tile < 0)
    return;
  WalkOrder walk = chooseWalk(graph, schedule, *contraction, tile);
  orderForTile(graph, schedule, walk.dims, tile);

  // Registers for the vectors of a row, a broadcast element, one to spare.
  int64_t most =
      (options.registers - schedule.unroll - 2) / std::max(1u, schedule.unroll);
  const Dim &length = graph.dims[schedule.tileDim];
  most = std::max<int64_t>(2, most);
  // Of 32 registers, 28 sums were slower than 24 (Zen 5), and more sizes are
  // multiples of twelve and the powers of two that are left over.
  constexpr int64_t many = 8, four = 4;
  if (most > many)
    most = llvm::alignDown(most, four);
  schedule.tileRows =
      length.isSymbolic() ? most : chooseRows(length.size, most);

  schedule.sumsInMemory = wantsSumsInMemory(graph, schedule, *contraction);

  int64_t block =
      chooseRowBlock(graph, schedule, *contraction, walk.rowsOutside);
  auto addBlocks = [&] {
    if (length.isSymbolic() || block < length.size)
      schedule.unitParts.push_back(blocksOf(graph, schedule.tileDim, block));
  };
  for (unsigned d = 0; d < schedule.unitDims; ++d) {
    if (walk.rowsOutside && d == walk.outside)
      addBlocks();
    schedule.unitParts.push_back(wholeDim(graph, d));
  }
  if (!walk.rowsOutside || walk.outside == schedule.unitDims)
    addBlocks();
  int64_t width = int64_t(schedule.lanes) * schedule.unroll;
  if (graph.dims[schedule.vectorDim].size > width) {
    schedule.block = width;
    schedule.unitParts.push_back(blocksOf(graph, schedule.vectorDim, width));
  }
}

void chooseTranspose(KernelGraph &graph, Schedule &schedule,
                     const ScheduleOptions &options, unsigned cost) {
  constexpr int64_t side = 64;
  // Where computing dominates, reading does not matter, and copies cost code.
  if (options.registers == 0 || schedule.vectorDim < 0 ||
      schedule.numReduction != 0 || schedule.numParallel < 2 ||
      cost > kComputeBound)
    return;
  unsigned vector = schedule.vectorDim;
  int tile = -1;
  for (auto &node : graph.nodes) {
    if (node->kind != Node::Kind::Load)
      continue;
    LinearForm form = linearize(node->offset);
    if (form.isNonlinearIn(vector) || form.coefficient(vector) == 0 ||
        form.coefficient(vector) == 1)
      continue;
    for (unsigned d = 0; d < schedule.numParallel; ++d)
      if (d != vector && !form.isNonlinearIn(d) && form.coefficient(d) == 1 &&
          !graph.dims[d].isSymbolic() && graph.dims[d].size >= schedule.lanes)
        tile = d;
  }
  if (tile < 0 || graph.dims[vector].isSymbolic() ||
      graph.dims[vector].size < schedule.lanes)
    return;
  bool usable = true;
  graph.forEachIndex([&](AffineExpr expr, unsigned, bool) {
    LinearForm form = linearize(expr);
    usable &= isNearIn(form, tile) &&
              std::abs(form.coefficient(vector)) < kMaxDisplacement;
  });
  if (!usable)
    return;
  SmallVector<unsigned> order;
  for (unsigned d = 0; d < schedule.numParallel; ++d)
    if (int(d) != tile && d != vector)
      order.push_back(d);
  orderForTile(graph, schedule, order, tile);
  schedule.tileRows = schedule.lanes;
  schedule.unroll = 1;
  for (unsigned d = 0; d < schedule.unitDims; ++d)
    schedule.unitParts.push_back(wholeDim(graph, d));
  for (int d : {schedule.tileDim, schedule.vectorDim})
    if (graph.dims[d].size > side)
      schedule.unitParts.push_back(blocksOf(graph, d, side));
  if (graph.dims[schedule.vectorDim].size > side)
    schedule.block = side;
}

} // namespace pyjit::codegen
