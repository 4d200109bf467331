//===- ScheduleDims.cpp - The dimensions of a kernel's domain -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits, orders and merges the dims of a kernel graph. Each step rewrites
// every index expression along with the dims, so that the graph computes what
// it did.
//
//===----------------------------------------------------------------------===//

#include "ScheduleSteps.h"

using namespace mlir;

namespace pyjit::codegen {

using analysis::Size;

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
    } else if (!analysis::normalizeSize(c) ||
               !whole.getSize().dividedBy(Size(c))) {
      return;
    }
    dim = d.getPosition();
    inner = c;
    found = true;
  });
  return found;
}

void splitDims(KernelGraph &graph) {
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

/// The longest way that an access makes with a step of `dim`.
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

void orderDims(KernelGraph &graph, int &vectorDim) {
  MLIRContext *context = graph.stores.front().offset.getContext();
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

void mergeDims(KernelGraph &graph, int &vectorDim) {
  MLIRContext *context = graph.stores.front().offset.getContext();
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

void permuteDims(KernelGraph &graph, ArrayRef<unsigned> order) {
  MLIRContext *context = graph.stores.front().offset.getContext();
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

} // namespace pyjit::codegen
