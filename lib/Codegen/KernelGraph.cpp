//===- KernelGraph.cpp - What a kernel computes, element by element -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Questions about a graph, and what is derived from its nodes. It is built in
// KernelGraphBuilder.cpp.
//
//===----------------------------------------------------------------------===//

#include "pyjit/Codegen/KernelGraph.h"
#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Codegen/GenericBody.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace pyjit::codegen {

using analysis::Size;

Dim Dim::of(const Size &size, bool reduction) {
  if (size.isConstant())
    return {size.constant(), reduction, {}};
  return {ShapedType::kDynamic, reduction, size.toExpr(nullptr)};
}

bool Dim::isMultipleOf(int64_t number) const {
  return extent ? getSize().dividedBy(number).has_value() : size % number == 0;
}

SmallVector<int64_t> KernelGraph::sizes() const {
  SmallVector<int64_t> sizes;
  for (const Dim &dim : dims)
    sizes.push_back(dim.size);
  return sizes;
}

bool KernelGraph::hasReduction() const {
  return llvm::any_of(dims, [](const Dim &dim) { return dim.reduction; });
}

bool KernelGraph::usesSymbols() const {
  bool uses = llvm::any_of(dims, [](const Dim &d) { return d.isSymbolic(); });
  auto look = [&](AffineExpr expr) {
    uses |= analysis::countSymbols(expr) != 0;
  };
  for (auto &node : nodes) {
    if (node->kind == Node::Kind::Load)
      look(node->offset);
    for (AffineExpr loop : node->loops)
      look(loop);
    if (node->op)
      node->op->walk([&](Operation *op) {
        auto read = dyn_cast<tensor::ExtractOp>(op);
        uses |= isa<tssa::SizeOp>(op) ||
                (read && tssa::isSymbolic(cast<RankedTensorType>(
                             read.getTensor().getType())));
      });
  }
  for (const Store &store : stores)
    look(store.offset);
  return uses;
}

void KernelGraph::rewriteIndices(
    llvm::function_ref<AffineExpr(AffineExpr)> rewrite) {
  SmallVector<int64_t> extents = sizes();
  for (auto &node : nodes) {
    if (node->kind == Node::Kind::Load)
      node->offset = simplify(rewrite(node->offset), extents);
    for (AffineExpr &loop : node->loops)
      loop = simplify(rewrite(loop), extents);
  }
  for (Store &store : stores)
    store.offset = simplify(rewrite(store.offset), extents);
}

/// Which loops of the node's own op its element reads through linalg.index.
static llvm::SmallBitVector indexedLoops(const Node &node) {
  llvm::SmallBitVector loops(node.loops.size());
  if (node.kind != Node::Kind::Compute)
    return loops;
  llvm::SetVector<Operation *> ops;
  llvm::SmallBitVector arguments(node.inputs.size());
  bodySlice(node.element, linalg::GenericOp(node.op).getBody(), ops, arguments);
  for (Operation *op : ops)
    if (auto index = dyn_cast<linalg::IndexOp>(op))
      loops.set(index.getDim());
  return loops;
}

void KernelGraph::forEachIndex(
    llvm::function_ref<void(AffineExpr, unsigned, bool)> visit) const {
  for (auto &node : nodes) {
    if (node->kind == Node::Kind::Load)
      visit(node->offset, node->buffer, false);
    llvm::SmallBitVector indexed = indexedLoops(*node);
    for (unsigned loop : indexed.set_bits())
      visit(node->loops[loop], ~0u, false);
  }
  for (const Store &store : stores)
    visit(store.offset, store.buffer, true);
}

