//===- Schedule.cpp - How a kernel's domain becomes loops -----------------===//

#include "pyjit/Codegen/Schedule.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace pyjit::codegen {

/// The first `d floordiv c` or `d mod c` whose c divides d's size.
static bool findSplit(AffineExpr expr, ArrayRef<int64_t> sizes, unsigned &dim,
                      int64_t &inner) {
  bool found = false;
  expr.walk([&](AffineExpr e) {
    auto binary = dyn_cast<AffineBinaryOpExpr>(e);
    if (found || !binary ||
        (e.getKind() != AffineExprKind::FloorDiv &&
         e.getKind() != AffineExprKind::Mod))
      return;
    auto d = dyn_cast<AffineDimExpr>(binary.getLHS());
    auto c = dyn_cast<AffineConstantExpr>(binary.getRHS());
    if (!d || !c || c.getValue() <= 0 ||
        sizes[d.getPosition()] % c.getValue() != 0)
      return;
    dim = d.getPosition();
    inner = c.getValue();
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
    int64_t inner = 1;
    SmallVector<int64_t> sizes = graph.sizes();
    graph.forEachIndex([&](AffineExpr expr, unsigned, bool) {
      context = expr.getContext();
      if (!changed)
        changed = findSplit(expr, sizes, dim, inner);
    });
    if (!changed)
      return;
    unsigned added = graph.dims.size();
    graph.dims.push_back({inner, graph.dims[dim].reduction});
    graph.dims[dim].size /= inner;
    AffineExpr whole = getAffineDimExpr(dim, context) * inner +
                       getAffineDimExpr(added, context);
    AffineExpr old = getAffineDimExpr(dim, context);
    graph.rewriteIndices([&](AffineExpr expr) -> AffineExpr {
      return expr.replace(old, whole);
    });
  }
}

/// Chooses what vectors walk: unit stride in as many accesses as possible,
/// stores before loads.
static int chooseVectorDim(const KernelGraph &graph) {
  int best = -1;
  int64_t bestScore = 0;
  for (unsigned d = 0; d < graph.dims.size(); ++d) {
    const Dim &dim = graph.dims[d];
    if (dim.size < 4)
      continue;
    int64_t score = 0;
    bool unit = false;
    graph.forEachIndex([&](AffineExpr expr, unsigned buffer, bool store) {
      if (buffer == ~0u)
        return;
      LinearForm form = linearize(expr);
      if (form.isNonlinearIn(d)) {
        score -= 3;
        return;
      }
      int64_t stride = form.coefficient(d);
      if (stride == 1) {
        unit = true;
        score += store ? 6 : 4;
      } else if (stride != 0)
        score -= store ? 6 : 3;
    });
    if (unit)
      score += 8;
    // A dimension too short for whole vectors helps little.
    if (dim.size < 8)
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
    stride = std::max(stride, std::abs(linearize(expr).coefficient(dim)));
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
    int64_t size = graph.dims[inner].size;
    bool mergeable = graph.dims[outer].reduction == graph.dims[inner].reduction;
    graph.forEachIndex([&](AffineExpr expr, unsigned, bool) {
      if (!mergeable)
        return;
      LinearForm form = linearize(expr);
      mergeable = !form.isNonlinearIn(outer) && !form.isNonlinearIn(inner) &&
                  form.coefficient(outer) == form.coefficient(inner) * size;
    });
    if (!mergeable) {
      ++outer;
      continue;
    }
    graph.dims[outer].size *= size;
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
    (dim.reduction ? rowElements : parallelElements) *= dim.size;
  if (vectorDim >= 0) {
    int64_t size = graph.dims[vectorDim].size;
    schedule.lanes = natural;
    while (schedule.lanes > size)
      schedule.lanes /= 2;
    unsigned wanted = schedule.numReduction == 0 ? 1 : cost > 48 ? 2 : 4;
    while (wanted > 1 && int64_t(wanted) * schedule.lanes > size)
      wanted /= 2;
    schedule.unroll = wanted;
  }

  // What one unit covers.
  unsigned parallel = schedule.numParallel;
  bool vectorParallel = vectorDim >= 0 && !schedule.vectorInReduction();
  int64_t perUnit = 1;
  constexpr int64_t unitElements = 4096;
  if (schedule.numReduction == 0) {
    schedule.unitDims = parallel;
    while (schedule.unitDims > 0 && perUnit < unitElements / 2) {
      int64_t size = graph.dims[schedule.unitDims - 1].size;
      if (schedule.unitDims == parallel && size > 2 * unitElements) {
        schedule.block = unitElements;
        --schedule.unitDims;
        perUnit = unitElements;
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
    perUnit = schedule.block;
  } else {
    schedule.unitDims = parallel;
  }
  schedule.work = parallelElements == 0 ? 0 : 1;
  for (unsigned d = 0; d < schedule.unitDims; ++d)
    schedule.work *= graph.dims[d].size;
  if (schedule.block && schedule.work)
    schedule.work *=
        llvm::divideCeil(graph.dims[parallel - 1].size, schedule.block);
  int64_t unitCost = std::max<int64_t>(1, perUnit * rowElements) * cost;
  schedule.grain = std::max<int64_t>(1, (int64_t(1) << 18) / unitCost);
  saveNodes(graph, schedule, options);
  return schedule;
}

void Schedule::print(raw_ostream &os) const {
  os << "vector dim " << vectorDim << ", " << lanes << " lanes x " << unroll
     << ", " << unitDims << " unit dims, block " << block << ", work " << work
     << ", grain " << grain << ", " << saved.size() << " kept\n";
}

} // namespace pyjit::codegen
