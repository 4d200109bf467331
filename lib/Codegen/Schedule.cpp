//===- Schedule.cpp - How a kernel's domain becomes loops -----------------===//

#include "pyjit/Codegen/Schedule.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace pyjit::codegen {

using operators::Size;

/// The first `d floordiv c` or `d mod c` whose c divides d's size.
static bool findSplit(AffineExpr expr, ArrayRef<Dim> dims, unsigned &dim,
                      AffineExpr &inner) {
  bool found = false;
  expr.walk([&](AffineExpr e) {
    auto binary = dyn_cast<AffineBinaryOpExpr>(e);
    if (found || !binary ||
        (e.getKind() != AffineExprKind::FloorDiv &&
         e.getKind() != AffineExprKind::Mod))
      return;
    auto d = dyn_cast<AffineDimExpr>(binary.getLHS());
    AffineExpr c = binary.getRHS();
    if (!d)
      return;
    const Dim &whole = dims[d.getPosition()];
    if (auto number = dyn_cast<AffineConstantExpr>(c)) {
      if (number.getValue() <= 0 || !whole.isMultipleOf(number.getValue()))
        return;
    } else if (!operators::normalizeSize(c) ||
               !whole.getSize().dividedBy(Size(c))) {
      return;
    }
    dim = d.getPosition();
    inner = c;
    found = true;
  });
  return found;
}

/// A merged dimension that is read apart is walked as two, so that the accesses
/// are linear again.
static void splitDims(KernelGraph &graph) {
  MLIRContext *context = nullptr;
  for (bool changed = true; changed;) {
    changed = false;
    unsigned dim = 0;
    AffineExpr inner;
    graph.forEachIndex([&](AffineExpr expr, unsigned, bool) {
      context = expr.getContext();
      if (!changed)
        changed = findSplit(expr, graph.dims, dim, inner);
    });
    if (!changed)
      return;
    unsigned added = graph.dims.size();
    bool reduction = graph.dims[dim].reduction;
    Size outer = *graph.dims[dim].getSize().dividedBy(Size(inner));
    graph.dims.push_back(Dim::of(Size(inner), reduction));
    graph.dims[dim] = Dim::of(outer, reduction);
    AffineExpr old = getAffineDimExpr(dim, context);
    AffineExpr part = getAffineDimExpr(added, context);
    AffineExpr whole = old * inner + part;
    DenseMap<AffineExpr, AffineExpr> replacement{{old, whole}};
    // Numbers fold by themselves.
    if (!isa<AffineConstantExpr>(inner)) {
      replacement[old.floorDiv(inner)] = old;
      replacement[old % inner] = part;
    }
    graph.rewriteIndices([&](AffineExpr expr) -> AffineExpr {
      return expr.replace(replacement);
    });
  }
}

