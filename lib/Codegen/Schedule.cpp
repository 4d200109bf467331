//===- Schedule.cpp - How a kernel's domain becomes loops -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The choices: what vectors walk, what a unit of work covers, what is kept for
// a later stage. ScheduleDims.cpp rewrites the domain, ScheduleTiles.cpp knows
// the kernels that keep several rows in flight.
//
//===----------------------------------------------------------------------===//

#include "pyjit/Codegen/Schedule.h"
#include "ScheduleSteps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace pyjit::codegen {

using analysis::Size;

/// A task of fewer scalar operations costs more to hand out than it saves.
static constexpr int64_t kTaskCost = int64_t(1) << 18;

/// Chooses what vectors walk: unit stride in as many accesses as possible,
/// stores before loads.
static int chooseVectorDim(const KernelGraph &graph) {
  int best = -1;
  int64_t bestScore = 0;
  // Beside accesses of whole rows, those of one value per row hardly count;
  // nor do, where nothing is reduced, those of few elements.
  constexpr int64_t kLongRow = 32, kMany = 16;
  auto walksRow = [&](AffineExpr expr) {
    for (unsigned d = 0; d < graph.dims.size(); ++d)
      if (graph.dims[d].reduction && graph.dims[d].size >= kLongRow &&
          expr.isFunctionOfDim(d))
        return true;
    return false;
  };
  auto elementsOf = [&](AffineExpr expr) {
    int64_t count = 1;
    for (auto [d, dim] : llvm::enumerate(graph.dims))
      if (expr.isFunctionOfDim(d))
        count *= dim.estimate();
    return count;
  };
  bool rows = false;
  int64_t most = 0, fewest = INT64_MAX;
  graph.forEachIndex([&](AffineExpr expr, unsigned buffer, bool) {
    if (buffer == ~0u)
      return;
    rows |= walksRow(expr);
    most = std::max(most, elementsOf(expr));
    fewest = std::min(fewest, elementsOf(expr));
  });
  bool mixed = !graph.hasReduction() && fewest <= most / kMany;
  auto counts = [&](AffineExpr expr) {
    return rows ? walksRow(expr) : mixed && elementsOf(expr) > most / kMany;
  };
  for (unsigned d = 0; d < graph.dims.size(); ++d) {
    const Dim &dim = graph.dims[d];
    if (dim.estimate() < 4)
      continue;
    int64_t score = 0;
    bool unit = false;
    graph.forEachIndex([&](AffineExpr expr, unsigned buffer, bool store) {
      if (buffer == ~0u)
        return;
      int64_t weight = counts(expr) ? 8 : 1;
      LinearForm form = linearize(expr);
      if (form.cyclicTerm(d)) {
        score += 2 * weight;
        return;
      }
      if (form.isNonlinearIn(d)) {
        score -= 3 * weight;
        return;
      }
      int64_t stride = form.coefficient(d);
      if (stride == 1) {
        unit = true;
        score += (store ? 6 : 4) * weight;
      } else if (stride != 0)
        score -= (store ? 6 : 3) * weight;
    });
    if (unit)
      score += 8;
    // A dimension too short for whole vectors helps little.
    if (dim.estimate() < 8)
      score -= 6;
    if (score > bestScore) {
      best = d;
      bestScore = score;
    }
  }
  return best;
}

/// How far apart the elements that lie along `dim` are, in the accesses of
/// whole rows; nothing if that is not a number.
static std::optional<int64_t> stepAlong(const KernelGraph &graph,
                                        unsigned dim) {
  int64_t step = 0;
  bool linear = true;
  graph.forEachIndex([&](AffineExpr expr, unsigned buffer, bool) {
    if (buffer == ~0u)
      return;
    LinearForm form = linearize(expr);
    linear &= !form.isNonlinearIn(dim);
    step = std::max(step, std::abs(form.coefficient(dim)));
  });
  return linear ? std::optional(step) : std::nullopt;
}

/// Where no access is dense, sums still need several accumulators: for their
/// accuracy, and because each waits for the one before. The dim with the
/// nearest elements, for a reduction that is the innermost of its dims.
static int chooseSparseDim(const KernelGraph &graph) {
  int best = -1;
  int64_t bestStep = std::numeric_limits<int64_t>::max();
  for (bool reduction : {true, false}) {
    int nearest = -1;
    int64_t nearestStep = std::numeric_limits<int64_t>::max();
    for (unsigned d = 0; d < graph.dims.size(); ++d) {
      if (graph.dims[d].reduction != reduction || graph.dims[d].estimate() < 2)
        continue;
      std::optional<int64_t> step = stepAlong(graph, d);
      if (!step)
        return -1;
      if (*step < nearestStep) {
        nearest = d;
        nearestStep = *step;
      }
    }
    if (nearest >= 0 && nearestStep < bestStep &&
        graph.dims[nearest].estimate() >= 8) {
      best = nearest;
      bestStep = nearestStep;
    }
  }
  return best;
}