/// How many additions of scalars `op` is worth, roughly.
static unsigned costOf(Operation *op) {
  if (isa<math::ExpOp, math::Exp2Op, math::ExpM1Op, math::LogOp, math::Log2Op,
          math::Log10Op, math::Log1pOp, math::TanhOp, math::ErfOp, math::SinOp,
          math::CosOp, math::PowFOp>(op))
    return 16;
  if (isa<arith::ConstantOp, linalg::IndexOp, UnrealizedConversionCastOp,
          tssa::SizeOp>(op))
    return 0;
  if (op->getName().getDialectNamespace() == "math")
    return 8;
  if (isa<arith::DivFOp, arith::RemFOp, arith::DivSIOp, arith::RemSIOp,
          arith::DivUIOp, arith::RemUIOp, tensor::ExtractOp>(op))
    return 4;
  return 1;
}

void KernelGraph::update() {
  unsigned count = dims.size();
  llvm::SmallBitVector reduced(count);
  for (auto [d, dim] : llvm::enumerate(dims))
    if (dim.reduction)
      reduced.set(d);
  auto addDims = [&](llvm::SmallBitVector &set, AffineExpr expr) {
    for (unsigned d = 0; d < count; ++d)
      if (expr.isFunctionOfDim(d))
        set.set(d);
  };
  numStages = 1;
  for (auto &node : nodes) {
    node->dims.clear();
    node->dims.resize(count);
    node->stage = 0;
    node->cost = node->kind == Node::Kind::Load ? 1 : 0;
    if (node->kind == Node::Kind::Load)
      addDims(node->dims, node->offset);
    llvm::SmallBitVector indexed = indexedLoops(*node);
    for (unsigned loop : indexed.set_bits())
      addDims(node->dims, node->loops[loop]);
    for (Node *input : node->inputs) {
      if (!input)
        continue;
      node->dims |= input->dims;
      node->stage = std::max(node->stage, input->stage);
      node->cost += input->cost;
    }
    if (node->kind == Node::Kind::Compute) {
      llvm::SetVector<Operation *> ops;
      llvm::SmallBitVector arguments(node->inputs.size());
      bodySlice(node->element, node->op.getBody(), ops, arguments);
      for (Operation *op : ops)
        node->cost += costOf(op);
    } else if (node->kind == Node::Kind::Reduce) {
      // Known once per row, wherever in the row's loops it is asked for.
      node->dims = reduced;
      node->dims.flip();
      node->stage = std::max(node->stage, node->init->stage) + 1;
      node->cost = 0;
    }
    numStages = std::max(numStages, node->stage + 1);
  }
  for (Store &store : stores) {
    store.dims = store.node->dims;
    addDims(store.dims, store.offset);
  }
}

void KernelGraph::dropEmptyRows() {
  llvm::SmallBitVector reduced(dims.size());
  bool isEmpty = false;
  for (auto [d, dim] : llvm::enumerate(dims))
    if (dim.reduction) {
      reduced.set(d);
      isEmpty |= dim.size == 0;
    }
  if (!isEmpty)
    return;
  auto inFull = [](Node *node) {
    while (node && node->kind == Node::Kind::Reduce)
      node = node->init;
    return node;
  };
  bool storesRow = false;
  for (Store &store : stores) {
    if (store.dims.anyCommon(reduced)) {
      // Never carried out: any value will do.
      storesRow = true;
      auto zero = std::make_unique<Node>();
      zero->kind = Node::Kind::Constant;
      zero->type = store.node->type;
      Builder builder(zero->type.getContext());
      // Kernels compute without signs.
      if (zero->type.isUnsignedInteger())
        zero->type = builder.getIntegerType(zero->type.getIntOrFloatBitWidth());
      zero->constant = builder.getZeroAttr(zero->type);
      store.node = zero.get();
      nodes.push_back(std::move(zero));
    }
    store.node = inFull(store.node);
  }
  llvm::DenseSet<Node *> used;
  SmallVector<Node *> work;
  auto use = [&](Node *node) {
    if (node && used.insert(node).second)
      work.push_back(node);
  };
  for (Store &store : stores)
    use(store.node);
  while (!work.empty())
    for (Node *&input : work.pop_back_val()->inputs)
      use(input = inFull(input));
  llvm::erase_if(nodes, [&](auto &node) { return !used.contains(node.get()); });
  if (!storesRow)
    for (Dim &dim : dims)
      if (dim.reduction)
        dim = Dim::of(1, true);
  update();
}