/// Chooses what vectors walk: unit stride in as many accesses as possible,
/// stores before loads.
static int chooseVectorDim(const KernelGraph &graph) {
  int best = -1;
  int64_t bestScore = 0;
  // Beside accesses of whole rows, those of one value per row hardly count.
  constexpr int64_t kLongRow = 32;
  auto walksRow = [&](AffineExpr expr) {
    for (unsigned d = 0; d < graph.dims.size(); ++d)
      if (graph.dims[d].reduction && graph.dims[d].size >= kLongRow &&
          expr.isFunctionOfDim(d))
        return true;
    return false;
  };
  bool rows = false;
  graph.forEachIndex([&](AffineExpr expr, unsigned buffer, bool) {
    rows |= buffer != ~0u && walksRow(expr);
  });
  for (unsigned d = 0; d < graph.dims.size(); ++d) {
    const Dim &dim = graph.dims[d];
    if (dim.estimate() < 4)
      continue;
    int64_t score = 0;
    bool unit = false;
    graph.forEachIndex([&](AffineExpr expr, unsigned buffer, bool store) {
      if (buffer == ~0u)
        return;
      int64_t weight = rows && walksRow(expr) ? 8 : 1;
      LinearForm form = linearize(expr);
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

static int64_t strideForOrder(const KernelGraph &graph, unsigned dim,
                              bool stores) {
  int64_t stride = 0;
  graph.forEachIndex([&](AffineExpr expr, unsigned buffer, bool store) {
    if (buffer == ~0u || store != stores)
      return;
    LinearForm form = linearize(expr);
    std::optional<Size> any = form.strideOf(dim);
    stride = std::max(stride,
                      std::abs(any ? any->estimate() : form.coefficient(dim)));
  });
  return stride;
}

/// Parallel dims first, outermost first, each group by falling stride, with the
/// vector dim last in its group.
static void orderDims(KernelGraph &graph, int &vectorDim,
                      MLIRContext *context) {
  auto order = llvm::to_vector(llvm::seq<unsigned>(0, graph.dims.size()));
  SmallVector<int64_t> stride;
  for (auto [d, dim] : llvm::enumerate(graph.dims)) {
    int64_t stored = dim.reduction ? 0 : strideForOrder(graph, d, true);
    stride.push_back(stored ? stored : strideForOrder(graph, d, false));
  }
  llvm::stable_sort(order, [&](unsigned a, unsigned b) {
    if (graph.dims[a].reduction != graph.dims[b].reduction)
      return graph.dims[b].reduction;
    if ((int(a) == vectorDim) != (int(b) == vectorDim))
      return int(b) == vectorDim;
    return stride[a] > stride[b];
  });
  SmallVector<Dim> dims;
  SmallVector<AffineExpr> replacement(order.size());
  int newVector = -1;
  for (auto [position, old] : llvm::enumerate(order)) {
    dims.push_back(graph.dims[old]);
    replacement[old] = getAffineDimExpr(position, context);
    if (int(old) == vectorDim)
      newVector = position;
  }
  graph.dims = dims;
  vectorDim = newVector;
  graph.rewriteIndices([&](AffineExpr expr) -> AffineExpr {
    return expr.replaceDims(replacement);
  });
}

/// Merges neighbours that every access walks as one.
static void mergeDims(KernelGraph &graph, int &vectorDim,
                      MLIRContext *context) {
  for (unsigned outer = 0; outer + 1 < graph.dims.size();) {
    unsigned inner = outer + 1;
    Size size = graph.dims[inner].getSize();
    bool mergeable = graph.dims[outer].reduction == graph.dims[inner].reduction;
    graph.forEachIndex([&](AffineExpr expr, unsigned, bool) {
      if (!mergeable)
        return;
      LinearForm form = linearize(expr);
      std::optional<Size> far = form.strideOf(outer);
      std::optional<Size> near = form.strideOf(inner);
      mergeable = far && near && *far == *near * size;
    });
    if (!mergeable) {
      ++outer;
      continue;
    }
    graph.dims[outer] = Dim::of(graph.dims[outer].getSize() * size,
                                graph.dims[outer].reduction);
    graph.dims.erase(graph.dims.begin() + inner);
    SmallVector<AffineExpr> replacement;
    for (unsigned d = 0; d <= graph.dims.size(); ++d)
      replacement.push_back(
          d == outer ? getAffineConstantExpr(0, context)
                     : getAffineDimExpr(d < inner ? d : d - 1, context));
    // The inner dim carries the merged one: stride * (o * size + i).
    graph.rewriteIndices([&](AffineExpr expr) -> AffineExpr {
      return expr.replaceDims(replacement);
    });
    if (vectorDim >= int(inner))
      --vectorDim;
  }
}

static unsigned bytesOf(Type type) {
  return std::max(1u, type.getIntOrFloatBitWidth() / 8);
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

/// Puts the parallel dims in the order `order` of their present numbers.
static void permuteDims(KernelGraph &graph, ArrayRef<unsigned> order,
                        MLIRContext *context) {
  SmallVector<Dim> dims(graph.dims);
  SmallVector<AffineExpr> replacement;
  for (unsigned d = 0; d < dims.size(); ++d)
    replacement.push_back(getAffineDimExpr(d, context));
  for (auto [position, old] : llvm::enumerate(order)) {
    graph.dims[position] = dims[old];
    replacement[old] = getAffineDimExpr(position, context);
  }
  graph.rewriteIndices([&](AffineExpr expr) -> AffineExpr {
    return expr.replaceDims(replacement);
  });
  graph.update();
}

/// Rows of a tile over `size` elements: as many as the registers hold, or a few
/// less where that leaves less of a rest.
static int64_t chooseRows(int64_t size, int64_t most) {
  int64_t least = std::max<int64_t>(2, most * 2 / 3), best = most;
  int64_t bestCost = std::numeric_limits<int64_t>::max();
  // A tile of few rows waits for its own sums: it costs what `least` rows cost.
  for (int64_t rows = std::min(most, size); rows >= std::min(least, size);
       --rows) {
    int64_t rest = size % rows;
    int64_t cost = size / rows * std::max(rows, least) +
                   (rest ? std::max(rest, least) : 0);
    if (cost < bestCost) {
      bestCost = cost;
      best = rows;
    }
  }
  return best;
}

/// A part of the unit's number for each index of a dim.
static UnitPart wholeDim(const KernelGraph &graph, unsigned d) {
  return {d, graph.dims[d].estimate(), 0, graph.dims[d].extent};
}

/// Sums of products: which dim gives a tile its rows, in which order the other
/// dims are walked, and how large a unit is.
static void chooseTile(KernelGraph &graph, Schedule &schedule,
                       const ScheduleOptions &options) {
  if (options.registers == 0 || schedule.vectorDim < 0 ||
      schedule.vectorInReduction() || schedule.numReduction == 0 ||
      schedule.numParallel < 2 || graph.usesSymbols())
    return;
  std::optional<Product> product;
  unsigned sums = 0;
  for (auto &node : graph.nodes)
    if (node->kind == Node::Kind::Reduce) {
      ++sums;
      product = asProduct(node.get());
    }
  if (sums != 1 || !product)
    return;
  unsigned vector = schedule.vectorDim;
  Node *columns = product->left, *rowsOf = product->right;
  if (!columns->dims.test(vector))
    std::swap(columns, rowsOf);
  if (!columns->dims.test(vector) || rowsOf->dims.test(vector))
    return;
  schedule.unroll =
      std::min<int64_t>(2, graph.dims[vector].size / schedule.lanes);
  // Registers for the vectors of a row, a broadcast element, one to spare.
  int64_t most =
      (options.registers - schedule.unroll - 2) / std::max(1u, schedule.unroll);
  int64_t bytes = bytesOf(rowsOf->type), rowElements = 1;
  for (const Dim &dim : graph.dims)
    if (dim.reduction)
      rowElements *= dim.size;

  // The longest dim that only the rows' operand has, linear in every access and
  // near enough for displacements.
  int tile = -1;
  for (unsigned d = 0; d < schedule.numParallel; ++d) {
    if (d == vector || columns->dims.test(d) || !rowsOf->dims.test(d))
      continue;
    bool usable = graph.dims[d].size > 1;
    graph.forEachIndex([&](AffineExpr expr, unsigned, bool) {
      LinearForm form = linearize(expr);
      usable &= !form.isNonlinearIn(d) &&
                std::abs(form.coefficient(d)) < (int64_t(1) << 24);
    });
    if (usable && (tile < 0 || graph.dims[d].size > graph.dims[tile].size))
      tile = d;
  }
  if (tile < 0)
    return;

  // The larger operand is walked once, the smaller one again for each part.
  int64_t rowBytes = rowElements * bytes, columnBytes = rowBytes;
  SmallVector<unsigned> both, rowDims, columnDims;
  for (unsigned d = 0; d < schedule.numParallel; ++d) {
    bool inRows = rowsOf->dims.test(d), inColumns = columns->dims.test(d);
    if (inRows && !inColumns)
      rowBytes *= graph.dims[d].size;
    if (inColumns && !inRows)
      columnBytes *= graph.dims[d].size;
    if (int(d) == tile || d == vector)
      continue;
    (inRows == inColumns ? both : inRows ? rowDims : columnDims).push_back(d);
  }
  bool rowsOutside = rowBytes > columnBytes;
  SmallVector<unsigned> order(both);
  llvm::append_range(order, rowsOutside ? rowDims : columnDims);
  llvm::append_range(order, rowsOutside ? columnDims : rowDims);
  order.push_back(tile);
  order.push_back(vector);
  permuteDims(graph, order, graph.stores.front().offset.getContext());
  schedule.tileDim = schedule.numParallel - 2;
  schedule.vectorDim = schedule.numParallel - 1;
  int64_t length = graph.dims[schedule.tileDim].size;
  schedule.tileRows = chooseRows(length, std::max<int64_t>(2, most));

  // Rows that the second-level cache holds while all columns pass; where the
  // columns are walked once, all rows. Enough units for the threads.
  int64_t block = length;
  if (rowsOutside)
    block = std::clamp<int64_t>((160 << 10) / (rowElements * bytes),
                                schedule.tileRows, length);
  int64_t others = 1;
  for (unsigned d = 0; d + 2 < schedule.numParallel; ++d)
    others *= graph.dims[d].size;
  while (others * llvm::divideCeil(length, block) < 16 &&
         block > schedule.tileRows)
    block = llvm::divideCeil(block, 2);
  block = llvm::alignTo(block, schedule.tileRows);

  unsigned outside = both.size() + (rowsOutside ? rowDims.size() : 0);
  schedule.unitDims = schedule.numParallel - 2;
  auto addBlocks = [&] {
    if (block < length)
      schedule.unitParts.push_back({unsigned(schedule.tileDim),
                                    int64_t(llvm::divideCeil(length, block)),
                                    block,
                                    {}});
  };
  for (unsigned d = 0; d < schedule.unitDims; ++d) {
    if (rowsOutside && d == outside)
      addBlocks();
    schedule.unitParts.push_back(wholeDim(graph, d));
  }
  if (!rowsOutside || outside == schedule.unitDims)
    addBlocks();
  int64_t width = int64_t(schedule.lanes) * schedule.unroll;
  if (graph.dims[schedule.vectorDim].size > width) {
    schedule.block = width;
    schedule.unitParts.push_back(
        {unsigned(schedule.vectorDim),
         int64_t(llvm::divideCeil(graph.dims[schedule.vectorDim].size, width)),
         width,
         {}});
  }
}

/// A transposing copy or its like: another operand is dense along a dim that is
/// not the one walked by vectors. As many rows of that dim as there are lanes
/// are read as vectors and turned in registers, in blocks that a cache holds.
static void chooseTurn(KernelGraph &graph, Schedule &schedule,
                       const ScheduleOptions &options, unsigned cost) {
  constexpr int64_t side = 64;
  // Where computing dominates, reading does not matter, and copies cost code.
  constexpr unsigned maxCost = 48;
  if (options.registers == 0 || schedule.vectorDim < 0 ||
      schedule.numReduction != 0 || schedule.numParallel < 2 || cost > maxCost)
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
    usable &= !form.isNonlinearIn(tile) &&
              std::abs(form.coefficient(tile)) < (int64_t(1) << 24) &&
              std::abs(form.coefficient(vector)) < (int64_t(1) << 24);
  });
  if (!usable)
    return;
  SmallVector<unsigned> order;
  for (unsigned d = 0; d < schedule.numParallel; ++d)
    if (int(d) != tile && d != vector)
      order.push_back(d);
  order.push_back(tile);
  order.push_back(vector);
  permuteDims(graph, order, graph.stores.front().offset.getContext());
  schedule.tileDim = schedule.numParallel - 2;
  schedule.vectorDim = schedule.numParallel - 1;
  schedule.tileRows = schedule.lanes;
  schedule.unroll = 1;
  schedule.unitDims = schedule.numParallel - 2;
  for (unsigned d = 0; d < schedule.unitDims; ++d)
    schedule.unitParts.push_back(wholeDim(graph, d));
  for (int d : {schedule.tileDim, schedule.vectorDim})
    if (int64_t size = graph.dims[d].size; size > side)
      schedule.unitParts.push_back(
          {unsigned(d), int64_t(llvm::divideCeil(size, side)), side, {}});
  if (graph.dims[schedule.vectorDim].size > side)
    schedule.block = side;
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
      getAffineConstantExpr(int64_t(1) << 18, context)
          .floorDiv(unit.is(0) ? getAffineConstantExpr(1, context)
                               : unit.toExpr(context));
}

Schedule scheduleKernel(KernelGraph &graph, const ScheduleOptions &options) {
  Schedule schedule;
  MLIRContext *context = graph.stores.front().offset.getContext();
  for (const Dim &dim : graph.dims)
    if (dim.size == 0 && !dim.reduction) {
      // No element, no loops.
      schedule.work = 0;
      return schedule;
    }
  splitDims(graph);
  int vectorDim = chooseVectorDim(graph);
  orderDims(graph, vectorDim, context);
  mergeDims(graph, vectorDim, context);
  // Merged with a dimension of no elements.
  if (vectorDim >= 0 && graph.dims[vectorDim].size == 0)
    vectorDim = -1;
  graph.update();

  unsigned cost = 1;
  for (const Dim &dim : graph.dims)
    ++(dim.reduction ? schedule.numReduction : schedule.numParallel);
  for (const Store &store : graph.stores)
    cost += store.node->cost + 1;
  for (auto &node : graph.nodes)
    if (node->kind == Node::Kind::Reduce)
      cost += node->inputs[0]->cost + 1;

  unsigned natural = options.vectorBits / 32;
  schedule.vectorDim = vectorDim;
  int64_t rowElements = 1, parallelElements = 1;
  for (const Dim &dim : graph.dims)
    (dim.reduction ? rowElements : parallelElements) *= dim.estimate();
  if (vectorDim >= 0) {
    int64_t size = graph.dims[vectorDim].estimate();
    schedule.lanes = natural;
    while (schedule.lanes > size)
      schedule.lanes /= 2;
    unsigned wanted = schedule.numReduction == 0 ? 1 : cost > 48 ? 2 : 4;
    while (wanted > 1 && int64_t(wanted) * schedule.lanes > size)
      wanted /= 2;
    schedule.unroll = wanted;
  }

  chooseTile(graph, schedule, options);
  chooseTurn(graph, schedule, options, cost);
  chooseUnits(graph, schedule);
  schedule.work = parallelElements == 0 ? 0 : 1;
  if (schedule.work)
    for (const UnitPart &part : schedule.unitParts)
      schedule.work *= part.count;
  int64_t perUnit = schedule.work ? parallelElements / schedule.work : 1;
  int64_t unitCost = std::max<int64_t>(1, perUnit * rowElements) * cost;
  schedule.grain = std::max<int64_t>(1, (int64_t(1) << 18) / unitCost);
  if (graph.usesSymbols())
    addSymbolicWork(graph, schedule, cost);
  saveNodes(graph, schedule, options);
  return schedule;
}

void Schedule::print(raw_ostream &os) const {
  os << "vector dim " << vectorDim << ", " << lanes << " lanes x " << unroll;
  if (tileDim >= 0)
    os << ", tile dim " << tileDim << ", " << tileRows << " rows";
  os << ", " << unitDims << " unit dims, block " << block << ", work " << work
     << ", grain " << grain << ", " << saved.size() << " kept\n";
}

} // namespace pyjit::codegen