/// Values that depend on reduction dims and that a later stage asks for again:
/// kept if computing them twice costs more than a store and a load.
static void saveNodes(KernelGraph &graph, Schedule &schedule,
                      const ScheduleOptions &options) {
  if (schedule.numReduction == 0 ||
      (schedule.vectorDim >= 0 && !schedule.vectorInReduction()))
    return;
  int64_t row = 1;
  llvm::SmallBitVector reduced(graph.dims.size());
  for (auto [d, dim] : llvm::enumerate(graph.dims))
    if (dim.reduction) {
      // How much of a stack that takes is not known.
      if (dim.isSymbolic())
        return;
      row *= dim.size;
      reduced.set(d);
    }
  DenseMap<Node *, unsigned> firstLoop;
  llvm::SmallPtrSet<Node *, 4> saved;
  int64_t left = options.scratchBytes;
  for (unsigned stage = 0; stage < graph.numStages; ++stage) {
    llvm::SmallPtrSet<Node *, 16> visited;
    auto visit = [&](auto &&self, Node *node) -> void {
      if (!visited.insert(node).second || !node->dims.anyCommon(reduced))
        return;
      if (saved.contains(node))
        return;
      auto it = firstLoop.find(node);
      int64_t bytes = row * bytesOf(node->type);
      if (it != firstLoop.end() && it->second < stage && node->cost >= 12 &&
          bytes <= left) {
        left -= bytes;
        saved.insert(node);
        schedule.saved.push_back({node, it->second});
        return;
      }
      firstLoop.try_emplace(node, stage);
      if (node->kind == Node::Kind::Reduce)
        return;
      for (Node *input : node->inputs)
        if (input)
          self(self, input);
    };
    for (auto &node : graph.nodes)
      if (node->kind == Node::Kind::Reduce && node->inputs[0]->stage == stage)
        visit(visit, node->inputs[0]);
    for (Store &store : graph.stores)
      if (store.dims.anyCommon(reduced) && store.node->stage == stage)
        visit(visit, store.node);
  }
}

/// What one unit covers, unless a tile has said so.
static void chooseUnits(const KernelGraph &graph, Schedule &schedule) {
  if (schedule.tileDim >= 0)
    return;
  unsigned parallel = schedule.numParallel;
  bool vectorParallel =
      schedule.vectorDim >= 0 && !schedule.vectorInReduction();
  constexpr int64_t unitElements = 4096;
  schedule.unitDims = parallel;
  if (schedule.numReduction == 0) {
    int64_t perUnit = 1;
    while (schedule.unitDims > 0 && perUnit < unitElements / 2) {
      const Dim &dim = graph.dims[schedule.unitDims - 1];
      int64_t size = dim.size;
      // How much a symbolic dim adds is not known: it is walked in blocks, or
      // its indices are units.
      if (dim.isSymbolic() && schedule.unitDims != parallel)
        break;
      if (schedule.unitDims == parallel &&
          (dim.isSymbolic() || size > 2 * unitElements)) {
        schedule.block = unitElements;
        --schedule.unitDims;
        break;
      }
      if (schedule.unitDims < parallel && perUnit * size > 4 * unitElements)
        break;
      perUnit *= size;
      --schedule.unitDims;
    }
  } else if (vectorParallel) {
    schedule.unitDims = parallel - 1;
    if (!schedule.streamedRows)
      schedule.block = schedule.lanes * schedule.unroll;
  }
  for (unsigned d = 0; d < schedule.unitDims; ++d)
    schedule.unitParts.push_back(wholeDim(graph, d));
  if (schedule.block) {
    const Dim &last = graph.dims[parallel - 1];
    schedule.unitParts.push_back(
        {parallel - 1,
         int64_t(llvm::divideCeil(last.estimate(), schedule.block)),
         schedule.block,
         last.isSymbolic() ? last.extent.ceilDiv(schedule.block)
                           : AffineExpr()});
  }
}

