//===- Attention.cpp - Softmax between two sums of products ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/Attention.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Codegen/OnlineSum.h"
#include "llvm/ADT/SetVector.h"
#include <numeric>

using namespace mlir;

namespace pyjit::codegen {

using analysis::Size;

namespace {

class Finder {
public:
  Finder(ArrayRef<Value> inputs, ArrayRef<Value> roots, std::string &reason)
      : inputs(inputs), roots(roots), reason(reason) {}

  std::optional<Attention> run();

private:
  bool fail(const Twine &why) {
    reason = why.str();
    return false;
  }
  void collect();
  bool isSoftmaxOf(Value logits, Value weights);
  bool cut(Value logits, Value weights);
  bool takeScores(Value logits);
  bool takeValues();
  bool pairDims();
  bool nameDims();

  ArrayRef<Value> inputs, roots;
  std::string &reason;
  /// What computes the roots, users first.
  llvm::SetVector<linalg::GenericOp> ops;
  Attention found;
  std::unique_ptr<KernelGraph> softmax;
  /// Of each dim of `values` that numbers weights, the one of `scores`.
  llvm::SmallDenseMap<unsigned, unsigned> inScores;
};

/// The one reduction of a graph with one result, a sum in f32; else null.
Node *onlySum(const KernelGraph &graph) {
  Node *sum = nullptr;
  for (auto &node : graph.nodes)
    if (node->kind == Node::Kind::Reduce) {
      if (sum)
        return nullptr;
      sum = node.get();
    }
  if (!sum || !sum->type.isF32() || !isa<arith::AddFOp>(sum->combiner) ||
      graph.stores.size() != 1 ||
      llvm::count_if(graph.dims, [](const Dim &d) { return d.reduction; }) != 1)
    return nullptr;
  return sum;
}

/// A factor of a sum's products.
struct Factor {
  /// Dims that it depends on.
  llvm::SmallBitVector dims;
  /// What it is but for its precision, if that is a load; else null.
  Node *load = nullptr;
};

/// `value` of the body of `node`.
Factor factorOf(Node *node, Value value, unsigned numDims) {
  for (;;) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      node = node->inputs[argument.getArgNumber()];
      if (node->kind == Node::Kind::Load)
        return {node->dims, node};
      if (node->kind != Node::Kind::Compute)
        return {node->dims};
      value = node->element;
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<arith::ExtFOp, arith::TruncFOp>(op))
      break;
    value = op->getOperand(0);
  }
  // Of a body of several operations: what the whole of it depends on.
  llvm::SmallBitVector dims = node->dims;
  dims.resize(numDims);
  return {dims};
}

std::optional<std::pair<Factor, Factor>> factorsOf(const KernelGraph &graph,
                                                   const Node *sum) {
  Node *element = sum->inputs[0];
  if (element->kind != Node::Kind::Compute)
    return std::nullopt;
  auto product = element->element.getDefiningOp<arith::MulFOp>();
  if (!product)
    return std::nullopt;
  unsigned count = graph.dims.size();
  return std::pair{factorOf(element, product.getLhs(), count),
                   factorOf(element, product.getRhs(), count)};
}

/// Whether vectors of two elements or more divide both widths, and so many of
/// them hold either.
bool haveVectors(int64_t features, int64_t columns) {
  int64_t lanes = std::gcd(std::gcd(features, columns), Attention::kMostLanes);
  return lanes > 1 &&
         std::max(features, columns) <= Attention::kMostThreads * lanes;
}

bool isFloat(Type type) {
  return type.isF32() || type.isF16() || type.isBF16();
}

} // namespace

void Finder::collect() {
  llvm::SetVector<Value> seen(roots.begin(), roots.end());
  for (size_t i = 0; i < seen.size(); ++i) {
    Value value = seen[i];
    auto op = value.getDefiningOp<linalg::GenericOp>();
    if (!op || llvm::is_contained(inputs, value))
      continue;
    ops.insert(op);
    seen.insert(op->operand_begin(), op->operand_end());
  }
}

