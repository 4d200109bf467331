//===- RowsProduct.cpp - Few rows times a matrix --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/RowsProduct.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "pyjit/Codegen/IndexMath.h"

using namespace mlir;

namespace pyjit::codegen {

/// The one reduction of the graph; null if it has none or several, or if a
/// value is stored at each step of it.
static Node *onlyReduction(const KernelGraph &graph) {
  Node *found = nullptr;
  for (auto &node : graph.nodes)
    if (node->kind == Node::Kind::Reduce) {
      if (found)
        return nullptr;
      found = node.get();
    }
  for (const Store &store : graph.stores)
    for (auto [d, dim] : llvm::enumerate(graph.dims))
      if (dim.reduction && store.dims.test(d))
        return nullptr;
  return found;
}

/// The load behind a factor that the body widens from half precision.
static Node *halfLoad(const Node *product, Value factor) {
  auto widened = factor.getDefiningOp<arith::ExtFOp>();
  auto argument =
      widened ? dyn_cast<BlockArgument>(widened.getIn()) : BlockArgument();
  if (!argument ||
      argument.getOwner() != linalg::GenericOp(product->op).getBody())
    return nullptr;
  Node *node = product->inputs[argument.getArgNumber()];
  return node && node->kind == Node::Kind::Load &&
                 (node->type.isF16() || node->type.isBF16())
             ? node
             : nullptr;
}

std::optional<RowsProduct> RowsProduct::find(const KernelGraph &graph) {
  RowsProduct found{onlyReduction(graph), nullptr, nullptr, {}};
  if (!found.sum || !found.sum->type.isF32() ||
      !isa<arith::AddFOp>(found.sum->combiner))
    return std::nullopt;
  const Node *element = found.sum->inputs[0];
  if (element->kind != Node::Kind::Compute)
    return std::nullopt;
  auto product = element->element.getDefiningOp<arith::MulFOp>();
  if (!product)
    return std::nullopt;
  found.rows = halfLoad(element, product.getLhs());
  found.columns = halfLoad(element, product.getRhs());
  if (!found.rows || !found.columns || found.rows->type != found.columns->type)
    return std::nullopt;

  unsigned sums = 0;
  SmallVector<unsigned> left, right;
  for (auto [d, dim] : llvm::enumerate(graph.dims)) {
    bool inRows = found.rows->dims.test(d);
    bool inColumns = found.columns->dims.test(d);
    if (dim.reduction) {
      ++sums;
      found.sumDim = d;
      if (dim.isSymbolic() || !dim.isMultipleOf(kSumMultiple) || !inRows ||
          !inColumns)
        return std::nullopt;
      continue;
    }
    if (inRows == inColumns)
      return std::nullopt;
    (inRows ? left : right).push_back(d);
  }
  auto count = [&](ArrayRef<unsigned> dims) {
    int64_t elements = 1;
    for (unsigned d : dims)
      elements *=
          graph.dims[d].isSymbolic() ? kMostRows + 1 : graph.dims[d].estimate();
    return elements;
  };
  // The factor with more of them is the matrix.
  if (right.size() != 1 || (left.size() == 1 && count(left) > count(right))) {
    std::swap(left, right);
    std::swap(found.rows, found.columns);
  }
  found.rowDims = left;
  found.rowCount = count(left);
  if (sums != 1 || right.size() != 1 || found.rowCount < 2 ||
      found.rowCount > kMostRows || !liesAlong(found.rows, found.sumDim) ||
      !liesAlong(found.columns, found.sumDim))
    return std::nullopt;
  found.columnDim = right.front();
  return found;
}

} // namespace pyjit::codegen