/// Work and grain of each call, where they differ.
static void addSymbolicWork(const KernelGraph &graph, Schedule &schedule,
                            unsigned cost) {
  MLIRContext *context = graph.stores.front().offset.getContext();
  AffineExpr work = getAffineConstantExpr(1, context);
  Size unit = cost;
  llvm::SmallBitVector counted(graph.dims.size());
  for (const UnitPart &part : schedule.unitParts) {
    work = work * (part.symbolic ? part.symbolic
                                 : getAffineConstantExpr(part.count, context));
    counted.set(part.dim);
    if (part.block)
      unit *= part.block;
  }
  for (auto [d, dim] : llvm::enumerate(graph.dims))
    if (!counted.test(d))
      unit *= dim.getSize();
  schedule.symbolicWork = work;
  schedule.symbolicGrain =
      getAffineConstantExpr(kTaskCost, context)
          .floorDiv(unit.is(0) ? getAffineConstantExpr(1, context)
                               : unit.toExpr(context));
}

namespace {

/// What a kernel takes, for sizes that differ between calls by estimate.
struct Extent {
  explicit Extent(const KernelGraph &graph) {
    for (const Dim &dim : graph.dims)
      (dim.reduction ? rowElements : parallelElements) *= dim.estimate();
    for (const Store &store : graph.stores)
      cost += store.node->cost + 1;
    for (auto &node : graph.nodes)
      if (node->kind == Node::Kind::Reduce)
        cost += node->inputs[0]->cost + 1;
  }
  int64_t rowElements = 1, parallelElements = 1;
  unsigned cost = 1; ///< of one element, as in `Node`
};

} // namespace

/// Operations of an element that cost more than putting it into a vector.
static constexpr unsigned kWorthGathering = 16;

/// Lanes, and vectors in flight. `sparse`: no access is dense.
static void chooseVectors(const KernelGraph &graph, Schedule &schedule,
                          unsigned vectorBits, unsigned cost, bool sparse) {
  int64_t size = graph.dims[schedule.vectorDim].estimate();
  schedule.lanes = vectorBits / 32;
  while (schedule.lanes > size)
    schedule.lanes /= 2;
  // Far elements are loaded one by one: only a long body is worth joining them.
  if (sparse && schedule.vectorInReduction() && cost < kWorthGathering &&
      stepAlong(graph, schedule.vectorDim) > kMaxSpread)
    schedule.lanes = 1;
  // Several sums hide the latency of one; expensive bodies do so themselves.
  unsigned wanted = schedule.numReduction == 0 ? 1
                    : cost > kComputeBound     ? 2
                                               : 4;
  while (wanted > 1 && int64_t(wanted) * schedule.lanes > size)
    wanted /= 2;
  schedule.unroll = wanted;
}

/// Rows that are long enough for a few tasks, each of which reads some lines of
/// a row one after the other, and operands that no cache holds.
static constexpr int64_t kStreamedColumns = 512, kStreamedBytes = 1 << 20;

/// The load whose rows are worth to be walked one after the other
/// (Schedule::streamedRows), the one of the widest elements; null if none is.
static const Node *streamedLoad(const KernelGraph &graph,
                                const Schedule &schedule) {
  if (schedule.tileDim >= 0 || schedule.numReduction != 1 ||
      schedule.lanes == 1 || schedule.vectorInReduction() ||
      schedule.vectorDim + 1 != int(schedule.numParallel))
    return nullptr;
  unsigned last = schedule.numParallel;
  const Dim &columns = graph.dims[schedule.vectorDim];
  if (columns.isSymbolic() || graph.dims[last].isSymbolic() ||
      columns.size % schedule.lanes != 0 || columns.size < kStreamedColumns)
    return nullptr;
  const Node *reduction = nullptr, *far = nullptr;
  for (auto &node : graph.nodes) {
    if (node->kind == Node::Kind::Reduce) {
      if (reduction)
        return nullptr;
      reduction = node.get();
    }
    if (node->kind != Node::Kind::Load || !node->dims.test(last))
      continue;
    LinearForm form = linearize(node->offset);
    int64_t bytes = bytesOf(node->type);
    for (auto [d, dim] : llvm::enumerate(graph.dims))
      if (node->dims.test(d))
        bytes *= dim.estimate();
    if (liesAlong(node.get(), schedule.vectorDim) &&
        !form.isNonlinearIn(last) && form.coefficient(last) >= columns.size &&
        bytes >= kStreamedBytes &&
        (!far || bytesOf(node->type) > bytesOf(far->type)))
      far = node.get();
  }
  // What is stored along the rows is no sum of them.
  bool storesRows = llvm::any_of(
      graph.stores, [&](const Store &s) { return s.dims.test(last); });
  // A bool is a byte in memory.
  return !storesRows && reduction &&
                 reduction->type.getIntOrFloatBitWidth() >= 8
             ? far
             : nullptr;
}