/// Queries times keys, up to what the softmax takes.
bool Finder::takeScores(Value logits) {
  found.scores = KernelGraph::build(inputs, {logits}, reason);
  if (!found.scores)
    return false;
  found.score = onlySum(*found.scores);
  found.logit = found.scores->stores.front().node;
  return found.score || fail("queries times keys are not one sum");
}

/// Weights times values, and what follows. The graph was built with a load of
/// the weights behind the inputs, where the result belongs.
bool Finder::takeValues() {
  found.sum = onlySum(*found.values);
  if (!found.sum)
    return fail("weights times values are not one sum");
  auto factors = factorsOf(*found.values, found.sum);
  if (!factors)
    return fail("weights times values are no products");
  unsigned weights = inputs.size();
  for (auto [weight, value] :
       {*factors, std::pair{factors->second, factors->first}})
    if (weight.load && value.load && weight.load->buffer == weights &&
        value.load->buffer != weights) {
      found.weight = weight.load;
      found.value = value.load;
    }
  if (!found.weight)
    return fail("values are no load");
  for (auto &node : found.values->nodes)
    if (node->kind == Node::Kind::Load && node->buffer == weights &&
        node.get() != found.weight)
      return fail("weights are read twice");
  // Nor by a place that a value names.
  for (linalg::GenericOp op : ops)
    for (auto extract : op.getBody()->getOps<tensor::ExtractOp>())
      if (!llvm::is_contained(inputs, extract.getTensor()))
        return fail("an indexed read of what is computed");
  found.values->stores.front().buffer = weights;
  return true;
}

/// Where the weights lie is what both graphs say of them.
bool Finder::pairDims() {
  LinearForm stored = linearize(found.scores->stores.front().offset);
  LinearForm read = linearize(found.weight->offset);
  if (stored.constant != 0 || read.constant != 0)
    return fail("weights that lie elsewhere");
  llvm::SmallBitVector paired(found.scores->dims.size());
  for (auto [d, dim] : llvm::enumerate(found.values->dims)) {
    if (!found.weight->dims.test(d))
      continue;
    std::optional<Size> stride = read.strideOf(d);
    for (auto [s, other] : llvm::enumerate(found.scores->dims))
      if (stride && !other.reduction && !paired.test(s) &&
          stored.strideOf(s) == stride && other.getSize() == dim.getSize()) {
        inScores[d] = s;
        paired.set(s);
        break;
      }
    if (!inScores.contains(d))
      return fail("weights that are read in another order");
  }
  unsigned parallel = llvm::count_if(
      found.scores->dims, [](const Dim &dim) { return !dim.reduction; });
  return inScores.size() == parallel || fail("weights that are read in part");
}

/// What each dim numbers.
bool Finder::nameDims() {
  auto factors = factorsOf(*found.scores, found.score);
  if (!factors)
    return fail("queries times keys are no products");
  std::optional<unsigned> lane;
  for (auto [d, dim] : llvm::enumerate(found.values->dims)) {
    if (dim.reduction) {
      if (!inScores.contains(d))
        return fail("a sum that is not over the weights");
      found.ofValues.keys = d;
      found.ofScores.keys = inScores.lookup(d);
    } else if (!inScores.contains(d)) {
      if (lane)
        return fail("values of several dims");
      lane = d;
    }
  }
  if (!lane)
    return fail("values of no dim");
  found.ofValues.lane = *lane;
  for (auto [d, dim] : llvm::enumerate(found.scores->dims))
    if (dim.reduction)
      found.ofScores.lane = d;
  unsigned keys = found.ofScores.keys;
  Factor query = factors->first, key = factors->second;
  if (query.dims.test(keys))
    std::swap(query, key);
  if (query.dims.test(keys) || !key.dims.test(keys) || !key.load)
    return fail("keys are no load");
  found.key = key.load;
  for (auto [d, s] : inScores) {
    if (s == keys)
      continue;
    bool shared = !key.dims.test(s);
    if (shared && found.value->dims.test(d))
      return fail("values that are others where keys are the same");
    (shared ? found.ofValues.queries : found.ofValues.outer).push_back(d);
  }
  for (auto *dims : {&found.ofValues.outer, &found.ofValues.queries})
    llvm::sort(*dims);
  for (unsigned d : found.ofValues.outer)
    found.ofScores.outer.push_back(inScores.lookup(d));
  for (unsigned d : found.ofValues.queries) {
    found.ofScores.queries.push_back(inScores.lookup(d));
    const Dim &dim = found.values->dims[d];
    if (dim.isSymbolic())
      return fail("queries whose number differs between calls");
    found.queryCount *= dim.size;
  }
  return true;
}