std::optional<Contraction> asContraction(const Node *reduce) {
  if (reduce->kind != Node::Kind::Reduce ||
      !isa<arith::AddFOp>(reduce->combiner))
    return std::nullopt;
  const Node *element = reduce->inputs[0];
  if (element->kind != Node::Kind::Compute)
    return std::nullopt;
  auto product = element->element.getDefiningOp<arith::MulFOp>();
  if (!product)
    return std::nullopt;
  auto factor = [&](Value value) -> Node * {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument ||
        argument.getOwner() != linalg::GenericOp(element->op).getBody())
      return nullptr;
    Node *node = element->inputs[argument.getArgNumber()];
    return node && node->kind == Node::Kind::Load ? node : nullptr;
  };
  Contraction found{factor(product.getLhs()), factor(product.getRhs())};
  if (!found.left || !found.right)
    return std::nullopt;
  auto lacks = [&](const Node *a, const Node *b) {
    return (b->dims & reduce->dims).test(a->dims);
  };
  if (!lacks(found.left, found.right) || !lacks(found.right, found.left))
    return std::nullopt;
  return found;
}

void Dim::print(raw_ostream &os) const {
  os << (reduction ? "r" : "p");
  if (extent)
    os << '(' << extent << ')';
  else
    os << size;
}

void KernelGraph::print(raw_ostream &os) const {
  os << "domain";
  for (const Dim &dim : dims)
    dim.print(os << ' ');
  os << ", " << numStages << " stage" << (numStages == 1 ? "" : "s") << '\n';
  DenseMap<const Node *, unsigned> number;
  for (auto &node : nodes) {
    unsigned id = number.size();
    number[node.get()] = id;
    os << "  n" << id << " = ";
    switch (node->kind) {
    case Node::Kind::Load:
      os << "load b" << node->buffer << "[" << node->offset << "]";
      break;
    case Node::Kind::Constant:
      os << "constant " << node->constant;
      break;
    case Node::Kind::Compute:
      os << "compute";
      break;
    case Node::Kind::Reduce:
      os << "reduce " << node->combiner->getName();
      break;
    }
    for (Node *input : node->inputs)
      if (input)
        os << " n" << number[input];
    os << " : " << node->type << " stage " << node->stage << '\n';
  }
  for (const Store &store : stores)
    os << "  store n" << number[store.node] << " b" << store.buffer << "["
       << store.offset << "]\n";
}

TypedAttr identityOf(const Node *reduce, bool negativeZero) {
  Type type = reduce->type;
  Operation *op = reduce->combiner;
  if (auto floatType = dyn_cast<FloatType>(type)) {
    const auto &semantics = floatType.getFloatSemantics();
    APFloat value = APFloat::getZero(semantics, negativeZero);
    if (isa<arith::MulFOp>(op))
      value = APFloat::getOne(semantics);
    else if (isa<arith::MaximumFOp, arith::MaxNumFOp>(op))
      value = APFloat::getInf(semantics, /*Negative=*/true);
    else if (isa<arith::MinimumFOp, arith::MinNumFOp>(op))
      value = APFloat::getInf(semantics);
    return FloatAttr::get(type, value);
  }
  unsigned bits = type.getIntOrFloatBitWidth();
  APInt value(bits, 0);
  if (isa<arith::MulIOp>(op))
    value = APInt(bits, 1);
  else if (isa<arith::MaxSIOp>(op))
    value = APInt::getSignedMinValue(bits);
  else if (isa<arith::MinSIOp>(op))
    value = APInt::getSignedMaxValue(bits);
  else if (isa<arith::MinUIOp, arith::AndIOp>(op))
    value = APInt::getAllOnes(bits);
  return IntegerAttr::get(type, value);
}

bool liesAlong(const Node *load, unsigned dim) {
  LinearForm form = linearize(load->offset);
  return form.coefficient(dim) == 1 && !form.isNonlinearIn(dim);
}

} // namespace pyjit::codegen