static void chooseStream(const KernelGraph &graph, Schedule &schedule) {
  const Node *load = streamedLoad(graph, schedule);
  if (!load)
    return;
  constexpr int64_t line = 64, most = 2048, enoughTasks = 8;
  schedule.streamedRows = 8;
  schedule.unroll = std::clamp<int64_t>(
      line / (schedule.lanes * bytesOf(load->type)), 1, schedule.unroll);
  // A row as long as its sums are near, but a few tasks.
  int64_t tasks = 1;
  for (unsigned d = 0; d + 1 < schedule.numParallel; ++d)
    tasks *= graph.dims[d].estimate();
  int64_t columns = graph.dims[schedule.vectorDim].size;
  int64_t wide = int64_t(schedule.lanes) * schedule.unroll;
  int64_t block = std::min(columns, most);
  if (tasks < enoughTasks)
    block = std::clamp<int64_t>(columns * tasks / enoughTasks, 128, most);
  schedule.block = std::max(wide, block / wide * wide);
}

/// Whether the rest of a row, of two elements or more, is another vector.
static bool restIsVector(const KernelGraph &graph, const Schedule &schedule) {
  if (schedule.vectorDim < 0 || schedule.vectorInReduction() ||
      schedule.lanes == 1 || schedule.tileDim >= 0 || schedule.block != 0 ||
      schedule.sumsInMemory)
    return false;
  const Dim &walked = graph.dims[schedule.vectorDim];
  return !walked.isSymbolic() && walked.size > int64_t(schedule.lanes) &&
         walked.size % schedule.lanes > 1;
}

/// Units in all, and how many make a task.
static void countWork(const KernelGraph &graph, Schedule &schedule,
                      const Extent &extent) {
  schedule.work = extent.parallelElements == 0 ? 0 : 1;
  if (schedule.work)
    for (const UnitPart &part : schedule.unitParts)
      schedule.work *= part.count;
  int64_t perUnit = schedule.work ? extent.parallelElements / schedule.work : 1;
  int64_t unitCost =
      std::max<int64_t>(1, perUnit * extent.rowElements) * extent.cost;
  schedule.grain = std::max<int64_t>(1, kTaskCost / unitCost);
  if (graph.usesSymbols())
    addSymbolicWork(graph, schedule, extent.cost);
}

Schedule scheduleKernel(KernelGraph &graph, const ScheduleOptions &options) {
  Schedule schedule;
  for (const Dim &dim : graph.dims)
    if (dim.size == 0 && !dim.reduction) {
      // No element, no loops.
      schedule.work = 0;
      return schedule;
    }
  splitDims(graph);
  // A row of short dims is as long as what every access walks as one.
  int vectorDim = -1;
  orderDims(graph, vectorDim);
  mergeDims(graph, vectorDim);
  graph.update();
  vectorDim = chooseVectorDim(graph);
  // Targets with tiles are those whose rows are walked by one thread.
  bool sparse = vectorDim < 0 && options.registers != 0;
  if (sparse && graph.hasReduction())
    vectorDim = chooseSparseDim(graph);
  orderDims(graph, vectorDim);
  mergeDims(graph, vectorDim);
  // Merged with a dimension of no elements.
  if (vectorDim >= 0 && graph.dims[vectorDim].size == 0)
    vectorDim = -1;
  graph.update();

  for (const Dim &dim : graph.dims)
    ++(dim.reduction ? schedule.numReduction : schedule.numParallel);
  Extent extent(graph);
  schedule.vectorDim = vectorDim;
  if (vectorDim >= 0)
    chooseVectors(graph, schedule, options.vectorBits, extent.cost, sparse);
  chooseTile(graph, schedule, options);
  chooseTranspose(graph, schedule, options, extent.cost);
  if (options.registers != 0) // rows are walked by one thread
    chooseStream(graph, schedule);
  chooseUnits(graph, schedule);
  schedule.prefetch = options.prefetch;
  schedule.restOverlaps = options.resultsApart && restIsVector(graph, schedule);
  countWork(graph, schedule, extent);
  saveNodes(graph, schedule, options);
  return schedule;
}

void Schedule::print(raw_ostream &os) const {
  os << "vector dim " << vectorDim << ", " << lanes << " lanes x " << unroll;
  if (tileDim >= 0)
    os << ", tile dim " << tileDim << ", " << tileRows << " rows";
  if (sumsInMemory)
    os << ", sums in memory";
  if (streamedRows)
    os << ", " << streamedRows << " rows streamed";
  if (restOverlaps)
    os << ", rest overlaps";
  os << ", " << unitDims << " unit dims, block " << block << ", work " << work
     << ", grain " << grain << ", " << saved.size() << " kept\n";
}

} // namespace pyjit::codegen