bool Finder::isSoftmaxOf(Value logits, Value weights) {
  std::string ignored;
  softmax = KernelGraph::build({logits}, {weights}, ignored);
  std::optional<Softmax> kind;
  if (softmax)
    kind = asSoftmax(*softmax);
  if (kind)
    found.safe = kind->safe;
  return kind.has_value();
}

bool Finder::cut(Value logits, Value weights) {
  SmallVector<Value> withWeights(inputs);
  withWeights.push_back(weights);
  found.values = KernelGraph::build(withWeights, roots, reason);
  if (!found.values || !takeScores(logits) || !takeValues() || !pairDims() ||
      !nameDims())
    return false;
  // The softmax is over the keys, and changes no order.
  std::optional<unsigned> row;
  for (auto [d, dim] : llvm::enumerate(softmax->dims))
    if (dim.reduction) {
      if (row)
        return fail("a softmax over several dims");
      row = d;
    }
  AffineExpr written = softmax->stores.front().offset;
  std::optional<Size> stride = linearize(written).strideOf(*row);
  for (auto &node : softmax->nodes)
    if (node->kind == Node::Kind::Load && node->offset != written)
      return fail("a softmax in another order");
  LinearForm stored = linearize(found.scores->stores.front().offset);
  if (!stride || stored.strideOf(found.ofScores.keys) != stride)
    return fail("a softmax over something else than keys");
  if (!isFloat(found.logit->type) || !isFloat(found.weight->type))
    return fail("precision of logits or weights");
  if (found.features() == 0 || found.columns() == 0 ||
      !liesAlong(found.key, found.ofScores.lane) ||
      !liesAlong(found.value, found.ofValues.lane))
    return fail("keys or values that do not lie along their vectors");
  if (!haveVectors(found.features(), found.columns()))
    return fail("heads that are not read by vectors of a warp");
  return found.queryCount <= Attention::kMostQueries ||
         fail("many queries for the same keys");
}

std::optional<Attention> Finder::run() {
  reason = "no softmax";
  if (roots.size() != 1)
    return std::nullopt;
  collect();
  for (linalg::GenericOp maximum : ops) {
    if (maximum.getNumReductionLoops() != 1 || maximum.getNumDpsInputs() != 1 ||
        !isa_and_nonnull<arith::MaximumFOp>(
            maximum.getBody()->getTerminator()->getOperand(0).getDefiningOp()))
      continue;
    Value logits = maximum.getDpsInputs()[0];
    for (linalg::GenericOp weights : ops) {
      bool divides = llvm::any_of(
          weights.getBody()->without_terminator(), [](Operation &op) {
            return isa<arith::DivFOp, arith::SelectOp>(op);
          });
      if (!divides || weights.getNumResults() != 1 ||
          !isSoftmaxOf(logits, weights.getResult(0)))
        continue;
      if (cut(logits, weights.getResult(0)))
        return std::move(found);
      return std::nullopt;
    }
  }
  return std::nullopt;
}

Size Attention::outerCount() const {
  Size count = 1;
  for (unsigned d : ofScores.outer)
    count *= scores->dims[d].getSize();
  return count;
}

std::optional<Attention> Attention::find(ArrayRef<Value> inputs,
                                         ArrayRef<Value> roots,
                                         std::string &reason) {
  return Finder(inputs, roots, reason).run();
}

} // namespace pyjit::codegen
